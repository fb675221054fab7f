"""One node of a plan in full: everything that its decision rests on, as a value.

Reads metadata and history; starts no Spark and changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqb.build.checking import checks_of
from sqb.build.column_changes import ColumnChange, column_changes, typed
from sqb.build.data_changes import Pasts, changes_of, relation_of
from sqb.build.incremental import WhyNot, choose_keys, facts_of, holes_of, present_holes, template_of, too_dear
from sqb.build.observe import Look
from sqb.build.render import render
from sqb.build.sizing import looking_turn
from sqb.build.turn import Turn
from sqb.compiled import Node, Project, source_place
from sqb.lake.iceberg import IcebergLake
from sqb.lake.state import NodeResult
from sqb.names import At
from sqb.plan.above import makes_rows
from sqb.plan.freshness import VERSION
from sqb.plan.observed import (
    Input,
    Standing,
    Version,
    changed_inputs,
    checks_token,
    inputs_of,
    quiet_lookups,
    same_version,
    version_of,
)
from sqb.plan.settings import changed_settings, read_settings
from sqb.plan.values import DataChange, Plan, PlannedNode
from sqb.project.cursors import cursor_of
from sqb.sql.delta.facts import Facts, term_text
from sqb.workspace import Workspace

_SHORT = 12
_UNKNOWN_TIME = "unknown"


@dataclass(frozen=True, slots=True)
class Compared:
    """One thing that was compared: what it was when the node was built, and what it is now; "" for nothing."""

    what: str
    stored: str
    now: str

    @property
    def same(self) -> bool:
        return self.stored == self.now

    def to_data(self) -> dict[str, Any]:
        return {"what": self.what, "stored": self.stored or None, "now": self.now or None, "same": self.same}


@dataclass(frozen=True, slots=True)
class ComparedInput:
    """Something that the node reads: the version recorded, the present one, and how they compare."""

    name: str
    type: str
    # The id of a table's snapshot, or the hash of a view's definition.
    stored: int | str | None
    now: int | str | None
    same: bool
    why: str
    columns: tuple[ColumnChange, ...] = ()
    change: DataChange | None = None

    def to_data(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "type": self.type,
            "stored": self.stored,
            "now": self.now,
            "same": self.same,
            "why": self.why,
            "columns": [c.to_data() for c in self.columns],
            "change": self.change.to_data() if self.change else None,
        }


@dataclass(frozen=True, slots=True)
class Work:
    """How the node's result can be brought up to date: the class of its query, and what the cost gate says."""

    kind: str
    why: str = ""
    at: At | None = None
    keys: tuple[str, ...] = ()
    input_rows: int | None = None
    changed_rows: int | None = None
    min_rows: int = 0
    max_share: float = 0.0
    refresh: str = "auto"
    verdict: str = ""

    def to_data(self) -> dict[str, Any]:
        gate = {
            "input_rows": self.input_rows,
            "changed_rows": self.changed_rows,
            "min_rows": self.min_rows,
            "max_share": self.max_share,
        }
        return {
            "class": self.kind,
            "why": self.why or None,
            "at": str(self.at) if self.at else None,
            "keys": list(self.keys),
            "refresh": self.refresh,
            "gate": gate,
            "verdict": self.verdict or None,
        }


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A node or source next to the explained one, and what the plan does with it."""

    name: str
    type: str
    action: str
    reason: str = ""

    def to_data(self) -> dict[str, Any]:
        return {"name": self.name, "type": self.type, "action": self.action, "reason": self.reason or None}


@dataclass(frozen=True, slots=True)
class Explanation:
    """Everything that is known about one node of a plan."""

    planned: PlannedNode
    file: str
    hashes: tuple[Compared, ...]
    settings: tuple[Compared, ...]
    inputs: tuple[ComparedInput, ...]
    diff: str
    work: Work | None
    checks: tuple[str, ...]
    # When they passed on the rows that stand; "" when they have not.
    checks_passed: str
    last_run: Mapping[str, Any] | None
    upstream: tuple[Neighbour, ...]
    downstream: tuple[Neighbour, ...]

    def to_data(self) -> dict[str, Any]:
        return {
            "file": self.file,
            "hashes": [h.to_data() for h in self.hashes],
            "settings": [s.to_data() for s in self.settings],
            "inputs": [i.to_data() for i in self.inputs],
            "diff": self.diff,
            "work": self.work.to_data() if self.work else None,
            "checks": list(self.checks),
            "checks_passed": self.checks_passed or None,
            "last_run": dict(self.last_run) if self.last_run else None,
            "upstream": [n.to_data() for n in self.upstream],
            "downstream": [n.to_data() for n in self.downstream],
            "notices": list(self.planned.notices),
        }


def explain(name: str, plan: Plan, workspace: Workspace, lake: IcebergLake, seen: Look, diff: str) -> Explanation:
    """Everything that the decision about one node rests on; `diff` is how its definition differs from the built one."""
    project = workspace.project
    node = project.nodes[name]
    pasts = Pasts(lake)
    planned = next(n for n in plan.nodes if n.name == name)
    planned = replace(planned, changes=changes_of(node, project, seen, pasts))
    standing = seen.observed.of(node)
    running = frozenset(n.name for n in plan.nodes if makes_rows(n))
    moved = changed_inputs(node, project, standing, seen.observed.relations) if standing is not None else ()
    changed = frozenset(i.key for i in moved)
    results = lake.node_results([node.relation.schema], node_name=name, limit=20)
    return Explanation(
        planned=planned,
        file=node.file,
        hashes=_hashes(node, standing),
        settings=(*_settings(node, _stored_definition(node, lake)), *_session(node, project, standing)),
        inputs=tuple(
            _input(i, node, standing, project, seen, pasts, planned.changes, changed, running)
            for i in inputs_of(node, project)
        ),
        diff=diff,
        work=_work(looking_turn(planned, workspace, lake, seen)) if node.type == "model" else None,
        checks=tuple(f"{check.role} {check.text}" for check in checks_of(node)),
        checks_passed=_checks_passed(node, standing, project, seen, results),
        last_run=_last_run(results, standing, node, lake),
        upstream=tuple(neighbour(n, plan, project) for n in (*node.after, *project.loaders_above(node.after))),
        downstream=tuple(neighbour(n.name, plan, project) for n in project.graph.values() if name in n.after),
    )


def _stored_definition(node: Node, lake: IcebergLake) -> Mapping[str, Any]:
    rows = lake.fingerprints([node.relation.schema])
    found = next((r for r in rows.values() if r.node_name == node.name and r.node_type == node.type), None)
    try:
        definition = json.loads(found.definition) if found is not None else {}
    except ValueError:
        return {}
    return definition if isinstance(definition, dict) else {}


def _hashes(node: Node, standing: Standing | None) -> tuple[Compared, ...]:
    stored = (standing.identity or standing.left) if standing is not None else {}
    what = "content" if node.type == "seed" else "query"
    pairs = (
        (what, "sqb.query_hash", node.query_hash),
        ("config", "sqb.config_hash", node.config_hash),
        ("identity", "sqb.local_hash", node.local_hash),
    )
    return tuple(Compared(name, stored.get(key, "")[:_SHORT], now[:_SHORT]) for name, key, now in pairs)


def _settings(node: Node, stored: Mapping[str, Any]) -> tuple[Compared, ...]:
    """The settings of the identity that are others than when the node was built."""
    if not stored:
        return ()
    before, now = stored.get("config") or {}, json.loads(node.definition or "{}").get("config") or {}
    differing = [key for key in sorted({*before, *now}) if before.get(key) != now.get(key)]
    return tuple(Compared(key, said(before, key), said(now, key)) for key in differing)


def _session(node: Node, project: Project, standing: Standing | None) -> tuple[Compared, ...]:
    """The settings of Spark's sessions that are others than when the node was built."""
    stored = read_settings(standing.identity or standing.left) if standing is not None else None
    if stored is None or node.type == "seed":
        return ()
    now = project.session
    return tuple(Compared(key, stored.get(key, ""), now.get(key, "")) for key in changed_settings(stored, now))


