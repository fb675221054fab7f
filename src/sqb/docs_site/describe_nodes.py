"""Nodes, sources and exposures as the document has them: what is written of them, and what the lake tells."""

from __future__ import annotations

import ast
import json
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from sqb.build.checks.run import list_checks
from sqb.build.node.render import build_live_names
from sqb.compile.model import Node, Project
from sqb.compile.python.model import PythonNode
from sqb.compile.source_model import DeclaredSource
from sqb.docs_site.describe_checks import add_tests_of_columns, describe_check, describe_python_check
from sqb.docs_site.source_columns import list_declared_columns, map_named_columns
from sqb.docs_site.sql_texts import describe_rendered, describe_written
from sqb.docs_site.states import judge_node, judge_source
from sqb.inspect.explain import RefreshEstimate
from sqb.inspect.lineage import LineageGraph, Ref, TableLineage
from sqb.lake.port import PastSnapshot
from sqb.names import Relation
from sqb.plan.model import PlannedNode
from sqb.plan.node_columns import ProjectColumns
from sqb.project.models.keys import WORDS, find_key
from sqb.selection.methods import iter_texts
from sqb.workspace import Workspace

NodeData = dict[str, Any]

# Settings with a place of their own on the page.
_SHOWN_ELSEWHERE = ("columns", "description", "tags", "owner", "group", "constraints", "audits", "warnings")


@dataclass(frozen=True, slots=True)
class Facts:
    """All that is known of a project, by the names of its nodes."""

    workspace: Workspace
    catalog: str
    planned: Mapping[str, PlannedNode]
    columns: ProjectColumns
    lineage: LineageGraph
    runs: Mapping[str, Sequence[Mapping[str, Any]]]
    snapshots: Callable[[str], Sequence[PastSnapshot]]
    refresh: Callable[[Node], RefreshEstimate | None]
    freshness: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    environments: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    rows: Mapping[str, int | None] = field(default_factory=dict)
    # The virtual environment that is shown.
    environment: str | None = None
    # The views by which it is read there, and which node each table is.
    views: Mapping[str, str] = field(default_factory=dict)
    names_of_tables: Mapping[str, str] = field(default_factory=dict)

    @property
    def project(self) -> Project:
        return self.workspace.project

    def find_last_run(self, name: str) -> Mapping[str, Any] | None:
        """How a node last ended in the environment that is shown."""
        runs = self.runs.get(name, ())
        return next((run for run in runs if run["environment"] in (self.environment, None)), None)


def describe_nodes(facts: Facts) -> dict[str, NodeData]:
    """Everything in the graph by its name, in the order in which it is built; sources first, exposures last."""
    project = facts.project
    live = build_live_names(project, facts.catalog, {})
    nodes: dict[str, NodeData] = {name: _describe_source(name, facts) for name in _list_sources(project)}
    for node in project.walk():
        is_python = isinstance(node, PythonNode)
        nodes[node.name] = _describe_python(node, facts) if is_python else _describe_node(node, facts, live)  # type: ignore[arg-type]
    for hook in (n for n in project.python.values() if n.type == "hook"):
        nodes[hook.name] = _describe_python(hook, facts)
    for name in project.exposures:
        nodes[name] = _describe_exposure(name, facts)
    _add_named_columns(nodes, facts)
    return nodes


def _add_named_columns(nodes: Mapping[str, NodeData], facts: Facts) -> None:
    """Give sources whose columns are not known those that queries name."""
    unknown = [n["name"] for n in nodes.values() if n["type"] in ("source", "dbt") and not n["columns"]]
    for name, columns in map_named_columns(facts.lineage, unknown).items():
        nodes[name]["columns"] = [_describe_column(column) for column in columns]
        nodes[name]["columns_note"] += "; these are read" if columns else ""


def _list_sources(project: Project) -> list[str]:
    return list(dict.fromkeys((*project.externals, *project.sources)))


def _describe_source(name: str, facts: Facts) -> NodeData:
    project = facts.project
    source, external = project.sources.get(name), project.externals.get(name)
    freshness = facts.freshness.get(name)
    state, reason = judge_source(freshness)
    relation = external.relation if external is not None else source.relation if source is not None else None
    loader = project.loaders.get(name)
    is_dbt = external is not None and external.dbt
    data = _describe_common(name, "dbt" if is_dbt else "source", _name_source_kind(name, project, is_dbt), facts)
    data |= {
        "relation": _name_place(source, relation),
        "file": source.at.file if source is not None else "",
        "description": source.description if source is not None else "",
        "owner": source.owner if source is not None else "",
        "group": source.group if source is not None else "",
        "upstream": [*([loader] if loader else ()), *(source.expression.reads if source and source.expression else ())],
        "state": state,
        "reason": reason,
        "freshness": freshness,
    }
    if source is not None and source.expression is not None:
        data["sql"] = {"text": source.expression.sql, "links": []}
    return data


