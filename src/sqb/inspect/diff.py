"""What `sqb diff` compares: what is built with what would be, two targets, or two snapshots. Nothing is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqb.build.checks.run import list_checks
from sqb.build.errors import convert_spark_error
from sqb.build.node.render import (
    Rendered,
    build_live_names,
    build_pinned_names,
    build_version_names,
    format_pinned,
    render_query,
)
from sqb.build.observe.files import SparkFileViews
from sqb.build.observe.lake import LakeState
from sqb.build.observe.snapshots import SnapshotHistories
from sqb.compile.model import Node
from sqb.errors.base import Errors, SqbError
from sqb.errors.call import CallError, NoSuchSnapshot, NotBuilt
from sqb.lake.open import open_lake
from sqb.lake.port import ColumnState, Lake, PastSnapshot, TableState
from sqb.names import Relation, quote, suggest_nearest
from sqb.plan.decide import make_plan
from sqb.plan.model import Plan, Reason
from sqb.plan.observed import list_inputs
from sqb.project.models.kinds import HISTORY_COLUMN_NAMES, KINDS
from sqb.project.seeds import load_seed, read_columns
from sqb.types.iceberg import read_stored_type, to_stored_type
from sqb.workspace import Workspace

# Kinds whose next rows follow from their query alone.
_QUERY_KINDS = frozenset({"seed", *(kind.name for kind in KINDS.values() if kind.has_query_rows)})
_SHOWN_SNAPSHOTS = 3


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two relations that are compared: what it is, and how to get its rows of a session."""

    what: str
    relation: Relation
    frame: Callable[[Any], Any]
    snapshot_id: int | None = None
    # How many rows it has, where that is known without counting.
    rows: int | None = None
    target: str = ""
    # For errors of Spark: the query that was run.
    rendered: Rendered | None = None

    def to_data(self) -> dict[str, Any]:
        return {
            "what": self.what,
            "target": self.target,
            "relation": str(self.relation),
            "snapshot_id": self.snapshot_id,
            "rows": self.rows,
        }


@dataclass(frozen=True, slots=True)
class DiffRequest:
    """Two sides to compare, and by which key."""

    node: Node
    before: Side
    now: Side
    key: tuple[str, ...] = ()
    # The user named the key: one that does not fit is an error and not a reason to do without.
    key_given: bool = False
    # Rows whose key is not in the present result stay.
    keeps_rows: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DiffResult:
    """How two relations differ."""

    question: DiffRequest
    before: Side
    now: Side
    columns: tuple[ColumnChange, ...]
    compared: tuple[str, ...]
    key: tuple[str, ...]
    # What `sqb.spark.data.diff` found; None when the two have no column in common.
    rows: Any
    notes: tuple[str, ...] = field(default=())

    @property
    def same(self) -> bool:
        return not self.columns and self.rows is not None and not self.differing_rows

    @property
    def differing_rows(self) -> int:
        return int(self.rows.added + self.rows.removed + self.rows.changed) if self.rows is not None else 0

    def to_data(self) -> dict[str, Any]:
        data: dict[str, Any] = {
            "name": self.question.node.name,
            "kind": self.question.node.kind,
            "from": self.before.to_data(),
            "to": self.now.to_data(),
            "same": self.same,
            "columns": {
                "added": [c.to_data() for c in self.columns if c.before is None],
                "removed": [c.to_data() for c in self.columns if c.now is None],
                "retyped": [c.to_data() for c in self.columns if c.before is not None and c.now is not None],
            },
            "compared": list(self.compared),
            "key": list(self.key) or None,
            "rows": None,
            "samples": None,
            "notes": list(self.notes),
        }
        if self.rows is not None:
            data["rows"] = {
                "added": self.rows.added,
                "removed": self.rows.removed,
                "changed": self.rows.changed if self.key else None,
                "unchanged": (self.before.rows or 0) - self.rows.removed - self.rows.changed,
                "by_column": dict(self.rows.by_column) if self.rows.by_column is not None else None,
            }
            data["samples"] = {
                "added": list(self.rows.added_rows),
                "removed": list(self.rows.removed_rows),
                "changed": [
                    {"key": dict(r.key), "changes": {c: {"from": a, "to": b} for c, (a, b) in r.changes.items()}}
                    for r in self.rows.changed_rows
                ],
            }
        return data


# --- what is compared -------------------------------------------------------------------------------------------------


