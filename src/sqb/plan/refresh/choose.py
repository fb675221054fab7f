"""How a node whose inputs changed is brought up to date: by following the changes or by a rebuild, and why.

Pure. `build.observe` gathers what is known of the query and of the tables that it reads; `choose_refresh` decides from
that alone. A plan asks it before anything runs, and a build asks it again once the node's inputs are there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Literal

from sqb.compile.model import Node, Project
from sqb.light_dataclass import dataclass
from sqb.names import Relation
from sqb.plan.changes.columns import EVERYTHING, Read, has_storage_reads, is_same_as_read, resolve_column_reads
from sqb.plan.model import PlannedNode, Reason
from sqb.plan.observed import (
    Compared,
    Input,
    Observed,
    RelationState,
    SnapshotChange,
    Version,
    is_same_version,
    list_versions_read,
)
from sqb.plan.recorded.timings import ExpectedTimes, predict_rebuild, predict_times
from sqb.plan.recorded.versions import RecordedVersion
from sqb.plan.refresh.states import (
    RESULT_KINDS,
    count_input_rows,
    has_large_groups,
    is_worth_states,
    keeps_group_state,
    list_additive_operators,
    list_refused_states,
    list_state_operators,
    list_wanted_states,
    propose_for,
)
from sqb.project.config.settings import CostGate
from sqb.project.models.kinds import FOLLOWING_KINDS

if TYPE_CHECKING:
    from sqb.plan.refresh.cost import CostEstimate
    from sqb.sql.delta.facts import Facts, Key
    from sqb.sql.delta.operators.model import Origin
    from sqb.sql.delta.proposal import Proposal

# Changed rows pass through; the keys that split the whole query; or each operator by a rule of its own.
Way = Literal["rebuild", "linear", "keyed", "operators"]
ReadMode = Literal["", "appended", "changelog", "files", "late"]
# What the rows of touched keys are compared with: the table itself, or the query over the versions of before.
Versus = Literal["target", "result"]
ObstacleKind = Literal["reason", "setting", "query", "opaque", "base", "change", "cost", "key", "state", "content"]

# A node that runs for another reason has nothing to follow.
FOLLOWED_REASONS = (Reason.SOURCE_CHANGED, Reason.UPSTREAM_CHANGED)
# Kinds whose table is the query's result, or its history.
_MOST_KEYS = 4


@dataclass(frozen=True, slots=True)
class ObservedTable:
    """A table at one of the places where a query reads it, as it is now; without a state what is not a table."""

    name: str
    relation: Relation
    state: RelationState | None = None


@dataclass(frozen=True, slots=True)
class QueryObservation:
    """What is known of a node's query and of what it reads, before it runs."""

    tables: tuple[ObservedTable, ...] = ()
    # What is proven of the query; None while the columns of its tables are not known.
    facts: Facts | None = None
    # Why nothing could be proven, where that is a failure of ours.
    failure: str = ""


