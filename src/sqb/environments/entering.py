"""An environment entered: what it shows, what the project expects of it, and the project as it is built there."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from sqb.compile_materializations import refuse_in_environment
from sqb.compiled import Project
from sqb.environments.lake import EnvironmentLake
from sqb.environments.naming import logical_relation, refuse_bad_name
from sqb.environments.pairing import look_at_pair
from sqb.environments.port import Store, VersionKey
from sqb.environments.stale import Stale, removed_nodes, stale_nodes
from sqb.environments.stores import open_store
from sqb.environments.values import Environment, Ref, Status
from sqb.environments.versions import kept_versions, physical_project
from sqb.errors_environments import Detached, not_virtual
from sqb.names import At, Relation
from sqb.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Entered:
    """An environment, there already or about to be made, with the project as it is built into it."""

    name: str
    # The project at the tables of its versions, and as it would be without environments.
    workspace: Workspace
    direct: Project
    store: Store
    lake: EnvironmentLake
    # None before the first build.
    environment: Environment | None
    # What it shows; before the first build what it begins as.
    refs: Mapping[str, Ref]
    stale: Mapping[str, Stale]
    removed: tuple[str, ...]
    # The views that were made when this command made the environment.
    begun: int = 0

    @property
    def project(self) -> Project:
        return self.workspace.project

    @property
    def status(self) -> Status:
        """What the environment is, held against the project as it is now."""
        if self.environment is not None and self.environment.status is Status.DETACHED:
            return Status.DETACHED
        if self.environment is None or self.stale or self.removed:
            return Status.ACTIVE
        # Also where nothing is stale: a build that failed, or a promotion of a part, has left it so.
        return self.environment.status

    def left_by(self, selected: Collection[str] | None) -> list[str]:
        """What stays stale when only these nodes are built; nothing where all are."""
        return [name for name in self.stale if selected is not None and name not in selected]

    @property
    def baseline(self) -> str:
        return baseline_of(self.workspace)

    def view_of(self, logical: Relation) -> Relation:
        """The environment's view on a model."""
        return logical_relation(logical, self.name, self.workspace.virtual.unsuffixed)


def scope_of(workspace: Workspace) -> str:
    """Whose environments these are: those of a project in one of its targets."""
    return f"{workspace.project.name}/{workspace.project.target}"


def store_of(workspace: Workspace) -> Store:
    """The store of a workspace's environments."""
    if not workspace.virtual.enabled:
        raise not_virtual("this project has no virtual environments")
    return open_store(workspace.virtual.state, scope_of(workspace), workspace.root)


def default_environment(workspace: Workspace) -> str:
    """The environment that is meant where none is named: it is called like the target."""
    return workspace.project.target


def chosen_name(workspace: Workspace, name: str | None) -> str:
    """The environment that is named, or the one that is meant where none is."""
    chosen = name if name is not None else default_environment(workspace)
    refuse_bad_name(chosen)
    return chosen


def baseline_of(workspace: Workspace) -> str:
    """The environment that new ones begin as."""
    return workspace.virtual.baseline or default_environment(workspace)


def owner_here(command: str) -> str:
    """Who holds a lock, for others to read."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}, process {os.getpid()}, {command}"


def enter(workspace: Workspace, name: str | None, store: Store | None = None) -> Entered:
    """Look at an environment; nothing is made or locked."""
    chosen = chosen_name(workspace, name)
    opened = store if store is not None else store_of(workspace)
    _refuse_custom(chosen, workspace.project)
    direct, project = workspace.project, physical_project(workspace.project)
    with opened.looking():
        environment = opened.environments().get(chosen)
        reads = chosen if environment is not None else baseline_of(workspace)
        refs = opened.refs(reads)
        if environment is None:
            # What a new environment begins as is what it and its baseline agree on; its views are yet to be made.
            refs = {n: Ref(r.binding, r.binding.version_hash) for n, r in refs.items()}
        versions = opened.versions(keys) if (keys := _differing(project, refs)) else {}
    if versions and (kept := kept_versions(direct, refs, versions)):
        project = physical_project(direct, kept)
    lake = EnvironmentLake(workspace, opened, chosen, reads)
    look_at_pair(opened, lake).refuse_foreign()
    return Entered(
        name=chosen,
        workspace=replace(workspace, project=project),
        direct=direct,
        store=opened,
        lake=lake,
        environment=environment,
        refs=refs,
        stale=stale_nodes(project, refs, versions),
        removed=removed_nodes(project, refs),
    )


def _differing(project: Project, refs: Mapping[str, Ref]) -> list[VersionKey]:
    """The bound versions of nodes that are to have others."""
    bound = ((n, refs[n.name].binding.version_hash) for n in project if n.name in refs)
    return [(n.name, version) for n, version in bound if version != n.version_hash]


def refuse_detached(environment: Environment | None) -> None:
    """Refuse to move an environment that is detached."""
    if environment is not None and environment.status is Status.DETACHED:
        raise Detached(
            f"the virtual environment {environment.name} is detached",
            hint=f"`sqb state reattach {environment.name}` attaches it again",
        )


def _refuse_custom(environment: str, project: Project) -> None:
    refuse_in_environment(environment, [(n.name, n.kind, At(n.file, 1, 1)) for n in project])