def compare_with_query(
    workspace: Workspace, lake: Lake, lake_state: LakeState, node: Node, key: Sequence[str] = ()
) -> DiffRequest:
    """What is built against what the query gives at the present versions of its inputs."""
    if node.kind not in _QUERY_KINDS:
        raise CallError(
            f"what {node.name} would be is not known before it runs: its kind is {node.kind}",
            hint="compare two of its snapshots with --snapshot, or two targets with --against",
        )
    current = _require_table(node, lake_state.states.get(node.relation), workspace.project.target)
    before = _build_table_side(workspace, node.relation, current, "what is built")
    notes: list[str] = []
    if node.kind == "scd2":
        before = Side(
            "the current rows",
            node.relation,
            _select_current_rows(before.frame),
            current.snapshot_id,
            None,
            before.target,
        )
    if node.kind == "append":
        notes.append("a log keeps its rows: those that are removed here stay in it")
    if node.kind == "incremental":
        notes.append("compared with its query over every window: what a full replay would give")
    plan = make_plan(workspace.project, lake_state.observed)
    now = _build_seed_side(workspace, node) if node.type == "seed" else _build_query_side(workspace, lake_state, node)
    notes += _list_stale_inputs(workspace, node, plan)
    keeps = node.settings.get("on_source_delete") == "keep" and not current.is_view
    return DiffRequest(node, before, now, tuple(key) or get_declared_key(node), bool(key), keeps, tuple(notes))


def compare_targets(workspace: Workspace, other: Workspace, node: Node, key: Sequence[str] = ()) -> DiffRequest:
    """What another target has built against what this one has."""
    here, other_target = workspace.project.target, other.project.target
    if here == other_target:
        raise CallError(f'both sides are the target "{here}"', hint="--against names another target than --target")
    if not workspace.lake_location.is_same_lake(other.lake_location):
        raise CallError(
            f"the targets {here} and {other_target} are in different lakes, and one Spark reads one of them",
            hint="compare targets that have the same connection",
        )
    twin = other.project.nodes.get(node.name)
    if twin is None:
        raise NotBuilt(f"{node.name} is not part of the target {other_target}", hint="it may be switched off there")
    lake = open_lake(workspace)
    pointers = lake.list_pointers()
    states = lake.read_tables(pointers[r] for r in {node.relation, twin.relation} if r in pointers)
    before = _build_table_side(
        other, twin.relation, _require_table(twin, states.get(twin.relation), other_target), f"target {other_target}"
    )
    now = _build_table_side(
        workspace, node.relation, _require_table(node, states.get(node.relation), here), f"target {here}"
    )
    return DiffRequest(node, before, now, tuple(key) or get_declared_key(node, history=True), bool(key))


def compare_snapshots(
    workspace: Workspace,
    lake: Lake,
    lake_state: LakeState,
    node: Node,
    old: str,
    new: str | None,
    key: Sequence[str] = (),
) -> DiffRequest:
    """A table as it was against what it is, or was later."""
    current = _require_table(node, lake_state.states.get(node.relation), workspace.project.target)
    if current.is_view:
        raise CallError(
            f"{node.relation} is a view, which has no snapshots", hint="compare a table, or leave --snapshot out"
        )
    past = SnapshotHistories(lake).get(node.relation)
    before = _build_snapshot_side(workspace, node.relation, find_snapshot(past, old, node.relation))
    now = (
        _build_table_side(workspace, node.relation, current, "what is built")
        if new is None
        else _build_snapshot_side(workspace, node.relation, find_snapshot(past, new, node.relation))
    )
    return DiffRequest(node, before, now, tuple(key) or get_declared_key(node, history=True), bool(key))