def said(settings: Mapping[str, Any], key: str) -> str:
    """What a setting says, as text."""
    if key not in settings:
        return ""
    value = settings[key]
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# --- inputs -----------------------------------------------------------------------------------------------------------


def _input(
    found: Input,
    node: Node,
    standing: Standing | None,
    project: Project,
    seen: Look,
    pasts: Pasts,
    changes: tuple[DataChange, ...],
    changed: frozenset[str],
    running: frozenset[str],
) -> ComparedInput:
    recorded = standing.sources.get(found.key) if standing is not None else None
    now = version_of(found, project, seen.observed.relations)
    same = recorded is not None and found.key not in changed
    type_ = "source" if found.external else "view" if found.view else project.nodes[found.name].type
    before = ", and it runs before" if found.name in running else ""
    return ComparedInput(
        found.name,
        type_,
        short_version(recorded[0]) if recorded else None,
        short_version(now.definition or now.snapshot_id) if now is not None else None,
        same,
        _why_lookup(recorded, now, found, node) or why_input(recorded, now, same, node.kind == "view") + before,
        _column_changes(found, recorded, now, seen, pasts),
        next((c for c in changes if c.source == found.name), None),
    )


def _why_lookup(recorded: list[Any] | None, now: Version | None, found: Input, node: Node) -> str:
    """What is said of a lookup that has changed, where that is no reason to run; else ""."""
    if now is None or found.name not in quiet_lookups(node) or same_version(recorded, now):
        return ""
    return "a lookup: read at its newest version, adds nothing by itself"


