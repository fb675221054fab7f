"""Why a promotion is refused, in words: what each environment did, since when, and the way out. No I/O here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from sqb.environments.model import Checkpoint, Ref, Status
from sqb.environments.promotion.merge_base import EnvironmentHistory
from sqb.environments.promotion.three_way_merge import Clash, Misfit, Promotion, get_version
from sqb.environments.staleness import check_stale_upstreams
from sqb.errors.environments import NotFinalized, PartialPromotion, PromotionConflict

# Since which checkpoint the target shows a version of a node, "" for none; None where that is not known.
FindSince = Callable[[str, str], Checkpoint | None]

_MAX_SHOWN = 10


def check_finalized(source: EnvironmentHistory, stale: Collection[str]) -> None:
    """Refuse to promote an environment of which only a part was built."""
    name = source.environment.name
    if source.environment.status is Status.FINALIZED:
        return
    which = f": {_format_names(sorted(stale))} {'is' if len(stale) == 1 else 'are'} stale" if stale else ""
    raise NotFinalized(
        f"{name} is not finalized{which}",
        hint=f"`sqb build --virtual-env {name}` builds what is stale; --allow-partial-promotion promotes what is there",
    )


def check_promotion(
    promotion: Promotion, source: EnvironmentHistory, target: EnvironmentHistory, since: FindSince
) -> None:
    """Refuse what the decision says cannot be done, with what explains it."""
    if not promotion.refused:
        return
    check_stale_upstreams(promotion.stale_upstreams)
    if promotion.clashes:
        raise _build_conflict(promotion.clashes, source, target, since)
    raise _build_partial(promotion, source, target)


def _build_conflict(
    clashes: Sequence[Clash], source: EnvironmentHistory, target: EnvironmentHistory, since: FindSince
) -> PromotionConflict:
    mine, theirs = source.environment.name, target.environment.name
    roots = _find_roots(clashes, source.refs)
    evidence = [_format_clash(clash, source, target, since) for clash in roots[:_MAX_SHOWN]]
    if len(roots) > _MAX_SHOWN:
        evidence.append(f"and {len(roots) - _MAX_SHOWN} more")
    below = sorted({c.name for c in clashes} - {c.name for c in roots})
    if below:
        evidence.append(f"and with them what is below: {_format_names(below)}")
    return PromotionConflict(
        f"{theirs} has moved on since {mine} last agreed with it: {_format_names([c.name for c in roots])}",
        evidence=evidence,
        hint=f"merge the newer code into that of {mine}, build it again with `sqb build --virtual-env {mine}`, "
        f"and promote then{_format_merged_hint(roots, source, target)}",
    )


def _format_merged_hint(clashes: Sequence[Clash], source: EnvironmentHistory, target: EnvironmentHistory) -> str:
    """The message where both changed a node itself: no version tells that it has both changes in it."""
    both = [c.name for c in clashes if not c.through and not _has_same_definition(c.name, source, target)]
    return f", with --merged as both changed {_format_names(both)}" if both else ""


def _has_same_definition(name: str, source: EnvironmentHistory, target: EnvironmentHistory) -> bool:
    mine, theirs = source.refs.get(name), target.refs.get(name)
    return mine is not None and theirs is not None and mine.binding.local_hash == theirs.binding.local_hash


def _find_roots(clashes: Sequence[Clash], refs: Mapping[str, Ref]) -> list[Clash]:
    """The clashes that no other one is the reason of."""
    names = {c.name for c in clashes if not c.through}
    return [c for c in clashes if c.name not in refs or not names & refs[c.name].binding.upstream.keys()]


def _format_clash(clash: Clash, source: EnvironmentHistory, target: EnvironmentHistory, since: FindSince) -> str:
    mine, theirs = source.environment.name, target.environment.name
    node = clash.through or clash.name
    what = f"{theirs} {_format_change(clash.target, clash.base)}{_format_since(since(node, clash.target))}"
    if clash.through:
        return f"{clash.name}: {mine} made it from {node} at version {_shorten(clash.source)}, and {what}"
    agreed = f"{_shorten(clash.base)} when they agreed; " if clash.base else ""
    change, upstreams = _format_change(clash.source, clash.base), _format_upstreams(node, source, target)
    return f"{clash.name}: {agreed}{mine} {change}; {what}{upstreams}"


def _format_change(version: str, base: str) -> str:
    if not version:
        return "removed it"
    return f"{'changed it to' if base else 'added it as'} {_shorten(version)}"


def _format_since(checkpoint: Checkpoint | None) -> str:
    if checkpoint is None:
        return ""
    how = checkpoint.detail or checkpoint.reason
    run = f", run {checkpoint.run_id}" if checkpoint.run_id else ""
    return f" with checkpoint {checkpoint.number} ({how}{run}, {checkpoint.created_at:%Y-%m-%d %H:%M})"


def _format_upstreams(name: str, source: EnvironmentHistory, target: EnvironmentHistory) -> str:
    """What differs above a node whose own definition is the same in both."""
    if not _has_same_definition(name, source, target):
        return ""
    mine, theirs = source.refs[name].binding, target.refs[name].binding
    differing = [
        u for u in sorted({*mine.upstream, *theirs.upstream}) if mine.upstream.get(u) != theirs.upstream.get(u)
    ]
    return f" (through {_format_names(differing)})" if differing else ""


def _build_partial(promotion: Promotion, source: EnvironmentHistory, target: EnvironmentHistory) -> PartialPromotion:
    mine, theirs = source.environment.name, target.environment.name
    left = [m.name for m in promotion.misfits]
    evidence = [_format_misfit(m, promotion.refs, theirs) for m in promotion.misfits[:_MAX_SHOWN]]
    if len(left) > _MAX_SHOWN:
        evidence.append(f"and {len(left) - _MAX_SHOWN} more")
    unselected = [name for name in left if name in promotion.unselected]
    if unselected:
        way = f"select {_format_names(unselected)} too"
    elif any(get_version(source.refs, name) for name in left):
        way = f"build both, with `sqb build --virtual-env {mine}` and `sqb build --virtual-env {theirs}`"
    else:
        way = f"merge the code of {theirs} into that of {mine}, build {mine} again and promote then"
    return PartialPromotion(
        f"{theirs} would be left with models that do not fit together: {_format_names(left)}",
        evidence=evidence,
        hint=f"{way}; or allow it with --allow-partial-promotion",
    )


def _format_misfit(misfit: Misfit, refs: Mapping[str, Ref], target: str) -> str:
    upstream = refs[misfit.name].binding.upstream
    parts = [
        f"{u} at version {_shorten(upstream[u])}, and {target} would have "
        + (_shorten(get_version(refs, u)) if get_version(refs, u) else "none")
        for u in misfit.reads
    ]
    return f"{misfit.name} is made from {'; '.join(parts)}"


def _shorten(version: str) -> str:
    return version[:8]


def _format_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_SHOWN} more" if len(names) > _MAX_SHOWN else ""
    return ", ".join(names[:_MAX_SHOWN]) + more
