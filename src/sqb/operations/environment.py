"""Virtual environments in plans and builds: opens a session, observes the lake through it, and finalizes a build."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqb.build.observe.lake import LakeState, observe_lake
from sqb.errors.environments import not_virtual
from sqb.lake.open import open_lake
from sqb.lake.port import Lake
from sqb.project.files import read_git_commit
from sqb.workspace import Workspace

if TYPE_CHECKING:
    from sqb.build.failpoints import Announce
    from sqb.build.result import BuildResult
    from sqb.environments.build.finalize import EnvironmentResult
    from sqb.environments.session import EnvironmentSession
    from sqb.lake.port import TableState
    from sqb.names import Relation
    from sqb.plan.model import Plan


def open_environment(workspace: Workspace, name: str | None) -> EnvironmentSession | None:
    """The environment that a command is about; None where the project has none."""
    if not workspace.virtual.enabled:
        _check_no_name(name)
        return None
    from sqb.environments.session import open_session  # only projects with environments load their database

    return open_session(workspace, name)


@contextmanager
def lock_environment_for_build(
    workspace: Workspace,
    name: str | None,
    take_over: bool,
    announce: Announce | None = None,
    validate: Callable[[EnvironmentSession], object] | None = None,
) -> Iterator[tuple[EnvironmentSession | None, str]]:
    """The environment that a build goes into, made if it is not there, and the token of its lock.

    `refuse` raises what keeps the build from being done: then nothing is made.
    """
    if not workspace.virtual.enabled:
        _check_no_name(name)
        yield None, ""
        return
    from sqb.build.failpoints import read_failpoint
    from sqb.environments.build.finalize import create_environment, record_versions
    from sqb.environments.session import describe_owner, open_session, open_workspace_store, resolve_name
    from sqb.environments.views import lock_environment

    chosen, announce = resolve_name(workspace, name), announce or read_failpoint()
    store, lake = open_workspace_store(workspace), open_lake(workspace)
    with lock_environment(
        store, lake, chosen, describe_owner(f"sqb build --virtual-env {chosen}"), take_over, announce
    ) as token:
        session = open_session(workspace, chosen, store)
        if validate is not None:
            validate(session)
        session = create_environment(session, token, announce)
        record_versions(session)
        yield session, token


def _check_no_name(name: str | None) -> None:
    if name is not None:
        raise not_virtual(f"--virtual-env {name}: this project has no virtual environments")


@dataclass(frozen=True, slots=True)
class EnvironmentSelection:
    """The selection of a command within an environment."""

    session: EnvironmentSession | None = None
    include_stale_upstreams: bool = False
    changes_only: bool = False

    def apply(self, selected: frozenset[str] | None) -> frozenset[str] | None:
        """The selection as the environment allows it."""
        if self.session is None:
            _check_no_options(self.include_stale_upstreams, self.changes_only)
            return selected
        from sqb.environments.build.finalize import resolve_selection

        return resolve_selection(self.session, selected, self.include_stale_upstreams, self.changes_only)


def _check_no_options(*options: bool) -> None:
    if any(options):
        raise not_virtual(
            "--include-stale-upstreams and --changes-only are about virtual environments, and this project has none"
        )


def observe_environment(
    session: EnvironmentSession | None, workspace: Workspace, lake: Lake
) -> tuple[LakeState, dict[str, TableState]]:
    """Observe the lake, and the bound versions of nodes whose new versions have no tables yet."""
    seen = observe_lake(workspace, lake)
    if session is None or not (session.refs or session.stale):
        return seen, {}
    from sqb.environments.build.plan_versions import add_prior_states

    return add_prior_states(session, seen)


def check_view_conflicts(session: EnvironmentSession | None, names: frozenset[str] | None) -> None:
    """Raise ViewTaken, before anything runs, for relations at the names of the environment's views."""
    if session is None:
        return
    from sqb.environments.views import check_not_taken

    shown = {session.get_view(r.binding.logical): r for r in session.refs.values() if r.binding.relation is not None}
    nodes = [n for name, n in session.direct.nodes.items() if names is None or name in names]
    views = (*shown, *(session.get_view(n.relation) for n in nodes))
    check_not_taken(session.lake, session.name, views, shown if session.environment is not None else {})


def plan_environment(
    session: EnvironmentSession | None, plan: Plan, seen: LakeState, priors: Mapping[str, TableState]
) -> Plan:
    """The plan in which every node that is stale gets a table of its version."""
    if session is None or not session.stale:
        return plan
    from sqb.environments.build.plan_versions import plan_versions

    return plan_versions(plan, session, seen, priors)


def project_observations(
    session: EnvironmentSession | None, seen: LakeState, priors: Mapping[str, TableState]
) -> LakeState:
    """Project the observations to what new versions will begin as."""
    if session is None or not priors:
        return seen
    from sqb.environments.build.plan_versions import project_prior_states

    return project_prior_states(seen, priors, session.project)


def begin_build(session: EnvironmentSession | None, token: str) -> EnvironmentSession | None:
    """The environment while something is built for it: not finalized, however the build ends."""
    if session is None:
        return None
    from sqb.environments.build.finalize import mark_active

    return mark_active(session, token)


def finalize_environment(
    session: EnvironmentSession | None,
    result: BuildResult,
    states: Mapping[Relation, TableState],
    externals: Mapping[str, Relation],
    token: str,
    announce: Announce | None = None,
) -> EnvironmentResult | None:
    """Finalize the environment after a build."""
    if session is None:
        return None
    from sqb.build.failpoints import read_failpoint
    from sqb.environments.build.finalize import finalize_build

    root = session.workspace.root
    return finalize_build(
        session, result, states, externals, token, lambda: read_git_commit(root), announce or read_failpoint()
    )


def count_changed_views(session: EnvironmentSession, plan: Plan, seen: LakeState) -> int:
    """How many views would move though nothing runs: to tables that others have built or refreshed, or back."""
    from sqb.environments.build.bindings import list_changed_nodes

    unchanged = [n.name for n in plan.nodes if n.action == "skip" and n.name in session.project.nodes]
    return len({*list_changed_nodes(session, unchanged, seen.states), *list_misplaced_views(session)})


def list_misplaced_views(session: EnvironmentSession) -> list[str]:
    """The nodes whose views are gone from the catalog, or were replaced: the next build puts them back."""
    if session.environment is None:
        return []
    from sqb.environments.views import find_misplaced_views

    misplaced = find_misplaced_views(session.lake, session.name, session.refs, session.workspace.virtual.unsuffixed)
    return sorted(name for name in misplaced if name not in session.removed)


def read_bound_definitions(session: EnvironmentSession) -> dict[str, str]:
    """The definitions of the versions that are bound, for nodes that are stale."""
    keys = [(s.name, s.bound) for s in session.stale.values() if s.bound]
    return {name: v.definition for (name, _), v in session.store.read_versions(keys).items()}


def open_read_only(workspace: Workspace, name: str | None, as_shown: bool = False) -> tuple[Workspace, Lake]:
    """The workspace and lake of a command that only looks: at what was built, or as the environment shows it."""
    session = open_environment(workspace, name)
    if session is None:
        return workspace, open_lake(workspace)
    return build_logical_workspace(session) if as_shown else session.workspace, session.lake


def build_logical_workspace(session: EnvironmentSession) -> Workspace:
    """The workspace with nodes at the views of the environment, for those who read what it shows."""
    nodes = {
        name: replace(session.project.nodes[name], relation=session.get_view(node.relation))
        for name, node in session.direct.nodes.items()
    }
    return replace(session.workspace, project=replace(session.project, nodes=nodes))