def _name_place(source: DeclaredSource | None, relation: Relation | None) -> str:
    """Where a source is: a path or a relation; an expression is nowhere."""
    if source is not None and source.path is not None:
        return source.path
    return "" if relation is None or (source is not None and source.expression is not None) else str(relation)


def _name_source_kind(name: str, project: Project, is_dbt: bool) -> str:
    source = project.sources.get(name)
    if is_dbt:
        return "dbt model"
    if source is None or source.is_table:
        return "table"
    return "files" if source.path is not None else "table function" if source.function is not None else "expression"


def _describe_node(node: Node, facts: Facts, live: Callable[[str], str]) -> NodeData:
    runs = facts.runs.get(node.name, ())
    state, reason = judge_node(facts.planned.get(node.name), facts.find_last_run(node.name))
    file = facts.workspace.root / node.file
    data = _describe_common(node.name, node.type, node.kind, facts)
    data |= {
        "relation": facts.views.get(node.name, str(node.relation)),
        "table": str(node.relation) if node.name in facts.views else None,
        "file": node.file,
        "description": node.description,
        "owner": str(node.settings.get("owner") or ""),
        "group": str(node.settings.get("group") or ""),
        "tags": list(node.tags),
        "upstream": list(node.after),
        "state": state,
        "reason": reason,
        "version": node.version_hash[:12],
        "settings": _list_settings(node),
        "config": _list_config(node),
        "functions": sorted(node.functions),
    }
    snapshots = facts.snapshots(node.name)
    checks = list_checks(node)
    data["checks"] = [describe_check(check, runs) for check in checks]
    add_tests_of_columns(data["columns"], checks)
    data["figures"] = _describe_figures(snapshots)
    data["snapshots"] = [_describe_snapshot(s) for s in reversed(snapshots[-30:])]
    if node.type == "model":
        text = file.read_text(encoding="utf-8-sig").replace("\r\n", "\n") if file.exists() else node.sql
        data["sql"] = describe_written(node, text)
        if not node.python:
            data["sql_run"] = describe_rendered(node, live)
        estimate = facts.refresh(node)
        data["refresh"] = _name_tables(estimate.to_data(), facts) if estimate is not None else None
    return data


def _name_tables(refresh: dict[str, Any], facts: Facts) -> dict[str, Any]:
    """How a node is refreshed, with the names of nodes in the place of tables."""
    names = facts.names_of_tables
    operators = [
        {
            **line,
            "operator": names.get(line["operator"], line["operator"]),
            "changed": [names.get(table, table) for table in line["changed"]],
        }
        for line in refresh["operators"]
    ]
    return {**refresh, "operators": operators}


def _describe_python(node: PythonNode, facts: Facts) -> NodeData:
    state, reason = judge_node(facts.planned.get(node.name), facts.find_last_run(node.name))
    if node.type == "hook":
        state, reason = "current", f"runs {node.kind.replace('_', ' ')}"
    data = _describe_common(node.name, node.type, node.kind, facts)
    source = json.loads(node.definition or "{}").get("source", "")
    return data | {
        "relation": str(node.relation) if node.relation is not None else "",
        "file": node.file,
        "description": node.description or read_docstring(str(source)),
        "owner": str(node.settings.get("owner") or ""),
        "group": str(node.settings.get("group") or ""),
        "tags": list(node.tags),
        "upstream": list(node.after),
        "state": state,
        "reason": reason,
        "version": node.local_hash[:12],
        "code": str(source),
        "checks": [describe_python_check(node, facts.runs.get(node.name, ()))] if node.type == "check" else [],
    }


def read_docstring(source: str) -> str:
    """What a function says of itself in its first paragraph."""
    try:
        (function,) = ast.parse(textwrap.dedent(source)).body
    except (SyntaxError, ValueError):
        return ""
    text = ast.get_docstring(function) if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) else None
    return " ".join((text or "").partition("\n\n")[0].split())


def _describe_exposure(name: str, facts: Facts) -> NodeData:
    exposure = facts.project.exposures[name]
    states = [judge_node(facts.planned.get(n), None)[0] for n in exposure.depends_on if n in facts.planned]
    is_current = all(state == "current" for state in states)
    data = _describe_common(name, "exposure", exposure.type, facts)
    return data | {
        "file": exposure.at.file,
        "description": exposure.description,
        "owner": exposure.owner,
        "url": exposure.url,
        "upstream": list(exposure.depends_on),
        "state": "current" if is_current else "stale",
        "reason": "all that it reads is up to date" if is_current else "something that it reads is not up to date",
    }


