"""What a promotion takes over from one environment to another, decided from their refs alone. No I/O here.

Each node is merged three ways: what it was when the two environments last agreed, what it is now in the one that is
promoted from, and what it is in the one that is promoted to. A node that says the same in both may still have two
versions, by what is above it: then that is shown which fits. For everything that the target shows must fit together: a
version is made from certain versions of what it reads, and the target has to have exactly these.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Literal

from sqb.environments.model import Binding, Ref, Status
from sqb.graph import sort_topologically


class _Choice(Enum):
    # Both have the same version.
    SAME = auto()
    # Only the source changed it: the target gets it, or loses it.
    TAKE = auto()
    DROP = auto()
    # Only the target changed it.
    KEEP = auto()
    # Both did.
    CLASH = auto()


@dataclass(frozen=True, slots=True)
class Step:
    """One node that is to be shown otherwise; a version is "" where there is none."""

    name: str
    # data: the same version, with other rows.
    what: Literal["added", "changed", "removed", "data"]
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Clash:
    """A node that both environments have changed since they agreed, or that reads one which the target has changed."""

    name: str
    base: str
    # The versions of the node that is in dispute; "" where it was removed.
    source: str
    target: str
    # The node in dispute, where it is not this one but one that it reads.
    through: str = ""


@dataclass(frozen=True, slots=True)
class Misfit:
    """A node whose version is made from other versions than those that the environment shows."""

    name: str
    reads: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Promotion:
    """What a promotion does, what conflicts with it, and the refs of the target after it."""

    steps: tuple[Step, ...]
    # Nodes that only the target has changed: they stay.
    unchanged: tuple[str, ...]
    # Nodes that were not selected, and stay though the source has changed them.
    unselected: tuple[str, ...]
    # Upstreams that were added to the selection, and those that are missing in it.
    included: tuple[str, ...]
    stale_upstreams: tuple[str, ...]
    clashes: tuple[Clash, ...]
    # Nodes of the target that do not fit to what they read when this is done.
    misfits: tuple[Misfit, ...]
    refs: Mapping[str, Ref] = field(repr=False)
    status: Status = Status.FINALIZED
    refused: bool = False

    @property
    def promoted(self) -> tuple[str, ...]:
        return tuple(s.name for s in self.steps if s.what != "removed")

    @property
    def removed(self) -> tuple[str, ...]:
        return tuple(s.name for s in self.steps if s.what == "removed")


@dataclass(frozen=True, slots=True)
class PromotionCase:
    """What a promotion is decided from: what two environments show, what they last agreed on, and what is asked for."""

    source: Mapping[str, Ref]
    target: Mapping[str, Ref]
    source_status: Status = Status.FINALIZED
    target_status: Status = Status.FINALIZED
    # None for everything.
    selected: frozenset[str] | None = None
    allow_partial: bool = False
    include_stale_upstreams: bool = False
    # What both have changed is taken from the source: the caller says that the target's changes are in it.
    merged: bool = False
    # The versions on which the two last agreed; those in the source's refs where it is None.
    bases: Mapping[str, str] | None = None
    # The versions of nodes that the source had and has no more.
    removed: Mapping[str, str] = field(default_factory=dict)
    # The versions of functions that the source's models were made with: these are in their queries, so that other
    # models do not have to have the same.
    functions: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    # The local hashes of versions, by name and version: they tell who changed a node itself.
    definitions: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def get_agreed_versions(self) -> dict[str, str]:
        """The versions on which the two last agreed, those of removed nodes among them."""
        bases = self.bases if self.bases is not None else {name: ref.base for name, ref in self.source.items()}
        return {**self.removed, **bases}


def decide_promotion(case: PromotionCase) -> Promotion:
    """What becomes of the target when the source, or what is selected of it, is promoted to it."""
    source, target, agreed = case.source, case.target, case.get_agreed_versions()
    choices = _decide_choices(source, target, agreed, case.definitions, case.merged)
    candidates = {n for n in choices if case.selected is None or n in case.selected}
    chosen = {n for n in candidates if choices[n] in (_Choice.TAKE, _Choice.DROP, _Choice.CLASH)}
    made_from = _SourceInputs(source, case.functions)
    needed = _find_required(chosen, choices, made_from)
    needed -= _find_partial_functions(needed, {*chosen, *needed}, choices, case.functions)
    missing = {n for n in needed if choices[n] is _Choice.TAKE and source[n].binding.type != "function"}
    stale = set() if case.include_stale_upstreams else missing
    chosen |= needed - stale
    refs = _build_refs(source, target, choices, chosen)
    clashes = (
        *_iter_own_clashes(chosen, choices, source, target, agreed),
        *_iter_read_clashes(chosen, choices, made_from, target, agreed),
    )
    left = find_misfits(refs)
    rest = {n for n, c in choices.items() if n not in chosen and c in (_Choice.TAKE, _Choice.DROP, _Choice.CLASH)}
    whole = not rest or case.target_status is Status.FINALIZED
    final = not left and case.source_status is Status.FINALIZED and whole
    incomplete = bool(left) or case.source_status is not Status.FINALIZED
    return Promotion(
        steps=compare_refs(target, refs),
        unchanged=tuple(n for n in sorted(candidates) if choices[n] is _Choice.KEEP),
        unselected=tuple(sorted(rest)),
        included=tuple(sorted(missing - stale)),
        stale_upstreams=tuple(sorted(stale)),
        clashes=clashes,
        misfits=left,
        refs=refs,
        status=Status.FINALIZED if final else Status.ACTIVE,
        refused=bool(clashes or stale) or (incomplete and not case.allow_partial),
    )


def _decide_choices(
    source: Mapping[str, Ref],
    target: Mapping[str, Ref],
    bases: Mapping[str, str],
    definitions: Mapping[tuple[str, str], str],
    merged: bool,
) -> dict[str, _Choice]:
    """What becomes of each node when everything is promoted."""
    choices: dict[str, _Choice] = {}
    derived: list[str] = []
    for name in {**source, **target}:
        mine, theirs, base = source.get(name), target.get(name), bases.get(name, "")
        by_version = _decide_choice(get_version(source, name), get_version(target, name), base)
        if mine is not None and theirs is not None and _is_changed_upstream(mine.binding, theirs.binding):
            derived.append(name)
        elif by_version is _Choice.CLASH:
            # Versions that differ by what is above them say nothing about who has changed the node itself.
            choices[name] = _decide_choice(
                _get_local_hash(mine), _get_local_hash(theirs), definitions.get((name, base), base)
            )
        else:
            choices[name] = by_version
        if merged and choices.get(name) is _Choice.CLASH:
            choices[name] = _Choice.TAKE if mine is not None else _Choice.DROP
    return choices | _decide_derived(derived, choices, source, target)


def _is_changed_upstream(mine: Binding, theirs: Binding) -> bool:
    return mine.local_hash == theirs.local_hash and mine.upstream != theirs.upstream


def _get_local_hash(ref: Ref | None) -> str:
    return ref.binding.local_hash if ref is not None else ""


def _decide_choice(source: str, target: str, base: str) -> _Choice:
    """What becomes of one node; a version is "" where the node is not, or was not."""
    if source == target:
        return _Choice.SAME
    if target == base:
        return _Choice.TAKE if source else _Choice.DROP
    return _Choice.KEEP if source == base else _Choice.CLASH


def _decide_derived(
    derived: Iterable[str], choices: Mapping[str, _Choice], source: Mapping[str, Ref], target: Mapping[str, Ref]
) -> dict[str, _Choice]:
    """Nodes that say the same in both and differ by what is above them: the version that fits to that is the one."""
    shown = {n: get_version(source if c is _Choice.TAKE else target, n) for n, c in choices.items()}
    shown |= {n: "" for n, c in choices.items() if c is _Choice.DROP}
    decided: dict[str, _Choice] = {}
    names = set(derived)
    order, _ = sort_topologically({n: [u for u in source[n].binding.upstream if u in names] for n in sorted(names)})
    for name in order:
        mine, theirs = source[name].binding, target[name].binding
        if all(shown.get(u, "") == version for u, version in mine.upstream.items()):
            decided[name] = _Choice.TAKE
        elif all(shown.get(u, "") == version for u, version in theirs.upstream.items()):
            decided[name] = _Choice.KEEP
        else:
            decided[name] = _Choice.CLASH
        shown[name] = (mine if decided[name] is _Choice.TAKE else theirs).version_hash
    return decided


@dataclass(frozen=True, slots=True)
class _SourceInputs:
    """What the source's versions are made from, as far as the source shows that very version of it."""

    source: Mapping[str, Ref]
    functions: Mapping[str, Mapping[str, str]]

    def __call__(self, name: str) -> dict[str, str]:
        above = {**self.source[name].binding.upstream, **self.functions.get(name, {})}
        return {u: version for u, version in above.items() if get_version(self.source, u) == version}


