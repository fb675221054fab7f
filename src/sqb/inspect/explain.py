"""One node of a plan in full: everything that its decision rests on, as a value.

Reads metadata and history; starts no Spark and changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqb.build.checks.run import list_checks
from sqb.build.node.render import build_live_names, build_version_names
from sqb.build.observe.lake import LakeState
from sqb.build.observe.queries import build_node_template
from sqb.build.observe.refreshes import observe_nodes
from sqb.build.observe.snapshots import SnapshotHistories
from sqb.compile.model import Node, Project, locate_source
from sqb.inspect.diff import ColumnChange, list_column_changes, list_typed_columns
from sqb.lake.port import Lake
from sqb.lake.state.rows import STAGED, NodeResult
from sqb.names import At, Relation
from sqb.plan.changes.data import list_data_changes
from sqb.plan.changes.session_settings import list_changed_settings, parse_settings
from sqb.plan.freshness import VERSION
from sqb.plan.model import DataChange, Plan, PlannedNode, Reason, is_producing_rows
from sqb.plan.observed import (
    Input,
    RelationState,
    Version,
    compute_checks_token,
    find_version,
    is_same_version,
    list_changed_inputs,
    list_inputs,
    list_quiet_lookups,
)
from sqb.plan.recorded.commit_identity import CommitIdentity
from sqb.plan.recorded.versions import RecordedVersion
from sqb.plan.refresh.choose import (
    Obstacle,
    Refresh,
    RefreshCase,
    TableChange,
    build_case,
    choose_keys,
    choose_refresh,
    choose_way,
    estimate_cost,
    list_changed_slots,
)
from sqb.plan.refresh.cost import CostEstimate
from sqb.plan.refresh.describe import describe_class, find_class_offset, list_shown_keys
from sqb.plan.refresh.describe_operators import OperatorLine, find_advice, list_operator_lines
from sqb.plan.refresh.states import keeps_group_state, list_additive_operators, list_state_operators, propose_for
from sqb.project.models.cursor import build_cursor
from sqb.project.models.kinds import FOLLOWING_KINDS
from sqb.sql.delta.facts import Facts, format_key_expression
from sqb.sql.delta.skeleton.model import SLOT
from sqb.sql.text.template import Template
from sqb.workspace import Workspace

_SHORT = 12
_UNKNOWN_TIME = "unknown"


@dataclass(frozen=True, slots=True)
class Comparison:
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
class InputComparison:
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
class RefreshEstimate:
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
    # What could be written instead of what makes the query opaque; the lines of its operators say it themselves.
    advice: str = ""
    # The operators of the query from the root down, and the rows that each way would read.
    operators: tuple[OperatorLine, ...] = ()
    costs: tuple[tuple[str, int], ...] = ()

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
            "operators": [line.to_data() for line in self.operators],
            "costs": dict(self.costs),
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
    hashes: tuple[Comparison, ...]
    settings: tuple[Comparison, ...]
    inputs: tuple[InputComparison, ...]
    diff: str
    work: RefreshEstimate | None
    checks: tuple[str, ...]
    # When they passed on the current rows; "" when they have not.
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


def explain(name: str, plan: Plan, workspace: Workspace, lake: Lake, lake_state: LakeState, diff: str) -> Explanation:
    """Everything that the decision about one node rests on; `diff` is how its definition differs from the built one."""
    project = workspace.project
    node = project.nodes[name]
    pasts = SnapshotHistories(lake)
    followers = [node] if node.kind in FOLLOWING_KINDS and node.type == "model" and not node.python else []
    lake_state = observe_nodes(workspace, lake, lake_state, [node], followers, pasts)
    planned = next(n for n in plan.nodes if n.name == name)
    planned = replace(planned, changes=list_data_changes(node, project, lake_state.observed))
    current = lake_state.observed.get(node)
    running = frozenset(n.name for n in plan.nodes if is_producing_rows(n))
    moved = list_changed_inputs(node, project, current, lake_state.observed.relations) if current is not None else ()
    changed = frozenset(i.key for i in moved)
    rows = lake.state.read_node_results([node.relation.schema], node_name=name, limit=20)
    results = [r for r in rows if r.status != STAGED]
    return Explanation(
        planned=planned,
        file=node.file,
        hashes=_compare_hashes(node, current),
        settings=(
            *_compare_settings(node, _read_stored_definition(node, lake)),
            *_compare_session_settings(node, project, current),
        ),
        inputs=tuple(
            _compare_input(i, node, current, project, lake_state, pasts, planned.changes, changed, running)
            for i in list_inputs(node, project)
        ),
        diff=diff,
        work=estimate_refresh(node, workspace, lake_state) if node.type == "model" else None,
        checks=tuple(f"{check.role} {check.text}" for check in list_checks(node)),
        checks_passed=_describe_checks_passed(node, current, project, lake_state, results),
        last_run=_read_last_run(results, current, node, lake),
        upstream=tuple(
            build_neighbour(n, plan, project) for n in (*node.after, *project.list_loaders_above(node.after))
        ),
        downstream=tuple(build_neighbour(n.name, plan, project) for n in project.graph.values() if name in n.after),
    )


def _read_stored_definition(node: Node, lake: Lake) -> Mapping[str, Any]:
    rows = lake.state.read_fingerprints([node.relation.schema])
    fingerprint = next((r for r in rows.values() if r.node_name == node.name and r.node_type == node.type), None)
    try:
        definition = json.loads(fingerprint.definition) if fingerprint is not None else {}
    except ValueError:
        return {}
    return definition if isinstance(definition, dict) else {}


def _compare_hashes(node: Node, current: RelationState | None) -> tuple[Comparison, ...]:
    stored = current.known_identity if current is not None else CommitIdentity()
    what = "content" if node.type == "seed" else "query"
    pairs = (
        (what, stored.query_hash, node.query_hash),
        ("config", stored.config_hash, node.config_hash),
        ("identity", stored.local_hash, node.local_hash),
    )
    return tuple(Comparison(name, then[:_SHORT], now[:_SHORT]) for name, then, now in pairs)


def _compare_settings(node: Node, stored: Mapping[str, Any]) -> tuple[Comparison, ...]:
    """The settings of the identity that are others than when the node was built."""
    if not stored:
        return ()
    before, now = stored.get("config") or {}, json.loads(node.definition or "{}").get("config") or {}
    differing = [key for key in sorted({*before, *now}) if before.get(key) != now.get(key)]
    return tuple(Comparison(key, format_setting(before, key), format_setting(now, key)) for key in differing)


def _compare_session_settings(node: Node, project: Project, current: RelationState | None) -> tuple[Comparison, ...]:
    """The settings of Spark's sessions that are others than when the node was built."""
    stored = parse_settings(current.known_identity) if current is not None else None
    if stored is None or node.type == "seed":
        return ()
    now = project.session
    return tuple(Comparison(key, stored.get(key, ""), now.get(key, "")) for key in list_changed_settings(stored, now))


