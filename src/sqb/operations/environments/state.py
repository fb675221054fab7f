"""The database of virtual environments: set up, paired with a lake, shown, and its environments changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Literal

from sqb.environments.adopt import Adoption
from sqb.environments.describe import EnvironmentSummary, detach, get_environment, list_summaries, reattach
from sqb.environments.model import Binding, Environment, Ref
from sqb.environments.remove_views import check_not_baseline, list_dependents, list_views, remove_views
from sqb.environments.session import describe_owner, get_baseline, open_workspace_store
from sqb.environments.state.pairing import Match, Pairing, pair_lake, read_pairing, repair_pairing
from sqb.environments.state.store import Store
from sqb.environments.views import drop_environment, find_misplaced_views, lock_environment
from sqb.errors.environments import StateNotReady
from sqb.lake.open import open_lake
from sqb.workspace import Workspace

# Asks the caller whether to go on with what cannot be taken back; raises where the answer is no.
Confirm = Callable[[str], None]
Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ShowOptions:
    """All environments, or one of them."""

    virtual_env: str | None = None


@dataclass(frozen=True, slots=True)
class AdoptOptions:
    """How tables are adopted."""

    dry_run: bool = False
    take_over: bool = False


@dataclass(frozen=True, slots=True)
class AttachmentOptions:
    """The environment that is detached or attached again."""

    name: str
    take_over: bool = False


@dataclass(frozen=True, slots=True)
class RemoveOptions:
    """The environment that is removed."""

    name: str
    take_over: bool = False
    force: bool = False


@dataclass(frozen=True, slots=True)
class StateInitialized:
    """The database after `sqb state init`."""

    target: str
    store: str
    made: bool
    version: int | None

    def to_data(self) -> dict[str, Any]:
        """What `sqb state init --json` prints."""
        return {"target": self.target, "made": self.made, "version": self.version}


@dataclass(frozen=True, slots=True)
class StateMigrated:
    """The database after `sqb state migrate`."""

    target: str
    store: str
    migrated: bool
    before: int
    version: int | None

    def to_data(self) -> dict[str, Any]:
        """What `sqb state migrate --json` prints."""
        return {"target": self.target, "migrated": self.migrated, "before": self.before, "version": self.version}


@dataclass(frozen=True, slots=True)
class StatePaired:
    """A lake and a state that belong together now; `before` is what they were to each other."""

    target: str
    store: str
    before: Pairing

    def to_data(self) -> dict[str, Any]:
        """What `sqb state pair --json` prints."""
        return {
            "target": self.target,
            "state": self.before.to_data(),
            "paired": self.before.match is not Match.PAIRED,
        }


@dataclass(frozen=True, slots=True)
class StateOverview:
    """All environments of a target, and the database that they are in."""

    target: str
    store: str
    version: int | None
    pairing: Pairing
    environments: tuple[EnvironmentSummary, ...]

    def to_data(self) -> dict[str, Any]:
        """What `sqb state show --json` prints."""
        return {
            "target": self.target,
            "state": {"name": self.store, "version": self.version, **self.pairing.to_data()},
            "environments": [encode_summary(summary) for summary in self.environments],
        }


@dataclass(frozen=True, slots=True)
class EnvironmentDetails:
    """One environment with all that it shows."""

    target: str
    summary: EnvironmentSummary
    refs: Mapping[str, Ref]
    views_missing: tuple[str, ...]

    def to_data(self) -> dict[str, Any]:
        """What `sqb state show --virtual-env NAME --json` prints."""
        return {
            "target": self.target,
            "environment": {**encode_summary(self.summary), "views_missing": list(self.views_missing)},
            "nodes": [{**encode_binding(ref.binding), "base": ref.base or None} for ref in self.refs.values()],
        }


@dataclass(frozen=True, slots=True)
class AttachmentChanged:
    """An environment that was detached or attached again, before and after."""

    target: str
    action: Literal["detach", "reattach"]
    before: Environment
    after: Environment

    def to_data(self) -> dict[str, Any]:
        """What `sqb state detach --json` and `sqb state reattach --json` print."""
        return {
            "target": self.target,
            "environment": self.after.name,
            "status": str(self.after.status),
            "was": self.after.was,
        }


@dataclass(frozen=True, slots=True)
class EnvironmentRemoved:
    """An environment that is gone; one that the state did not know had only views."""

    target: str
    environment: str
    views: int
    was_known: bool = True

    def to_data(self) -> dict[str, Any]:
        """What `sqb state remove --json` prints."""
        return {"target": self.target, "environment": self.environment, "views": self.views}


@dataclass(frozen=True, slots=True)
class TablesAdopted:
    """The tables that were taken into the baseline, or would be."""

    target: str
    environment: str
    adoptions: tuple[Adoption, ...]
    dry_run: bool

    def to_data(self) -> dict[str, Any]:
        """What `sqb state adopt --json` prints."""
        nodes = [
            {
                "name": adoption.name,
                "relation": str(adoption.relation),
                "table": str(adoption.table) if adoption.table is not None else None,
                "gave_way": adoption.gave_way,
                "why_not": adoption.why_not or None,
            }
            for adoption in self.adoptions
        ]
        return {"target": self.target, "environment": self.environment, "nodes": nodes}


def init_state(workspace: Workspace) -> StateInitialized:
    """Set the database up."""
    with closing(open_workspace_store(workspace)) as store:
        made = store.prepare()
        return StateInitialized(workspace.project.target, store.name, made, store.read_schema_version())


def migrate_state(workspace: Workspace) -> StateMigrated:
    """Bring the tables of an older sqb to this one's version."""
    with closing(open_workspace_store(workspace)) as store:
        before = store.read_schema_version()
        if before is None:
            message = f"{store.name} has not been set up for virtual environments"
            raise StateNotReady(message, hint="run `sqb state init` once")
        migrated = store.prepare()
        return StateMigrated(workspace.project.target, store.name, migrated, before, store.read_schema_version())


