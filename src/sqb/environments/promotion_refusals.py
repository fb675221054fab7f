"""Why a promotion is refused, in words: what each environment did, since when, and the way out. No I/O here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from sqb.environments.common_ground import Known
from sqb.environments.promotion import Clash, Misfit, Promotion, version_of
from sqb.environments.stale import refuse_stale_upstreams
from sqb.environments.values import Checkpoint, Ref, Status
from sqb.errors_environments import NotFinalized, PartialPromotion, PromotionConflict

# Since which checkpoint the target shows a version of a node, "" for none; None where that is not known.
Since = Callable[[str, str], Checkpoint | None]

_MOST = 10


def refuse_unfinalized(source: Known, stale: Collection[str]) -> None:
    """Refuse to promote an environment of which only a part was built."""
    name = source.environment.name
    if source.environment.status is Status.FINALIZED:
        return
    which = f": {_listed(sorted(stale))} {'is' if len(stale) == 1 else 'are'} stale" if stale else ""
    raise NotFinalized(
        f"{name} is not finalized{which}",
        hint=f"`sqb build --virtual-env {name}` builds what is stale; --allow-partial-promotion promotes what is there",
    )


def refuse_promotion(promotion: Promotion, source: Known, target: Known, since: Since) -> None:
    """Refuse what the decision says cannot be done, with what explains it."""
    if not promotion.refused:
        return
    refuse_stale_upstreams(promotion.stale_upstreams)
    if promotion.clashes:
        raise _conflict(promotion.clashes, source, target, since)
    raise _partial(promotion, source, target)


def _conflict(clashes: Sequence[Clash], source: Known, target: Known, since: Since) -> PromotionConflict:
    mine, theirs = source.environment.name, target.environment.name
    roots = _roots(clashes, source.refs)
    shown = [_told(clash, source, target, since) for clash in roots[:_MOST]]
    if len(roots) > _MOST:
        shown.append(f"and {len(roots) - _MOST} more")
    below = sorted({c.name for c in clashes} - {c.name for c in roots})
    if below:
        shown.append(f"and with them what is below: {_listed(below)}")
    return PromotionConflict(
        f"{theirs} has moved on since {mine} last agreed with it: {_listed([c.name for c in roots])}",
        evidence=shown,
        hint=f"merge the newer code into that of {mine}, build it again with `sqb build --virtual-env {mine}`, "
        f"and promote then{_with_merged(roots, source, target)}",
    )


def _with_merged(clashes: Sequence[Clash], source: Known, target: Known) -> str:
    """What has to be said where both changed a node itself: no version tells that it has both changes in it."""
    both = [c.name for c in clashes if not c.through and not _same_definition(c.name, source, target)]
    return f", with --merged as both changed {_listed(both)}" if both else ""


def _same_definition(name: str, source: Known, target: Known) -> bool:
    mine, theirs = source.refs.get(name), target.refs.get(name)
    return mine is not None and theirs is not None and mine.binding.local_hash == theirs.binding.local_hash


def _roots(clashes: Sequence[Clash], refs: Mapping[str, Ref]) -> list[Clash]:
    """The clashes that no other one is the reason of."""
    names = {c.name for c in clashes if not c.through}
    return [c for c in clashes if c.name not in refs or not names & refs[c.name].binding.upstream.keys()]


def _told(clash: Clash, source: Known, target: Known, since: Since) -> str:
    mine, theirs = source.environment.name, target.environment.name
    node = clash.through or clash.name
    what = f"{theirs} {_did(clash.target, clash.base)}{_since(since(node, clash.target))}"
    if clash.through:
        return f"{clash.name}: {mine} made it from {node} at version {_short(clash.source)}, and {what}"
    agreed = f"{_short(clash.base)} when they agreed; " if clash.base else ""
    return f"{clash.name}: {agreed}{mine} {_did(clash.source, clash.base)}; {what}{_above(node, source, target)}"


def _did(version: str, base: str) -> str:
    if not version:
        return "removed it"
    return f"{'changed it to' if base else 'added it as'} {_short(version)}"


def _since(checkpoint: Checkpoint | None) -> str:
    if checkpoint is None:
        return ""
    how = checkpoint.detail or checkpoint.reason
    run = f", run {checkpoint.run_id}" if checkpoint.run_id else ""
    return f" with checkpoint {checkpoint.number} ({how}{run}, {checkpoint.created_at:%Y-%m-%d %H:%M})"


def _above(name: str, source: Known, target: Known) -> str:
    """What differs above a node whose own definition is the same in both."""
    if not _same_definition(name, source, target):
        return ""
    mine, theirs = source.refs[name].binding, target.refs[name].binding
    differing = [
        u for u in sorted({*mine.upstream, *theirs.upstream}) if mine.upstream.get(u) != theirs.upstream.get(u)
    ]
    return f" (through {_listed(differing)})" if differing else ""


def _partial(promotion: Promotion, source: Known, target: Known) -> PartialPromotion:
    mine, theirs = source.environment.name, target.environment.name
    left = [m.name for m in promotion.left]
    shown = [_misfit(m, promotion.refs, theirs) for m in promotion.left[:_MOST]]
    if len(left) > _MOST:
        shown.append(f"and {len(left) - _MOST} more")
    unselected = [name for name in left if name in promotion.unselected]
    if unselected:
        way = f"select {_listed(unselected)} too"
    elif any(version_of(source.refs, name) for name in left):
        way = f"build both, with `sqb build --virtual-env {mine}` and `sqb build --virtual-env {theirs}`"
    else:
        way = f"merge the code of {theirs} into that of {mine}, build {mine} again and promote then"
    return PartialPromotion(
        f"{theirs} would be left with models that do not fit together: {_listed(left)}",
        evidence=shown,
        hint=f"{way}; or allow it with --allow-partial-promotion",
    )


def _misfit(misfit: Misfit, refs: Mapping[str, Ref], target: str) -> str:
    upstream = refs[misfit.name].binding.upstream
    parts = [
        f"{u} at version {_short(upstream[u])}, and {target} would have "
        + (_short(version_of(refs, u)) if version_of(refs, u) else "none")
        for u in misfit.reads
    ]
    return f"{misfit.name} is made from {'; '.join(parts)}"


def _short(version: str) -> str:
    return version[:8]


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return ", ".join(names[:_MOST]) + more
