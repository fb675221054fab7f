"""Taking over from another target, over random graphs and histories: what stands then is what would have been built.

The content of a table is worked out from its definition and the contents that it read, so that a table that was taken
over wrongly is told from one that is right.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st

from sqb.compile.model import Node, OtherTarget, Project
from sqb.identity import digest
from sqb.names import Relation
from sqb.plan.decide import make_plan
from sqb.plan.model import PlannedNode
from sqb.plan.observed import RelationState, Version, find_version, is_same_version, list_changed_inputs, list_inputs
from sqb.plan.recorded.commit_identity import CommitIdentity
from sqb.plan.recorded.versions import RecordedVersion, encode_sources
from support.examples import count_examples
from unit.plan.worlds import COLUMNS, node, observed, project

EXTERNALS = ("raw.x", "raw.y")


@dataclass
class Lake:
    """Everything that stands, and what its rows are."""

    relations: dict[Relation, RelationState] = field(default_factory=dict)
    snapshots: count[int] = field(default_factory=lambda: count(1))

    def write_source(self, name: str) -> None:
        self.relations[Relation.parse(name)] = RelationState(version=Version(next(self.snapshots), (), None, COLUMNS))

    def content(self, one: Node, world: Project) -> str:
        """What the rows of a node are when it is computed now."""
        read = []
        for item in list_inputs(one, world):
            version = find_version(item, world, self.relations)
            assert version is not None
            read.append(f"{item.name}={version.definition or version.content or version.snapshot_id}")
        return digest("rows", one.local_hash, *sorted(read))

    def build(
        self, one: Node, world: Project, sources: dict[str, RecordedVersion] | None = None, rows: str = ""
    ) -> None:
        """Put a node's rows in place; those of before when they are the same."""
        read = {i.key: v.record() for i in list_inputs(one, world) if (v := find_version(i, world, self.relations))}
        content = rows or self.content(one, world)
        identity = CommitIdentity(
            local_hash=one.local_hash,
            query_hash=one.query_hash,
            config_hash=one.config_hash,
            sources=encode_sources(read if sources is None else sources),
        )
        version = Version(next(self.snapshots), (), None if one.kind == "view" else content, COLUMNS)
        self.relations[one.relation] = RelationState(one.kind == "view", version, identity)

    def carry_out(self, planned: PlannedNode, world: Project, taken: dict[Relation, Version]) -> None:
        """What a build does with a node of its plan."""
        one = world.nodes[planned.name]
        if planned.reuse is not None:
            there = self.relations[planned.reuse.relation]
            assert there.version.content is not None
            sources = {}
            for item in list_inputs(one, world):
                recorded = planned.reuse.sources[item.key]
                now = find_version(item, world, self.relations)
                is_now = not item.external and now is not None and is_same_version(recorded, now)
                same = now.record() if is_now and now is not None else recorded
                base = taken.get(item.relation) if item.relation is not None and not item.view else None
                sources[item.key] = base.record() if base is not None else same
            self.build(one, world, sources, there.version.content)
            taken[one.relation] = self.relations[one.relation].version
        elif planned.pending and not self.has_changed(one, world):
            return
        if planned.reuse is None or self.has_changed(one, world):
            self.build(one, world)

    def has_changed(self, one: Node, world: Project) -> bool:
        return bool(list_changed_inputs(one, world, self.relations[one.relation], self.relations))


@dataclass(frozen=True)
class Case:
    lake: Lake
    dev: Project


def in_target(target: str, nodes: list[Node]) -> Project:
    return project(*(replace(n, relation=Relation(target, n.name[2:])) for n in nodes), externals=EXTERNALS)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Two targets that were built at different times, in part, with definitions that differ."""
    size = draw(st.integers(1, 7))
    nodes: list[Node] = []
    for i in range(size):
        above = draw(st.lists(st.sampled_from([n.name for n in nodes] or ["raw.x"]), unique=True, max_size=3))
        above += draw(st.lists(st.sampled_from(EXTERNALS), unique=True, max_size=1))
        kind = draw(st.sampled_from(["table", "table", "table", "append", "view", "seed"]))
        nodes.append(node(f"s.n{i}", *(set(above) if kind != "seed" else ()), kind=kind))
    lake = Lake()
    for name in EXTERNALS:
        lake.write_source(name)
    everything = set(range(size))
    for target in ("prod", *draw(st.permutations(["dev", "prod"]))):
        edited = draw(st.one_of(st.just(set()), st.sets(st.integers(0, size - 1), max_size=2)))
        chosen = draw(st.one_of(st.just(everything if target == "prod" else set()), st.sets(st.integers(0, size - 1))))
        then = [replace(n, local_hash="edited") if i in edited else n for i, n in enumerate(nodes)]
        world = in_target(target, then)
        for i, one in enumerate(world):
            above = [world.nodes[u] for u in one.upstream if u in world.nodes]
            if i in chosen and all(u.relation in lake.relations for u in above):
                lake.build(one, world)
        for name in draw(st.sets(st.sampled_from(EXTERNALS))):
            lake.write_source(name)
    there = {n.name: Relation("prod", n.name[2:]) for n in nodes}
    how = draw(st.sampled_from(["clone", "copy"]))
    return Case(lake, replace(in_target("dev", nodes), other_target=OtherTarget("prod", how, there)))


@settings(max_examples=count_examples(300))
@given(cases())
def test_what_stands_is_what_would_have_been_built(case: Case) -> None:
    plan = make_plan(case.dev, observed(case.lake.relations, tuple(case.dev.nodes)))
    prod = {r: s for r, s in case.lake.relations.items() if r.schema == "prod"}
    taken: dict[Relation, Version] = {}
    for planned in plan.nodes:
        if planned.action == "run":
            case.lake.carry_out(planned, case.dev, taken)
    for one in case.dev:
        if one.kind != "view":
            value = case.lake.relations[one.relation].version.content
            assert value == case.lake.content(one, case.dev), f"{one.name} is not what its query says"
    after = make_plan(case.dev, observed(case.lake.relations, tuple(case.dev.nodes)))
    assert after.nothing_to_do, [(n.name, str(n.reason), n.detail) for n in after.nodes if n.action == "run"]
    assert {r: s for r, s in case.lake.relations.items() if r.schema == "prod"} == prod


@given(cases())
def test_only_what_would_run_is_taken_over_and_what_stands_only_as_it_is_to_be(case: Case) -> None:
    known = tuple(case.dev.nodes)
    without = make_plan(replace(case.dev, other_target=None), observed(case.lake.relations, known))
    plan = make_plan(case.dev, observed(case.lake.relations, known))
    for alone, planned in zip(without.nodes, plan.nodes, strict=True):
        assert (alone.name, alone.action, alone.reason) == (planned.name, planned.action, planned.reason)
        # What stands here with its definition is cloned only where nothing remains to be done on top of it.
        assert planned.reuse is None or alone.run_type == "backfill" or not planned.reuse.moved
        assert planned.reuse is None or alone.action == "run"
