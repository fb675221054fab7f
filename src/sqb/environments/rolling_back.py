"""Rolling an environment back, or forward, to what it showed at a checkpoint: views move, nothing is built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from sqb.build.steps import Announce, silent
from sqb.environments.common_ground import agreed_at
from sqb.environments.entering import baseline_of, refuse_detached
from sqb.environments.moving import locked, misplaced_views, move, with_bases
from sqb.environments.naming import refuse_bad_name
from sqb.environments.pairing import look_at_pair
from sqb.environments.port import Store
from sqb.environments.promoting import checkpoints_of
from sqb.environments.promotion import Misfit, Step, misfits, steps_between
from sqb.environments.rollback import choose_checkpoint, refs_at, shows
from sqb.environments.showable import refuse_missing
from sqb.environments.values import Checkpoint, Environment, Ref, Status
from sqb.errors_environments import NoSuchEnvironment
from sqb.lake.port import Lake
from sqb.names import did_you_mean
from sqb.workspace import Workspace


@dataclass(frozen=True, slots=True)
class RolledBack:
    """A rollback that was made, or that would be."""

    environment: str
    checkpoint: Checkpoint
    steps: tuple[Step, ...]
    left: tuple[Misfit, ...]
    status: Status
    views: int = 0
    # Nodes whose views were gone from the catalog: they are put back.
    misplaced: tuple[str, ...] = ()


def roll_back(
    workspace: Workspace,
    store: Store,
    lake: Lake,
    name: str,
    wanted: str | None = None,
    *,
    dry_run: bool = False,
    take_over: bool = False,
    owner: str = "",
    announce: Announce = silent,
) -> RolledBack:
    """Make an environment show what it showed at a checkpoint, the one before where none is named."""
    refuse_bad_name(name)
    look_at_pair(store, lake).refuse_foreign()
    there = store.environments()
    if name not in there:
        known = f"there are {', '.join(there)}" if there else None
        raise NoSuchEnvironment(f"there is no virtual environment {name}", hint=did_you_mean(name, there) or known)
    refuse_detached(there[name])
    with ExitStack() as held:
        token = "" if dry_run else held.enter_context(locked(store, lake, name, owner, take_over, announce))
        with store.looking():
            environment, before = store.environments()[name], store.refs(name)
            baseline = environment.baseline or baseline_of(workspace)
            history = checkpoints_of(store, name, baseline)
            # An id that is not here may be of another environment, which is worth saying.
            every = history if wanted is None else store.checkpoints()
            chosen = choose_checkpoint(environment, before, every, wanted)
            after = _refs_at(chosen, environment, before, history, store, baseline)
        steps, left = steps_between(before, after), misfits(after)
        refuse_missing(lake, {s.name: after[s.name] for s in steps if s.what != "removed"})
        status = Status.ACTIVE if left else Status.FINALIZED
        done = RolledBack(name, chosen, steps, left, status)
        unsuffixed = workspace.virtual.unsuffixed
        misplaced = misplaced_views(lake, name, before, unsuffixed)
        done = replace(done, misplaced=tuple(sorted(misplaced)))
        same = environment.checkpoint == chosen.id and shows(before, chosen) and environment.status is status
        if dry_run or (same and not misplaced):
            return done
        now = replace(
            environment, status=status, checkpoint=chosen.id, run_id=chosen.run_id, updated_at=datetime.now(UTC)
        )
        views = move(store, lake, now, before, after, token, unsuffixed, None, announce)
        return replace(done, views=views)


def _refs_at(
    chosen: Checkpoint,
    environment: Environment,
    now: Mapping[str, Ref],
    history: Sequence[Checkpoint],
    store: Store,
    baseline: str,
) -> dict[str, Ref]:
    bindings = store.bindings(set(chosen.refs.values()))
    if baseline == environment.name:
        refs = refs_at(chosen, bindings, now, {})
        return with_bases(refs, refs)
    other = {n for n, id in chosen.refs.items() if n not in now or now[n].binding.id != id}
    past = store.bindings({c.refs[n] for c in history for n in other if n in c.refs}) if other else {}
    agreed = agreed_at(chosen, environment, baseline, history, past)
    return with_bases(refs_at(chosen, bindings, now, agreed), store.refs(baseline))
