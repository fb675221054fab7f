"""Rolls an environment back to a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from sqb.build.failpoints import Announce, ignore_step
from sqb.environments.model import Binding, Checkpoint, Environment, Ref, Status
from sqb.environments.naming import check_environment_name
from sqb.environments.promotion.merge_base import find_agreed_versions
from sqb.environments.promotion.promote import read_checkpoints
from sqb.environments.promotion.three_way_merge import Misfit, Step, compare_refs, find_misfits
from sqb.environments.session import check_attached, get_baseline
from sqb.environments.state.pairing import read_pairing
from sqb.environments.state.store import Store
from sqb.environments.validate_refs import validate_refs
from sqb.environments.views import find_misplaced_views, lock_environment, swap_views, update_bases
from sqb.errors.environments import NoSuchCheckpoint, NoSuchEnvironment
from sqb.lake.port import Lake
from sqb.names import suggest_nearest
from sqb.workspace import Workspace

_MAX_SHOWN = 5
# Ids begin with the time: fewer digits are the number of a checkpoint, perhaps of one that is not there.
_MIN_PREFIX = 8


def choose_checkpoint(
    environment: Environment, refs: Mapping[str, Ref], checkpoints: Sequence[Checkpoint], reference: str | None = None
) -> Checkpoint:
    """The checkpoint to go to: the named one, or one step back from what the environment shows.

    An environment that has left its checkpoint goes back to it, and else to the one before. `checkpoints` may be of all
    environments, newest first; `reference` is an id, the beginning of one, or a number.
    """
    own_checkpoints = [c for c in checkpoints if c.environment == environment.name]
    if reference is not None:
        return _find_checkpoint(environment.name, own_checkpoints, checkpoints, reference.strip())
    by_id = {c.id: c for c in own_checkpoints}
    current = by_id.get(environment.checkpoint)
    if current is None:
        raise NoSuchCheckpoint(
            f"{environment.name} has no checkpoint to go back to",
            hint=_format_known(own_checkpoints) or "a build that finalizes it makes one, and so does a promotion to it",
        )
    if not is_at_checkpoint(refs, current):
        return current
    if not current.parent:
        raise NoSuchCheckpoint(
            f"{environment.name} is at its first checkpoint, {format_checkpoint(current)}: there is none before it",
            hint=_format_known(own_checkpoints),
        )
    if current.parent not in by_id:
        raise NoSuchCheckpoint(
            f"the checkpoint before {format_checkpoint(current)} of {environment.name} is no longer kept",
            hint=_format_known(own_checkpoints) or "keep_checkpoints under [virtual] says how many are kept",
        )
    return by_id[current.parent]


def is_at_checkpoint(refs: Mapping[str, Ref], checkpoint: Checkpoint) -> bool:
    """Whether refs are those of a checkpoint."""
    return refs.keys() == checkpoint.refs.keys() and all(r.binding.id == checkpoint.refs[n] for n, r in refs.items())


def build_refs_at(
    checkpoint: Checkpoint, bindings: Mapping[str, Binding], now: Mapping[str, Ref], agreed: Mapping[str, str]
) -> dict[str, Ref]:
    """What an environment shows at a checkpoint; its views keep their current locations.

    `agreed` are the versions on which it and its baseline had last agreed then: what they agree on since may be newer
    than what is shown again.
    """
    refs: dict[str, Ref] = {}
    for name, id in checkpoint.refs.items():
        if id not in bindings:
            raise NoSuchCheckpoint(
                f"checkpoint {format_checkpoint(checkpoint)} is not complete: what it showed of {name} is lost"
            )
        binding = bindings[id]
        ref = now.get(name, Ref(binding))
        same = name in now and ref.binding.version_hash == binding.version_hash
        refs[name] = Ref(
            binding,
            ref.base if same else agreed.get(name, ""),
            ref.location,
            # Which checks these rows had passed then is not known any more.
            ref.checks if ref.binding == binding else "",
        )
    return refs


def format_checkpoint(checkpoint: Checkpoint) -> str:
    """A checkpoint in a few words: its number, and what made it."""
    return f"{checkpoint.number} ({checkpoint.detail or checkpoint.reason}, {checkpoint.created_at:%Y-%m-%d %H:%M})"


def _find_checkpoint(
    environment: str, own_checkpoints: Sequence[Checkpoint], all_checkpoints: Sequence[Checkpoint], reference: str
) -> Checkpoint:
    text = reference.removeprefix("#")
    matches = _match_checkpoints(own_checkpoints, text)
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise NoSuchCheckpoint(
            f'"{reference}" fits {len(matches)} checkpoints of {environment}', hint="write more of it"
        )
    # A number means another checkpoint in each environment, an id does not.
    elsewhere = [c for c in _match_checkpoints(all_checkpoints, text) if not text.isdigit() or c.id == text]
    if len(elsewhere) == 1:
        raise NoSuchCheckpoint(
            f'the checkpoint "{reference}" is of {elsewhere[0].environment}, not of {environment}',
            hint=f"--virtual-env {elsewhere[0].environment} names its environment",
        )
    raise NoSuchCheckpoint(
        f'{environment} has no checkpoint "{reference}"', hint=_format_known(own_checkpoints) or "it has none at all"
    )


def _match_checkpoints(checkpoints: Sequence[Checkpoint], text: str) -> list[Checkpoint]:
    """What a text means: a whole id first, then a number, then the beginning of an id."""
    exact = [c for c in checkpoints if c.id == text]
    numbered = [c for c in checkpoints if text.isdigit() and c.number == int(text)]
    if exact or numbered or not text or (text.isdigit() and len(text) < _MIN_PREFIX):
        return exact or numbered
    return [c for c in checkpoints if c.id.startswith(text)]


def _format_known(checkpoints: Sequence[Checkpoint]) -> str | None:
    if not checkpoints:
        return None
    more = f" and {len(checkpoints) - _MAX_SHOWN} older ones" if len(checkpoints) > _MAX_SHOWN else ""
    return f"there are {'; '.join(format_checkpoint(c) for c in checkpoints[:_MAX_SHOWN])}{more}"


@dataclass(frozen=True, slots=True)
class RollbackResult:
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
    reference: str | None = None,
    *,
    dry_run: bool = False,
    take_over: bool = False,
    owner: str = "",
    announce: Announce = ignore_step,
) -> RollbackResult:
    """Make an environment show what it showed at a checkpoint, the one before where none is named."""
    check_environment_name(name)
    read_pairing(store, lake).check_match()
    environments = store.read_environments()
    if name not in environments:
        known = f"there are {', '.join(environments)}" if environments else "`sqb build --virtual-env NAME` makes one"
        raise NoSuchEnvironment(
            f"there is no virtual environment {name}", hint=suggest_nearest(name, environments) or known
        )
    check_attached(environments[name])
    with ExitStack() as locks:
        token = "" if dry_run else locks.enter_context(lock_environment(store, lake, name, owner, take_over, announce))
        with store.read_consistently():
            environment, before = store.read_environments()[name], store.read_refs(name)
            baseline = environment.baseline or get_baseline(workspace)
            history = read_checkpoints(store, name, baseline)
            # An id that is not here may be of another environment, which is worth saying.
            candidates = history if reference is None else store.read_checkpoints()
            chosen = choose_checkpoint(environment, before, candidates, reference)
            after = _read_refs_at(chosen, environment, before, history, store, baseline)
        steps, left = compare_refs(before, after), find_misfits(after)
        validate_refs(lake, {s.name: after[s.name] for s in steps if s.what != "removed"})
        status = Status.ACTIVE if left else Status.FINALIZED
        result = RollbackResult(name, chosen, steps, left, status)
        unsuffixed = workspace.virtual.unsuffixed
        misplaced = find_misplaced_views(lake, name, before, unsuffixed)
        result = replace(result, misplaced=tuple(sorted(misplaced)))
        same = environment.checkpoint == chosen.id and is_at_checkpoint(before, chosen) and environment.status is status
        if dry_run or (same and not misplaced):
            return result
        now = replace(
            environment, status=status, checkpoint=chosen.id, run_id=chosen.run_id, updated_at=datetime.now(UTC)
        )
        views = swap_views(store, lake, now, before, after, token, unsuffixed, None, announce)
        return replace(result, views=views)


def _read_refs_at(
    chosen: Checkpoint,
    environment: Environment,
    now: Mapping[str, Ref],
    history: Sequence[Checkpoint],
    store: Store,
    baseline: str,
) -> dict[str, Ref]:
    bindings = store.read_bindings(set(chosen.refs.values()))
    if baseline == environment.name:
        refs = build_refs_at(chosen, bindings, now, {})
        return update_bases(refs, refs)
    other = {n for n, id in chosen.refs.items() if n not in now or now[n].binding.id != id}
    past = store.read_bindings({c.refs[n] for c in history for n in other if n in c.refs}) if other else {}
    agreed = find_agreed_versions(chosen, environment, baseline, history, past)
    return update_bases(build_refs_at(chosen, bindings, now, agreed), store.read_refs(baseline))
