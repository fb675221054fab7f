"""Random graphs below a source whose value and rows move at random, built in parts, with models that fail."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from sqb.build.history.freshness import list_settled_sources
from sqb.compile.model import Node, Project
from sqb.compile.source_model import DeclaredSource, Watch
from sqb.names import At, Relation
from sqb.plan.decide import make_plan
from sqb.plan.freshness import Observation, RecordedFreshness, add_freshness, list_nodes_below
from sqb.plan.model import Options, Plan
from sqb.plan.observed import Observed, RelationState, has_changed_value
from unit.plan.worlds import built_node, node, project, source

X = Relation("raw", "x")
LAG = 3600.0


def value_at(hour: int) -> str:
    return f"2024-01-{1 + hour // 24:02}T{hour % 24:02}:00:00.000000+00:00"


@dataclass(frozen=True)
class Turn:
    """What happens before a build, and in it: the source moves, some nodes are selected, some fail."""

    hour: int
    new_rows: bool
    selected: frozenset[str] | None
    failing: frozenset[str]


@st.composite
def stories(draw: st.DrawFn) -> tuple[Project, list[Turn]]:
    nodes: list[Node] = []
    for i in range(draw(st.integers(1, 6))):
        above = draw(st.lists(st.sampled_from([n.name for n in nodes] or ["raw.x"]), unique=True, max_size=2))
        above += ["raw.x"] if draw(st.booleans()) else []
        kind = draw(st.sampled_from(["table", "table", "view"]))
        nodes.append(node(f"{draw(st.sampled_from(['s', 't']))}.n{i}", *set(above), kind=kind))
    watch = Watch("column", "timestamp", "ts", token="t", lag=draw(st.sampled_from([None, LAG])))
    declared = {"raw.x": DeclaredSource("raw.x", X, At("sources/s.yml"), watch=watch)}
    world = replace(project(*nodes, externals=("raw.x",)), sources=declared)
    names = st.sampled_from(sorted(world.nodes))
    turn = st.builds(
        Turn, st.integers(0, 5), st.booleans(), st.none() | st.frozensets(names, min_size=1), st.frozensets(names)
    )
    return world, draw(st.lists(turn, min_size=1, max_size=5))


class Life:
    """A lake through several builds, as far as planning sees it."""

    def __init__(self, world: Project) -> None:
        self.world = world
        self.lake: dict[Relation, RelationState] = {}
        self.snapshot, self.hour = 1, 0
        self.recorded: list[str] = []
        self.made = 100

    def move(self, turn: Turn) -> None:
        # A value cannot change without a commit to the table.
        self.snapshot += turn.new_rows or turn.hour != self.hour
        self.hour = turn.hour

    def look(self) -> Observed:
        seen = {"raw.x": Observation("column", "timestamp", value_at(self.hour))}
        last = {"raw.x": RecordedFreshness("column", "timestamp", self.recorded[-1], 0.0)} if self.recorded else {}
        there = Observed({**self.lake, X: source(self.snapshot)}, known_nodes=frozenset(self.world.nodes))
        return add_freshness(self.world, there, seen, last, 0.0)

    def plan(self, selected: frozenset[str] | None = None) -> Plan:
        return make_plan(self.world, self.look(), Options(selected))

    def build(self, selected: frozenset[str] | None, failing: frozenset[str]) -> set[str]:
        """Carry a plan out, every output being new; what failed keeps what reads it from running."""
        seen = self.look()
        relations = dict(seen.relations)
        fallen: set[str] = set()
        ran = set()
        for planned in make_plan(self.world, seen, Options(selected)).nodes:
            one = self.world.nodes[planned.name]
            if planned.action != "run":
                continue
            if planned.name in failing or fallen & set(planned.upstream):
                fallen.add(planned.name)
                continue
            self.made += 1
            relations[one.relation] = built_node(one, self.world, relations, self.made)
            ran.add(planned.name)
        self.lake = {r: s for r, s in relations.items() if r != X}
        self.recorded += [
            r.data_version for r in list_settled_sources(self.world, replace(seen, relations=relations), "r")
        ]
        return ran


@given(stories())
def test_a_whole_build_without_failures_leaves_nothing_to_do(story: tuple[Project, list[Turn]]) -> None:
    world, turns = story
    life = Life(world)
    for turn in turns:
        life.move(turn)
        life.build(turn.selected, turn.failing)
    life.build(None, frozenset())
    assert life.plan().nothing_to_do
    assert life.build(None, frozenset()) == set()


@given(stories())
def test_what_is_up_to_date_with_the_source_is_never_run_for_it(story: tuple[Project, list[Turn]]) -> None:
    world, turns = story
    life = Life(world)
    for turn in turns:
        life.move(turn)
        first = life.build(None, turn.failing)
        again = life.build(None, turn.failing)
        assert not first & again


@given(stories())
def test_a_value_is_recorded_only_when_all_below_have_read_rows_of_it(story: tuple[Project, list[Turn]]) -> None:
    world, turns = story
    life = Life(world)
    for turn in turns:
        life.move(turn)
        before = len(life.recorded)
        life.build(turn.selected, turn.failing)
        if len(life.recorded) > before:
            assert set(life.recorded[before:]) == {value_at(life.hour)}
            below = set(list_nodes_below("raw.x", world))
            assert all(n.action == "skip" for n in life.plan().nodes if n.name in below)


@given(stories())
def test_readers_of_an_unchanged_source_are_skipped_and_of_a_changed_one_are_not(
    story: tuple[Project, list[Turn]],
) -> None:
    world, turns = story
    life = Life(world)
    life.build(None, frozenset())
    watch = world.sources["raw.x"].watch
    assert watch is not None
    for turn in turns:
        baseline, rows = life.recorded[-1:], life.snapshot
        life.move(turn)
        direct = [n for n in world if "raw.x" in n.upstream and n.kind != "view"]
        moved = bool(baseline) and has_changed_value("timestamp", baseline[0], value_at(life.hour), watch.lag)
        runs = {n.name for n in life.plan().nodes if n.action == "run"}
        if direct and not moved:
            assert runs == set()
        elif direct and life.snapshot != rows:
            assert {n.name for n in direct} <= runs
        life.build(None, frozenset())
