"""The merge base of two environments, node by node: the versions on which they last agreed. No I/O here.

An environment knows where it and its baseline last agreed, and its checkpoints tell what it has shown since it was
made. From these follows the same for any two environments.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sqb.environments.model import Binding, Checkpoint, Environment, Ref
from sqb.environments.promotion.three_way_merge import get_version


@dataclass(frozen=True, slots=True)
class EnvironmentHistory:
    """An environment as a promotion sees it; `versions` are those that each node has had, newest first."""

    environment: Environment
    refs: Mapping[str, Ref]
    versions: Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class MergeBase:
    """The versions on which two environments last agreed; of nodes that the source has, and that it has no more."""

    bases: Mapping[str, str]
    removed: Mapping[str, str]


def find_merge_base(
    source: EnvironmentHistory, target: EnvironmentHistory, promoted: Collection[str] = ()
) -> MergeBase:
    """Find the merge base of a promotion from `source` to `target`.

    `promoted` are nodes on which both agreed as the source was promoted: a target that was rolled back from that is
    where the source had come from, and has changed nothing itself.
    """
    if source.environment.baseline == target.environment.name:
        bases = {n: _find_base(n, source, target) for n in source.refs}
        for name in promoted:
            version = get_version(target.refs, name)
            if not version or version in source.versions.get(name, ()):
                bases[name] = version
        return MergeBase(bases, _list_removed(source))
    if target.environment.baseline == source.environment.name:
        bases = {n: r.base for n, r in target.refs.items()} | _list_removed(target)
        return MergeBase(bases, {n: r.base for n, r in target.refs.items() if n not in source.refs and r.base})
    return MergeBase(
        {n: _find_shared_version(source, target, n) for n in source.refs},
        {n: v for n, v in _list_removed(source).items() if n in target.refs},
    )


def _find_base(name: str, source: EnvironmentHistory, target: EnvironmentHistory) -> str:
    """Where the source and its baseline last agreed on a node, if the baseline showed the source's version meanwhile.

    It may have been built there from the same code, which the source has not noticed.
    """
    version, base = get_version(source.refs, name), source.refs[name].base
    past = target.versions.get(name, ())
    if get_version(target.refs, name) == base or version not in past or (base and base not in past):
        return base
    return version if not base or past.index(version) < past.index(base) else base


def _list_removed(history: EnvironmentHistory) -> dict[str, str]:
    """The nodes that an environment had and has no more, with their last versions there."""
    return {n: versions[0] for n, versions in history.versions.items() if n not in history.refs and versions}


def _find_shared_version(source: EnvironmentHistory, target: EnvironmentHistory, name: str) -> str:
    """The version of one node on which two environments with another baseline agreed; "" where they never did.

    What the target shows is where the source comes from, if the source has shown it too: then only the source changed.
    """
    version = get_version(target.refs, name)
    base = source.refs[name].base
    if version and (version in source.versions.get(name, ()) or version == base):
        return version
    return base if version else ""


def list_past_versions(
    environment: Environment, checkpoints: Iterable[Checkpoint], bindings: Mapping[str, Binding]
) -> dict[str, list[str]]:
    """The versions that each node of an environment has had, newest first, those that it began with last.

    `checkpoints` are those of all environments, newest first: an environment begins as its baseline was then.
    """
    all_checkpoints = list(checkpoints)
    checkpoints_here = [c for c in all_checkpoints if c.environment == environment.name]
    # A checkpoint that is older by its time may have come later: a command that was cut off had begun it.
    began = next((c for c in all_checkpoints if environment.began and c.id == environment.began), None)
    past: dict[str, list[str]] = {}
    for checkpoint in (*checkpoints_here, *([began] if began is not None else [])):
        for name, version in _get_versions(checkpoint, bindings).items():
            versions = past.setdefault(name, [])
            if version not in versions:
                versions.append(version)
    return past


def find_promoted(
    source: EnvironmentHistory,
    target: EnvironmentHistory,
    checkpoints: Iterable[Checkpoint],
    bindings: Mapping[str, Binding],
) -> set[str]:
    """The nodes on which a source and its target agreed because the first was promoted to the second.

    `checkpoints` are newest first.
    """
    target_checkpoints = [c for c in reversed(list(checkpoints)) if c.environment == target.environment.name]
    names: set[str] = set()
    for name, ref in source.refs.items():
        if ref.base and ref.base != get_version(target.refs, name):
            showing = (c for c in target_checkpoints if _get_version(c, name, bindings) == ref.base)
            first = next(showing, None)
            if first is not None and first.promoted_from == source.environment.name:
                names.add(name)
    return names


def find_agreed_versions(
    checkpoint: Checkpoint,
    environment: Environment,
    baseline: str,
    checkpoints: Sequence[Checkpoint],
    bindings: Mapping[str, Binding],
) -> dict[str, str]:
    """The versions on which an environment at one of its checkpoints and its baseline had last agreed.

    `checkpoints` are those of all environments, newest first. Where too few of them are kept, nothing is known, or what
    was agreed on earlier: whoever goes by it finds a conflict where there is none, and never misses one.
    """
    baseline_checkpoints = [c for c in checkpoints if c.environment == baseline]
    own_checkpoints = [c for c in checkpoints if c.environment == environment.name]
    began = next((c for c in baseline_checkpoints if c.created_at <= environment.created_at), None)
    agreed = _get_versions(began, bindings) if began is not None else {}
    ends = [datetime.max.replace(tzinfo=UTC), *(c.created_at for c in own_checkpoints)]
    for earlier, end in reversed(
        [(c, e) for c, e in zip(own_checkpoints, ends, strict=False) if c.number <= checkpoint.number]
    ):
        while_shown = [c for c in baseline_checkpoints if earlier.created_at < c.created_at < end]
        while_shown += [c for c in baseline_checkpoints if c.created_at <= earlier.created_at][:1]
        shown = _get_versions(earlier, bindings)
        for other in while_shown:
            other_versions = _get_versions(other, bindings)
            agreed |= {n: version for n, version in shown.items() if other_versions.get(n) == version}
    return agreed


def _get_version(checkpoint: Checkpoint, name: str, bindings: Mapping[str, Binding]) -> str:
    binding = bindings.get(checkpoint.refs.get(name, ""))
    return binding.version_hash if binding is not None else ""


def _get_versions(checkpoint: Checkpoint, bindings: Mapping[str, Binding]) -> dict[str, str]:
    return {name: bindings[id].version_hash for name, id in checkpoint.refs.items() if id in bindings}


def find_since(
    name: str, version: str, environment: str, checkpoints: Iterable[Checkpoint], bindings: Mapping[str, Binding]
) -> Checkpoint | None:
    """The checkpoint with which an environment came to show a version of a node ("" for none); None if it is not known.

    `checkpoints` are newest first.
    """
    first = None
    for checkpoint in checkpoints:
        if checkpoint.environment != environment:
            continue
        if _get_version(checkpoint, name, bindings) != version:
            break
        first = checkpoint
    return first