def format_setting(settings: Mapping[str, Any], key: str) -> str:
    """What a setting says, as text."""
    if key not in settings:
        return ""
    value = settings[key]
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# --- inputs -----------------------------------------------------------------------------------------------------------


def _compare_input(
    upstream_input: Input,
    node: Node,
    current: RelationState | None,
    project: Project,
    lake_state: LakeState,
    histories: SnapshotHistories,
    changes: tuple[DataChange, ...],
    changed: frozenset[str],
    running: frozenset[str],
) -> InputComparison:
    """One input: the version that the node was built from beside the current one, and what follows from that."""
    recorded = current.sources.get(upstream_input.key) if current is not None else None
    now = find_version(upstream_input, project, lake_state.observed.relations)
    same = recorded is not None and upstream_input.key not in changed
    type_ = (
        "source"
        if upstream_input.external
        else "view"
        if upstream_input.view
        else project.nodes[upstream_input.name].type
    )
    before = ", and it runs before" if upstream_input.name in running else ""
    return InputComparison(
        upstream_input.name,
        type_,
        shorten_version(recorded.definition or recorded.snapshot_id) if recorded is not None else None,
        shorten_version(now.definition or now.snapshot_id) if now is not None else None,
        same,
        _explain_lookup(recorded, now, upstream_input, node)
        or explain_input(recorded, now, same, node.kind == "view") + before,
        _list_column_changes(upstream_input, recorded, now, lake_state, histories),
        next((c for c in changes if c.source == upstream_input.name), None),
    )