def find_snapshot(past: Mapping[int, PastSnapshot], text: str, relation: Relation) -> PastSnapshot:
    """The snapshot that a text means: its id or the beginning of it, or the run that made it."""
    matches = [s for s in past.values() if str(s.id) == text]
    if not matches:
        of_run = [s for s in past.values() if s.run_id and s.run_id.startswith(text)]
        # A run may commit more than once; the last is what it left. Two runs are two answers.
        matches = of_run[-1:] if len({s.run_id for s in of_run}) == 1 else of_run
    matches = matches or [s for s in past.values() if str(s.id).startswith(text)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise NoSuchSnapshot(f'"{text}" fits {len(matches)} snapshots of {relation}', hint="write more of it")
    latest = list(past.values())[::-1][:_SHOWN_SNAPSHOTS]
    choices = "; ".join(f"{s.id} ({s.at:%Y-%m-%d %H:%M:%S}{', run ' + s.run_id if s.run_id else ''})" for s in latest)
    more = f" and {len(past) - _SHOWN_SNAPSHOTS} older ones" if len(past) > _SHOWN_SNAPSHOTS else ""
    hint = f"there are {choices}{more}" if latest else "nothing was ever written to it"
    raise NoSuchSnapshot(f'{relation} has no snapshot "{text}"', hint=hint)


def _require_table(node: Node, state: TableState | None, target: str) -> TableState:
    if state is None:
        raise NotBuilt(f"{node.name} is not built in the target {target}", hint=f"`sqb build -s {node.name}` builds it")
    return state


def _build_table_side(workspace: Workspace, relation: Relation, state: TableState, what: str) -> Side:
    table = quote(workspace.connection.catalog.name, relation.schema, relation.name)
    text = f"SELECT * FROM {format_pinned(table, state)}"
    snapshot = None if state.is_view else state.snapshot_id
    rows = None if state.is_view else state.rows
    return Side(what, relation, lambda session: session.sql(text), snapshot, rows, workspace.project.target)


def _build_snapshot_side(workspace: Workspace, relation: Relation, snapshot: PastSnapshot) -> Side:
    table = quote(workspace.connection.catalog.name, relation.schema, relation.name)
    text = f"SELECT * FROM {table} VERSION AS OF {snapshot.id}"
    what = f"snapshot of {snapshot.at:%Y-%m-%d %H:%M:%S} UTC"
    return Side(what, relation, lambda session: session.sql(text), snapshot.id, snapshot.rows, workspace.project.target)


def _select_current_rows(frame: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def current(session: Any) -> Any:
        from sqb.spark.data.diff import filter_current_rows  # Spark is only there when something runs

        return filter_current_rows(frame(session), HISTORY_COLUMN_NAMES)

    return current


def _build_query_side(workspace: Workspace, lake_state: LakeState, node: Node) -> Side:
    missing = [
        i.name for i in list_inputs(node, workspace.project) if not i.view and _is_missing(i.relation, lake_state)
    ]
    if missing:
        raise NotBuilt(
            f"{node.name} reads {missing[0]}, which is not built", hint=f"`sqb build -s +{node.name}` builds both"
        )
    names = workspace.project, lake_state.catalog, lake_state.externals
    pinned = build_pinned_names(*names, lake_state.states.get, lake_state.files)
    live, at_version = build_live_names(*names, lake_state.files), build_version_names(*names, lake_state.states.get)
    rendered = render_query(node, pinned, live, at_version=at_version)

    def frame(session: Any) -> Any:
        SparkFileViews(lake_state.files).register(session, node.after, workspace.project)
        return session.sql(rendered.sql)

    return Side(
        "what its query gives now",
        node.relation,
        frame,
        target=workspace.project.target,
        rendered=rendered,
    )


def _is_missing(relation: Relation | None, lake_state: LakeState) -> bool:
    return relation is not None and relation not in lake_state.observed.relations


def _build_seed_side(workspace: Workspace, node: Node) -> Side:
    errors = Errors()
    seed = load_seed(workspace.root, workspace.root / node.file, errors)
    errors.raise_any()
    assert seed is not None
    values = read_columns(workspace.root, seed)

    def frame(session: Any) -> Any:
        from sqb.spark.data.diff import create_frame

        return create_frame(session, [(c.name, to_stored_type(c.type)) for c in seed.columns], values)

    return Side("what its file holds now", node.relation, frame, rows=len(values[0]), target=workspace.project.target)


def _list_stale_inputs(workspace: Workspace, node: Node, plan: Plan) -> list[str]:
    """What it reads that a build would make anew first: the comparison uses their current rows."""
    stale = {n.name for n in plan.nodes if n.action != "skip" and n.run_type != "check" and n.kind != "view"}
    # Below a loader, which runs in every build, a model is not out of date by that alone.
    stale -= {n.name for n in plan.nodes if n.root and all(r.reason == Reason.EVERY_BUILD for r in n.root)}
    above = [i.name for i in list_inputs(node, workspace.project) if i.name in stale]
    return [f"{name}, which it reads, is out of date: its present rows are read" for name in above]


def get_declared_key(node: Node, history: bool = False) -> tuple[str, ...]:
    """The key that the model itself names, by its settings or a primary_key constraint."""
    settings = node.settings
    if settings.get("unique_key"):
        # A key of a history has one row for each time that it changed.
        more = ("valid_from",) if node.kind == "scd2" and history else ()
        return (*settings["unique_key"], *more)
    for check in list_checks(node):
        if check.name == "primary_key":
            return tuple(a.strip().strip("`") for a in check.call.arguments) if check.call else ()
    return tuple(settings.get("group_key", ()))


# --- the answer -------------------------------------------------------------------------------------------------------


def compute_diff(question: DiffRequest, session: Any, limit: int, workspace: Workspace) -> DiffResult:
    """Compare the two sides on Spark."""
    try:
        return _compare_sides(question, session, limit)
    except SqbError:
        raise
    except Exception as error:
        raise convert_spark_error(error, question.node, question.now.rendered, workspace.root) from error


def _compare_sides(question: DiffRequest, session: Any, limit: int) -> DiffResult:
    """Compare columns and rows of the two sides, in the columns that both have."""
    from sqb.spark.data import diff, frames  # Spark is only there when something runs

    before, now = question.before.frame(session), question.now.frame(session)
    frames.list_columns(now)
    left, right, columns = diff.align_columns(before, now)
    changes = list_column_changes(columns.before, columns.now)
    notes = list(question.notes)
    if not columns.shared:
        sides = [replace(s, rows=diff.count_rows(f)) for s, f in ((question.before, before), (question.now, now))]
        notes.append("the two have no column in common, so that their rows cannot be compared")
        return DiffResult(question, sides[0], sides[1], changes, (), (), None, tuple(notes))
    key = _choose_key(question, columns.shared, notes)
    if question.keeps_rows and key:
        right = diff.keep_missing_rows(left, right, key)
        notes.append("rows that leave the result stay: on_source_delete is keep")
    rows = diff.compare_rows(left, right, key, limit)
    if not rows.unique:
        notes.append(f"({', '.join(key)}) has more than one row: rows with the same key are paired as they come")
    rows_before = question.before.rows if question.before.rows is not None else diff.count_rows(left)
    return DiffResult(
        question,
        replace(question.before, rows=rows_before),
        # Counted as multisets, what came and what went is all that makes the difference.
        replace(question.now, rows=rows_before + rows.added - rows.removed),
        changes,
        columns.shared,
        key,
        rows,
        tuple(notes),
    )


def _choose_key(question: DiffRequest, shared: Sequence[str], notes: list[str]) -> tuple[str, ...]:
    """The key as the columns spell it; none when the two do not both have it."""
    by_name = {name.lower(): name for name in shared}
    lacking = [k for k in question.key if k.lower() not in by_name]
    if not lacking:
        return tuple(dict.fromkeys(by_name[k.lower()] for k in question.key))
    if question.key_given:
        raise CallError(
            f'--key names "{lacking[0]}", and the two do not both have such a column',
            hint=suggest_nearest(lacking[0], shared) or f"they have {', '.join(shared)}",
        )
    notes.append(f"its key {', '.join(question.key)} is not in both, so that whole rows are compared")
    return ()


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """A column that was added (no type before), removed (none now) or that has another type."""

    name: str
    before: str | None
    now: str | None

    def __str__(self) -> str:
        if self.before is None:
            return f"{self.name} {self.now} added"
        if self.now is None:
            return f"{self.name} {self.before} removed"
        return f"{self.name} {self.before} → {self.now}"

    def to_data(self) -> dict[str, Any]:
        return {"name": self.name, "from": self.before, "to": self.now}


def list_column_changes(before: Iterable[tuple[str, str]], now: Iterable[tuple[str, str]]) -> tuple[ColumnChange, ...]:
    """The columns (name and type) that differ: those removed or retyped in their old order, then those added."""
    old = {name.lower(): (name, kind) for name, kind in before}
    new = {name.lower(): (name, kind) for name, kind in now}
    gone_or_other = [
        ColumnChange(name, kind, new[key][1] if key in new else None)
        for key, (name, kind) in old.items()
        if key not in new or new[key][1] != kind
    ]
    added = [ColumnChange(name, None, kind) for key, (name, kind) in new.items() if key not in old]
    return (*gone_or_other, *added)


def list_typed_columns(columns: Iterable[ColumnState]) -> list[tuple[str, str]]:
    """The columns of a table with their types as Spark writes them."""
    return [(c.name, str(read_stored_type(c.type))) for c in columns]