def pair_state(workspace: Workspace, confirm: Confirm) -> StatePaired:
    """Let the lake and the state belong together, whatever either says."""
    with closing(open_workspace_store(workspace)) as store:
        lake = open_lake(workspace)
        pairing = read_pairing(store, lake)
        if pairing.match is Match.FOREIGN:
            confirm(f"{pairing.why}. Let this lake and this state belong together?")
            repair_pairing(store, lake)
        else:
            pair_lake(store, lake)
        return StatePaired(workspace.project.target, store.name, pairing)


def show_state(workspace: Workspace, options: ShowOptions, warn: Report) -> StateOverview | EnvironmentDetails:
    """All environments, or one with what it shows."""
    with closing(open_workspace_store(workspace)) as store:
        pairing = warn_if_foreign(workspace, store, warn)
        summaries, target = list_summaries(store), workspace.project.target
        if options.virtual_env is None:
            return StateOverview(target, store.name, store.read_schema_version(), pairing, tuple(summaries))
        get_environment(options.virtual_env, {s.environment.name: s.environment for s in summaries})
        (summary,) = (s for s in summaries if s.environment.name == options.virtual_env)
        refs = store.read_refs(options.virtual_env)
        unsuffixed = workspace.virtual.unsuffixed
        missing = sorted(find_misplaced_views(open_lake(workspace), options.virtual_env, refs, unsuffixed))
        return EnvironmentDetails(target, summary, refs, tuple(missing))


def warn_if_foreign(workspace: Workspace, store: Store, warn: Report) -> Pairing:
    """Warn where the lake's environments are in another state; commands that only read go on all the same."""
    pairing = read_pairing(store, open_lake(workspace))
    if pairing.match is Match.FOREIGN:
        warn(pairing.why)
    return pairing


def detach_environment(workspace: Workspace, options: AttachmentOptions) -> AttachmentChanged:
    """Refuse builds, promotions and rollbacks of an environment from now on."""
    return _change_attachment(workspace, options, "detach")


def reattach_environment(workspace: Workspace, options: AttachmentOptions) -> AttachmentChanged:
    """Allow builds, promotions and rollbacks of an environment again."""
    return _change_attachment(workspace, options, "reattach")