def short_version(version: int | str | None) -> int | str | None:
    """A version as it is shown: one that a source tells of itself says what it is."""
    told = isinstance(version, str) and version.startswith(f"{VERSION}:")
    return str(version).replace(":", " ", 1) if told else version


def why_input(recorded: list[Any] | None, now: Version | None, same: bool, columns_only: bool) -> str:
    """How the version of an input that was recorded compares with the present one, in words."""
    if now is None:
        return "not there"
    if recorded is None:
        return "not read before"
    if now.fresh is not None and now.fresh.kind == VERSION:
        return "the same version" if same else "another version"
    if now.definition is not None and now.files is not None:
        return "the same files" if recorded[0] == now.definition else "fresh enough" if same else "other files"
    if now.fresh is not None and same and recorded[0] != now.snapshot_id and recorded[1] is None:
        return "fresh enough"
    if now.definition is not None and recorded[0] != now.definition:
        return "the same in the columns that are read" if same else "another definition"
    if now.definition is not None:
        return "the same definition" if same else "other columns"
    if same and columns_only and recorded[0] != now.snapshot_id:
        return "the same columns, which is all that a view needs"
    if recorded[0] == now.snapshot_id and same:
        return "the same snapshot"
    if recorded[0] in now.same_rows and same:
        return "the same rows in other files"
    if same and recorded[1] is not None and recorded[1] == now.content:
        return "another snapshot with the same content"
    if same:
        return "the same in the columns that are read"
    return "other columns" if same_version([*recorded[:2], now.columns], now) else "other rows"


def _column_changes(
    found: Input, recorded: list[Any] | None, now: Version | None, seen: Look, pasts: Pasts
) -> tuple[ColumnChange, ...]:
    """The columns of an input that are not as they were; none when nobody knows any more what they were."""
    relation = relation_of(found, seen)
    if found.view or recorded is None or now is None or relation is None or recorded[2] == now.columns:
        return ()
    then = pasts.of(relation).get(recorded[0])
    state = seen.states.get(relation)
    return column_changes(typed(then.columns), typed(state.columns)) if then is not None and state is not None else ()


# --- incremental work -------------------------------------------------------------------------------------------------


def _work(turn: Turn) -> Work | None:
    """The class of a node's query, whatever the reason to run it, and what the cost gate says of the present change."""
    node, gate = turn.node, turn.workspace.gate
    if node.kind == "view":
        return None
    if node.kind == "incremental":
        cursor = cursor_of(node.settings)
        return Work("cursor", f"{cursor.strategy} by {cursor.column}")
    if node.kind == "custom":
        return Work("custom", f"the materialization {node.materialization['name']} decides what it does")
    if node.python:
        followed = ", ".join(node.python["changes"])
        why = f"it follows the changes of {followed}" if followed else "its rows come from Python"
        return Work("changes" if followed else "opaque", why, verdict="" if followed else "the whole function runs")
    if node.table_calls:
        name, at = node.table_calls[0]
        verdict = "changes cannot be followed: the whole query runs"
        return Work("opaque", f"{name}() is a table function", at, verdict=verdict)
    template = template_of(node, turn.project, turn.live, turn.at_version)
    holes = present_holes(turn, template)
    if holes is None:
        return Work("unknown", "what it reads is not built yet, or is no table")
    facts = facts_of(turn, template, holes)
    terms = dict.fromkeys(term_text(t) for k in facts.keys[:3] for _, t in k.holes) if facts.kind == "keyed" else {}
    work = Work(
        facts.kind,
        facts.why,
        _place(turn, facts),
        tuple(terms),
        input_rows=sum(h.state.rows or 0 for h in holes),
        min_rows=gate.min_rows,
        max_share=gate.max_share,
        refresh=str(node.settings.get("refresh", "auto")),
    )
    try:
        changed = holes_of(turn, template)
    except WhyNot as why:
        return replace(work, verdict=str(why))
    sizes = [h.changed_rows if h.changed_rows is not None else h.state.rows or 0 for h in changed if h.changed]
    try:
        dear = too_dear(changed, gate) if work.refresh != "incremental" else None
        if facts.kind == "keyed" and dear is None:
            choose_keys(facts, changed, "result")
    except WhyNot as why:
        return replace(work, changed_rows=sum(sizes), verdict=f"{why}: the whole query runs")
    return replace(work, changed_rows=sum(sizes), verdict=_verdict(work, facts, dear))