def _find_required(chosen: Iterable[str], choices: Mapping[str, _Choice], made_from: _SourceInputs) -> set[str]:
    """What has to come with the chosen nodes: what they are made from, where the target has other versions of it."""
    start = set(chosen)
    required: set[str] = set()
    stack = [n for n in start if choices[n] is _Choice.TAKE]
    while stack:
        for above in made_from(stack.pop()):
            if above in start or above in required or choices[above] not in (_Choice.TAKE, _Choice.CLASH):
                continue
            required.add(above)
            if choices[above] is _Choice.TAKE:
                stack.append(above)
    return required


def _find_partial_functions(
    needed: Iterable[str],
    coming: Collection[str],
    choices: Mapping[str, _Choice],
    functions: Mapping[str, Mapping[str, str]],
) -> set[str]:
    """Functions that other models, which stay, have not come to use: they come with the last of these."""
    staying = [uses for name, uses in functions.items() if name not in coming and choices.get(name) is _Choice.TAKE]
    return {n for n in needed if any(n in uses for uses in staying)}


def _build_refs(
    source: Mapping[str, Ref], target: Mapping[str, Ref], choices: Mapping[str, _Choice], chosen: Iterable[str]
) -> dict[str, Ref]:
    refs = dict(target)
    for name in chosen:
        if choices[name] is _Choice.DROP:
            del refs[name]
        elif choices[name] is _Choice.TAKE:
            current = target.get(name, Ref(source[name].binding))
            # Its rows have passed the checks that they passed in the source.
            refs[name] = replace(current, binding=source[name].binding, checks=source[name].checks)
    return refs


