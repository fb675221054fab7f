"""A dbt that does what tests say: it reads a small project, and "builds" a model by committing one row to its table.

It takes the command line that sqb uses, and writes manifest.json and run_results.json as dbt does. What it was called
with goes to $FAKE_DBT_LOG, a line each. Words in files make it fail: `-- FAIL` in a model or test. $FAKE_DBT_MODE makes
it another dbt: no-profile, old, manifest-v13, lost, slow.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import sys
import time
import uuid
from pathlib import Path
from typing import Any

MODE = os.environ.get("FAKE_DBT_MODE", "")
PACKAGE = "shop"
SCHEMA = os.environ.get("FAKE_DBT_SCHEMA", "analytics")
BUILT = ("model", "seed", "snapshot")
RUN_BY = {"run": ("model",), "test": ("test",), "seed": ("seed",), "snapshot": ("snapshot",)}


def option(name: str, default: str = "") -> str:
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


def words(name: str) -> list[str]:
    items: list[str] = []
    if name in sys.argv:
        for word in sys.argv[sys.argv.index(name) + 1 :]:
            if word.startswith("-"):
                break
            items.append(word)
    return items


PROJECT = Path(option("--project-dir", "."))
TARGET = Path(option("--target-path", "target"))


def node(kind: str, name: str, path: Path, raw: str, **more: Any) -> dict[str, Any]:
    refs = [
        ("model." if not (PROJECT / "seeds" / f"{r}.csv").exists() else "seed.") + f"{PACKAGE}.{r}"
        for r in re.findall(r"ref\('(\w+)'\)", raw)
    ]
    sources = [f"source.{PACKAGE}.{a}.{b}" for a, b in re.findall(r"source\('(\w+)', *'(\w+)'\)", raw)]
    materialized = re.search(r"materialized='(\w+)'", raw)
    config = {"materialized": materialized[1] if materialized else {"model": "table"}.get(kind, kind)}
    macros = [
        f"macro.{PACKAGE}.{m}" for m in re.findall(r"\{\{ (\w+)\(", raw) if (PROJECT / "macros" / f"{m}.sql").exists()
    ]
    return {
        "unique_id": f"{kind}.{PACKAGE}.{name}",
        "resource_type": kind,
        "name": name,
        "alias": name,
        "fqn": [PACKAGE, *path.relative_to(PROJECT).parent.parts[1:], name],
        "package_name": PACKAGE,
        "schema": SCHEMA,
        "database": None,
        "relation_name": f"{SCHEMA}.{name}" if kind in BUILT and config["materialized"] != "ephemeral" else None,
        "config": config,
        "checksum": {"name": "sha256", "checksum": hashlib.sha256(raw.strip().encode()).hexdigest()},
        "depends_on": {"nodes": [*refs, *sources], "macros": macros},
        "original_file_path": str(path.relative_to(PROJECT)),
        "raw_code": raw if kind != "seed" else "",
        "language": "sql",
        "columns": {},
        **more,
    }


def manifest() -> dict[str, Any]:
    nodes: list[dict[str, Any]] = []
    for folder, kind, suffix in (
        ("models", "model", ".sql"),
        ("seeds", "seed", ".csv"),
        ("snapshots", "snapshot", ".sql"),
        ("tests", "test", ".sql"),
    ):
        for path in sorted((PROJECT / folder).rglob(f"*{suffix}")):
            nodes.append(node(kind, path.stem, path, path.read_text()))
    sources = {}
    for path in sorted(PROJECT.glob("sources.json")):
        for name, source in json.loads(path.read_text()).items():
            group, table = name.split(".")
            unique_id = f"source.{PACKAGE}.{group}.{table}"
            sources[unique_id] = {
                "unique_id": unique_id,
                "source_name": group,
                "name": table,
                "identifier": table,
                "schema": group,
                "relation_name": name,
                "original_file_path": "sources.json",
                **source,
            }
    macros = {
        f"macro.{PACKAGE}.{p.stem}": {
            "unique_id": f"macro.{PACKAGE}.{p.stem}",
            "name": p.stem,
            "package_name": PACKAGE,
            "macro_sql": p.read_text(),
            "depends_on": {"macros": []},
        }
        for p in sorted((PROJECT / "macros").glob("*.sql"))
    }
    version = "v13" if MODE == "manifest-v13" else "v12"
    return {
        "metadata": {
            "dbt_schema_version": f"https://schemas.getdbt.com/dbt/manifest/{version}.json",
            "dbt_version": "1.6.9" if MODE == "old" else "1.11.16",
            "project_name": PACKAGE,
            "adapter_type": "spark",
        },
        "nodes": {n["unique_id"]: n for n in nodes},
        "sources": sources,
        "macros": macros,
        "unit_tests": {},
        "exposures": {},
        "disabled": {},
    }


def matches(one: dict[str, Any], term: str) -> bool:
    for part in term.split(","):
        method, colon, value = part.partition(":")
        if not colon and part != one["name"] and ".".join(one["fqn"]) != part:
            return False
        if method == "fqn" and ".".join(one["fqn"])[: len(value)] != value:
            return False
        if method == "resource_type" and one["resource_type"] != value:
            return False
        if method == "file" and Path(one["original_file_path"]).name != value:
            return False
    return True


def chosen(outcome: dict[str, Any]) -> list[dict[str, Any]]:
    """What --select and --exclude mean, tests with what they test unless they are told not to come."""
    nodes = outcome["nodes"]
    everything = list(nodes.values())

    def meant(terms: list[str]) -> set[str]:
        ids: set[str] = set()
        for term in terms:
            start = {n["unique_id"] for n in everything if matches(n, term.strip("+"))}
            while term.endswith("+"):
                more = {n["unique_id"] for n in everything if start & set(n["depends_on"]["nodes"])} - start
                if not more:
                    break
                start |= more
            ids |= start
        if "empty" not in words("--indirect-selection"):
            ids |= {
                n["unique_id"]
                for n in everything
                if n["resource_type"] == "test" and ids & set(n["depends_on"]["nodes"])
            }
        return ids

    picked = meant(words("--select")) if words("--select") else set(nodes)
    picked -= meant(words("--exclude")) if words("--exclude") else set()
    order: list[str] = []

    def visit(unique_id: str) -> None:
        if unique_id in nodes and unique_id not in order:
            for above in nodes[unique_id]["depends_on"]["nodes"]:
                visit(above)
            order.append(unique_id)

    for unique_id in sorted(nodes, key=lambda i: (nodes[i]["resource_type"] == "test", i)):
        visit(unique_id)
    return [nodes[i] for i in order if i in picked]


def compiled(one: dict[str, Any], outcome: dict[str, Any]) -> str:
    text = re.sub(r"\{#.*?#\}", "", one["raw_code"], flags=re.DOTALL)
    text = re.sub(r"\{\{ config\(.*?\) \}\}", "", text)
    text = re.sub(r"\{\{ ref\('(\w+)'\) \}\}", rf"{SCHEMA}.\1", text)
    text = re.sub(r"\{\{ source\('(\w+)', *'(\w+)'\) \}\}", r"\1.\2", text)
    for unique_id, macro in outcome["macros"].items():
        body = re.sub(r"\{%.*?%\}", "", macro["macro_sql"])
        text = text.replace("{{ " + unique_id.rpartition(".")[2] + "() }}", body)
    return text


def commit(name: str, rows: str) -> None:
    """A new snapshot of a table in the lake, with one row that says what was built."""
    import pyarrow as pa
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.exceptions import NoSuchTableError

    lake = Path(os.environ["FAKE_DBT_LAKE"])
    lake.mkdir(parents=True, exist_ok=True)
    catalog = SqlCatalog("lake", uri=f"sqlite:///{lake}/catalog.db", warehouse=str(lake / "data"))
    catalog.create_namespace_if_not_exists(SCHEMA)
    table = pa.table({"id": pa.array([1], pa.int64()), "text": [rows]})
    try:
        catalog.load_table((SCHEMA, name)).overwrite(table)
    except NoSuchTableError:
        catalog.create_table((SCHEMA, name), table.schema).append(table)


def build(outcome: dict[str, Any], verb: str) -> int:
    results: list[dict[str, Any]] = []
    bad: set[str] = set()
    for one in chosen(outcome):
        kind, name = one["resource_type"], one["name"]
        if one["config"]["materialized"] == "ephemeral" or kind not in RUN_BY.get(verb, (kind,)):
            continue
        if verb == "compile" and kind not in ("model", "test"):
            continue
        status = "success"
        if verb != "compile":
            if bad & set(one["depends_on"]["nodes"]):
                status = "skipped"
            elif "-- FAIL" in one["raw_code"]:
                status = "fail" if kind == "test" else "error"
            elif kind == "test":
                status = "pass"
            else:
                commit(name, "" if "--empty" in sys.argv else compiled(one, outcome) if kind == "model" else "seed")
            if status in ("skipped", "error", "fail"):
                bad |= {one["unique_id"], *(one["depends_on"]["nodes"] if kind == "test" else ())}
            print(f"{status.upper()} {one['unique_id']}", flush=True)
        results.append(
            {
                "unique_id": one["unique_id"],
                "status": status,
                "execution_time": 0.1,
                "failures": None,
                "message": "it says so itself" if status in ("error", "fail") else "OK",
                "compiled_code": compiled(one, outcome) if kind != "seed" and status != "skipped" else None,
            }
        )
        if MODE == "slow" and kind == "model" and verb != "compile":
            try:
                time.sleep(60)
            except KeyboardInterrupt:
                write(results)
                print("CANCELLED", flush=True)
                return 1
    if MODE == "lost":
        return 2
    write(results)
    return 1 if bad else 0


def write(results: list[dict[str, Any]]) -> None:
    version = "https://schemas.getdbt.com/dbt/run-results/v6.json"
    document = {"metadata": {"dbt_schema_version": version, "invocation_id": str(uuid.uuid4())}, "results": results}
    (TARGET / "run_results.json").write_text(json.dumps(document))


def main() -> int:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    verb = next(word for word in sys.argv[1:] if not word.startswith("-"))
    with open(os.environ["FAKE_DBT_LOG"], "a") as log:
        log.write(json.dumps(sys.argv[1:]) + "\n")
    if MODE == "no-profile":
        print("09:00:00  Encountered an error:\nRuntime Error\n  Could not find profile named 'shop'")
        return 2
    broken = [p for p in (PROJECT / "models").rglob("*.sql") if "BROKEN" in p.read_text()]
    if broken:
        path = broken[0].relative_to(PROJECT)
        print(f"09:00:00  Encountered an error:\nCompilation Error in model {path.stem} ({path})")
        print("  unexpected '}'\n    line 2\n      select {{ 1 }")
        return 2
    TARGET.mkdir(parents=True, exist_ok=True)
    result = manifest()
    (TARGET / "manifest.json").write_text(json.dumps(result))
    if verb == "ls":
        for one in chosen(result):
            print(json.dumps({"unique_id": one["unique_id"]}))
        return 0
    return build(result, verb)


if __name__ == "__main__":
    sys.exit(main())