def _verdict(work: Work, facts: Facts, dear: str | None) -> str:
    if facts.kind == "opaque":
        return "changes cannot be followed: the whole query runs"
    if work.refresh == "full":
        return "refresh is full: the whole query runs"
    if work.refresh == "incremental":
        return "refresh is incremental: changes are followed whatever they cost"
    return dear or "following the changes pays"


def _place(turn: Turn, facts: Facts) -> At | None:
    """Where in the model's file the reason for its class stands; for one inside of a view, where the view is read."""
    node = turn.node
    if facts.offset is None or not node.pieces:
        return None
    count = iter(range(len(node.sql)))

    def hole(name: str) -> str:
        above = turn.project.nodes.get(name)
        if above is not None and above.kind == "view":
            return f"({render(above, hole, turn.live).sql}\n)"
        return f"__sqb_hole_{next(count)}"

    rendered = render(node, hole, turn.live)
    text = (turn.root / node.file).read_text(encoding="utf-8-sig").replace("\r\n", "\n")
    return source_place(node, text, rendered.origin(facts.offset), 1)


# --- checks, runs and neighbours --------------------------------------------------------------------------------------


def _checks_passed(node: Node, standing: Standing | None, project: Project, seen: Look, results: Any) -> str:
    token = checks_token(node, project, seen.observed.relations)
    if not token or standing is None or standing.checks != token:
        return ""
    good = next((r for r in results if r.status == "ok"), None)
    return good.ts.strftime("%Y-%m-%d %H:%M:%S") if good is not None else _UNKNOWN_TIME


def _last_run(results: Any, standing: Standing | None, node: Node, lake: IcebergLake) -> dict[str, Any] | None:
    """The last run that tried the node, by the history or else by the table itself."""
    if results:
        return of_result(results[0])
    identity = standing.identity if standing is not None else {}
    if standing is None or not identity.get("sqb.run_id"):
        return None
    snapshot = standing.version.snapshot_id
    at = lake.committed_at(node.relation, snapshot) if snapshot is not None else None
    return {
        "run_id": identity["sqb.run_id"],
        "at": at.strftime("%Y-%m-%d %H:%M:%S") if at else None,
        "status": "ok",
        "run_type": identity.get("sqb.run_type"),
        "rows": standing.rows,
        "seconds": float(identity.get("sqb.seconds", 0)),
        "snapshot_id": snapshot,
        "error": None,
    }


def of_result(row: NodeResult) -> dict[str, Any]:
    """What the history says of one run of a node."""
    told = json.loads(row.metadata or "{}")
    return {
        "run_id": row.run_id,
        "at": row.ts.strftime("%Y-%m-%d %H:%M:%S"),
        "status": row.status,
        **{key: told.get(key) for key in ("run_type", "reason", "rows", "seconds", "snapshot_id")},
        "error": row.error_message or None,
    }


def neighbour(name: str, plan: Plan, project: Project) -> Neighbour:
    """A node or source next to the explained one."""
    planned = next((n for n in plan.nodes if n.name == name), None)
    if planned is not None:
        return Neighbour(name, planned.type, planned.action, str(planned.reason) if planned.action != "skip" else "")
    if name in project.graph:
        return Neighbour(name, project.graph[name].type, "not selected")
    return Neighbour(name, "source", "read")