def _iter_own_clashes(
    chosen: Iterable[str],
    choices: Mapping[str, _Choice],
    source: Mapping[str, Ref],
    target: Mapping[str, Ref],
    bases: Mapping[str, str],
) -> Iterable[Clash]:
    for name in sorted(n for n in chosen if choices[n] is _Choice.CLASH):
        yield Clash(name, bases.get(name, ""), get_version(source, name), get_version(target, name))


def _iter_read_clashes(
    chosen: Iterable[str],
    choices: Mapping[str, _Choice],
    made_from: _SourceInputs,
    target: Mapping[str, Ref],
    bases: Mapping[str, str],
) -> Iterable[Clash]:
    """Nodes that would be promoted, made from versions that the target has moved past."""
    for name in sorted(n for n in chosen if choices[n] is _Choice.TAKE):
        for above, version in sorted(made_from(name).items()):
            if choices[above] is _Choice.KEEP:
                yield Clash(name, bases.get(above, ""), version, get_version(target, above), above)


def compare_refs(before: Mapping[str, Ref], after: Mapping[str, Ref]) -> tuple[Step, ...]:
    """What changes, node by node, when an environment shows `after` instead of `before`."""
    steps = []
    for name in sorted({*before, *after}):
        old, new = get_version(before, name), get_version(after, name)
        if old != new:
            steps.append(Step(name, "added" if not old else "changed" if new else "removed", old, new))
        elif before[name].binding != after[name].binding:
            steps.append(Step(name, "data", old, new))
    return tuple(steps)


def find_misfits(refs: Mapping[str, Ref]) -> tuple[Misfit, ...]:
    """The nodes of an environment that are made from other versions than those that it shows."""
    result = []
    for name in sorted(refs):
        above = refs[name].binding.upstream
        other = tuple(sorted(u for u, version in above.items() if get_version(refs, u) != version))
        if other:
            result.append(Misfit(name, other))
    return tuple(result)


def get_version(refs: Mapping[str, Ref], name: str) -> str:
    """The version of a node that an environment shows; "" when it shows none."""
    ref = refs.get(name)
    return ref.binding.version_hash if ref is not None else ""