def _resolve_input_relation(upstream_input: Input, lake_state: LakeState) -> Relation | None:
    """The relation of an input, as the catalog spells it."""
    if upstream_input.external:
        return lake_state.externals.get(upstream_input.name, upstream_input.relation)
    return upstream_input.relation


def _explain_lookup(recorded: RecordedVersion | None, now: Version | None, upstream_input: Input, node: Node) -> str:
    """The message about a lookup that has changed, where that does not make the node run; else ""."""
    if now is None or upstream_input.name not in list_quiet_lookups(node) or is_same_version(recorded, now):
        return ""
    return "a lookup: read at its newest version, adds nothing by itself"


def shorten_version(version: int | str | None) -> int | str | None:
    """A version as it is shown: one that a source tells of itself says what it is."""
    is_declared = isinstance(version, str) and version.startswith(f"{VERSION}:")
    return str(version).replace(":", " ", 1) if is_declared else version


def explain_input(recorded: RecordedVersion | None, now: Version | None, same: bool, columns_only: bool) -> str:
    """How the version of an input that was recorded compares with the present one, in words."""
    if now is None:
        return "not there"
    if recorded is None:
        return "not read before"
    if now.fresh is not None and now.fresh.kind == VERSION:
        return "the same version" if same else "another version"
    if now.definition is not None and now.files is not None:
        return "the same files" if recorded.definition == now.definition else "fresh enough" if same else "other files"
    is_other_snapshot = recorded.is_table and recorded.snapshot_id != now.snapshot_id
    if now.fresh is not None and same and is_other_snapshot and recorded.content is None:
        return "fresh enough"
    if now.definition is not None and recorded.definition != now.definition:
        return "the same in the columns that are read" if same else "another definition"
    if now.definition is not None:
        return "the same definition" if same else "other columns"
    if same and columns_only and recorded.snapshot_id != now.snapshot_id:
        return "the same columns, which is all that a view needs"
    if recorded.snapshot_id == now.snapshot_id and same:
        return "the same snapshot"
    if recorded.snapshot_id in now.same_rows and same:
        return "the same rows in other files"
    if same and recorded.content is not None and recorded.content == now.content:
        return "another snapshot with the same content"
    if same:
        return "the same in the columns that are read"
    then = replace(recorded, columns=now.columns, schema_id=None, values=())
    return "other columns" if is_same_version(then, now) else "other rows"


def _list_column_changes(
    upstream_input: Input,
    recorded: RecordedVersion | None,
    now: Version | None,
    lake_state: LakeState,
    histories: SnapshotHistories,
) -> tuple[ColumnChange, ...]:
    """The columns of an input that are not as they were; none when the old columns are unknown."""
    relation = _resolve_input_relation(upstream_input, lake_state)
    if upstream_input.view or recorded is None or now is None or relation is None or recorded.columns == now.columns:
        return ()
    if recorded.snapshot_id is None:
        return ()
    then = histories.get(relation).get(recorded.snapshot_id)
    state = lake_state.states.get(relation)
    return (
        list_column_changes(list_typed_columns(then.columns), list_typed_columns(state.columns))
        if then is not None and state is not None
        else ()
    )


# --- incremental work -------------------------------------------------------------------------------------------------


