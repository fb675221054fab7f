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


@dataclass(frozen=True, slots=True)
class Losses:
    """The columns that nodes lose by a plan, and what everything has once all that is below it has run too."""

    by_node: Lost
    running: frozenset[str]
    later: ProjectColumns


def find_losses(workspace: Workspace, seen: LakeState, running: frozenset[str], after: ProjectColumns) -> Losses | None:
    """The columns that go with the nodes that run, in these and in what is made of them, selected or not."""
    project, state_of = workspace.project, seen.observed.relations.get
    tables = {n.name: read_table_columns(n.relation, state_of) for n in project if n.name in running}
    built = {name: columns for name, columns in tables.items() if columns is not None}
    if not any(_compare(columns, after.columns[name]) for name, columns in built.items()):
        return None
    # What is below is compared with itself over the tables as they are: its own edits are not this plan's.
    below = _list_below(project, running)
    before = {**observe_columns(workspace, seen, below).columns, **built}
    later = observe_columns(workspace, seen, running | below)
    compared = {n.name: _compare(before[n.name], later.columns[n.name]) for n in project}
    return Losses({name: loss for name, loss in compared.items() if loss is not None}, running, later)


def _list_below(project: Project, running: Collection[str]) -> frozenset[str]:
    """The nodes that are made of those that run, and do not run themselves."""
    reached = set(running)
    for node in project:
        if any(name in reached for name in node.reads):
            reached.add(node.name)
    return frozenset(reached) - frozenset(running)


def _compare(before: Columns, after: Columns) -> ColumnLoss | None:
    if after.is_open:
        return None
    then = {name.lower(): text for name, text in before.columns if name is not None}
    now = {name.lower() for name in after.names}
    lost = {name: text for name, text in then.items() if name not in now}
    gained = {name: text for name, text in after.columns if name is not None and name.lower() not in then}
    return ColumnLoss(lost, gained) if lost else None


def iter_breaking_changes(workspace: Workspace, node: Node, losses: Losses) -> Iterator[BreakingChange]:
    """The places where a model reads a column that goes."""
    for problem in losses.later.problems.get(node.name, ()):
        owner = _find_loser(node, problem.column, losses.by_node)
        if owner is None or problem.kind != "unknown column":
            continue
        loss = _format_loss(workspace, owner, losses)
        yield BreakingChange(
            f'{_format_reader(node)} reads the column "{problem.column}", which {loss}',
            at=locate_problem(workspace.root, node, problem),
            hint=_build_hint(workspace.project, owner, problem.column, losses.by_node, "here"),
        )


def iter_broken_contracts(workspace: Workspace, losses: Losses) -> Iterator[BreakingChange]:
    """The contracts of models that do not run now, and that will not hold when these run."""
    for node in workspace.project:
        columns = losses.later.columns[node.name]
        if node.contract is None or node.name in losses.running or columns.is_open:
            continue
        present = {name.lower() for name in columns.names}
        for column in node.contract.columns:
            name = column.name.lower()
            owner = _find_loser(node, name, losses.by_node)
            if owner is not None and name not in present:
                yield BreakingChange(
                    f'the contract of {_format_reader(node)} promises the column "{column.name}", '
                    f"which {_format_loss(workspace, owner, losses)}",
                    at=node.contract.at,
                    hint=_build_hint(workspace.project, owner, name, losses.by_node, "of the contract"),
                )


def iter_broken_exposures(workspace: Workspace, losses: Losses) -> Iterator[BreakingChange]:
    """The exposures that read columns that go: those that they name, and else any."""
    lost = losses.by_node
    for exposure in workspace.project.exposures.values():
        for name in exposure.depends_on:
            wanted = {column.lower() for column in exposure.columns.get(name, ())}
            for column in lost[name].columns if name in lost else ():
                if not wanted or column in wanted:
                    yield _build_exposure_error(workspace, exposure, (name, column), losses, bool(wanted))


def _build_exposure_error(
    workspace: Workspace, exposure: Exposure, lost: tuple[str, str], losses: Losses, is_named: bool
) -> BreakingChange:
    name, column = lost
    who = f" of {exposure.owner}" if exposure.owner else ""
    what = f'the column "{column}"' if is_named else f'{name} and its column "{column}"'
    loser = _format_loss(workspace, name, losses) if is_named else "goes with this plan"
    hint = _build_hint(workspace.project, name, column, losses.by_node, f"of {exposure.at.file}")
    if not is_named:
        hint += f"; `depends_on: [{name}: [columns]]` says which columns it reads"
    return BreakingChange(
        f"{exposure.type} {exposure.name}{who} reads {what}, which {loser}", at=exposure.at, hint=hint
    )


def _find_loser(node: Node, column: str, lost: Lost) -> str | None:
    """What a node reads and what loses this column."""
    return next((name for name in node.reads if name in lost and column in lost[name].columns), None)


def _format_loss(workspace: Workspace, owner: str, losses: Losses) -> str:
    """When a node loses a column: now, or when it runs next; a view shows it at once."""
    is_now = owner in losses.running or workspace.project.nodes[owner].kind == "view"
    return f"{owner} loses with this plan" if is_now else f"{owner} loses when it runs after this plan"


def _format_reader(node: Node) -> str:
    owner = node.settings.get("owner") or node.settings.get("group")
    return f"{node.name} (of {owner})" if owner else node.name


def _build_hint(project: Project, owner: str, column: str, lost: Lost, where: str) -> str:
    """The edits that would do: here, or where the column was given up, which may be further up."""
    origin, above = owner, _find_loser(project.nodes[owner], column, lost)
    while above is not None:
        origin, above = above, _find_loser(project.nodes[above], column, lost)
    file = project.nodes[origin].file
    successor = lost[owner].find_successor(column)
    if successor is None:
        edit = f"keep `{column}` in the select list of {file}, or take it out {where}"
    else:
        own = f"`{successor}`" if where == "here" else f"`{successor}` in the place of `{column}` {where}"
        edit = f"it may be called `{successor}` now: write {own}, or keep `{column}` too in {file}"
    return f"{edit}; --allow-breaking goes on without"
