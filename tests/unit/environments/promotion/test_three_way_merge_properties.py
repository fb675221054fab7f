"""Promotions of random projects: whatever is promoted is what a build of the merged project would show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from sqb.environments.model import Binding, Ref, Status
from sqb.environments.promotion.three_way_merge import (
    Promotion,
    PromotionCase,
    decide_promotion,
    find_misfits,
    get_version,
)
from sqb.environments.views import update_bases
from sqb.identity import digest
from support.examples import count_examples

_NAMES = tuple("abcdefg")
# The first two are functions: models use them, and they use nothing.
_FUNCTIONS = _NAMES[:2]


@dataclass(frozen=True)
class Definition:
    """A node as somebody wrote it: some text, and what it reads."""

    text: int
    reads: tuple[str, ...] = ()


_Project = Mapping[str, Definition]


@st.composite
def _definitions(draw: st.DrawFn, name: str) -> Definition:
    above = [] if name in _FUNCTIONS else list(_NAMES[: _NAMES.index(name)])
    reads = draw(st.lists(st.sampled_from(above), unique=True, max_size=3)) if above else []
    return Definition(draw(st.integers(0, 2)), tuple(sorted(reads)))


def _closed(project: dict[str, Definition]) -> dict[str, Definition]:
    """The project without references to what it does not have."""
    return {n: replace(d, reads=tuple(r for r in d.reads if r in project)) for n, d in project.items()}


@st.composite
def _projects(draw: st.DrawFn) -> dict[str, Definition]:
    names = draw(st.lists(st.sampled_from(_NAMES), unique=True, max_size=len(_NAMES)))
    return _closed({n: draw(_definitions(n)) for n in sorted(names)})


@st.composite
def _edited(draw: st.DrawFn, project: _Project) -> dict[str, Definition]:
    by_name = dict(project)
    for name in draw(st.lists(st.sampled_from(_NAMES), unique=True, max_size=3)):
        if name in by_name and draw(st.integers(0, 3)) == 0:
            del by_name[name]
        else:
            by_name[name] = draw(_definitions(name))
    return _closed(by_name)


def _refs(project: _Project, base: Mapping[str, Ref] | None = None) -> dict[str, Ref]:
    """What an environment shows after a whole build."""
    by_name: dict[str, Ref] = {}
    for name in sorted(project):
        text, reads = project[name].text, project[name].reads
        above = {r: by_name[r].binding.version_hash for r in reads}
        local = digest(name, str(text), *reads)
        version = digest(local, *(f"{n} {v}" for n, v in above.items()))
        kind = "function" if name in _FUNCTIONS else "model"
        binding = Binding(name, kind, kind, local, version, upstream=above)  # type: ignore[arg-type]
        by_name[name] = Ref(binding, get_version(base or {}, name))
    return by_name


@dataclass(frozen=True)
class World:
    """A project, what two people made of it, and what the environments show."""

    base: _Project
    mine: _Project
    theirs: _Project

    @property
    def began(self) -> dict[str, Ref]:
        return _refs(self.base)

    @property
    def source(self) -> dict[str, Ref]:
        return update_bases(_refs(self.mine, self.began), self.target)

    @property
    def target(self) -> dict[str, Ref]:
        return _refs(self.theirs)

    @property
    def gone(self) -> dict[str, str]:
        return {n: r.binding.version_hash for n, r in self.began.items() if n not in self.mine}

    @property
    def known(self) -> dict[tuple[str, str], str]:
        return {(n, r.binding.version_hash): r.binding.local_hash for n, r in self.began.items()}

    @property
    def merged(self) -> dict[str, Definition]:
        """Both changes in one project; where both changed a node, it is as they have it."""
        merged = {n: d for n, d in self.theirs.items() if n in self.mine or self.theirs[n] != self.base.get(n)}
        for name, definition in self.mine.items():
            if self.theirs.get(name) == self.base.get(name):
                merged[name] = definition
        return merged

    def promote(self, **how: object) -> Promotion:
        return decide_promotion(
            PromotionCase(self.source, self.target, removed=self.gone, definitions=self.known, **how)
        )  # type: ignore[arg-type]


@st.composite
def _worlds(draw: st.DrawFn) -> World:
    base = draw(_projects())
    return World(base, draw(_edited(base)), draw(_edited(base)))


def _versions(refs: Mapping[str, Ref]) -> dict[str, str]:
    return {n: r.binding.version_hash for n, r in refs.items()}


@settings(max_examples=count_examples(400))
@given(_worlds())
def test_a_whole_promotion_shows_the_merged_project(world: World) -> None:
    promotion = world.promote()
    if promotion.refused:
        return
    assert _versions(promotion.refs) == _versions(_refs(world.merged))
    assert find_misfits(promotion.refs) == () and promotion.status is Status.FINALIZED


@settings(max_examples=count_examples(400))
@given(_worlds(), st.none() | st.frozensets(st.sampled_from(_NAMES)), st.booleans(), st.booleans())
def test_what_holds_for_every_promotion(
    world: World, selected: frozenset[str] | None, include: bool, partial: bool
) -> None:
    promotion = world.promote(selected=selected, include_stale_upstreams=include, allow_partial=partial)
    before, after = _versions(world.target), _versions(promotion.refs)
    mine = _versions(world.source)
    for name in {*before, *after}:
        # A node shows what it showed, or what the source shows; and only what the target has not changed moves.
        assert after.get(name) in (before.get(name), mine.get(name))
        if after.get(name) != before.get(name):
            theirs = world.theirs.get(name)
            assert theirs == world.base.get(name) or theirs == world.mine.get(name)
    assert promotion.misfits == find_misfits(promotion.refs)
    if not promotion.refused and not partial:
        assert find_misfits(promotion.refs) == ()
    if promotion.status is Status.FINALIZED:
        assert find_misfits(promotion.refs) == ()
    if selected is not None:
        moved = {s.name for s in promotion.steps}
        functions = {n for n in moved if n in _FUNCTIONS}
        assert moved <= selected | set(promotion.included) | functions
        assert not set(promotion.included) & set(promotion.stale_upstreams)
        # What is refused is only shown.
        for function in functions - selected if not promotion.refused else ():
            assert any(function in promotion.refs[n].binding.upstream for n in moved if n in promotion.refs)


@settings(max_examples=count_examples(200))
@given(_worlds(), st.none() | st.frozensets(st.sampled_from(_NAMES)), st.booleans())
def test_promoting_again_does_nothing(world: World, selected: frozenset[str] | None, partial: bool) -> None:
    first = world.promote(selected=selected, include_stale_upstreams=True, allow_partial=partial)
    if first.refused:
        return
    source = update_bases(world.source, first.refs)
    again = decide_promotion(
        PromotionCase(
            source,
            first.refs,
            selected=selected,
            include_stale_upstreams=True,
            allow_partial=partial,
            removed=world.gone,
            definitions=world.known,
            target_status=first.status,
        )
    )
    assert again.steps == () and not again.refused and again.status is first.status


@settings(max_examples=count_examples(400))
@given(_worlds())
def test_what_was_merged_and_built_again_is_promoted(world: World) -> None:
    if any(r not in world.merged for d in world.merged.values() for r in d.reads):
        return
    again = replace(world, mine=world.merged)
    promotion = again.promote()
    assert not promotion.refused and _versions(promotion.refs) == _versions(again.source)


@given(_worlds())
def test_one_that_changed_nothing_changes_nothing(world: World) -> None:
    same = replace(world, mine=world.base)
    assert same.promote().steps == ()


@given(_worlds())
def test_a_target_that_stood_still_becomes_the_source(world: World) -> None:
    still = replace(world, theirs=world.base)
    promotion = still.promote()
    assert not promotion.refused and _versions(promotion.refs) == _versions(still.source)