def estimate_refresh(node: Node, workspace: Workspace, lake_state: LakeState) -> RefreshEstimate | None:
    """The class of a node's query, whatever the reason to run it, and what the cost gate says of the present change."""
    if node.kind == "view":
        return None
    if node.kind == "incremental":
        cursor = build_cursor(node.settings)
        return RefreshEstimate("cursor", f"{cursor.strategy} by {cursor.column}")
    if node.kind == "custom":
        return RefreshEstimate("custom", f"the materialization {node.materialization['name']} decides what it does")
    if node.python:
        followed = ", ".join(node.python["changes"])
        why = f"it follows the changes of {followed}" if followed else "its rows come from Python"
        return RefreshEstimate(
            "changes" if followed else "opaque", why, verdict="" if followed else "the whole function runs"
        )
    if node.table_calls:
        name, at = node.table_calls[0]
        verdict = "changes cannot be followed: the whole query runs"
        return RefreshEstimate("opaque", f"{name}() is a table function", at, verdict=verdict)
    # Whatever the node runs for, this is what would be done about changes alone.
    case = build_case(node, workspace.project, lake_state.observed, Reason.SOURCE_CHANGED, workspace.gate)
    refresh, facts = choose_refresh(case), case.query.facts
    if facts is None:
        return RefreshEstimate("unknown", "what it reads is not built yet, or is not a table")
    size = refresh.size
    described = describe_class(facts)
    return RefreshEstimate(
        described["class"],
        described.get("why", ""),
        _locate_class_reason(node, workspace, lake_state, facts),
        list_shown_keys(facts),
        input_rows=sum(t.state.rows or 0 for t in case.query.tables if t.state is not None),
        changed_rows=size.changed_rows if size is not None else None,
        min_rows=workspace.gate.min_rows,
        max_share=workspace.gate.max_share,
        refresh=str(node.settings.get("refresh", "auto")),
        verdict=_describe_verdict(node, refresh),
        advice=find_advice(described.get("why", "")) if facts.tree is None and described["class"] == "opaque" else "",
        operators=tuple(_list_operators(node, workspace, lake_state, case, refresh)),
        costs=_list_costs(case, refresh),
    )


def _list_costs(case: RefreshCase, refresh: Refresh) -> tuple[tuple[str, int], ...]:
    """The rows that a refresh by operators and a rebuild would read; keys are followed whatever the estimate."""
    is_by_operators = list_changed_slots(refresh.tables) and choose_way(case, refresh.tables) != "keyed"
    estimate = estimate_cost(case, refresh.tables) if is_by_operators else None
    return (("refresh", estimate.refresh), ("rebuild", estimate.rebuild)) if estimate is not None else ()


def _list_operators(
    node: Node, workspace: Workspace, lake_state: LakeState, case: RefreshCase, refresh: Refresh
) -> list[OperatorLine]:
    """The operators of a query as they would follow what changed; where nothing did, a change of every table."""
    facts, tables = case.query.facts, refresh.tables
    if facts is None or facts.tree is None:
        return []
    if not list_changed_slots(tables):
        known = ((t.relation, t.state.rows if t.state is not None else None) for t in case.query.tables)
        tables = tuple(TableChange(i, relation, rows, 0, changed_rows=0) for i, (relation, rows) in enumerate(known))
    is_keyed = choose_way(case, tables) == "keyed"
    could_have_states = keeps_group_state(node) and not is_keyed
    states = list_state_operators(case) or (list_additive_operators(facts) if could_have_states else frozenset())
    proposal, estimate = propose_for(case, list_changed_slots(tables), states), estimate_cost(case, tables)
    if proposal is None or estimate is None:
        return []
    estimate = CostEstimate(facts.tree, proposal, estimate.sizes)
    names = {i: str(t.relation) for i, t in enumerate(case.query.tables)}
    text = _build_template(node, workspace, lake_state).render(_name_slot)
    lines = list_operator_lines(facts.tree, proposal, estimate, names, text)
    # How many rows have a touched key is not known.
    return [replace(line, rows_read=0) if line.rule != "changes" else line for line in lines] if is_keyed else lines


