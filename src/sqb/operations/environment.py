"""What a plan and a build are for: a virtual environment, or the tables of the target themselves.

Both answer the same questions, so that commands do not ask which of the two it is. A project without environments loads
nothing of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, Self

from sqb.build.observe.lake import LakeState, observe_lake
from sqb.errors.environments import not_virtual
from sqb.lake.open import open_lake
from sqb.lake.port import Lake
from sqb.light_dataclass import dataclass
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


@dataclass(frozen=True, slots=True)
class ChangedDefinitions:
    """The nodes that were never built, and those that were built by another definition."""

    new: frozenset[str]
    modified: frozenset[str]


class BuildEnvironment(Protocol):
    """Where a build goes."""

    @property
    def workspace(self) -> Workspace:
        """The project at the tables that are built."""

    @property
    def lake(self) -> Lake:
        """The lake, with the state tables of the environment."""

    @property
    def name(self) -> str:
        """What it is called; "" in a project without virtual environments."""

    def narrow_selection(
        self, selected: frozenset[str] | None, include_stale_upstreams: bool, changes_only: bool
    ) -> frozenset[str] | None:
        """The selection as the environment allows it."""

    def check_view_conflicts(self, names: frozenset[str] | None) -> None:
        """Raise ViewTaken, before anything runs, for relations at the names of the environment's views."""

    def observe(self, workspace: Workspace) -> LakeState:
        """Observe the lake, and the bound versions of nodes whose new versions have no tables yet."""

    def find_changed_definitions(self) -> ChangedDefinitions:
        """The nodes that are not built by the definitions that the project has."""

    def begin_build(self) -> Self:
        """The environment while something is built for it: not finalized, however the build ends."""

    def finalize_build(
        self,
        result: BuildResult,
        states: Mapping[Relation, TableState],
        externals: Mapping[str, Relation],
        announce: Announce | None = None,
    ) -> EnvironmentResult | None:
        """Finalize the environment after a build; None where there is none."""

    def read_definitions(self, names: Iterable[str]) -> Mapping[str, str]:
        """The definitions with which these nodes were last built, as far as they are known."""


@dataclass(frozen=True, slots=True)
class NoEnvironment:
    """A project without virtual environments: a build goes to the tables that readers read."""

    workspace: Workspace
    lake: Lake

    @property
    def name(self) -> str:
        return ""

    def narrow_selection(
        self, selected: frozenset[str] | None, include_stale_upstreams: bool, changes_only: bool
    ) -> frozenset[str] | None:
        if include_stale_upstreams or changes_only:
            raise not_virtual(
                "--include-stale-upstreams and --changes-only are about virtual environments, and this project has none"
            )
        return selected

    def check_view_conflicts(self, names: frozenset[str] | None) -> None:
        return

    def observe(self, workspace: Workspace) -> LakeState:
        return observe_lake(workspace, self.lake, is_renamed=True)

    def find_changed_definitions(self) -> ChangedDefinitions:
        project = self.workspace.project
        observed = self.observe(self.workspace).observed
        hashes = {n.name: current.local_hash for n in project if (current := observed.get(n)) is not None}
        hashes |= {name: run.local_hash for name, run in observed.python.items()}
        new = frozenset(name for name in project.graph if name not in hashes)
        modified = frozenset(
            name
            for name, node in project.graph.items()
            if name in hashes and node.local_hash not in (hashes[name], observed.renewed_hashes.get(hashes[name]))
        )
        return ChangedDefinitions(new, modified)

    def begin_build(self) -> Self:
        return self

    def finalize_build(
        self,
        result: BuildResult,
        states: Mapping[Relation, TableState],
        externals: Mapping[str, Relation],
        announce: Announce | None = None,
    ) -> EnvironmentResult | None:
        return None

    def read_definitions(self, names: Iterable[str]) -> Mapping[str, str]:
        project = self.workspace.project
        schemas = {project.nodes[n].relation.schema if n in project.nodes else project.python[n].schema for n in names}
        rows = self.lake.state.read_fingerprints(sorted(schemas))
        return {row.node_name: row.definition for row in rows.values() if row.node_type != "test"}


