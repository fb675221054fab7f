"""Where two environments last agreed, node by node: what a promotion between them starts from. No I/O here.

An environment knows where it and its baseline last agreed, and its checkpoints tell what it has shown since it was
made. From these follows the same for any two environments.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sqb.environments.promotion import version_of
from sqb.environments.values import Binding, Checkpoint, Environment, Ref


@dataclass(frozen=True, slots=True)
class Known:
    """An environment as a promotion sees it; `past` are the versions that each node has had, newest first."""

    environment: Environment
    refs: Mapping[str, Ref]
    past: Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class CommonGround:
    """The versions on which two environments last agreed; of nodes that the source has, and that it has no more."""

    bases: Mapping[str, str]
    gone: Mapping[str, str]


def common_ground(source: Known, target: Known, own: Collection[str] = ()) -> CommonGround:
    """Where a promotion from `source` to `target` starts from.

    `own` are nodes on which the two agreed because the source was promoted: a target that was rolled back from that is
    where the source had come from, and has changed nothing itself.
    """
    if source.environment.baseline == target.environment.name:
        bases = {n: _since_then(n, source, target) for n in source.refs}
        for name in own:
            there = version_of(target.refs, name)
            if not there or there in source.past.get(name, ()):
                bases[name] = there
        return CommonGround(bases, _departed(source))
    if target.environment.baseline == source.environment.name:
        bases = {n: r.base for n, r in target.refs.items()} | _departed(target)
        return CommonGround(bases, {n: r.base for n, r in target.refs.items() if n not in source.refs and r.base})
    return CommonGround(
        {n: _shared(source, target, n) for n in source.refs},
        {n: v for n, v in _departed(source).items() if n in target.refs},
    )


def _since_then(name: str, source: Known, target: Known) -> str:
    """Where the source and its baseline last agreed on a node, if the baseline showed the source's version meanwhile.

    It may have been built there from the same code, which the source has not noticed.
    """
    version, base = version_of(source.refs, name), source.refs[name].base
    past = target.past.get(name, ())
    if version_of(target.refs, name) == base or version not in past or (base and base not in past):
        return base
    return version if not base or past.index(version) < past.index(base) else base


def _departed(known: Known) -> dict[str, str]:
    """The nodes that an environment had and has no more, with their last versions there."""
    return {n: versions[0] for n, versions in known.past.items() if n not in known.refs and versions}


def _shared(source: Known, target: Known, name: str) -> str:
    """The version of one node on which two environments with another baseline agreed; "" where they never did.

    What the target shows is where the source comes from, if the source has shown it too: then only the source changed.
    """
    there = version_of(target.refs, name)
    base = source.refs[name].base
    if there and (there in source.past.get(name, ()) or there == base):
        return there
    return base if there else ""


def past_versions(
    environment: Environment, checkpoints: Iterable[Checkpoint], bindings: Mapping[str, Binding]
) -> dict[str, list[str]]:
    """The versions that each node of an environment has had, newest first, those that it began with last.

    `checkpoints` are those of all environments, newest first: an environment begins as its baseline was then.
    """
    every = list(checkpoints)
    own = [c for c in every if c.environment == environment.name]
    # A checkpoint that is older by its time may have come later: a command that was cut off had begun it.
    began = next((c for c in every if environment.began and c.id == environment.began), None)
    past: dict[str, list[str]] = {}
    for checkpoint in (*own, *([began] if began is not None else [])):
        for name, version in _versions(checkpoint, bindings).items():
            versions = past.setdefault(name, [])
            if version not in versions:
                versions.append(version)
    return past


def promoted_from(
    source: Known, target: Known, checkpoints: Iterable[Checkpoint], bindings: Mapping[str, Binding]
) -> set[str]:
    """The nodes on which a source and its target agreed because the first was promoted to the second.

    `checkpoints` are newest first.
    """
    there = [c for c in reversed(list(checkpoints)) if c.environment == target.environment.name]
    found: set[str] = set()
    for name, ref in source.refs.items():
        if ref.base and ref.base != version_of(target.refs, name):
            shown = (c for c in there if _version(c, name, bindings) == ref.base)
            first = next(shown, None)
            if first is not None and first.detail.startswith(f"promoted from {source.environment.name}:"):
                found.add(name)
    return found


def agreed_at(
    checkpoint: Checkpoint,
    environment: Environment,
    baseline: str,
    checkpoints: Sequence[Checkpoint],
    bindings: Mapping[str, Binding],
) -> dict[str, str]:
    """The versions on which an environment at one of its checkpoints and its baseline had last agreed.

    `checkpoints` are those of all environments, newest first. Where too few of them are kept, nothing is told, or what
    was agreed on earlier: whoever goes by it finds a conflict where there is none, and never misses one.
    """
    theirs = [c for c in checkpoints if c.environment == baseline]
    own = [c for c in checkpoints if c.environment == environment.name]
    began = next((c for c in theirs if c.created_at <= environment.created_at), None)
    agreed = _versions(began, bindings) if began is not None else {}
    ends = [datetime.max.replace(tzinfo=UTC), *(c.created_at for c in own)]
    for one, end in reversed([(c, e) for c, e in zip(own, ends, strict=False) if c.number <= checkpoint.number]):
        while_shown = [c for c in theirs if one.created_at < c.created_at < end]
        while_shown += [c for c in theirs if c.created_at <= one.created_at][:1]
        shown = _versions(one, bindings)
        for there in while_shown:
            known = _versions(there, bindings)
            agreed |= {n: version for n, version in shown.items() if known.get(n) == version}
    return agreed


def _version(checkpoint: Checkpoint, name: str, bindings: Mapping[str, Binding]) -> str:
    binding = bindings.get(checkpoint.refs.get(name, ""))
    return binding.version_hash if binding is not None else ""


def _versions(checkpoint: Checkpoint, bindings: Mapping[str, Binding]) -> dict[str, str]:
    return {name: bindings[id].version_hash for name, id in checkpoint.refs.items() if id in bindings}


def since(
    name: str, version: str, environment: str, checkpoints: Iterable[Checkpoint], bindings: Mapping[str, Binding]
) -> Checkpoint | None:
    """The checkpoint with which an environment came to show a version of a node ("" for none); None if it is not known.

    `checkpoints` are newest first.
    """
    found = None
    for checkpoint in checkpoints:
        if checkpoint.environment != environment:
            continue
        if _version(checkpoint, name, bindings) != version:
            break
        found = checkpoint
    return found
