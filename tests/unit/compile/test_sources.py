"""Declared sources as the project has them: expressions, questions about freshness, and policies that count on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sqb.cache import codec
from sqb.compile.model import Project
from sqb.environments.versions import compute_versions
from sqb.errors.base import SqbError, flatten
from sqb.plan.changes.columns import is_everything, resolve_column_reads
from sqb.workspace import open_workspace
from unit.folders import write

RAW = "sources:\n- name: raw.x\n  freshness: {column: ts, type: timestamp}\n"


def compiled(root: Path, files: dict[str, str]) -> Project:
    return open_workspace(write(root, files)).project


def problems(root: Path, files: dict[str, str]) -> list[tuple[str, str, str | None]]:
    with pytest.raises(SqbError) as caught:
        open_workspace(write(root, files))
    return [(e.code, str(e.at), e.hint) for e in flatten(caught.value)]


def of(*sources: str) -> str:
    return "sources:\n" + "".join(f"- {source}\n" for source in sources)


def test_an_expression_is_read_and_what_it_reads_becomes_a_source(tmp_path: Path) -> None:
    project = compiled(
        tmp_path,
        {
            "sources/s.yml": of('{name: paid, expression: "SELECT * FROM raw.a JOIN raw.b USING (id)"}', "name: raw.b"),
            "models/m.sql": "SELECT * FROM paid",
        },
    )
    assert project.nodes["default.m"].upstream == ("paid",)
    assert [(e.name, e.declared) for e in project.externals.values()] == [
        ("paid", True),
        ("raw.a", False),
        ("raw.b", True),
    ]
    expression = project.sources["paid"].expression
    assert expression is not None and expression.reads == ("raw.a", "raw.b")
    assert codec.decode(Project, codec.encode(project)).sources == project.sources


def test_an_expression_may_use_variables_and_other_sources(tmp_path: Path) -> None:
    files = {
        "sqlbuild_project.toml": 'name = "shop"\n[vars]\nland = "de"\n',
        "sources/s.yml": of(
            '{name: here, expression: "SELECT * FROM __source(\\"all_of_it\\") WHERE land = @@land"}',
            '{name: all_of_it, path: "in/*.csv"}',
        ),
        "models/m.sql": "SELECT * FROM here",
    }
    project = compiled(tmp_path, files)
    expression = project.sources["here"].expression
    assert expression is not None and expression.reads == ("all_of_it",) and "'de'" in expression.sql
    other = files | {"sqlbuild_project.toml": files["sqlbuild_project.toml"].replace('"de"', '"fr"')}
    again = compiled(tmp_path, other)
    assert again.nodes["default.m"].local_hash == project.nodes["default.m"].local_hash
    assert again.nodes["default.m"].version_hash != project.nodes["default.m"].version_hash
    assert again.sources["here"].token != project.sources["here"].token


def test_what_an_expression_reads_is_part_of_the_versions_of_its_readers(tmp_path: Path) -> None:
    def versions(inner: str) -> tuple[dict[str, str], dict[str, str]]:
        outer = (
            '{name: paid, expression: "SELECT id FROM middle"}',
            '{name: middle, expression: "SELECT id FROM inner_"}',
        )
        files = {
            "sources/s.yml": of(*outer, inner),
            "models/m/a.sql": "SELECT id FROM paid",
            "models/m/b.sql": "SELECT id FROM a",
            "models/m/c.sql": "SELECT id FROM raw.t",
        }
        project = compiled(tmp_path, files)
        return {n.name: n.version_hash for n in project}, compute_versions(project)

    for one, other in zip(
        versions('{name: inner_, expression: "SELECT id FROM raw.t"}'),
        versions('{name: inner_, expression: "SELECT id + 1 AS id FROM raw.t"}'),
        strict=True,
    ):
        assert {name for name in one if one[name] != other[name]} == {"m.a", "m.b"}


def test_spelling_does_not_make_another_expression(tmp_path: Path) -> None:
    def token(text: str) -> str:
        return compiled(tmp_path, {"sources/s.yml": of(f'{{name: a, expression: "{text}"}}')}).sources["a"].token

    assert token("select  id from raw.x -- c") == token("SELECT id FROM `raw`.`x`")
    assert token("SELECT id FROM raw.x") != token("SELECT id FROM raw.y")


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        (['{name: a, expression: "SELECT FROM WHERE"}'], [("SQB-S004", "sources/s.yml:2:25")]),
        (['{name: a, expression: ""}'], [("SQB-S004", "sources/s.yml:2:25")]),
        (['{name: a, expression: "SELECT @@nope"}'], [("SQB-P015", "sources/s.yml:2:25")]),
        (['{name: a, expression: "SELECT * FROM a"}'], [("SQB-R004", "sources/s.yml:2:25")]),
        (['{name: a, expression: "SELECT * FROM m"}'], [("SQB-R002", "sources/s.yml:2:25")]),
        (['{name: a, expression: "SELECT * FROM __source(\\"b\\")"}'], [("SQB-R002", "sources/s.yml:2:25")]),
        (
            ['{name: a, expression: "SELECT * FROM b"}', '{name: b, expression: "SELECT * FROM a"}'],
            [("SQB-R004", "sources/s.yml:2:10")],
        ),
        (['{name: raw.a, freshness: {sql: "SELECT ("}}'], [("SQB-S004", "sources/s.yml:2:34")]),
        (['{name: raw.a, freshness: {column: t, filter: "x >"}}'], [("SQB-S004", "sources/s.yml:2:48")]),
        (
            ['{name: raw.a, freshness: {column: t, filter: "x IN (SELECT x FROM raw.b)"}}'],
            [("SQB-S004", "sources/s.yml:2:48")],
        ),
    ],
)
def test_what_is_wrong_with_queries_of_sources(
    tmp_path: Path, sources: list[str], expected: list[tuple[str, str]]
) -> None:
    messages = problems(tmp_path, {"sources/s.yml": of(*sources), "models/m.sql": "SELECT 1 AS a"})
    assert [(code, at) for code, at, _ in messages] == expected


def test_views_cannot_read_files(tmp_path: Path) -> None:
    files = {
        "sources/s.yml": of("{name: f, path: in/*.csv}", '{name: e, expression: "SELECT * FROM f"}'),
        "models/v.sql": "-- @kind: view\nSELECT * FROM f",
        "models/w.sql": "-- @kind: view\nSELECT * FROM e",
        "models/t.sql": "SELECT * FROM e",
    }
    hint = "make the kind `table`"
    assert problems(tmp_path, files) == [("SQB-P006", "models/v.sql", hint), ("SQB-P006", "models/w.sql", hint)]


def test_questions_about_freshness(tmp_path: Path) -> None:
    text = of(
        "{name: raw.a, freshness: {column: ts, type: timestamp, filter: ok, lag_tolerance: 90m}}",
        '{name: raw.b, freshness: {sql: "SELECT max(n) FROM etl.log WHERE at < now()", type: integer}}',
        "{name: raw.c, freshness: {age_policy: {warn_after: 1h, error_after: 1d}}}",
    )
    project = compiled(tmp_path, {"sources/s.yml": text, "models/m.sql": "SELECT * FROM raw.a, raw.b, raw.c"})
    a, b, c = (project.sources[f"raw.{n}"].watch for n in "abc")
    assert a is not None and a.query is not None
    assert (a.query.sql.split(), a.query.reads, a.query.volatile, a.lag) == (
        ["SELECT", "max(`ts`)", "FROM", "`raw`.`a`", "WHERE", "ok"],
        ("raw.a",),
        False,
        5400.0,
    )
    assert b is not None and b.query is not None
    assert (b.query.reads, b.query.volatile) == (("etl.log",), True)
    assert "etl.log" in project.externals
    assert c is not None and (c.strategy, c.query, c.warn_after, c.error_after) == ("adapter", None, 3600.0, 86400.0)
    assert codec.decode(Project, codec.encode(project)).sources == project.sources


# --- run_despite_unchanged ----------------------------------------------------------------------------------------


def model(policy: str, kind: str = "table") -> str:
    return f"-- @kind: {kind}\n-- @run_despite_unchanged: {policy}\nSELECT * FROM b"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"models/m.sql": model("always")}, []),
        ({"models/m.sql": model("24h"), "sources/s.yml": RAW}, []),
        ({"models/m.sql": model("90m"), "sources/s.yml": RAW}, []),
        ({"models/m.sql": model("24h")}, [("SQB-P004", "models/m.sql:2:28")]),
        ({"models/m.sql": model("24h"), "sources/s.yml": of("name: raw.x")}, [("SQB-P004", "models/m.sql:2:28")]),
        (
            {"models/m.sql": model("24h"), "sources/s.yml": RAW.replace("timestamp", "integer")},
            [("SQB-P004", "models/m.sql:2:28")],
        ),
        ({"models/m.sql": model("daily"), "sources/s.yml": RAW}, [("SQB-P003", "models/m.sql:2:28")]),
        ({"models/m.sql": model("always", "view")}, [("SQB-P006", "models/m.sql:2:28")]),
        ({"models/m.sql": model("24h", "append"), "sources/s.yml": RAW}, [("SQB-P006", "models/m.sql:2:28")]),
    ],
)
def test_policies(tmp_path: Path, files: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    files = {"models/b.sql": "SELECT * FROM raw.x", **files}
    if not expected:
        assert compiled(tmp_path, files).nodes["default.m"].settings["run_despite_unchanged"]
        return
    messages = problems(tmp_path, files)
    assert [(code, at) for code, at, _ in messages] == expected
    assert all(hint for *_, hint in messages)


def test_a_default_policy_is_for_tables_only(tmp_path: Path) -> None:
    toml = 'name = "shop"\n[defaults]\nrun_despite_unchanged = "always"\n'
    project = compiled(
        tmp_path,
        {
            "sqlbuild_project.toml": toml,
            "models/t.sql": "SELECT 1 AS a",
            "models/v.sql": "-- @kind: view\nSELECT 1 AS a",
        },
    )
    assert "run_despite_unchanged" in project.nodes["default.t"].settings
    assert "run_despite_unchanged" not in project.nodes["default.v"].settings


def test_columns_are_pruned_through_an_expression_as_through_a_view(tmp_path: Path) -> None:
    text = "SELECT o.*, c.name FROM raw.orders o JOIN raw.customers c ON c.id = o.customer WHERE o.paid"
    files = {
        "sources/s.yml": of(f'{{name: paid, expression: "{text}"}}', '{name: twice, expression: "SELECT * FROM paid"}'),
        "models/seen.sql": f"-- @kind: view\n{text}",
        "models/a.sql": "SELECT id FROM paid",
        "models/b.sql": "SELECT id FROM twice",
        "models/c.sql": "SELECT id FROM seen",
        "models/all.sql": "SELECT * FROM paid",
    }
    project = compiled(tmp_path, files)
    through_a_view = resolve_column_reads(project.nodes["default.c"], project)
    for name in ("a", "b"):
        reads = resolve_column_reads(project.nodes[f"default.{name}"], project)
        for table in ("raw.orders", "raw.customers"):
            assert reads[table] == through_a_view[table] and not is_everything(reads[table])
        assert {"id", "customer", "paid"} <= reads["raw.orders"] and "amount" not in reads["raw.orders"]
    assert is_everything(resolve_column_reads(project.nodes["default.all"], project)["raw.orders"])
