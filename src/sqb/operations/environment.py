"""What plans and builds do for virtual environments: enter one, look at the lake as it does, show what was built."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqb.build.observe import Look, look, open_lake
from sqb.errors_environments import not_virtual
from sqb.lake.iceberg import IcebergLake
from sqb.project.git import git_commit
from sqb.workspace import Workspace

if TYPE_CHECKING:
    from sqb.build.result import BuildResult
    from sqb.build.steps import Announce
    from sqb.environments.building import Settled
    from sqb.environments.entering import Entered
    from sqb.lake.port import TableState
    from sqb.names import Relation
    from sqb.plan.values import Plan


def entered_for(workspace: Workspace, name: str | None) -> Entered | None:
    """The environment that a command is about; None where the project has none."""
    if not workspace.virtual.enabled:
        _refuse_name(name)
        return None
    from sqb.environments.entering import enter  # only projects with environments load their database

    return enter(workspace, name)


@contextmanager
def environment_to_build(
    workspace: Workspace,
    name: str | None,
    take_over: bool,
    announce: Announce | None = None,
    refuse: Callable[[Entered], object] | None = None,
) -> Iterator[tuple[Entered | None, str]]:
    """The environment that a build goes into, made if it is not there, and the token of its lock.

    `refuse` raises what keeps the build from being done: then nothing is made.
    """
    if not workspace.virtual.enabled:
        _refuse_name(name)
        yield None, ""
        return
    from sqb.build.steps import from_environment
    from sqb.environments.building import made
    from sqb.environments.entering import chosen_name, enter, owner_here, store_of
    from sqb.environments.moving import locked
    from sqb.environments.noting import note_versions

    chosen, announce = chosen_name(workspace, name), announce or from_environment()
    store, lake = store_of(workspace), open_lake(workspace)
    with locked(store, lake, chosen, owner_here(f"sqb build --virtual-env {chosen}"), take_over, announce) as token:
        entered = enter(workspace, chosen, store)
        if refuse is not None:
            refuse(entered)
        entered = made(entered, token, announce)
        note_versions(entered)
        yield entered, token


def _refuse_name(name: str | None) -> None:
    if name is not None:
        raise not_virtual(f"--virtual-env {name}: this project has no virtual environments")


@dataclass(frozen=True, slots=True)
class Narrowed:
    """How an environment narrows or widens what was selected."""

    entered: Entered | None = None
    include_stale_upstreams: bool = False
    changes_only: bool = False

    def names(self, selected: frozenset[str] | None) -> frozenset[str] | None:
        """The selection as the environment allows it."""
        if self.entered is None:
            _refuse_options(self.include_stale_upstreams, self.changes_only)
            return selected
        from sqb.environments.building import chosen_nodes

        return chosen_nodes(self.entered, selected, self.include_stale_upstreams, self.changes_only)


def _refuse_options(*given: bool) -> None:
    if any(given):
        raise not_virtual(
            "--include-stale-upstreams and --changes-only are about virtual environments, and this project has none"
        )


def look_at(entered: Entered | None, workspace: Workspace, lake: IcebergLake) -> tuple[Look, dict[str, TableState]]:
    """What stands, and the bound versions of nodes whose new versions have no tables yet."""
    seen = look(workspace, lake)
    if entered is None or not entered.refs:
        return seen, {}
    from sqb.environments.priors import with_priors

    return with_priors(entered, seen)


def refuse_conflicts(entered: Entered | None, names: frozenset[str] | None) -> None:
    """Refuse, before anything runs, what would stand in the way of the environment's views in the end."""
    if entered is None:
        return
    from sqb.environments.moving import refuse_taken

    shown = {entered.view_of(r.binding.logical): r for r in entered.refs.values() if r.binding.relation is not None}
    made = [n for name, n in entered.direct.nodes.items() if names is None or name in names]
    views = (*shown, *(entered.view_of(n.relation) for n in made))
    refuse_taken(entered.lake, entered.name, views, shown if entered.environment is not None else {})


def versioned(entered: Entered | None, plan: Plan, seen: Look, priors: Mapping[str, TableState]) -> Plan:
    """The plan in which every node that is stale gets a table of its version."""
    if entered is None or not entered.stale:
        return plan
    from sqb.environments.priors import with_versions

    return with_versions(plan, entered, seen, priors)


def reckoning(entered: Entered | None, seen: Look, priors: Mapping[str, TableState]) -> Look:
    """The look for those who reckon with what new versions will begin as."""
    if entered is None or not priors:
        return seen
    from sqb.environments.priors import for_reckoning

    return for_reckoning(seen, priors, entered.project)


def begun(entered: Entered | None, token: str) -> Entered | None:
    """The environment while something is built for it: not finalized, however the build ends."""
    if entered is None:
        return None
    from sqb.environments.building import begin_work

    return begin_work(entered, token)


def shown(
    entered: Entered | None,
    result: BuildResult,
    states: Mapping[Relation, TableState],
    externals: Mapping[str, Relation],
    token: str,
    announce: Announce | None = None,
) -> Settled | None:
    """Let the environment show what was built."""
    if entered is None:
        return None
    from sqb.build.steps import from_environment
    from sqb.environments.building import settle

    root = entered.workspace.root
    return settle(entered, result, states, externals, token, lambda: git_commit(root), announce or from_environment())


def views_to_move(entered: Entered, plan: Plan, seen: Look) -> int:
    """How many views would move though nothing runs: to tables that others have built or refreshed, or back."""
    from sqb.environments.bindings import to_move

    standing = [n.name for n in plan.nodes if n.action == "skip" and n.name in entered.project.nodes]
    return len({*to_move(entered, standing, seen.states), *views_to_put_back(entered)})


def views_to_put_back(entered: Entered) -> list[str]:
    """The nodes whose views are gone from the catalog, or were replaced by somebody: the next build puts them back."""
    if entered.environment is None:
        return []
    from sqb.environments.moving import misplaced_views

    found = misplaced_views(entered.lake, entered.name, entered.refs, entered.workspace.virtual.unsuffixed)
    return sorted(name for name in found if name not in entered.removed)


def bound_definitions(entered: Entered) -> dict[str, str]:
    """The definitions of the versions that are bound, for nodes that are stale."""
    keys = [(s.name, s.bound) for s in entered.stale.values() if s.bound]
    return {name: v.definition for (name, _), v in entered.store.versions(keys).items()}


def opened_in(workspace: Workspace, name: str | None, as_shown: bool = False) -> tuple[Workspace, IcebergLake]:
    """The workspace and lake of a command that only looks: at what was built, or as the environment shows it."""
    entered = entered_for(workspace, name)
    if entered is None:
        return workspace, open_lake(workspace)
    return logical_workspace(entered) if as_shown else entered.workspace, entered.lake


def logical_workspace(entered: Entered) -> Workspace:
    """The workspace with nodes at the views of the environment, for those who read what it shows."""
    nodes = {
        name: replace(entered.project.nodes[name], relation=entered.view_of(node.relation))
        for name, node in entered.direct.nodes.items()
    }
    return replace(entered.workspace, project=replace(entered.project, nodes=nodes))