def _change_attachment(
    workspace: Workspace, options: AttachmentOptions, action: Literal["detach", "reattach"]
) -> AttachmentChanged:
    name, owner = options.name, describe_owner(f"sqb state {action} {options.name}")
    with closing(open_workspace_store(workspace)) as store:
        get_environment(name, store.read_environments())
        with lock_environment(store, open_lake(workspace), name, owner, options.take_over) as token:
            # Read again: before the lock was held, another process may have changed or removed it.
            before = get_environment(name, store.read_environments())
            after = detach(before) if action == "detach" else reattach(before)
            if after != before:
                store.set_environment(after, token)
        return AttachmentChanged(workspace.project.target, action, before, after)


def remove_environment(workspace: Workspace, options: RemoveOptions, confirm: Confirm) -> EnvironmentRemoved:
    """Remove an environment with its views and checkpoints."""
    name, target = options.name, workspace.project.target
    with closing(open_workspace_store(workspace)) as store:
        lake, known = open_lake(workspace), store.read_environments()
        if name not in known and (left := list_views(lake, store.scope).get(name)):
            # Such as the views of a state that was lost.
            read_pairing(store, lake).check_match()
            confirm(f"the state does not know {name}, and the lake has {len(left)} views of it. Remove them?")
            remove_views(lake, left)
            return EnvironmentRemoved(target, name, len(left), was_known=False)
        get_environment(name, known)
        check_not_baseline(name, known, options.force)
        if question := _build_removal_question(workspace, name, known):
            confirm(question)
        owner = describe_owner(f"sqb state remove {name}")
        views = drop_environment(store, lake, name, owner, options.take_over, options.force)
        return EnvironmentRemoved(target, name, views)


def _build_removal_question(workspace: Workspace, name: str, known: Mapping[str, Environment]) -> str:
    """The question before an environment that others count on is removed; "" where no question is needed."""
    if others := list_dependents(name, known):
        return f"{name} is the baseline of {', '.join(others)}, which forget where they agreed with it. Remove it?"
    if name in (get_baseline(workspace), workspace.virtual.unsuffixed):
        return f"{name} is the baseline that new environments begin as. Remove it with its views and checkpoints?"
    return ""


def adopt_into_baseline(workspace: Workspace, options: AdoptOptions, confirm: Confirm) -> TablesAdopted:
    """Take tables that were built before there were environments into the baseline."""
    from sqb.build.failpoints import read_failpoint
    from sqb.environments.adopt import adopt_tables

    with closing(open_workspace_store(workspace)) as store:
        lake, owner = open_lake(workspace), describe_owner("sqb state adopt")
        adoptions = adopt_tables(workspace, store, lake, owner, dry_run=True)
        adopted = [adoption for adoption in adoptions if not adoption.why_not]
        leaving = [adoption for adoption in adopted if adoption.gave_way]
        if adopted and not options.dry_run:
            if leaving:
                confirm(f"{len(leaving)} relations leave their names until the next build makes views there. Go on?")
            adoptions = adopt_tables(
                workspace, store, lake, owner, take_over=options.take_over, announce=read_failpoint()
            )
    return TablesAdopted(workspace.project.target, get_baseline(workspace), tuple(adoptions), options.dry_run)


def encode_summary(summary: EnvironmentSummary) -> dict[str, Any]:
    """An environment as a JSON value."""
    environment, at, lock = summary.environment, summary.checkpoint, summary.lock
    return {
        "name": environment.name,
        "status": str(environment.status),
        "nodes": summary.nodes,
        "baseline": environment.baseline or None,
        "created_at": environment.created_at.isoformat(),
        "created_by": environment.created_by or None,
        "updated_at": environment.updated_at.isoformat(),
        "run_id": environment.run_id or None,
        "checkpoint": {"id": at.id, "number": at.number} if at is not None else None,
        "ttl": environment.ttl,
        "lock": {"owner": lock.owner, "since": lock.since.isoformat()} if lock is not None else None,
        "unfinished": summary.unfinished,
    }


def encode_binding(binding: Binding) -> dict[str, Any]:
    """A binding as a JSON value."""
    return {
        "name": binding.name,
        "type": binding.type,
        "kind": binding.kind,
        "version": binding.version_hash,
        "relation": str(binding.relation) if binding.relation is not None else None,
        "snapshot_id": binding.snapshot_id,
    }