@dataclass(frozen=True, slots=True)
class VirtualEnvironment:
    """A virtual environment, by a session of it; `token` is that of its lock, where something may be built."""

    session: EnvironmentSession
    token: str = ""

    @property
    def workspace(self) -> Workspace:
        return self.session.workspace

    @property
    def lake(self) -> Lake:
        return self.session.lake

    @property
    def name(self) -> str:
        return self.session.name

    def narrow_selection(
        self, selected: frozenset[str] | None, include_stale_upstreams: bool, changes_only: bool
    ) -> frozenset[str] | None:
        from sqb.environments.build.finalize import resolve_selection

        return resolve_selection(self.session, selected, include_stale_upstreams, changes_only)

    def check_view_conflicts(self, names: frozenset[str] | None) -> None:
        from sqb.environments.views import check_not_taken

        session = self.session
        bound = (r for r in session.refs.values() if r.binding.relation is not None)
        shown = {session.get_view(r.binding.logical): r for r in bound}
        nodes = [n for name, n in session.direct.nodes.items() if names is None or name in names]
        views = (*shown, *(session.get_view(n.relation) for n in nodes))
        check_not_taken(session.lake, session.name, views, shown if session.environment is not None else {})

    def observe(self, workspace: Workspace) -> LakeState:
        seen = observe_lake(workspace, self.lake)
        if not (self.session.refs or self.session.stale):
            return seen
        from sqb.environments.build.prior_versions import add_prior_states

        return add_prior_states(self.session, seen)

    def find_changed_definitions(self) -> ChangedDefinitions:
        stale = self.session.stale.values()
        # What an environment shows has versions; functions in Python are run by the target's own history.
        python = NoEnvironment(self.workspace, self.lake).find_changed_definitions()
        own = self.session.project.python.keys()
        new = frozenset(s.name for s in stale if not s.bound) | (python.new & own)
        return ChangedDefinitions(new, frozenset(s.name for s in stale if s.bound and s.root) | (python.modified & own))

    def begin_build(self) -> Self:
        from sqb.environments.build.finalize import mark_active

        return replace(self, session=mark_active(self.session, self.token))

    def finalize_build(
        self,
        result: BuildResult,
        states: Mapping[Relation, TableState],
        externals: Mapping[str, Relation],
        announce: Announce | None = None,
    ) -> EnvironmentResult | None:
        from sqb.build.failpoints import read_failpoint
        from sqb.environments.build.finalize import finalize_build

        root = self.workspace.root
        announce = announce or read_failpoint()
        return finalize_build(
            self.session, result, states, externals, self.token, lambda: read_git_commit(root), announce
        )

    def read_definitions(self, names: Iterable[str]) -> Mapping[str, str]:
        keys = [(s.name, s.bound) for s in self.session.stale.values() if s.bound]
        return {name: v.definition for (name, _), v in self.session.store.read_versions(keys).items()}

    def count_changed_views(self, plan: Plan, seen: LakeState) -> int:
        """How many views would move though nothing runs: to tables that others have built or refreshed, or back."""
        from sqb.environments.build.bindings import list_changed_nodes

        unchanged = [n.name for n in plan.nodes if n.action == "skip" and n.name in self.session.project.nodes]
        return len({*list_changed_nodes(self.session, unchanged, seen.states), *list_misplaced_views(self.session)})


def open_environment(workspace: Workspace, name: str | None) -> BuildEnvironment:
    """The environment that a command is about."""
    if not workspace.virtual.enabled:
        return _open_target(workspace, name)
    from sqb.environments.session import open_session  # only projects with environments load their database

    return VirtualEnvironment(open_session(workspace, name))


@contextmanager
def lock_environment_for_build(
    workspace: Workspace,
    name: str | None,
    take_over: bool,
    announce: Announce | None = None,
    validate: Callable[[BuildEnvironment], object] | None = None,
) -> Iterator[BuildEnvironment]:
    """The environment that a build goes into, made if it is not there, with its lock.

    `validate` raises what keeps the build from being done: then nothing is made.
    """
    if not workspace.virtual.enabled:
        yield _open_target(workspace, name)
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
            validate(VirtualEnvironment(session, token))
        session = create_environment(session, token, announce)
        record_versions(session)
        yield VirtualEnvironment(session, token)


def _open_target(workspace: Workspace, name: str | None) -> NoEnvironment:
    if name is not None:
        raise not_virtual(f"--virtual-env {name}: this project has no virtual environments")
    return NoEnvironment(workspace, open_lake(workspace))


def list_misplaced_views(session: EnvironmentSession) -> list[str]:
    """The nodes whose views are gone from the catalog, or were replaced: the next build puts them back."""
    if session.environment is None:
        return []
    from sqb.environments.views import find_misplaced_views

    misplaced = find_misplaced_views(session.lake, session.name, session.refs, session.workspace.virtual.unsuffixed)
    return sorted(name for name in misplaced if name not in session.removed)


def open_read_only(workspace: Workspace, name: str | None, as_shown: bool = False) -> tuple[Workspace, Lake]:
    """The workspace and lake of a command that only looks: at what was built, or as the environment shows it."""
    match open_environment(workspace, name):
        case VirtualEnvironment(session=session) if as_shown:
            return build_logical_workspace(session), session.lake
        case environment:
            return environment.workspace, environment.lake


def build_logical_workspace(session: EnvironmentSession) -> Workspace:
    """The workspace with nodes at the views of the environment, for those who read what it shows."""
    nodes = {
        name: replace(session.project.nodes[name], relation=session.get_view(node.relation))
        for name, node in session.direct.nodes.items()
    }
    return replace(session.workspace, project=replace(session.project, nodes=nodes))
