"""Columns that a plan removes and that models, contracts or exposures read: reported before anything is published."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from sqb.build.observe.columns import observe_columns
from sqb.build.observe.lake import LakeState
from sqb.build.observe.places import locate_problem
from sqb.compile.model import Exposure, Node, Project
from sqb.errors.queries import BreakingChange
from sqb.light_dataclass import dataclass
from sqb.names import find_nearest
from sqb.plan.node_columns import ProjectColumns, read_table_columns
from sqb.sql.columns.cache import Columns
from sqb.workspace import Workspace


@dataclass(frozen=True, slots=True)
class ColumnLoss:
    """What a node loses: columns with their types, by their names in lower case; and what it has that it had not."""

    columns: Mapping[str, str]
    gained: Mapping[str, str]

    def find_successor(self, column: str) -> str | None:
        """The new column that a lost one is probably called now: the only one of its type, or the nearest."""
        fitting = [name for name, text in self.gained.items() if text == self.columns[column]]
        if len(fitting) == 1 and sum(text == self.columns[column] for text in self.columns.values()) == 1:
            return fitting[0]
        return next(iter(find_nearest(column, fitting)), None)


Lost = Mapping[str, ColumnLoss]


def list_readers(project: Project, running: Collection[str]) -> frozenset[str]:
    """The models that read what runs and do not run themselves, also through views."""
    readers: set[str] = set()
    reached = set(running)
    for node in project:
        if node.name not in reached and any(name in reached for name in node.reads):
            readers.add(node.name)
            if node.kind == "view":
                reached.add(node.name)
    return frozenset(readers)


def find_lost_columns(workspace: Workspace, seen: LakeState, running: Collection[str], after: ProjectColumns) -> Lost:
    """The columns that nodes have now and not when these have run, by the names of the nodes."""
    project, state_of = workspace.project, seen.observed.relations.get
    tables = {n.name: read_table_columns(n.relation, state_of) for n in project if n.name in running}
    built = {name: columns for name, columns in tables.items() if columns is not None}
    if not any(_compare(columns, after.columns[name]) for name, columns in built.items()):
        return {}
    # What views show now follows from the tables as they are.
    before = {**observe_columns(workspace, seen, frozenset()).columns, **built}
    losses = {n.name: _compare(before[n.name], after.columns[n.name]) for n in project}
    return {name: loss for name, loss in losses.items() if loss is not None}


def _compare(before: Columns, after: Columns) -> ColumnLoss | None:
    if after.is_open:
        return None
    then = {name.lower(): text for name, text in before.columns if name is not None}
    now = {name.lower() for name in after.names}
    lost = {name: text for name, text in then.items() if name not in now}
    gained = {name: text for name, text in after.columns if name is not None and name.lower() not in then}
    return ColumnLoss(lost, gained) if lost else None


def iter_breaking_changes(
    workspace: Workspace, node: Node, after: ProjectColumns, lost: Lost
) -> Iterator[BreakingChange]:
    """The places where a model reads a column that goes."""
    for problem in after.problems.get(node.name, ()):
        owner = next((name for name in node.reads if name in lost and problem.column in lost[name].columns), None)
        if owner is None or problem.kind != "unknown column":
            continue
        yield BreakingChange(
            f'{_format_reader(node)} reads the column "{problem.column}", which {owner} loses with this plan',
            at=locate_problem(workspace.root, node, problem),
            hint=_build_hint(workspace.project, owner, problem.column, lost[owner], "here"),
        )


def iter_broken_contracts(
    workspace: Workspace, seen: LakeState, running: Collection[str], readers: Collection[str], lost: Lost
) -> Iterator[BreakingChange]:
    """The contracts of models that do not run now, and that will not hold when these run."""
    promising = [n for n in workspace.project if n.name in readers and n.contract is not None]
    if not promising:
        return
    later = observe_columns(workspace, seen, frozenset(running) | frozenset(readers))
    for node in promising:
        columns = later.columns[node.name]
        if columns.is_open or node.contract is None:
            continue
        present = {name.lower() for name in columns.names}
        for column in node.contract.columns:
            name = column.name.lower()
            owner = next((read for read in node.reads if read in lost and name in lost[read].columns), None)
            if owner is not None and name not in present:
                yield BreakingChange(
                    f'the contract of {_format_reader(node)} promises the column "{column.name}", '
                    f"which {owner} loses with this plan",
                    at=node.contract.at,
                    hint=_build_hint(workspace.project, owner, name, lost[owner], "of the contract"),
                )


def iter_broken_exposures(project: Project, lost: Lost) -> Iterator[BreakingChange]:
    """The exposures that read columns that go: those that they name, and else any."""
    for exposure in project.exposures.values():
        for name in exposure.depends_on:
            wanted = {column.lower() for column in exposure.columns.get(name, ())}
            for column in lost[name].columns if name in lost else ():
                if not wanted or column in wanted:
                    yield _build_exposure_error(project, exposure, name, column, lost[name], bool(wanted))


def _build_exposure_error(
    project: Project, exposure: Exposure, name: str, column: str, loss: ColumnLoss, is_named: bool
) -> BreakingChange:
    who = f" of {exposure.owner}" if exposure.owner else ""
    what = f'the column "{column}"' if is_named else f'{name} and its column "{column}"'
    loser = f"which {name} loses" if is_named else "which goes"
    hint = _build_hint(project, name, column, loss, f"of {exposure.at.file}")
    if not is_named:
        hint += f"; `depends_on: [{name}: [columns]]` says which columns it reads"
    return BreakingChange(
        f"{exposure.type} {exposure.name}{who} reads {what}, {loser} with this plan", at=exposure.at, hint=hint
    )


def _format_reader(node: Node) -> str:
    owner = node.settings.get("owner") or node.settings.get("group")
    return f"{node.name} (of {owner})" if owner else node.name


def _build_hint(project: Project, owner: str, column: str, loss: ColumnLoss, where: str) -> str:
    """The edits that would do."""
    file = project.nodes[owner].file
    successor = loss.find_successor(column)
    if successor is None:
        edit = f"keep `{column}` in the select list of {file}, or take it out {where}"
    else:
        own = f"`{successor}`" if where == "here" else f"`{successor}` in the place of `{column}` {where}"
        edit = f"it may be called `{successor}` now: write {own}, or keep `{column}` too in {file}"
    return f"{edit}; --allow-breaking goes on without"
