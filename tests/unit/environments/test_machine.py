"""Environments against a reference of plain dictionaries: whatever is done in whatever order, cut off wherever it is.

The reference knows what each environment shows, its checkpoints, and what a command that was cut off has left to be
done. Nothing is built: see `tests/properties` for the same with real rows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sqb.build.failpoints import Announce, Step
from sqb.environments.model import Ref, Status
from sqb.environments.naming import build_logical_relation, build_physical_relation
from sqb.environments.promotion.three_way_merge import Promotion
from sqb.environments.views import lock_environment
from sqb.errors.base import SqbError
from sqb.errors.environments import Detached, InUse, NoSuchCheckpoint, NoSuchEnvironment
from sqb.errors.lake import LakeError
from sqb.identity import digest
from sqb.names import Relation
from support.examples import count_examples
from support.memory_lake import MemoryLake
from unit.environments.small_world import SmallWorld

EXAMPLES = int(os.environ.get("SQB_ENVIRONMENT_EXAMPLES", count_examples(60)))
ENVIRONMENTS = ("prod", "pr", "other")
READS = {"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c"), "e": ()}
# Of each node its version, which of its rows are shown, and the versions that it is made from.
Node = tuple[str, int, tuple[tuple[str, str], ...]]
Contents = dict[str, Node]


class Killed(BaseException):
    """The command was cut off."""


@dataclass(frozen=True)
class Shown:
    """What an environment is, less its checkpoints."""

    contents: Contents
    status: Status
    # The index of its checkpoint, from which rollbacks start.
    at: int | None = None


@dataclass(frozen=True)
class Mark:
    """A checkpoint."""

    contents: Contents
    parent: int | None


@dataclass
class Reference:
    """One environment as it must be."""

    now: Shown
    marks: list[Mark] = field(default_factory=list)
    # What a command that was cut off has begun: the next one that works on the environment finishes it.
    left: Callable[[Reference], None] | None = None
    # What readers may see meanwhile, beside what is shown.
    may_show: Shown | None = None
    detached: bool = False

    def finish(self) -> None:
        if self.left is not None:
            self.left(self)
        self.left = self.may_show = None


NEW = Shown({}, Status.ACTIVE)


def misfits(contents: Contents) -> bool:
    """Whether a node is made from another version than the one that stands beside it."""
    return any(contents[u][0] != v if u in contents else True for _, _, above in contents.values() for u, v in above)


def versions_in(contents: Contents) -> dict[str, str]:
    return {name: node[0] for name, node in contents.items()}


def texts_of(contents: Contents) -> dict[str, str]:
    """What readers see of an environment."""
    tables = {name: build_physical_relation(Relation("shop", name), node[0]) for name, node in contents.items()}
    return {name: f"SELECT * FROM {tables[name]} VERSION AS OF {node[1]}" for name, node in contents.items()}


def contents_of(refs: Mapping[str, Ref]) -> Contents:
    return {
        name: (r.binding.version_hash, int(r.binding.text.rpartition(" ")[2]), tuple(r.binding.upstream.items()))
        for name, r in refs.items()
    }


class Environments(RuleBasedStateMachine):
    """The commands, each with a reference of what it does."""

    transactions = True

    @initialize(unsuffixed=st.sampled_from([None, "prod"]))
    def begin(self, unsuffixed: str | None) -> None:
        self.world = SmallWorld(MemoryLake(self.transactions), unsuffixed)
        self.known: dict[str, Reference] = {}
        self.texts = dict.fromkeys(READS, "1")
        self.present = set(READS)
        # What `prod` showed when another one began as it, or was last promoted to it as a whole.
        self.agreed: dict[str, dict[str, str]] = {}
        # What the checkpoint says that `prod` was at then: an environment that is not finalized may show more.
        self.recorded: dict[str, dict[str, str]] = {}
        # The nodes that an environment has ever shown since it was made.
        self.had: dict[str, set[str]] = {}

    # --- what people do ------------------------------------------------------------------------------------------

    @rule(node=st.sampled_from(sorted(READS)), text=st.sampled_from("123"))
    def edit(self, node: str, text: str) -> None:
        self.texts[node] = text

    @rule()
    def remove_or_restore(self) -> None:
        self.present ^= {"e"}

    @rule(
        name=st.sampled_from(ENVIRONMENTS),
        only=st.none() | st.sets(st.sampled_from(sorted(READS)), max_size=3),
        rows=st.integers(1, 3),
        cut=st.sampled_from([None, None, "environment begun", "views moved", "environment moved", 0, 1, 2]),
    )
    def build(self, name: str, only: set[str] | None, rows: int, cut: Step | int | None) -> None:
        reference = self.known.get(name)
        if reference is not None and reference.detached:
            return
        nodes = {n: (self.texts[n], READS[n]) for n in READS if n in self.present}
        chosen = None if only is None else tuple(n for n in nodes if n in only)
        self.finish_left(name)
        after = self.after_build(name, nodes, chosen, rows)
        self.move(name, after, cut, lambda announce: self.world.build(name, nodes, chosen, rows, announce))

    @rule(
        source=st.sampled_from(ENVIRONMENTS),
        to=st.sampled_from(ENVIRONMENTS),
        partial=st.booleans(),
        select=st.none() | st.sampled_from(sorted(READS)),
        cut=st.sampled_from([None, None, "environment begun", "views moved", 0, 1]),
    )
    def promote(self, source: str, to: str, partial: bool, select: str | None, cut: Step | int | None) -> None:
        target = to
        if source == target or source not in self.known:
            return
        self.finish_left(source)
        if (target not in self.known and target != "prod") or self.known[source].detached:
            return
        if target in self.known and self.known[target].detached:
            with pytest.raises(Detached):
                self.world.promote(source, target)
            return
        self.finish_left(target)
        options: dict[str, Any] = {"allow_partial": partial, "include_stale_upstreams": True}
        chosen = [f"{select}"] if select is not None else []
        before = self.everything()
        try:
            decided = self.world.promote(source, target, *chosen, dry_run=True, **options).promotion
        except SqbError:
            assert self.everything() == before
            assert not self.must_be_promotable(source, target) or select is not None
            return
        assert self.everything() == before
        after = self.after_promotion(source, target, decided)
        if after is None:
            self.world.promote(source, target, *chosen, **options)
            return
        self.move(
            target,
            after,
            cut,
            lambda announce: self.world.promote(source, target, *chosen, announce=announce, **options),
        )

    @rule(
        name=st.sampled_from(ENVIRONMENTS),
        wanted=st.none() | st.integers(1, 5),
        cut=st.sampled_from([None, None, "environment begun", "views moved", 0, 1]),
    )
    def roll_back(self, name: str, wanted: int | None, cut: Step | int | None) -> None:
        if name not in self.known:
            with pytest.raises(NoSuchEnvironment):
                self.world.roll_back(name)
            return
        if self.known[name].detached:
            with pytest.raises(Detached):
                self.world.roll_back(name)
            return
        self.finish_left(name)
        reference = self.known[name]
        to = self.rollback_goes_to(reference, wanted)
        number = None if wanted is None else str(wanted)
        if to is None:
            with pytest.raises(NoSuchCheckpoint):
                self.world.roll_back(name, number)
            return
        if name == "prod":
            self.agreed.clear()
        self.agreed.pop(name, None)
        contents = reference.marks[to].contents
        shown = Shown(contents, Status.ACTIVE if misfits(contents) else Status.FINALIZED, to)
        if shown == reference.now:
            assert self.world.roll_back(name, number).views == 0
            return
        self.move(
            name,
            lambda r: setattr(r, "now", shown),
            cut,
            lambda announce: self.world.roll_back(name, number, announce=announce),
        )

    @rule(name=st.sampled_from(ENVIRONMENTS), force=st.booleans())
    def remove(self, name: str, force: bool) -> None:
        if name not in self.known or self.world.store.read_environments().get(name) is None:
            return
        others = [n for n, e in self.world.store.read_environments().items() if e.baseline == name]
        if others and not force:
            self.finish_left(name)
            before = self.everything()
            with pytest.raises(InUse):
                self.world.remove(name)
            assert self.everything() == before
            return
        for one in (name, *others):
            self.finish_left(one)
        self.world.remove(name, force)
        for remaining in (self.known, self.agreed, self.had):
            remaining.pop(name, None)
        if name == "prod":
            # What others knew of it is forgotten: a new one gets everything that they show.
            self.agreed = {n: {} for n in self.known}
        assert not self.readers_see(name)

    @precondition(lambda self: any(r.left is None for r in self.known.values()))
    @rule(data=st.data())
    def detach_or_reattach(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(n for n, r in self.known.items() if r.left is None)))
        reference, store = self.known[name], self.world.store
        there = store.read_environments()[name]
        with store.lock(name, "a test") as token:
            if reference.detached:
                store.set_environment(replace(there, status=Status(there.was), was=""), token)
            else:
                store.set_environment(replace(there, status=Status.DETACHED, was=there.status), token)
        reference.detached = not reference.detached

    # --- what becomes of it ----------------------------------------------------------------------------------------

    def finish_left(self, name: str) -> None:
        """Somebody works on the environment, and what was left there is finished first."""
        if name in self.known and self.known[name].left is not None:
            with lock_environment(self.world.store, self.world.lake, name, "a test"):
                pass
            self.known[name].finish()

    def move(
        self,
        name: str,
        after: Callable[[Reference], None],
        cut: Step | int | None,
        command: Callable[[Announce], object],
    ) -> None:
        """Do what a command does, to the end or until it is cut off: at a step, or after some of its views."""

        def announce(step: Step, at: str) -> None:
            if step == cut and at == name:
                raise Killed
            if step == "environment begun" and at == name and isinstance(cut, int):
                self.world.lake.swaps_left = cut

        reference = self.known.setdefault(name, Reference(NEW))
        before = reference.now
        try:
            command(announce)
        except (Killed, LakeError):
            self.world.lake.swaps_left = None
            if self.world.store.read_journal(name) is None:
                after(reference)
                return
            future = Reference(before, list(reference.marks))
            after(future)
            reference.left, reference.may_show = after, future.now
            if cut == "environment begun" or (isinstance(cut, int) and self.transactions):
                assert self.readers_see(name) == texts_of(before.contents)
            if cut == "views moved":
                assert self.readers_see(name) == texts_of(future.now.contents)
            return
        self.world.lake.swaps_left = None
        after(reference)

    def after_build(
        self, name: str, nodes: dict[str, tuple[str, tuple[str, ...]]], only: tuple[str, ...] | None, rows: int
    ) -> Callable[[Reference], None]:
        made: dict[str, Node] = {}
        for node, (text, reads) in nodes.items():
            above = tuple((r, made[r][0]) for r in reads)
            made[node] = (digest(digest(node, text), *(v for _, v in above)), rows, above)
        baseline = dict(self.known["prod"].now.contents) if "prod" in self.known else {}
        if name not in self.known and name != "prod":
            self.agreed[name] = versions_in(baseline)
            prod = self.known.get("prod")
            at = prod.now.at if prod is not None else None
            self.recorded[name] = versions_in(prod.marks[at].contents) if prod is not None and at is not None else {}
            self.had[name] = set(baseline)

        def after(reference: Reference) -> None:
            contents = dict(baseline) if reference.now is NEW and name != "prod" else dict(reference.now.contents)
            contents |= {n: v for n, v in made.items() if only is None or n in only}
            if only is None:
                contents = {n: c for n, c in contents.items() if n in nodes}
            final = all(n in contents and contents[n][0] == v[0] for n, v in made.items()) and not misfits(contents)
            if final:
                reference.marks.append(Mark(contents, reference.now.at))
            at = len(reference.marks) - 1 if final else reference.now.at
            reference.now = Shown(contents, Status.FINALIZED if final else Status.ACTIVE, at)

        return after

    def after_promotion(self, source: str, target: str, decided: Promotion) -> Callable[[Reference], None] | None:
        """What the decision means, which must be one that can be explained by what the two have shown."""
        mine = self.known[source].now
        theirs = self.known[target].now if target in self.known else NEW
        contents = contents_of(decided.refs)
        assert all(node in (mine.contents.get(n), theirs.contents.get(n)) for n, node in contents.items())
        assert (decided.status is Status.FINALIZED) <= (not misfits(contents))
        if decided.status is Status.FINALIZED:
            # Nothing that the source shows is missing unless the target has had it, and has removed it itself.
            missing = mine.contents.keys() - contents.keys() - set(decided.unselected)
            assert missing <= self.had.get(target, set())
            assert target in self.known or not mine.contents.keys() - contents.keys()
        if self.must_be_promotable(source, target) and not decided.unselected:
            assert versions_in(contents) == versions_in(mine.contents)
        if contents == theirs.contents and (theirs.status, decided.status) != (Status.ACTIVE, Status.FINALIZED):
            return None

        def after(reference: Reference) -> None:
            reference.marks.append(Mark(contents, reference.now.at))
            reference.now = Shown(contents, decided.status, len(reference.marks) - 1)

        return after

    def must_be_promotable(self, source: str, target: str) -> bool:
        """Whether the target shows what it showed when the source began: then nothing can be in the way."""
        if target != "prod" or self.known[source].now.status is not Status.FINALIZED or source not in self.agreed:
            return False
        theirs = self.known[target].now.contents if target in self.known else {}
        return versions_in(theirs) == self.agreed[source] and self.knows_what_it_removed(source)

    def knows_what_it_removed(self, source: str) -> bool:
        """Whether checkpoints tell that the source removed what it does not show.

        A target that was not finalized when the source began may have shown nodes that are in no checkpoint. That the
        source began with them is recorded nowhere, so that they look as if the target had added them since: they stay.
        """
        reference = self.known[source]
        removed = {n: v for n, v in self.agreed[source].items() if n not in reference.now.contents}
        own = {n: node[0] for mark in reference.marks for n, node in mark.contents.items()}
        recorded = {**self.recorded.get(source, {}), **own}
        return all(recorded.get(name) == version for name, version in removed.items())

    def rollback_goes_to(self, reference: Reference, wanted: int | None) -> int | None:
        if wanted is not None:
            return wanted - 1 if wanted <= len(reference.marks) else None
        if reference.now.at is None:
            return None
        here = reference.marks[reference.now.at]
        return reference.now.at if here.contents != reference.now.contents else here.parent

    # --- what must be so -------------------------------------------------------------------------------------------

    def everything(self) -> Any:
        store = self.world.store
        names = sorted(store.read_environments())
        return {
            n: (store.read_refs(n), store.read_checkpoints(n), store.read_journal(n)) for n in names
        }, self.world.lake.list_pointers()

    def readers_see(self, name: str) -> dict[str, str]:
        schema = build_logical_relation(Relation("shop", ""), name, self.world.workspace.virtual.unsuffixed).schema
        views = [r for r, p in self.world.lake.list_pointers().items() if r.schema == schema and p.is_view]
        return {r.name: self.world.lake.view_text(r) or "" for r in views}

    @invariant()
    def everything_is_as_the_reference_says(self) -> None:
        if not hasattr(self, "world"):
            return
        store = self.world.store
        there = store.read_environments()
        for name, reference in self.known.items():
            if reference.now is NEW:
                assert name not in there
                continue
            assert contents_of(store.read_refs(name)) == reference.now.contents
            assert there[name].status is (Status.DETACHED if reference.detached else reference.now.status)
            self.had.setdefault(name, set()).update(reference.now.contents)
            self.checkpoints_are(name, reference)
            if reference.left is None:
                assert store.read_journal(name) is None
                assert self.world.shown(name) == self.readers_see(name) == texts_of(reference.now.contents)
            elif reference.may_show is not None:
                # Each of its views is the one that it was or the one that it will be.
                was, will = texts_of(reference.now.contents), texts_of(reference.may_show.contents)
                assert all(text in (was.get(n), will.get(n)) for n, text in self.readers_see(name).items())

    def checkpoints_are(self, name: str, reference: Reference) -> None:
        store = self.world.store
        own = store.read_checkpoints(name)
        assert [c.number for c in own] == list(range(len(reference.marks), 0, -1))
        for mark, remaining in zip(reference.marks, reversed(own), strict=True):
            bound = store.read_bindings(set(remaining.refs.values()))
            assert contents_of({n: Ref(bound[id]) for n, id in remaining.refs.items()}) == mark.contents


class WithoutTransactions(Environments):
    """The same where a catalog moves one view after the other."""

    transactions = False


TestEnvironments = Environments.TestCase
TestWithoutTransactions = WithoutTransactions.TestCase
TestEnvironments.settings = TestWithoutTransactions.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=25,
    deadline=None,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)