def _describe_common(name: str, type_: str, kind: str, facts: Facts) -> NodeData:
    """What every entry of the graph has."""
    table = facts.lineage.tables.get(name)
    planned = facts.planned.get(name)
    return {
        "name": name,
        "type": type_,
        "kind": kind,
        "relation": "",
        "file": "",
        "description": "",
        "owner": "",
        "group": "",
        "tags": [],
        "upstream": [],
        "state": "unknown",
        "reason": "",
        "action": planned.action if planned is not None else None,
        "run_type": planned.run_type if planned is not None else None,
        "rows": facts.rows.get(name),
        "columns": _describe_columns(name, facts, table),
        "columns_note": table.unknown if table is not None else "",
        "rows_from": [list(ref) for ref in table.rows_from] if table is not None else [],
        "checks": [],
        "runs": list(facts.runs.get(name, ())),
        "snapshots": [],
        "environments": list(facts.environments.get(name, ())),
    }


def _describe_columns(name: str, facts: Facts, table: TableLineage | None) -> list[dict[str, Any]]:
    node = facts.project.nodes.get(name)
    typed = facts.columns.columns.get(name)
    declared = list_declared_columns(facts.project.sources.get(name))
    types = {column.lower(): (column, kind) for column, kind in declared.items()}
    types |= {column.lower(): (column, kind) for column, kind in typed.columns if column} if typed is not None else {}
    traced = table.columns if table is not None else {}
    described = _get_column_descriptions(node)
    contract = {c.name.lower(): str(c) for c in node.contract.columns} if node is not None and node.contract else {}
    names = {column.lower(): column for column in (*traced, *(spelled for spelled, _ in types.values()))}
    by_name = {column.lower(): refs for column, refs in traced.items()}
    return [
        _describe_column(
            spelled,
            _find_type(types[key][1] if key in types else "", by_name.get(key, ()), facts, node is None),
            described.get(key, ""),
            contract.get(key, ""),
            by_name.get(key, ()),
        )
        for key, spelled in names.items()
    ]


def _describe_column(
    name: str, type_: str = "", description: str = "", contract: str = "", origins: Sequence[Ref] = ()
) -> dict[str, Any]:
    return {
        "name": name,
        "type": type_,
        "description": description,
        "contract": contract,
        "from": [list(ref) for ref in origins],
        "tests": [],
    }


def _find_type(own: str, origins: Sequence[Ref], facts: Facts, is_outside: bool) -> str:
    """The type of a column; an exposure, which has none of its own, shows those of what it reads, where they agree."""
    if own or not is_outside:
        return own if own != "unknown" else ""
    read = {
        kind
        for table, column in origins
        if table in facts.columns.columns
        for name, kind in facts.columns.columns[table].columns
        if (name or "").lower() == column.lower()
    }
    return next(iter(read)) if len(read) == 1 and read != {"unknown"} else ""


def _get_column_descriptions(node: Node | None) -> dict[str, str]:
    described = node.settings.get("columns") if node is not None and node.type == "model" else None
    if not isinstance(described, Mapping):
        return {}
    return {str(column).lower(): str(text or "") for column, text in described.items()}


def _list_settings(node: Node) -> dict[str, str]:
    return {
        key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        for key, value in node.settings.items()
        if key not in _SHOWN_ELSEWHERE and value not in (None, "", [], {}, ())
    }


def _list_config(node: Node) -> dict[str, list[str]]:
    """What `config.KEY:` compares, by every word for a key, and of a mapping also by the keys within."""
    values: dict[str, Any] = {key: value for key, value in node.settings.items() if key != "columns"}
    values["kind"] = node.kind
    by_name: dict[str, list[str]] = {}
    for key, value in values.items():
        for word in _list_words(key):
            by_name[word] = list(iter_texts(value))
            if isinstance(value, Mapping):
                by_name |= {f"{word}.{inner}": list(iter_texts(item)) for inner, item in value.items()}
    return by_name


@lru_cache(maxsize=256)
def _list_words(key: str) -> tuple[str, ...]:
    return (
        key,
        *(word for word in WORDS if word != key and (result := find_key(word)) is not None and result.name == key),
    )


def _describe_figures(snapshots: Sequence[PastSnapshot]) -> dict[str, list[Any]]:
    """The figures of checks over the snapshots that record them, oldest first: pairs of a time and a value."""
    figures: dict[str, list[Any]] = {}
    for snapshot in snapshots:
        for name, value in json.loads(snapshot.figures or "{}").items():
            figures.setdefault(name, []).append([snapshot.at.timestamp(), value])
    return figures


def _describe_snapshot(snapshot: PastSnapshot) -> dict[str, Any]:
    return {
        "id": str(snapshot.id),
        "at": snapshot.at.timestamp(),
        "operation": snapshot.operation,
        "rows": snapshot.rows,
        "added": snapshot.added_rows,
        "removed": snapshot.removed_rows,
        "run": snapshot.run_id,
    }
