"""What `sqb diff` compares: what is built with what would be, two targets, or two snapshots. Nothing is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqb.build.checking import checks_of
from sqb.build.column_changes import ColumnChange, column_changes
from sqb.build.data_changes import Pasts
from sqb.build.failures import spark_error
from sqb.build.kinds.scd2 import OWN
from sqb.build.observe import Look, open_lake
from sqb.build.render import Rendered, pinned
from sqb.build.sizing import looking_turn
from sqb.build.source_files import NamedFiles
from sqb.compiled import Node
from sqb.errors import CallError, Errors, NoSuchSnapshot, NotBuilt, SqbError
from sqb.lake.iceberg import IcebergLake
from sqb.lake.past import PastSnapshot
from sqb.lake.port import TableState
from sqb.names import Relation, did_you_mean, quote
from sqb.plan.decide import make_plan
from sqb.plan.observed import inputs_of
from sqb.plan.values import Plan
from sqb.project.seeds import load_seed, read_columns
from sqb.workspace import Workspace

# Kinds whose next rows can be told from their query alone.
_TOLD_BY_QUERY = ("view", "table", "merge", "tracked", "append", "scd2", "incremental", "seed")
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
class Question:
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
class Answer:
    """How two relations differ."""

    question: Question
    before: Side
    now: Side
    columns: tuple[ColumnChange, ...]
    compared: tuple[str, ...]
    key: tuple[str, ...]
    # What `sqb.spark.diff` found; None when the two have no column in common.
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


def would_be(workspace: Workspace, lake: IcebergLake, seen: Look, node: Node, key: Sequence[str] = ()) -> Question:
    """What is built against what the query gives at the present versions of its inputs."""
    if node.kind not in _TOLD_BY_QUERY:
        raise CallError(
            f"what {node.name} would be cannot be told before it runs: its kind is {node.kind}",
            hint="compare two of its snapshots with --snapshot, or two targets with --against",
        )
    standing = _standing(node, seen.states.get(node.relation), workspace.project.target)
    before = _built(workspace, node.relation, standing, "what is built")
    notes: list[str] = []
    if node.kind == "scd2":
        before = Side(
            "the current rows", node.relation, _current(before.frame), standing.snapshot_id, None, before.target
        )
    if node.kind == "append":
        notes.append("a log keeps its rows: those that are removed here stay in it")
    if node.kind == "incremental":
        notes.append("compared with its query over every window: what a full replay would give")
    plan = make_plan(workspace.project, seen.observed)
    now = _seed_side(workspace, node) if node.type == "seed" else _query_side(workspace, lake, seen, node, plan)
    notes += _stale(workspace, node, plan)
    keeps = node.settings.get("on_source_delete") == "keep" and not standing.is_view
    return Question(node, before, now, tuple(key) or own_key(node), bool(key), keeps, tuple(notes))


def between_targets(workspace: Workspace, other: Workspace, node: Node, key: Sequence[str] = ()) -> Question:
    """What another target has built against what this one has."""
    here, there = workspace.project.target, other.project.target
    if here == there:
        raise CallError(f'both sides are the target "{here}"', hint="--against names another target than --target")
    if not workspace.place.is_same_lake(other.place):
        raise CallError(
            f"the targets {here} and {there} are in different lakes, and one Spark reads one of them",
            hint="compare targets that have the same connection",
        )
    twin = other.project.nodes.get(node.name)
    if twin is None:
        raise NotBuilt(f"{node.name} is not part of the target {there}", hint="it may be switched off there")
    lake = open_lake(workspace)
    pointers = lake.pointers()
    states = lake.tables(pointers[r] for r in {node.relation, twin.relation} if r in pointers)
    before = _built(other, twin.relation, _standing(twin, states.get(twin.relation), there), f"target {there}")
    now = _built(workspace, node.relation, _standing(node, states.get(node.relation), here), f"target {here}")
    return Question(node, before, now, tuple(key) or own_key(node, history=True), bool(key))


def between_snapshots(
    workspace: Workspace, lake: IcebergLake, seen: Look, node: Node, old: str, new: str | None, key: Sequence[str] = ()
) -> Question:
    """A table as it was against what it is, or was later."""
    standing = _standing(node, seen.states.get(node.relation), workspace.project.target)
    if standing.is_view:
        raise CallError(
            f"{node.relation} is a view, which has no snapshots", hint="compare a table, or leave --snapshot out"
        )
    past = Pasts(lake).of(node.relation)
    before = _snapshot_side(workspace, node.relation, find_snapshot(past, old, node.relation))
    now = (
        _built(workspace, node.relation, standing, "what is built")
        if new is None
        else _snapshot_side(workspace, node.relation, find_snapshot(past, new, node.relation))
    )
    return Question(node, before, now, tuple(key) or own_key(node, history=True), bool(key))


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
    known = "; ".join(f"{s.id} ({s.at:%Y-%m-%d %H:%M:%S}{', run ' + s.run_id if s.run_id else ''})" for s in latest)
    more = f" and {len(past) - _SHOWN_SNAPSHOTS} older ones" if len(past) > _SHOWN_SNAPSHOTS else ""
    hint = f"there are {known}{more}" if latest else "nothing was ever written to it"
    raise NoSuchSnapshot(f'{relation} has no snapshot "{text}"', hint=hint)


def _standing(node: Node, state: TableState | None, target: str) -> TableState:
    if state is None:
        raise NotBuilt(f"{node.name} is not built in the target {target}", hint=f"`sqb build -s {node.name}` builds it")
    return state


def _built(workspace: Workspace, relation: Relation, state: TableState, what: str) -> Side:
    table = quote(workspace.connection.catalog.name, relation.schema, relation.name)
    text = f"SELECT * FROM {pinned(table, state)}"
    snapshot = None if state.is_view else state.snapshot_id
    rows = None if state.is_view else state.rows
    return Side(what, relation, lambda session: session.sql(text), snapshot, rows, workspace.project.target)


def _snapshot_side(workspace: Workspace, relation: Relation, found: PastSnapshot) -> Side:
    table = quote(workspace.connection.catalog.name, relation.schema, relation.name)
    text = f"SELECT * FROM {table} VERSION AS OF {found.id}"
    what = f"snapshot of {found.at:%Y-%m-%d %H:%M:%S} UTC"
    return Side(what, relation, lambda session: session.sql(text), found.id, found.rows, workspace.project.target)


def _current(frame: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def current(session: Any) -> Any:
        from sqb.spark.diff import current_rows  # Spark is only there when something runs

        return current_rows(frame(session), OWN)

    return current


def _query_side(workspace: Workspace, lake: IcebergLake, seen: Look, node: Node, plan: Plan) -> Side:
    planned = next(n for n in plan.nodes if n.name == node.name)
    missing = [i.name for i in inputs_of(node, workspace.project) if not i.view and _is_missing(i.relation, seen)]
    if missing:
        raise NotBuilt(
            f"{node.name} reads {missing[0]}, which is not built", hint=f"`sqb build -s +{node.name}` builds both"
        )
    rendered = looking_turn(planned, workspace, lake, seen).query()

    def frame(session: Any) -> Any:
        NamedFiles(seen.files).name(session, node.after, workspace.project)
        return session.sql(rendered.sql)

    return Side(
        "what its query gives now",
        node.relation,
        frame,
        target=workspace.project.target,
        rendered=rendered,
    )


def _is_missing(relation: Relation | None, seen: Look) -> bool:
    return relation is not None and relation not in seen.observed.relations


def _seed_side(workspace: Workspace, node: Node) -> Side:
    errors = Errors()
    seed = load_seed(workspace.root, workspace.root / node.file, errors)
    errors.raise_any()
    assert seed is not None
    values = read_columns(workspace.root, seed)

    def frame(session: Any) -> Any:
        from sqb.spark.diff import frame_of_rows

        return frame_of_rows(session, [(c.name, c.type) for c in seed.columns], values)

    return Side("what its file holds now", node.relation, frame, rows=len(values[0]), target=workspace.project.target)


def _stale(workspace: Workspace, node: Node, plan: Plan) -> list[str]:
    """What it reads that a build would make anew first: the comparison is with the rows that stand there."""
    stale = {n.name for n in plan.nodes if n.action != "skip" and n.run_type != "check" and n.kind != "view"}
    above = [i.name for i in inputs_of(node, workspace.project) if i.name in stale]
    return [f"{name}, which it reads, is out of date: its present rows are read" for name in above]


def own_key(node: Node, history: bool = False) -> tuple[str, ...]:
    """The key that the model itself names, by its settings or a primary_key constraint."""
    settings = node.settings
    if settings.get("unique_key"):
        # A key of a history has one row for each time that it changed.
        more = ("valid_from",) if node.kind == "scd2" and history else ()
        return (*settings["unique_key"], *more)
    for check in checks_of(node):
        if check.name == "primary_key":
            return tuple(a.strip().strip("`") for a in check.call.arguments) if check.call else ()
    return tuple(settings.get("group_key", ()))


# --- the answer -------------------------------------------------------------------------------------------------------


def answer(question: Question, session: Any, limit: int, workspace: Workspace) -> Answer:
    """Compare the two sides on Spark."""
    try:
        return _compared(question, session, limit)
    except SqbError:
        raise
    except Exception as error:
        raise spark_error(error, question.node, question.now.rendered, workspace.root) from error


def _compared(question: Question, session: Any, limit: int) -> Answer:
    from sqb.spark import diff, frames  # Spark is only there when something runs

    before, now = question.before.frame(session), question.now.frame(session)
    frames.columns_of(now)
    left, right, columns = diff.aligned(before, now)
    changes = column_changes(columns.before, columns.now)
    notes = list(question.notes)
    if not columns.shared:
        sides = [replace(s, rows=diff.count_rows(f)) for s, f in ((question.before, before), (question.now, now))]
        notes.append("the two have no column in common, so that their rows cannot be compared")
        return Answer(question, sides[0], sides[1], changes, (), (), None, tuple(notes))
    key = _fitting_key(question, columns.shared, notes)
    if question.keeps_rows and key:
        right = diff.with_kept_rows(left, right, key)
        notes.append("rows that leave the result stay: on_source_delete is keep")
    rows = diff.compare_rows(left, right, key, limit)
    if not rows.unique:
        notes.append(f"({', '.join(key)}) has more than one row: rows with the same key are paired as they come")
    there = question.before.rows if question.before.rows is not None else diff.count_rows(left)
    return Answer(
        question,
        replace(question.before, rows=there),
        # Counted as multisets, what came and what went is all that makes the difference.
        replace(question.now, rows=there + rows.added - rows.removed),
        changes,
        columns.shared,
        key,
        rows,
        tuple(notes),
    )


def _fitting_key(question: Question, shared: Sequence[str], notes: list[str]) -> tuple[str, ...]:
    """The key as the columns spell it; none when the two do not both have it."""
    by_name = {name.lower(): name for name in shared}
    lacking = [k for k in question.key if k.lower() not in by_name]
    if not lacking:
        return tuple(dict.fromkeys(by_name[k.lower()] for k in question.key))
    if question.key_given:
        raise CallError(
            f'--key names "{lacking[0]}", and the two do not both have such a column',
            hint=did_you_mean(lacking[0], shared) or f"they have {', '.join(shared)}",
        )
    notes.append(f"its key {', '.join(question.key)} is not in both, so that whole rows are compared")
    return ()