def _describe_verdict(node: Node, refresh: Refresh) -> str:
    match refresh.obstacle:
        case Obstacle("query" | "opaque"):
            return "changes cannot be followed: the whole query runs"
        case Obstacle("setting"):
            return "refresh is full: the whole query runs"
        case Obstacle("key", why):
            return f"{why}: the whole query runs"
        case Obstacle(_, why):
            return why
        case _ if node.settings.get("refresh") == "incremental":
            return "refresh is incremental: changes are followed whatever they cost"
        case _ if refresh.way == "keyed" and refresh.facts is not None:
            keys = choose_keys(refresh.facts, refresh.tables, "result")
            shown = ", ".join(dict.fromkeys(format_key_expression(e) for key in keys for _, e in key.slots))
            return f"following the changes pays: only what has a touched {shown} is evaluated again"
        case _:
            return "following the changes pays"


def _locate_class_reason(node: Node, workspace: Workspace, lake_state: LakeState, facts: Facts) -> At | None:
    """Where in the model's file the reason for its class is; for one inside of a view, where the view is read."""
    offset = find_class_offset(facts)
    if offset is None or not node.pieces:
        return None
    return _locate_offset(node, workspace, lake_state, offset)


def _locate_offset(node: Node, workspace: Workspace, lake_state: LakeState, offset: int) -> At | None:
    """Where in the model's file an offset of the query with its slots is."""
    template = _build_template(node, workspace, lake_state)
    text = (workspace.root / node.file).read_text(encoding="utf-8-sig").replace("\r\n", "\n")
    return locate_source(node, text, template.find_origin(offset, _name_slot), 1)


def _build_template(node: Node, workspace: Workspace, lake_state: LakeState) -> Template:
    """A node's query as its class was read from it."""
    project, externals = workspace.project, lake_state.externals
    live = build_live_names(project, lake_state.catalog, externals, lake_state.files)
    at_version = build_version_names(project, lake_state.catalog, externals, lake_state.states.get)
    return build_node_template(node, project, live, at_version)


def _name_slot(index: int) -> str:
    return f"{SLOT}{index}"


# --- checks, runs and neighbours --------------------------------------------------------------------------------------


def _describe_checks_passed(
    node: Node, current: RelationState | None, project: Project, lake_state: LakeState, results: Any
) -> str:
    token = compute_checks_token(node, project, lake_state.observed.relations)
    if not token or current is None or current.checks != token:
        return ""
    good = next((r for r in results if r.status == "ok"), None)
    return good.ts.strftime("%Y-%m-%d %H:%M:%S") if good is not None else _UNKNOWN_TIME


def _read_last_run(results: Any, current: RelationState | None, node: Node, lake: Lake) -> dict[str, Any] | None:
    """The last run that tried the node, by the history or else by the table itself."""
    if results:
        return encode_result(results[0])
    if current is None or not current.identity.run_id:
        return None
    snapshot = current.version.snapshot_id
    at = lake.read_commit_time(node.relation, snapshot) if snapshot is not None else None
    return {
        "run_id": current.identity.run_id,
        "at": at.strftime("%Y-%m-%d %H:%M:%S") if at else None,
        "status": "ok",
        "run_type": current.identity.run_type or None,
        "rows": current.rows,
        "seconds": current.identity.duration,
        "snapshot_id": snapshot,
        "error": None,
    }


def encode_result(row: NodeResult) -> dict[str, Any]:
    """What the history says of one run of a node."""
    metadata = json.loads(row.metadata or "{}")
    return {
        "run_id": row.run_id,
        "at": row.ts.strftime("%Y-%m-%d %H:%M:%S"),
        "status": row.status,
        **{key: metadata.get(key) for key in ("run_type", "reason", "rows", "seconds", "snapshot_id")},
        "error": row.error_message or None,
    }


def build_neighbour(name: str, plan: Plan, project: Project) -> Neighbour:
    """A node or source next to the explained one."""
    planned = next((n for n in plan.nodes if n.name == name), None)
    if planned is not None:
        return Neighbour(name, planned.type, planned.action, str(planned.reason) if planned.action != "skip" else "")
    if name in project.graph:
        return Neighbour(name, project.graph[name].type, "not selected")
    return Neighbour(name, "source", "read")
