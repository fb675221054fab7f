"""Which checkpoint an environment is rolled back to. No I/O here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqb.environments.values import Binding, Checkpoint, Environment, Ref
from sqb.errors_environments import NoSuchCheckpoint

_SHOWN = 5
# Ids begin with the time: fewer digits are the number of a checkpoint, perhaps of one that is not there.
_BEGINNING = 8


def choose_checkpoint(
    environment: Environment, refs: Mapping[str, Ref], checkpoints: Sequence[Checkpoint], wanted: str | None = None
) -> Checkpoint:
    """The checkpoint to go to: the one that is wanted, or one step back from what the environment shows.

    An environment that has left its checkpoint goes back to it, and else to the one before. `checkpoints` may be of all
    environments, newest first; `wanted` is an id, the beginning of one, or a number.
    """
    own = [c for c in checkpoints if c.environment == environment.name]
    if wanted is not None:
        return _named(environment.name, own, checkpoints, wanted.strip())
    by_id = {c.id: c for c in own}
    here = by_id.get(environment.checkpoint)
    if here is None:
        raise NoSuchCheckpoint(
            f"{environment.name} has no checkpoint to go back to",
            hint=_known(own) or "a build that finalizes it makes one, and so does a promotion to it",
        )
    if not shows(refs, here):
        return here
    if not here.parent:
        raise NoSuchCheckpoint(
            f"{environment.name} is at its first checkpoint, {told(here)}: there is none before it", hint=_known(own)
        )
    if here.parent not in by_id:
        raise NoSuchCheckpoint(
            f"the checkpoint before {told(here)} of {environment.name} is not kept any more",
            hint=_known(own) or "keep_checkpoints under [virtual] says how many are kept",
        )
    return by_id[here.parent]


def shows(refs: Mapping[str, Ref], checkpoint: Checkpoint) -> bool:
    """Whether refs are those of a checkpoint."""
    return refs.keys() == checkpoint.refs.keys() and all(r.binding.id == checkpoint.refs[n] for n, r in refs.items())


def refs_at(
    checkpoint: Checkpoint, bindings: Mapping[str, Binding], now: Mapping[str, Ref], agreed: Mapping[str, str]
) -> dict[str, Ref]:
    """What an environment shows at a checkpoint; its views are where they stand now.

    `agreed` are the versions on which it and its baseline had last agreed then: what they agree on since may be newer
    than what is shown again.
    """
    refs: dict[str, Ref] = {}
    for name, id in checkpoint.refs.items():
        if id not in bindings:
            raise NoSuchCheckpoint(f"checkpoint {told(checkpoint)} is not complete: what it showed of {name} is lost")
        bound = bindings[id]
        ref = now.get(name, Ref(bound))
        same = name in now and ref.binding.version_hash == bound.version_hash
        refs[name] = Ref(
            bound,
            ref.base if same else agreed.get(name, ""),
            ref.location,
            # Which checks these rows had passed then is not known any more.
            ref.checks if ref.binding == bound else "",
        )
    return refs


def told(checkpoint: Checkpoint) -> str:
    """A checkpoint in a few words: its number, and what made it."""
    return f"{checkpoint.number} ({checkpoint.detail or checkpoint.reason}, {checkpoint.created_at:%Y-%m-%d %H:%M})"


def _named(environment: str, own: Sequence[Checkpoint], every: Sequence[Checkpoint], wanted: str) -> Checkpoint:
    text = wanted.removeprefix("#")
    found = _matching(own, text)
    if len(found) == 1:
        return found[0]
    if found:
        raise NoSuchCheckpoint(f'"{wanted}" fits {len(found)} checkpoints of {environment}', hint="write more of it")
    # A number means another checkpoint in each environment, an id does not.
    elsewhere = [c for c in _matching(every, text) if not text.isdigit() or c.id == text]
    if len(elsewhere) == 1:
        raise NoSuchCheckpoint(
            f'the checkpoint "{wanted}" is of {elsewhere[0].environment}, not of {environment}',
            hint=f"--virtual-env {elsewhere[0].environment} names its environment",
        )
    raise NoSuchCheckpoint(f'{environment} has no checkpoint "{wanted}"', hint=_known(own) or "it has none at all")


def _matching(checkpoints: Sequence[Checkpoint], text: str) -> list[Checkpoint]:
    """What a text means: a whole id first, then a number, then the beginning of an id."""
    exact = [c for c in checkpoints if c.id == text]
    numbered = [c for c in checkpoints if text.isdigit() and c.number == int(text)]
    if exact or numbered or not text or (text.isdigit() and len(text) < _BEGINNING):
        return exact or numbered
    return [c for c in checkpoints if c.id.startswith(text)]


def _known(own: Sequence[Checkpoint]) -> str | None:
    if not own:
        return None
    more = f" and {len(own) - _SHOWN} older ones" if len(own) > _SHOWN else ""
    return f"there are {'; '.join(told(c) for c in own[:_SHOWN])}{more}"
