"""What makes a node of a dbt project the same node: hashes of everything that its result depends on but data.

dbt's own checksum is that of a file. This is made of what the file means, of the configuration that dbt resolved, of
the macros that are called, of the variables that are asked for, and of what is read; all of it from the manifest.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqb.dbt.project.context import DbtContext
from sqb.dbt.project.jinja import ContextNames, collect_context_names, hash_text
from sqb.identity import digest

# The parts of an identity: what its file says; the configuration; the macros that it calls; those that dbt calls to
# build it, where they are not dbt's own; variables and the target; what it reads.
PARTS = ("code", "config", "macros", "runtime", "vars", "reads")
# Other hashes of these may still give the SQL that was run; of the others, the SQL does not tell.
DETERMINED_BY_SQL = frozenset({"code", "macros", "vars", "reads"})

_NOT_IDENTITY = frozenset(
    (
        *("enabled", "alias", "schema", "database", "target_schema", "target_database"),
        *("tags", "meta", "group", "docs", "access", "static_analysis", "description"),
        *("full_refresh", "freshness", "on_configuration_change", "pre-hook", "post-hook"),
    )
)
# Macros of dbt that write no SQL, so that a newer dbt changes nothing for those who call them.
_PLUMBING = frozenset(
    (
        *("is_incremental", "should_full_refresh", "should_store_failures"),
        *("statement", "run_query", "get_where_subquery", "get_limit_subquery_sql"),
    )
)
# Relations have their names from these, and are compared themselves.
_NAMING = frozenset(("generate_schema_name", "generate_alias_name", "generate_database_name"))
_BUILTINS = frozenset(("ref", "source", "config"))
_MATERIALIZATION = "materialization_"
_DETERMINED_KINDS = frozenset(("table", "view"))


@dataclass(frozen=True, slots=True)
class Identity:
    """The hash of a node, and the parts that it is made of."""

    hash: str
    parts: Mapping[str, str]
    # The same compiled SQL means the same rows.
    determined_by_sql: bool = False


def compute_identities(manifest: Mapping[str, Any], context: DbtContext, ids: Iterable[str]) -> dict[str, Identity]:
    """Compute the identities of nodes; each id comes after what it reads."""
    macros = _Macros(manifest)
    identities: dict[str, Identity] = {}
    for unique_id in ids:
        node = manifest["nodes"].get(unique_id) or manifest["unit_tests"][unique_id]
        parts = _compute_parts(node, manifest, macros, context, identities)
        determined = _is_determined_by_sql(node)
        identities[unique_id] = Identity(digest("dbt", *(f"{name} {parts[name]}" for name in PARTS)), parts, determined)
    return identities


def list_changed_parts(then: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """The names of the parts that differ, in their order."""
    return tuple(name for name in PARTS if then.get(name) != now.get(name))


def _is_determined_by_sql(node: Mapping[str, Any]) -> bool:
    if node["resource_type"] != "model" or node.get("language") == "python":
        return False
    return node["config"].get("materialized") in _DETERMINED_KINDS and not any(_iter_hooks(node))


def _compute_parts(
    node: Mapping[str, Any],
    manifest: Mapping[str, Any],
    macros: _Macros,
    context: DbtContext,
    known: Mapping[str, Identity],
) -> dict[str, str]:
    called = macros.list_called(node["depends_on"].get("macros", ()))
    runtime = macros.list_builders(str(node["config"].get("materialized") or ""), node["resource_type"])
    hooks = [str(h["sql"]) for h in _iter_hooks(node)]
    texts = [macros.get_text(m) for m in (*called, *runtime)] + hooks
    is_sql = node.get("language", "sql") == "sql" and node["resource_type"] != "seed"
    names = collect_context_names([*texts, str(node.get("raw_code") or "")] if is_sql else texts)
    uses_dbt = any(macros.writes_sql(m) for m in macros.compute_closure(node["depends_on"].get("macros", ())))
    version = [f"dbt {manifest['metadata']['dbt_version']}"] if uses_dbt else []
    return {
        "code": _hash_code(node, context),
        "config": _hash_config(node, hooks),
        "macros": digest(*version, *(f"{m} {macros.hash_macro(m)}" for m in called)),
        "runtime": digest(*(f"{m} {macros.hash_macro(m)}" for m in runtime)),
        "vars": _hash_values(names, context),
        "reads": digest(*sorted(_iter_reads(node, manifest, known))),
    }


def _hash_code(node: Mapping[str, Any], context: DbtContext) -> str:
    match node["resource_type"]:
        case "seed":
            checksum = node["checksum"]
            # dbt does not look into large files.
            large = checksum.get("name") == "path"
            return digest("seed", context.hash_file(node["original_file_path"]) if large else checksum["checksum"])
        case "unit_test":
            return digest("unit test", str(node["checksum"]))
        case "test" if node.get("test_metadata"):
            called = json.dumps([node["test_metadata"], node.get("column_name")], sort_keys=True, default=str)
            return digest("test", hash_text(str(node.get("raw_code") or "")), called)
    raw = str(node.get("raw_code") or "")
    return digest("python", raw) if node.get("language") == "python" else hash_text(raw)


def _hash_config(node: Mapping[str, Any], hooks: Iterable[str]) -> str:
    config = node["config"]
    # What is not set is as good as not there: a newer dbt knows more settings.
    settings = {k: v for k, v in config.items() if k not in _NOT_IDENTITY and v not in (None, [], {}, "")}
    columns = node.get("columns") or {}
    contract: list[Any] = []
    if (config.get("contract") or {}).get("enforced"):
        contract = [[c["name"], c.get("data_type"), c.get("constraints")] for c in columns.values()]
        contract.append(node.get("constraints"))
    docs: list[Any] = []
    if any((config.get("persist_docs") or {}).values()):
        docs = [node.get("description"), [[c["name"], c.get("description")] for c in columns.values()]]
    text = json.dumps([settings, contract, docs], sort_keys=True, default=str)
    return digest("config", text, *(hash_text(h) for h in hooks))


def _iter_hooks(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for key in ("pre-hook", "post-hook"):
        yield from node["config"].get(key) or ()


def _hash_values(names: ContextNames, context: DbtContext) -> str:
    variables = context.variables if None in names.variables else sorted(v for v in names.variables if v)
    parts = [f"var {name} {context.encode_variable(name)}" for name in sorted(variables)]
    named = sorted(name for name in names.environment if name)
    parts += [f"environment {name} {json.dumps(context.environment.get(name))}" for name in named]
    parts += [f"target {context.target}"] if names.target else []
    return digest(*parts)


def _iter_reads(node: Mapping[str, Any], manifest: Mapping[str, Any], known: Mapping[str, Identity]) -> Iterator[str]:
    for unique_id in node["depends_on"].get("nodes", ()):
        above = manifest["nodes"].get(unique_id)
        if above is not None and above["config"].get("materialized") == "ephemeral" and unique_id in known:
            # It is a part of whoever reads it.
            yield f"{unique_id} {known[unique_id].hash}"
        elif unique_id in manifest["sources"]:
            yield f"{unique_id} {manifest['sources'][unique_id].get('relation_name')}"
        elif unique_id in manifest.get("functions", {}):
            yield f"{unique_id} {json.dumps(manifest['functions'][unique_id].get('checksum'))}"
        else:
            yield unique_id


class _Macros:
    """The macros of a manifest: what is called by whom."""

    def __init__(self, manifest: Mapping[str, Any]) -> None:
        self._macros: Mapping[str, Any] = manifest["macros"]
        self._adapter = str(manifest["metadata"].get("adapter_type") or "spark")
        self._internal = {"dbt", "dbt_spark", f"dbt_{self._adapter}"}
        self._project_macros: dict[str, list[str]] = {}
        for unique_id, macro in self._macros.items():
            if macro["package_name"] not in self._internal:
                self._project_macros.setdefault(macro["name"], []).append(unique_id)
        self.hash_macro = cache(self._hash_macro)
        self.list_builders = cache(self._list_builders)
        self._overriding = tuple(self._iter_overrides())

    def get_text(self, unique_id: str) -> str:
        return str(self._macros[unique_id]["macro_sql"])

    def _hash_macro(self, unique_id: str) -> str:
        return hash_text(self.get_text(unique_id))

    def is_own(self, unique_id: str) -> bool:
        """Whether it belongs to the project or to one of its packages."""
        return unique_id in self._macros and self._macros[unique_id]["package_name"] not in self._internal

    def writes_sql(self, unique_id: str) -> bool:
        """Whether it is a macro of dbt's own whose text ends up in what is run."""
        if unique_id not in self._macros or self.is_own(unique_id):
            return False
        name = str(self._macros[unique_id]["name"])
        return name.rpartition("__")[2] not in _PLUMBING and not name.startswith("test_")

    def list_called(self, ids: Iterable[str]) -> tuple[str, ...]:
        """The macros of the project and its packages that are called, directly or not."""
        return tuple(sorted(m for m in self.compute_closure(ids) if self.is_own(m)))

    def compute_closure(self, ids: Iterable[str]) -> frozenset[str]:
        closure: set[str] = set()
        stack = [m for m in ids if m in self._macros]
        while stack:
            unique_id = stack.pop()
            if unique_id in closure:
                continue
            closure.add(unique_id)
            macro = self._macros[unique_id]
            stack += [m for m in macro["depends_on"].get("macros", ()) if m in self._macros]
            # A macro that is dispatched by the adapter may resolve to one that is not named.
            for prefix in (self._adapter, "default"):
                stack += self._project_macros.get(f"{prefix}__{macro['name']}", ())
        return frozenset(closure)

    def _list_builders(self, materialized: str, resource_type: str) -> tuple[str, ...]:
        """The project's macros that dbt itself calls when it builds a node; nothing builds an ephemeral one."""
        if materialized == "ephemeral":
            return ()
        names = [f"{_MATERIALIZATION}{materialized}_{suffix}" for suffix in ("default", self._adapter)]
        ids = [unique_id for name in names for unique_id in self._project_macros.get(name, ())]
        if resource_type not in ("test", "unit_test"):
            ids += self._overriding
        return self.list_called(ids)

    def _iter_overrides(self) -> Iterator[str]:
        internal = {m["name"] for m in self._macros.values() if m["package_name"] in self._internal}
        for name, ids in self._project_macros.items():
            plain = name.removeprefix(f"{self._adapter}__").removeprefix("default__")
            if plain in _NAMING or name.startswith(("test_", _MATERIALIZATION)):
                continue
            if name in _BUILTINS or name in internal or plain in internal:
                yield from ids
