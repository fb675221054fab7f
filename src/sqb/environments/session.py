"""A session of one environment: its refs, the expected versions, and the project as it is built there."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from sqb.compile.materializations import refuse_in_environment
from sqb.compile.model import Project
from sqb.environments.model import Environment, Ref, Status
from sqb.environments.naming import build_logical_relation, check_environment_name
from sqb.environments.staleness import Stale, find_removed, find_stale, get_shown
from sqb.environments.state.open import open_store
from sqb.environments.state.pairing import read_pairing
from sqb.environments.state.store import Store, VersionKey
from sqb.environments.state_tables import EnvironmentStateTables
from sqb.environments.versions import build_physical_project, find_unchanged_versions
from sqb.errors.environments import Detached, not_virtual
from sqb.lake.open import open_lake
from sqb.lake.port import Lake
from sqb.names import At, Relation
from sqb.workspace import Workspace


@dataclass(frozen=True, slots=True)
class EnvironmentSession:
    """An environment, existing or about to be created, with the project as it is built into it."""

    name: str
    # The project at the tables of its versions, and as it would be without environments.
    workspace: Workspace
    direct: Project
    store: Store
    lake: Lake
    # None before the first build.
    environment: Environment | None
    # What it shows; before the first build what it begins as.
    refs: Mapping[str, Ref]
    stale: Mapping[str, Stale]
    removed: tuple[str, ...]
    # The views that were made when this command made the environment.
    initial_views: int = 0

    @property
    def project(self) -> Project:
        return self.workspace.project

    @property
    def status(self) -> Status:
        """The status of the environment, compared with the current project."""
        if self.environment is not None and self.environment.status is Status.DETACHED:
            return Status.DETACHED
        if self.environment is None or self.stale or self.removed:
            return Status.ACTIVE
        # Also where nothing is stale: a build that failed, or a promotion of a part, has left it so.
        return self.environment.status

    def list_unselected_stale(self, selected: Collection[str] | None) -> list[str]:
        """What stays stale when only these nodes are built; nothing where all are."""
        return [name for name in self.stale if selected is not None and name not in selected]

    @property
    def baseline(self) -> str:
        return get_baseline(self.workspace)

    def get_view(self, logical: Relation) -> Relation:
        """The environment's view on a model."""
        return build_logical_relation(logical, self.name, self.workspace.virtual.unsuffixed)


def format_scope(workspace: Workspace) -> str:
    """Whose environments these are: those of a project in one of its targets."""
    return f"{workspace.project.name}/{workspace.project.target}"


def open_workspace_store(workspace: Workspace) -> Store:
    """The store of a workspace's environments."""
    if not workspace.virtual.enabled:
        raise not_virtual("this project has no virtual environments")
    return open_store(workspace.virtual.state, format_scope(workspace), workspace.root)


def get_default_environment(workspace: Workspace) -> str:
    """The environment that is meant where none is named: it is called like the target."""
    return workspace.project.target


def resolve_name(workspace: Workspace, name: str | None) -> str:
    """The environment that is named, or the one that is meant where none is."""
    chosen = name if name is not None else get_default_environment(workspace)
    check_environment_name(chosen)
    return chosen


def get_baseline(workspace: Workspace) -> str:
    """The environment that new ones begin as."""
    return workspace.virtual.baseline or get_default_environment(workspace)


def describe_owner(command: str) -> str:
    """Who holds a lock, for others to read."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}, process {os.getpid()}, {command}"


def open_session(workspace: Workspace, name: str | None, store: Store | None = None) -> EnvironmentSession:
    """Open a session of an environment; nothing is created or locked."""
    chosen = resolve_name(workspace, name)
    opened_store = store if store is not None else open_workspace_store(workspace)
    _check_custom(chosen, workspace.project)
    direct, project = workspace.project, build_physical_project(workspace.project)
    with opened_store.read_consistently():
        environment = opened_store.read_environments().get(chosen)
        reads = chosen if environment is not None else get_baseline(workspace)
        refs = opened_store.read_refs(reads)
        if environment is None:
            # What a new environment begins as is what it and its baseline agree on; its views are yet to be made.
            refs = {n: Ref(r.binding, r.binding.version_hash) for n, r in refs.items()}
        versions = opened_store.read_versions(keys) if (keys := _list_changed_keys(project, refs)) else {}
    if versions and (unchanged := find_unchanged_versions(direct, refs, versions)):
        project = build_physical_project(direct, unchanged)
    lake = open_lake(workspace, lambda state: EnvironmentStateTables(state, opened_store, chosen, reads))
    read_pairing(opened_store, lake).check_match()
    return EnvironmentSession(
        name=chosen,
        workspace=replace(workspace, project=project),
        direct=direct,
        store=opened_store,
        lake=lake,
        environment=environment,
        refs=refs,
        stale=find_stale(project, refs, versions),
        removed=find_removed(project, refs),
    )


def _list_changed_keys(project: Project, refs: Mapping[str, Ref]) -> list[VersionKey]:
    """The bound versions of nodes that are to have others."""
    shown = ((n, ref.binding) for n in project if (ref := get_shown(n, refs)) is not None)
    return [(bound.name, bound.version_hash) for n, bound in shown if bound.version_hash != n.version_hash]


def check_attached(environment: Environment | None) -> None:
    """Refuse to move an environment that is detached."""
    if environment is not None and environment.status is Status.DETACHED:
        raise Detached(
            f"the virtual environment {environment.name} is detached",
            hint=f"`sqb state reattach {environment.name}` attaches it again",
        )


def _check_custom(environment: str, project: Project) -> None:
    refuse_in_environment(environment, [(n.name, n.kind, At(n.file, 1, 1)) for n in project])
