"""A build into an environment: made if it is not there, and moved once everything that was selected has succeeded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from sqb.build.result import BuildResult
from sqb.build.steps import Announce, silent
from sqb.compiled import Project
from sqb.environments.bindings import new_refs, versions_of
from sqb.environments.entering import Entered, enter, owner_here, refuse_detached
from sqb.environments.moving import checkpoint_of, misplaced_views, move, with_bases
from sqb.environments.noting import note_use
from sqb.environments.stale import refuse_stale_upstreams, removed_nodes, stale_upstreams
from sqb.environments.values import Environment, Ref, Status
from sqb.lake.port import TableState
from sqb.names import Relation


@dataclass(frozen=True, slots=True)
class Settled:
    """What a build made of an environment."""

    name: str
    status: Status
    # Views that are others now, and the nodes that are stale still.
    views: int = 0
    # Views that were made of what the environment began as.
    begun: int = 0
    remaining: tuple[str, ...] = ()
    checkpoint: str = ""
    # The build did not succeed, so nothing of it is shown.
    untouched: bool = False


def chosen_nodes(
    entered: Entered, selected: frozenset[str] | None, include_stale_upstreams: bool, changes_only: bool
) -> frozenset[str] | None:
    """The selection as an environment allows it: what it reads must not be stale, or be built with it."""
    if changes_only:
        names = entered.project.graph.keys() if selected is None else selected
        selected = frozenset(names) & entered.stale.keys()
    if selected is None:
        return None
    above = stale_upstreams(entered.project, selected, entered.stale.keys())
    if above and include_stale_upstreams:
        return selected | frozenset(above)
    refuse_stale_upstreams(above)
    return selected


def made(entered: Entered, token: str, announce: Announce = silent) -> Entered:
    """The environment, made as its baseline if it is not there yet."""
    refuse_detached(entered.environment)
    if entered.environment is not None:
        return entered
    now = datetime.now(UTC)
    settings = entered.workspace.virtual
    kept = entered.name in (entered.baseline, settings.unsuffixed)
    baseline = entered.store.environments().get(entered.baseline)
    environment = Environment(
        name=entered.name,
        status=Status.ACTIVE,
        created_at=now,
        updated_at=now,
        created_by=owner_here("").partition(",")[0],
        baseline=entered.baseline if entered.baseline != entered.name else "",
        ttl=None if kept else settings.ttl,
        began=baseline.checkpoint if baseline is not None and baseline.name != entered.name else "",
    )
    views = move(entered.store, entered.lake, environment, {}, entered.refs, token, settings.unsuffixed, None, announce)
    if environment.baseline:
        entered.store.copy_observations(environment.baseline, entered.name)
    direct = replace(entered.workspace, project=entered.direct)
    return replace(enter(direct, entered.name, entered.store), begun=views)


def begin_work(entered: Entered, token: str) -> Entered:
    """Say that an environment is being built: whatever ends the build, it is not finalized until one has succeeded."""
    environment = entered.environment
    if environment is None or environment.status is not Status.FINALIZED:
        return entered
    active = replace(environment, status=Status.ACTIVE)
    entered.store.set_environment(active, token)
    return replace(entered, environment=active)


def settle(
    entered: Entered,
    result: BuildResult,
    states: Mapping[Relation, TableState],
    externals: Mapping[str, Relation],
    token: str,
    git: Callable[[], str],
    announce: Announce = silent,
) -> Settled:
    """Show what was built, if all of it succeeded; nothing moves where everything is shown already."""
    environment = entered.environment
    assert environment is not None
    if not result.ok:
        begin_work(entered, token)
        return Settled(entered.name, Status.ACTIVE, begun=entered.begun, remaining=tuple(entered.stale), untouched=True)
    names = [n.planned.name for n in result.nodes if n.planned.name in entered.project.nodes]
    refs = new_refs(entered, names, states, externals, everything=result.plan.options.selected is None)
    fresh = [n for n in names if refs[n].binding != _binding(entered.refs.get(n))]
    if fresh:
        entered.store.add_versions(versions_of(entered, fresh, result.run_id))
    if environment.baseline and fresh:
        refs = with_bases(refs, entered.store.refs(environment.baseline))
    remaining = _remaining(entered.project, refs)
    status = Status.ACTIVE if remaining or removed_nodes(entered.project, refs) else Status.FINALIZED
    if refs == entered.refs and status is environment.status and _in_place(entered):
        note_use(entered.store, environment, token, datetime.now(UTC))
        return Settled(entered.name, status, 0, entered.begun, remaining, environment.checkpoint)
    after = replace(environment, status=status, updated_at=datetime.now(UTC), run_id=result.run_id)
    checkpoint = None
    if status is Status.FINALIZED and not _is_at(entered, refs):
        checkpoint = checkpoint_of(environment, refs, "build", "", result.run_id, git())
        after = replace(after, checkpoint=checkpoint.id)
    unsuffixed = entered.workspace.virtual.unsuffixed
    views = move(entered.store, entered.lake, after, entered.refs, refs, token, unsuffixed, checkpoint, announce)
    return Settled(entered.name, status, views, entered.begun, remaining, after.checkpoint)


def _binding(ref: Ref | None) -> Any:
    return ref.binding if ref is not None else None


def _remaining(project: Project, refs: Mapping[str, Ref]) -> tuple[str, ...]:
    return tuple(n.name for n in project if n.name not in refs or refs[n.name].binding.version_hash != n.version_hash)


def _is_at(entered: Entered, refs: Mapping[str, Ref]) -> bool:
    """Whether these are the refs of the checkpoint that the environment is at."""
    environment = entered.environment
    assert environment is not None
    if not environment.checkpoint:
        return False
    known = {c.id: c for c in entered.store.checkpoints(entered.name)}
    at = known.get(environment.checkpoint)
    return at is not None and dict(at.refs) == {name: ref.binding.id for name, ref in refs.items()}


def _in_place(entered: Entered) -> bool:
    """Whether the environment's views are those that were made for it."""
    unsuffixed = entered.workspace.virtual.unsuffixed
    return not misplaced_views(entered.lake, entered.name, entered.refs, unsuffixed)
