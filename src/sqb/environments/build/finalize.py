"""Finalizes a build into an environment: creates the environment if needed and swaps its views once every selected node
has succeeded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from sqb.build.failpoints import Announce, ignore_step
from sqb.build.result import BuildResult
from sqb.compile.model import Project
from sqb.environments.build.bindings import build_refs, build_versions
from sqb.environments.model import Environment, Ref, Status
from sqb.environments.session import EnvironmentSession, check_attached, describe_owner, open_session
from sqb.environments.staleness import check_stale_upstreams, find_removed, find_stale_upstreams
from sqb.environments.state.store import Store
from sqb.environments.views import build_checkpoint, find_misplaced_views, swap_views, update_bases
from sqb.lake.port import TableState
from sqb.names import Relation


@dataclass(frozen=True, slots=True)
class EnvironmentResult:
    """The state of an environment after a build."""

    name: str
    status: Status
    # Views that are others now, and the nodes that are stale still.
    views: int = 0
    # Views that were made of what the environment began as.
    initial_views: int = 0
    remaining: tuple[str, ...] = ()
    checkpoint: str = ""
    # The build did not succeed, so nothing of it is shown.
    failed: bool = False


def resolve_selection(
    session: EnvironmentSession, selected: frozenset[str] | None, include_stale_upstreams: bool, changes_only: bool
) -> frozenset[str] | None:
    """The selection as an environment allows it: what it reads must not be stale, or be built with it."""
    if changes_only:
        names = session.project.graph.keys() if selected is None else selected
        selected = frozenset(names) & session.stale.keys()
    if selected is None:
        return None
    above = find_stale_upstreams(session.project, selected, session.stale.keys())
    if above and include_stale_upstreams:
        return selected | frozenset(above)
    check_stale_upstreams(above)
    return selected


def create_environment(session: EnvironmentSession, token: str, announce: Announce = ignore_step) -> EnvironmentSession:
    """Create the environment as a copy of its baseline, unless it exists."""
    check_attached(session.environment)
    if session.environment is not None:
        return session
    now = datetime.now(UTC)
    settings = session.workspace.virtual
    permanent = session.name in (session.baseline, settings.unsuffixed)
    baseline = session.store.read_environments().get(session.baseline)
    environment = Environment(
        name=session.name,
        status=Status.ACTIVE,
        created_at=now,
        updated_at=now,
        created_by=describe_owner("").partition(",")[0],
        baseline=session.baseline if session.baseline != session.name else "",
        ttl=None if permanent else settings.ttl,
        began=baseline.checkpoint if baseline is not None and baseline.name != session.name else "",
    )
    views = swap_views(
        session.store, session.lake, environment, {}, session.refs, token, settings.unsuffixed, None, announce
    )
    if environment.baseline:
        session.store.copy_observations(environment.baseline, session.name)
    direct = replace(session.workspace, project=session.direct)
    return replace(open_session(direct, session.name, session.store), initial_views=views)


def mark_active(session: EnvironmentSession, token: str) -> EnvironmentSession:
    """Mark an environment as active while it is built: it is not finalized again until a build succeeds."""
    environment = session.environment
    if environment is None or environment.status is not Status.FINALIZED:
        return session
    active = replace(environment, status=Status.ACTIVE)
    session.store.set_environment(active, token)
    return replace(session, environment=active)


def finalize_build(
    session: EnvironmentSession,
    result: BuildResult,
    states: Mapping[Relation, TableState],
    externals: Mapping[str, Relation],
    token: str,
    git: Callable[[], str],
    announce: Announce = ignore_step,
) -> EnvironmentResult:
    """Swap the views to what was built, if every node succeeded; without changes no view moves."""
    environment = session.environment
    assert environment is not None
    if not result.ok:
        mark_active(session, token)
        return EnvironmentResult(
            session.name,
            Status.ACTIVE,
            initial_views=session.initial_views,
            remaining=tuple(session.stale),
            failed=True,
        )
    names = [n.planned.name for n in result.nodes if n.planned.name in session.project.nodes]
    refs = build_refs(session, names, states, externals, everything=result.plan.options.selected is None)
    changed = [n for n in names if refs[n].binding != _get_binding(session.refs.get(n))]
    if changed:
        session.store.add_versions(build_versions(session, changed, result.run_id))
    if environment.baseline and changed:
        refs = update_bases(refs, session.store.read_refs(environment.baseline))
    remaining = _list_stale(session.project, refs)
    status = Status.ACTIVE if remaining or find_removed(session.project, refs) else Status.FINALIZED
    if refs == session.refs and status is environment.status and _has_its_views(session):
        touch_environment(session.store, environment, token, datetime.now(UTC))
        return EnvironmentResult(session.name, status, 0, session.initial_views, remaining, environment.checkpoint)
    after = replace(environment, status=status, updated_at=datetime.now(UTC), run_id=result.run_id)
    checkpoint = None
    if status is Status.FINALIZED and not _is_at_checkpoint(session, refs):
        checkpoint = build_checkpoint(environment, refs, "build", "", result.run_id, git())
        after = replace(after, checkpoint=checkpoint.id)
    unsuffixed = session.workspace.virtual.unsuffixed
    views = swap_views(session.store, session.lake, after, session.refs, refs, token, unsuffixed, checkpoint, announce)
    return EnvironmentResult(session.name, status, views, session.initial_views, remaining, after.checkpoint)


def _get_binding(ref: Ref | None) -> Any:
    return ref.binding if ref is not None else None


def _list_stale(project: Project, refs: Mapping[str, Ref]) -> tuple[str, ...]:
    return tuple(n.name for n in project if n.name not in refs or refs[n.name].binding.version_hash != n.version_hash)


def _is_at_checkpoint(session: EnvironmentSession, refs: Mapping[str, Ref]) -> bool:
    """Whether these are the refs of the checkpoint that the environment is at."""
    environment = session.environment
    assert environment is not None
    if not environment.checkpoint:
        return False
    checkpoints = {c.id: c for c in session.store.read_checkpoints(session.name)}
    checkpoint = checkpoints.get(environment.checkpoint)
    return checkpoint is not None and dict(checkpoint.refs) == {name: ref.binding.id for name, ref in refs.items()}


def _has_its_views(session: EnvironmentSession) -> bool:
    """Whether the environment's views are those that were made for it."""
    unsuffixed = session.workspace.virtual.unsuffixed
    return not find_misplaced_views(session.lake, session.name, session.refs, unsuffixed)


# A build with nothing to do writes only when a good part of the environment's life is over.
_TOUCH_AFTER = 0.1


def record_versions(session: EnvironmentSession) -> None:
    """Record the versions that a build may create, so that their owner is known even if the build is killed."""
    if session.stale:
        session.store.add_versions(build_versions(session, session.stale.keys(), ""))


def touch_environment(store: Store, environment: Environment, token: str, now: datetime) -> None:
    """Renew the ttl of an environment whose build changed nothing."""
    if environment.ttl is not None and now > environment.updated_at + timedelta(seconds=environment.ttl * _TOUCH_AFTER):
        store.set_environment(replace(environment, updated_at=now), token)