@dataclass(frozen=True, slots=True)
class RefreshCase:
    """Everything that the choice rests on."""

    node: Node
    project: Project
    reason: Reason
    # The node's own table.
    current: RelationState | None
    query: QueryObservation
    # What it reads, each at the version that it would read now, and what happened to those that changed.
    inputs: tuple[tuple[Input, Version], ...] = ()
    changes: Mapping[Compared, SnapshotChange] = field(default_factory=dict)
    gate: CostGate = CostGate()
    # Of large tables the rows that may match changed rows of others, by the columns that are compared.
    matching: Mapping[tuple[Origin, Origin], int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why changes cannot be followed, or are not."""

    kind: ObstacleKind
    why: str
    # Where in the query, when something in its text is the obstacle.
    offset: int | None = None

    def __str__(self) -> str:
        return f"the query is opaque: {self.why}" if self.kind == "opaque" else self.why


@dataclass(frozen=True, slots=True)
class TableChange:
    """A table at one place of a query, and what happened to it since the node read it."""

    index: int
    relation: Relation
    rows: int | None = None
    # The snapshot that the node was made from, and what happened since; None when it still has the rows of then.
    old: int | None = None
    change: SnapshotChange = SnapshotChange()
    read_mode: ReadMode = ""
    # A bound; None where the size of the change is not known.
    changed_rows: int | None = None
    # Of a lookup that is INNER JOINed: the columns that it is joined by. Then it has changed by the rows whose key it
    # did not hold before, and the values of keys that it held are today's.
    late_by: tuple[str, ...] = ()

    @property
    def is_changed(self) -> bool:
        return self.old is not None


@dataclass(frozen=True, slots=True)
class ChangeSize:
    """How much there is to follow: a row that is rewritten again and again counts each time."""

    input_rows: int
    # A change of unknown size counts as its whole table.
    changed_rows: int
    is_known: bool = True

    def __str__(self) -> str:
        changed = f"{self.changed_rows:,} {'row' if self.changed_rows == 1 else 'rows'} changed"
        changed = changed if self.is_known else "an unknown number of rows changed"
        return f"{changed}, {self.input_rows:,} input {'row' if self.input_rows == 1 else 'rows'}"


@dataclass(frozen=True, slots=True)
class Refresh:
    """The way that was chosen, and what was compared to choose it."""

    way: Way
    obstacle: Obstacle | None = None
    facts: Facts | None = None
    tables: tuple[TableChange, ...] = ()
    size: ChangeSize | None = None
    # How each operator of the query follows what changed, and what that reads, where it is followed so.
    proposal: Proposal | None = None
    estimate: CostEstimate | None = None
    # What the model's own past says of both ways.
    expected: ExpectedTimes | None = None

    @property
    def rows_read(self) -> int:
        """The rows that the refresh reads, as far as they are known: what its time is measured by."""
        if self.way == "operators" and self.estimate is not None:
            return self.estimate.refresh
        return self.size.changed_rows if self.size is not None else 0


def choose_refresh(case: RefreshCase) -> Refresh:
    """The way in which a node is brought up to date: it is rebuilt where there is an obstacle to following changes."""
    resolved = resolve_tables(case)
    tables = () if isinstance(resolved, Obstacle) else resolved
    size = None if isinstance(resolved, Obstacle) else measure_change(resolved)
    obstacles = (find_obstacle(case, resolved) for find_obstacle in _OBSTACLES)
    obstacle = next((o for o in obstacles if o is not None), None)
    facts = case.query.facts
    way = choose_way(case, tables)
    if obstacle is not None or way is None:
        return Refresh("rebuild", obstacle, facts, tables, size)
    proposal = propose_for(case, list_changed_slots(tables))
    refresh = Refresh(way, None, facts, tables, size, proposal, estimate_cost(case, tables))
    expected = _predict_times(case, refresh)
    why = _explain_times(expected, refresh) if expected is not None else None
    if why is None or case.node.settings.get("refresh") == "incremental":
        return replace(refresh, expected=expected)
    return Refresh("rebuild", Obstacle("cost", why), facts, tables, size, expected=expected)


def _explain_times(expected: ExpectedTimes, refresh: Refresh) -> str | None:
    """Why a rebuild is preferred by the times of the last runs; None where the refresh is."""
    times = f"a refresh takes about {expected.refresh:.1f} s"
    if expected.is_rebuild_faster:
        return f"by the last runs {times}, a rebuild {expected.rebuild:.1f} s"
    is_less_work = refresh.way != "operators" or refresh.estimate is None or refresh.estimate.is_less_work
    if expected.may_rebuild_be_faster(is_less_work):
        return f"{times}, and only the first build tells what a rebuild takes: {expected.rebuild:.1f} s"
    return None


def _predict_times(case: RefreshCase, refresh: Refresh) -> ExpectedTimes | None:
    if case.current is None or refresh.size is None:
        return None
    return predict_times(case.current.identity.timings, refresh.rows_read, refresh.size.input_rows)


def choose_way(case: RefreshCase, tables: tuple[TableChange, ...]) -> Way | None:
    """The way to follow what changed in these tables; None when there is none but a rebuild."""
    facts = case.query.facts
    if facts is None:
        return None
    changed = list_changed_slots(tables)
    if changed <= set(facts.linear_slots):
        return "linear"
    proposal = propose_for(case, changed)
    # Once there are states, every change goes through them, or they would not be those of the rows any more.
    if proposal is not None and proposal.obstacle is None and proposal.uses_states:
        return "operators"
    are_worth = is_worth_states(case, changed)
    if choose_keys(facts, tables, "result") and not (are_worth and has_large_groups(case)):
        return "keyed"
    if proposal is None or proposal.obstacle is not None or are_worth:
        return None
    return "operators"


def list_changed_slots(tables: tuple[TableChange, ...]) -> frozenset[int]:
    """The slots whose tables changed."""
    return frozenset(t.index for t in tables if t.is_changed)


# --- what changed -----------------------------------------------------------------------------------------------------


def resolve_tables(
    case: RefreshCase, new_inputs: bool = False, any_columns: bool = False
) -> tuple[TableChange, ...] | Obstacle:
    """The tables of a query, each with its change, or why one of the changes cannot be followed.

    With `new_inputs` a table that was not read before counts as one that has not changed; with `any_columns` a table
    may have had other columns.
    """
    obstacle = _find_missing_base(case) or _find_table_function(case) or _find_moved_input(case, new_inputs)
    if obstacle is not None:
        return obstacle
    tables = []
    for index, old in enumerate(_list_old_snapshots(case, new_inputs, any_columns)):
        table = old if isinstance(old, Obstacle) else _resolve_table(case, index, old)
        if isinstance(table, Obstacle):
            return table
        tables.append(table)
    return tuple(tables)


def list_compared(case: RefreshCase) -> tuple[Compared, ...]:
    """The pairs of snapshots that the choice asks about, to be observed before it is made."""
    if _find_missing_base(case) is not None:
        return ()
    olds = _list_old_snapshots(case, new_inputs=True, any_columns=True)
    pairs = (_get_compared(case, index, old) for index, old in enumerate(olds) if isinstance(old, int))
    return tuple(dict.fromkeys(pairs))


def _find_missing_base(case: RefreshCase) -> Obstacle | None:
    current = case.current
    if current is None or not current.identity or current.identity.loader or current.drifted:
        return Obstacle("base", "there is nothing to start from")
    return None


def _find_table_function(case: RefreshCase) -> Obstacle | None:
    """A call whose rows no version tells."""
    calls = (Obstacle("query", f"{name}() is a table function ({at})") for name, at in case.node.table_calls)
    return next(calls, None)


def _find_moved_input(case: RefreshCase, new_inputs: bool) -> Obstacle | None:
    """What changed beside tables: the text of a view, or what the version that the query itself names means."""
    assert case.current is not None
    recorded = case.current.sources
    lookups = {lookup.name for lookup in case.node.lookups}
    for upstream_input, version in case.inputs:
        if upstream_input.name in lookups:
            continue
        then = recorded.get(upstream_input.key)
        inlined = version.definition is not None and version.files is None and version.fresh is None
        if inlined and not new_inputs and not _is_same_view(then, version):
            what = "view" if upstream_input.view else "expression of"
            return Obstacle("change", f"the {what} {upstream_input.name} changed")
        if upstream_input.travel is not None and not is_same_version(then, version):
            return Obstacle("change", f"{upstream_input.key} moved")
    return None


def _is_same_view(recorded: RecordedVersion | None, version: Version) -> bool:
    """Whether a view is what it was, in the columns that are read of it."""
    if recorded is None or recorded.definition is None:
        return False
    return recorded.definition == version.definition or (bool(recorded.as_read) and recorded.as_read == version.as_read)


def _list_old_snapshots(case: RefreshCase, new_inputs: bool, any_columns: bool) -> list[int | Obstacle | None]:
    """For each table the snapshot that the node was made from; None where its rows are those of before."""
    storage = has_storage_reads(case.node, case.project)
    reads = resolve_column_reads(case.node, case.project)
    return [_find_old_snapshot(case, i, reads, storage, new_inputs, any_columns) for i in range(len(case.query.tables))]


def _find_old_snapshot(
    case: RefreshCase,
    index: int,
    reads: Mapping[str, Read],
    storage: bool,
    new_inputs: bool,
    any_columns: bool,
) -> int | Obstacle | None:
    table, node, project = case.query.tables[index], case.node, case.project
    name, state = table.name, table.state
    source = project.sources.get(name) if name not in project.nodes else None
    if source is not None and source.path is not None:
        return Obstacle("change", f"{name} is read from files, whose earlier rows are not available")
    if state is None:
        return Obstacle("change", f"{name} is a view that sqb did not make")
    if any(lookup.name == name for lookup in node.lookups) and not _get_late_columns(node, index, name):
        # A lookup is read at its newest version, and drives nothing.
        return None
    assert case.current is not None
    key = _get_version_key(case, index)
    then, now = case.current.sources.get(key), state.version
    if then is None or not then.is_table:
        return None if new_inputs else Obstacle("change", f"{name} was not read before")
    # For a query that shows where rows are stored, the same rows in other files are other rows.
    moves = storage and then.snapshot_id != now.snapshot_id
    version = next((v for i, v in case.inputs if i.key == key), None)
    if version is not None and not moves and is_same_as_read(then, version, reads.get(key, EVERYTHING)):
        return None
    if (then.columns != now.columns or state.is_altered) and not any_columns:
        return Obstacle("change", f"the columns of {name} changed")
    snapshot, content = then.snapshot_id, then.content
    same = snapshot == now.snapshot_id or snapshot in now.same_rows or (content is not None and content == now.content)
    if same and not moves:
        return None
    if snapshot is None or now.snapshot_id is None:
        return Obstacle("change", f"{name} had no rows to compare with")
    return snapshot


def _get_version_key(case: RefreshCase, index: int) -> str:
    """The name under which the version of a table that was read is recorded."""
    name, project = case.query.tables[index].name, case.project
    if name in project.nodes:
        return project.nodes[name].get_input_key()
    return str(project.externals[name].relation)


def _get_compared(case: RefreshCase, index: int, old: int) -> Compared:
    state = case.query.tables[index].state
    assert state is not None
    return _get_version_key(case, index), old, state.version.snapshot_id


def _get_late_columns(node: Node, index: int, name: str) -> tuple[str, ...]:
    lookup = next((lookup for lookup in node.lookups if lookup.name == name), None)
    return tuple(dict(lookup.slots).get(index, ())) if lookup is not None else ()


def _resolve_table(case: RefreshCase, index: int, old: int | None) -> TableChange | Obstacle:
    table = case.query.tables[index]
    rows = table.state.rows if table.state is not None else None
    if old is None:
        return TableChange(index, table.relation, rows)
    change = case.changes[_get_compared(case, index, old)]
    if change.is_expired:
        return Obstacle("change", f"the version of {table.relation} that it was made from has expired")
    late_by = _get_late_columns(case.node, index, table.name)
    mode: ReadMode = "late" if late_by else choose_read_mode(change)
    return TableChange(index, table.relation, rows, old, change, mode, count_changed_rows(change), late_by)


def choose_read_mode(change: SnapshotChange) -> ReadMode:
    """The cheapest exact way to see what changed in a table."""
    if change.steps is None or change.has_delete_files or not change.has_same_columns:
        return "files"
    if change.is_append:
        return "appended"
    # A file that was written again and again is read once, and rows with ids are told apart by these alone.
    return "files" if len(change.steps) > 1 or change.has_row_ids else "changelog"


def count_changed_rows(change: SnapshotChange) -> int | None:
    """A bound on how many rows changed; None where nothing tells. A value that deletes rows counts as one row."""
    if change.steps is None or change.has_delete_files:
        return change.rows_in_files
    if change.rows_added is None or change.rows_removed is None:
        return None
    return change.rows_added + change.rows_removed


def measure_change(tables: tuple[TableChange, ...]) -> ChangeSize:
    """How much there is to follow, of how much."""
    changed = [t for t in tables if t.is_changed]
    known = all(t.changed_rows is not None for t in changed)
    rows = sum(t.changed_rows if t.changed_rows is not None else t.rows or 0 for t in changed)
    return ChangeSize(sum(t.rows or 0 for t in tables), rows, known)


# --- obstacles to following changes -----------------------------------------------------------------------------------

_Resolved = tuple[TableChange, ...] | Obstacle


def _find_other_reason(case: RefreshCase, resolved: _Resolved) -> Obstacle | None:
    return Obstacle("reason", str(case.reason).lower()) if case.reason not in FOLLOWED_REASONS else None


def _find_setting(case: RefreshCase, resolved: _Resolved) -> Obstacle | None:
    return Obstacle("setting", "refresh full") if case.node.settings.get("refresh") == "full" else None


def _find_opaque_query(case: RefreshCase, resolved: _Resolved) -> Obstacle | None:
    node, facts = case.node, case.query.facts
    if case.query.failure:
        return Obstacle("query", case.query.failure)
    if node.python:
        return Obstacle("query", "its rows come from Python")
    if facts is not None and not node.table_calls and not _is_followed(facts, case, resolved):
        proposal = _propose_with_states(case, resolved)
        if proposal is None:
            return Obstacle("opaque", facts.why, facts.offset)
        if proposal.obstacle is not None:
            return Obstacle("opaque", proposal.obstacle.why, proposal.obstacle.offset)
    return _find_table_function(case)


def _is_followed(facts: Facts, case: RefreshCase, resolved: _Resolved) -> bool:
    """Whether there is a way to follow these changes; of what is not resolved, some change."""
    if isinstance(resolved, Obstacle):
        return bool(facts.linear_slots or facts.keys)
    return choose_way(case, resolved) is not None


def _propose_with_states(case: RefreshCase, resolved: _Resolved) -> Proposal | None:
    """How changes would be followed if all groups that add up had figures; of what is not resolved, any change."""
    facts = case.query.facts
    states = list_additive_operators(facts) if keeps_group_state(case.node) else frozenset()
    every = frozenset(range(len(case.query.tables)))
    return propose_for(case, every if isinstance(resolved, Obstacle) else list_changed_slots(resolved), states)


def _find_unresolved_table(case: RefreshCase, resolved: _Resolved) -> Obstacle | None:
    return resolved if isinstance(resolved, Obstacle) else None


def _find_cost(case: RefreshCase, resolved: _Resolved) -> Obstacle | None:
    if isinstance(resolved, Obstacle) or case.node.settings.get("refresh") == "incremental":
        return None
    size = measure_change(resolved)
    why = case.gate.explain_rebuild(size.input_rows, size.changed_rows)
    if why is None and choose_way(case, resolved) == "operators":
        estimate = estimate_cost(case, resolved)
        why = _explain_work(case, estimate) if estimate is not None else None
    return Obstacle("cost", why) if why is not None else None


def _explain_work(case: RefreshCase, estimate: CostEstimate) -> str | None:
    """Why following changes would take longer than a rebuild, by what both read and, where it is known, the last ones.

    Where the past tells of both ways, it is asked later, and says more than any estimate.
    """
    from sqb.plan.refresh.cost import SECONDS_OF_WORK, WORTH  # only plans that have something to follow

    past = case.current.identity.timings if case.current is not None else ""
    if predict_times(past, estimate.refresh, count_input_rows(case)) is not None:
        return None
    rows = f"reading about {estimate.refresh:,} rows, a rebuild {estimate.rebuild:,}"
    rebuild, refresh = predict_rebuild(past, count_input_rows(case)), SECONDS_OF_WORK * estimate.refresh_work
    is_less_work = estimate.is_less_work
    # The first build alone, often the first work of a new Spark, does not speak for more work.
    if rebuild is not None and case.gate.min_rows and (is_less_work or not rebuild.is_first_build):
        if rebuild.is_surely_beaten_by(refresh) or (is_less_work and refresh <= WORTH * rebuild.seconds):
            return None
        return f"following the changes would take about {refresh:.1f} s, {rows}, which took {rebuild.seconds:.1f} s"
    if is_less_work:
        return None
    times = estimate.refresh_work / max(1.0, estimate.rebuild_work)
    return f"following the changes would take about {times:.1f} times as long as a rebuild, {rows}"


def estimate_cost(case: RefreshCase, tables: tuple[TableChange, ...]) -> CostEstimate | None:
    """What following changes through the operators of a query would read; None where they are not known."""
    from sqb.plan.refresh.cost import CostEstimate, Sizes  # only plans that have something to follow

    facts, proposal = case.query.facts, propose_for(case, list_changed_slots(tables))
    if facts is None or facts.tree is None or proposal is None:
        return None
    changed = {t.index: t.changed_rows if t.changed_rows is not None else t.rows or 0 for t in tables if t.is_changed}
    read = {
        t.index: t.change.rows_to_read or changed[t.index] if t.changed_rows is not None else 2 * (t.rows or 0)
        for t in tables
        if t.is_changed
    }
    result = (case.current.rows or 0) if case.current is not None else 0
    rows = {t.index: t.rows or 0 for t in tables}
    sizes = Sizes(rows, changed, read, result, case.gate.min_rows, case.gate.small_rows, case.matching)
    return CostEstimate(facts.tree, proposal, sizes)


def _find_missing_key(case: RefreshCase, resolved: _Resolved) -> Obstacle | None:
    facts = case.query.facts
    if isinstance(resolved, Obstacle) or facts is None or choose_way(case, resolved) is not None:
        return None
    proposal = _propose_with_states(case, resolved)
    if proposal is not None and proposal.obstacle is None:
        rows, enough = count_input_rows(case), case.gate.min_additive_rows
        if wanted := list_wanted_states(case):
            refused = list_refused_states(case)
            if wanted <= refused:
                return Obstacle("state", "its aggregates do not add up exactly, by the types of what they are given")
            missing = wanted - refused - list_state_operators(case)
            actual = propose_for(case, list_changed_slots(resolved)) if not missing else None
            if actual is not None and actual.obstacle is not None:
                return Obstacle("opaque", actual.obstacle.why, actual.obstacle.offset)
            return Obstacle("state", "there is no state of its groups yet to add changes to")
        under = f"under {enough:,} " if rows < enough else ""
        return Obstacle("cost", f"{rows:,} input rows: {under}a rebuild is faster than adding up groups")
    if proposal is not None and proposal.obstacle is not None:
        return Obstacle("opaque", proposal.obstacle.why, proposal.obstacle.offset)
    names = ", ".join(sorted({str(t.relation) for t in resolved if t.is_changed}))
    return Obstacle("key", f"no key of the query restricts {names}")


def _find_missing_content(case: RefreshCase, resolved: _Resolved) -> Obstacle | None:
    content = case.current.identity.content if case.current is not None else ""
    if case.node.kind not in RESULT_KINDS or content.startswith("n:"):
        return None
    return Obstacle("content", "its content was never recorded")


# In the order in which they are named: what the author can change comes before what time has brought.
_OBSTACLES: tuple[Callable[[RefreshCase, _Resolved], Obstacle | None], ...] = (
    _find_other_reason,
    _find_setting,
    _find_opaque_query,
    _find_unresolved_table,
    _find_cost,
    _find_missing_key,
    _find_missing_content,
)


def choose_keys(facts: Facts, tables: tuple[TableChange, ...], versus: Versus) -> list[Key]:
    """The keys by which to restrict every table that changed: all that restrict the same tables; or none."""
    changed = {t.index for t in tables if t.is_changed}
    fitting = [k for k in facts.keys if changed <= {slot for slot, _ in k.slots}]
    if not fitting:
        return []

    def usefulness(key: Key) -> tuple[bool, int]:
        return (versus == "target" and bool(key.outputs), -len(key.slots))

    best = max(fitting, key=usefulness)
    slots = {slot for slot, _ in best.slots}
    alike = [k for k in fitting if {s for s, _ in k.slots} == slots and bool(k.outputs) == bool(best.outputs)]
    return alike[:_MOST_KEYS]


# --- in a plan --------------------------------------------------------------------------------------------------------


def can_follow(planned: PlannedNode, node: Node) -> bool:
    """Whether there is a choice: a node runs because of changes, and its table is made from the result of its query."""
    runs_on_changes = planned.run_type == "full" and planned.reason in FOLLOWED_REASONS
    return runs_on_changes and node.type == "model" and node.kind in FOLLOWING_KINDS and not node.python


def build_case(
    node: Node,
    project: Project,
    observed: Observed,
    reason: Reason = Reason.SOURCE_CHANGED,
    gate: CostGate = CostGate(),
) -> RefreshCase:
    """The case of a node whose query was observed."""
    inputs = list_versions_read(node, project, observed.relations)
    query, current = observed.queries[node.name], observed.get(node)
    matching = observed.matching.get(node.name, {})
    return RefreshCase(node, project, reason, current, query, inputs, observed.changes, gate, matching)
