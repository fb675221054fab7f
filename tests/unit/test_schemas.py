"""The JSON Schemas are those of the code: what sqb reads is valid by them, and a key that sqb refuses is not."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator
from copy import deepcopy
from datetime import date
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from make_schemas import BUILDERS, FOLDER
from schema_texts import TEXTS

from sqb.errors.base import Errors
from sqb.inspect.lint.rules import RULES
from sqb.inspect.lint.settings import read_lint
from sqb.names import At
from sqb.project.config.config import load_config, read_settings_file
from sqb.project.config.format_section import read_format
from sqb.project.config.located import Section
from sqb.project.exposures import load_exposures
from sqb.project.seeds import load_seed
from sqb.project.sources import load_sources
from sqb.project.unit_tests import load_tests
from sqb.selection.selectors_file import load_selectors

ROOT = Path(__file__).resolve().parents[2]
SCHEMAS = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in FOLDER.glob("*.json")}
VALIDATORS = {name: jsonschema.Draft7Validator(schema) for name, schema in SCHEMAS.items()}

# One document with every key that there is, of each file.
FULL = {
    "sources": """
sources:
  - {name: raw.orders, description: d, owner: o, group: g, managed: true}
  - name: raw.lines
    freshness:
      {strategy: column, column: at, type: timestamp, filter: "id > 1", lag_tolerance: 10m,
       age_policy: {warn_after: 12h, error_after: 1d 12h}}
  - {name: raw.days, freshness: {sql: SELECT max(day) FROM raw.days}}
  - {name: files, path: data/*.csv, format: csv, options: {header: true, sep: ";", n: 1}}
  - {name: später, expression: SELECT 1 AS x}
""",
    "exposures": """
exposures:
  - {name: weekly, type: dashboard, label: Weekly, owner: {name: a, email: a@b}, description: d, url: "https://x"}
  - {name: daily, owner: me, depends_on: [fct_orders, "ref('x')", fct_lines: [a, b], fct_days: day]}
  - {name: none, depends_on: null}
""",
    "tests": """
tests:
  - name: a
    model: m
    description: d
    now: 2026-01-02 03:04:05
    vars: {x: 1, y: [a, null], z: null}
    ordered: true
    given:
      a: [{id: 1, at: 2026-01-01}]
      b: {columns: [id], rows: [[1], {id: 2}]}
      c: {columns: {id: bigint}, csv: "id\\n1\\n"}
      d: {columns: [id], rows: null}
    expect: []
    expect_ctes: {e: []}
""",
    "seeds": """
columns: [{name: id, type: int, description: d}, {name: amount}]
delimiter: ";"
null_values: ["", NA, 1, null]
description: d
tags: [a, b]
schema: s
alias: a
table_properties: {write.format.default: orc}
enabled: true
""",
    "selectors": """
selectors:
  - {name: words, description: d, definition: "+a tag:x"}
  - name: whole
    definition:
      {method: tag, value: x, parents: true, parents_depth: 2, children: true, children_depth: 1,
       childrens_parents: true, exclude: ["b"]}
  - name: lists
    definition: {union: [a, {tag: x}, {config.kind: merge}, {intersection: [a, b]}, {exclude: [c]}]}
  - {name: again, definition: {method: selector, value: words}}
""",
    "sqlbuild_project": """
name = "shop"
default_target = "dev"
concurrency = 4
engine = "off"
incremental = {min_rows = 0, max_share = 0.5, small_rows = 10}
format = {line_length = 100, keyword_case = "lower", indent = 2, commas = "leading"}
lint = {owner_required = "error", no_select_star = {severity = "warning", paths = ["models/**"], exclude = "x"}}
vars = {a = "x", b = 1, c = true}
[janitor]
stage_retention = "1d"
file_retention = "3d"
history_retention = "1w"
snapshot_retention = "1d12h"
clone_retention = "90m"
keep_snapshots = 1
[virtual]
state = "duckdb:///x.db"
unsuffixed_virtual_env = "prod"
baseline = "prod"
ttl = "2d"
grace = "1d"
keep_checkpoints = 3
[dbt]
project_dir = "../dbt"
profiles_dir = "p"
target_path = "t"
replay_on_change = "full"
command = ["uv", "run", "dbt"]
share_spark = true
[packages]
acme_checks = ">=1.2,<2"
[openlineage]
enabled = true
url = "https://lineage.example"
file = "events.jsonl"
namespace = "n"
dataset_namespace = "d"
[targets.dev]
schema = "dev_{folder}"
connection = "local"
loaders = "off"
reuse_from = "prod"
reuse_hard_copy = true
[targets.prod]
[targets.ci]
schema = "ci"
defer_sources_to = "prod"
[connections.local]
catalog = {type = "jdbc", uri = "sqlite:///a.db", warehouse = "w", name = "lake", options = {x = "1"}}
spark = {master = "local[2]", conf = {spark.sql.shuffle.partitions = 4}}
[connections.far]
spark = {remote = "sc://host:15002"}
[defaults]
kind = "table"
tags = "nightly"
table_properties = {"write.format.default" = "orc"}
columns = {a = "text"}
config = {own = [1, 2]}
enabled = "true"
audits = ["not_null(id)", "unique(id)"]
[path_defaults."models/marts/**"]
materialized = "merge"
unique_key = ["id"]
""",
}


def parse(name: str, text: str) -> Any:
    return _to_json(tomllib.loads(text) if name == "sqlbuild_project" else yaml.safe_load(text))


def _to_json(value: Any) -> Any:
    """As a YAML editor has it: times are texts."""
    match value:
        case dict():
            return {str(key): _to_json(item) for key, item in value.items()}
        case list():
            return [_to_json(item) for item in value]
        case date():
            return value.isoformat(sep=" ") if hasattr(value, "hour") else value.isoformat()
        case other:
            return other


def _format_toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)} = {_format_toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_format_toml, value)) + "]"
    return json.dumps(value)


def _load_project(root: Path, errors: Errors) -> None:
    load_config(root, errors)
    top = Section(read_settings_file(root, Errors()) or {}, "", At(""), errors)
    read_format(top)
    read_lint(top, RULES)


def _load_seed(root: Path, errors: Errors) -> None:
    (root / "seeds/x.csv").write_text(
        "id;amount\n1;2\n" if ";" in (root / "seeds/x.yml").read_text() else "id,amount\n"
    )
    load_seed(root, root / "seeds/x.csv", errors)


READERS: dict[str, tuple[str, Callable[[Path, Errors], object]]] = {
    "sources": ("sources/x.yml", load_sources),
    "exposures": ("exposures/x.yml", load_exposures),
    "tests": ("tests/x.yml", lambda root, errors: load_tests(root, ["tests/x.yml"], errors)),
    "seeds": ("seeds/x.yml", _load_seed),
    "selectors": ("selectors.yml", load_selectors),
    "sqlbuild_project": ("sqlbuild_project.toml", _load_project),
}


def find_errors(root: Path, name: str, document: Any) -> list[Any]:
    """What sqb itself says of a document."""
    file, read = READERS[name]
    path = root / file
    path.parent.mkdir(exist_ok=True)
    lines = [f"{json.dumps(k)} = {_format_toml(v)}" for k, v in document.items()] if file.endswith(".toml") else []
    path.write_text("\n".join(lines) if lines else json.dumps(document), encoding="utf-8")
    errors = Errors()
    read(root, errors)
    return list(errors.found)


def iter_places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every value of a document, as what it is in and its key or index there."""
    for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from iter_places(value[key])


def iter_mappings(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for holder, key in iter_places(value):
        if isinstance(holder[key], dict):
            yield holder[key]


def _find_kind(path: Path) -> str | None:
    if path.name in ("sqlbuild_project.toml", "sqlbuild_local.toml"):
        return "sqlbuild_project"
    if path.name == "selectors.yml":
        return "selectors"
    if path.suffix not in (".yml", ".yaml"):
        return None
    return {"golden": "seeds"}.get(path.parts[0], path.parts[0] if path.parts[0] in READERS else None)


def _iter_texts() -> Iterator[tuple[str, str, str]]:
    """Every file of the examples and of the behaviours, also those that steps write, and of the documentation."""
    folders = [ROOT / "src/sqb/example", ROOT / "src/sqb/examples/star"]
    folders += [*ROOT.glob("tests/cases/*/project"), *ROOT.glob("tests/fixtures/*/projects/*")]
    folders += [path.parent for path in ROOT.glob("examples/**/sqlbuild_project.toml")]
    for folder in folders:
        for path in folder.rglob("*.*ml"):
            if kind := _find_kind(path.relative_to(folder)):
                yield str(path), kind, path.read_text(encoding="utf-8")
    for path in ROOT.glob("tests/cases/*/steps.yml"):
        for step in yaml.safe_load(path.read_text(encoding="utf-8"))["steps"]:
            for name, text in (step.get("write") or {}).items():
                if kind := _find_kind(Path(name)):
                    yield f"{path}: {name}", kind, text
    for path in ROOT.glob("docs/*.md"):
        for language, text in re.findall(r"```(yaml|toml)\n(.*?)```", path.read_text(encoding="utf-8"), re.S):
            top = next(
                (k for k in ("sources", "exposures", "tests", "selectors") if f"{k}:" in text.splitlines()), None
            )
            kind = "sqlbuild_project" if language == "toml" else top
            if kind is not None and "[project]" not in text:
                yield str(path), kind, text


def test_the_schemas_are_those_of_the_code() -> None:
    assert {name: build() for name, build in BUILDERS.items()} == SCHEMAS, "run scripts/make_schemas.py"
    for schema in SCHEMAS.values():
        jsonschema.Draft7Validator.check_schema(schema)


def test_every_key_has_a_sentence() -> None:
    for name, schema in SCHEMAS.items():
        tables = [m["properties"] for m in iter_mappings(schema) if m.get("additionalProperties") is False]
        described = [t for table in tables for t in table.values() if len(table) > 1 and set(t) != {"type"}]
        assert all("description" in key for key in described), name
    assert all(text.endswith(".") for table in TEXTS.values() for text in table.values())


def test_every_file_is_valid() -> None:
    counts = dict.fromkeys(SCHEMAS, 0)
    for where, kind, text in _iter_texts():
        items = [f"{e.json_path}: {e.message}" for e in VALIDATORS[kind].iter_errors(parse(kind, text))]
        assert not items, f"{where}: {items}"
        counts[kind] += 1
    assert all(counts.values()), counts
    assert sum(counts.values()) > 60, counts


@pytest.mark.parametrize("name", FULL)
def test_a_document_with_every_key_is_valid_for_both(name: str, tmp_path: Path) -> None:
    document = parse(name, FULL[name])
    assert [e.message for e in VALIDATORS[name].iter_errors(document)] == []
    assert find_errors(tmp_path, name, document) == []
    used = {key for mapping in iter_mappings(document) for key in mapping}
    rooms = {"sources": ("source", "freshness", "age_policy"), "exposures": ("exposure", "exposure_owner")}
    rooms |= {"tests": ("test", "rows"), "seeds": ("seed", "column"), "selectors": ("selector", "method")}
    project = ("project", "incremental", "janitor", "dbt", "target", "connection", "catalog", "spark", "format")
    for room in rooms.get(name, project):
        assert TEXTS[room].keys() <= used, f"{room}: {TEXTS[room].keys() - used}"


@pytest.mark.parametrize("name", FULL)
def test_a_key_is_refused_by_both_or_by_none(name: str, tmp_path: Path) -> None:
    whole = parse(name, FULL[name])
    for index in range(len(list(iter_mappings(whole)))):
        document = deepcopy(whole)
        mapping = list(iter_mappings(document))[index]
        mapping["zzz"] = "x"
        refused = bool(find_errors(tmp_path, name, document))
        if "owner_required" in mapping:
            # It may be a rule of one's own, and has no severity here.
            assert refused
        # Which columns there are is not the schema's matter.
        assert VALIDATORS[name].is_valid(document) is not refused or "id" in mapping, mapping


@pytest.mark.parametrize("name", FULL)
@pytest.mark.parametrize("value", [-1, True, "", "a b", [], ["x"], {"x": 1}, None])
def test_what_the_schema_refuses_sqb_refuses(name: str, value: Any, tmp_path: Path) -> None:
    """Never a false alarm: each value of the document in turn is another one."""
    whole = parse(name, FULL[name])
    if value is None and name == "sqlbuild_project":
        return
    for index in range(len(list(iter_places(whole)))):
        document = deepcopy(whole)
        holder, key = list(iter_places(document))[index]
        holder[key] = value
        problems = [f"{e.json_path}: {e.message}" for e in VALIDATORS[name].iter_errors(document)]
        if problems:
            assert find_errors(tmp_path, name, document), f"{key} = {value!r} is fine for sqb: {problems}"


@pytest.mark.parametrize(
    "text",
    [
        "nam = 1",
        "[format]\nindent = 0",
        "[defaults]\nkind = 'tabel'",
        "[lint]\nno_select_star = 'x'",
        "[targets.dev]\nschemas = 'x'",
        "[connections.local.catalog]\ntype = 'sqlite'",
        "[connections.local]\nsparc = {}",
        "[janitor]\nfile_retention = 'a week'",
        "[virtual]\nenable = true",
        "[path_defaults.'models/x']\nkinds = 'table'",
    ],
)
def test_mistakes_are_not_valid(text: str) -> None:
    assert not VALIDATORS["sqlbuild_project"].is_valid(tomllib.loads(text))
