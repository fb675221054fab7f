"""Planning over random graphs and random changes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from sqb.compile.model import Node, Project
from sqb.graph import sort_topologically
from sqb.names import Relation
from sqb.plan.decide import make_plan
from sqb.plan.model import Options, Plan
from sqb.plan.observed import RelationState
from sqb.plan.recorded.commit_identity import CommitIdentity
from unit.plan.worlds import built, built_node, node, observed, project, source, version

EXTERNALS = ("raw.x", "raw.y")


@dataclass(frozen=True)
class World:
    """A project that was built once, and what has changed since: definitions, sources, rows, dropped relations."""

    nodes: tuple[Node, ...]
    project: Project
    lake: dict[Relation, RelationState]
    touched: frozenset[str]

    def plan(self, options: Options = Options()) -> Plan:
        return make_plan(self.project, observed(self.lake, tuple(self.project.nodes)), options)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    size = draw(st.integers(1, 9))
    before: list[Node] = []
    for i in range(size):
        above = draw(st.lists(st.sampled_from([n.name for n in before] or ["raw.x"]), unique=True, max_size=3))
        above += draw(st.lists(st.sampled_from(EXTERNALS), unique=True, max_size=1))
        kind = draw(st.sampled_from(["table", "table", "view"]))
        functions = draw(st.dictionaries(st.sampled_from(["f", "g", "@m"]), st.just("old")))
        before.append(node(f"s.n{i}", *set(above), kind=kind, functions=functions))
    sources = {Relation.parse(e): source(1) for e in EXTERNALS}
    lake = built(project(*before, externals=EXTERNALS), sources)
    changes = draw(
        st.lists(
            st.tuples(
                st.integers(0, size - 1),
                st.sampled_from(["query", "config", "function", "rows", "columns", "dropped", "drifted"]),
            )
        )
    )
    now, touched = list(before), set()
    for i, change in changes:
        one = now[i]
        touched.add(one.name)
        if change in ("query", "config"):
            now[i] = replace(one, **{f"{change}_hash": f"new {change}"}, local_hash=f"{one.local_hash} {change}")  # type: ignore[arg-type]
        elif change == "function":
            now[i] = replace(one, functions={**one.functions, "f": "new"}, local_hash=f"{one.local_hash} {change}")
        elif one.relation in lake:
            current = lake[one.relation]
            match change:
                case "rows":
                    columns = current.version.columns
                    lake[one.relation] = replace(current, version=version(9000 + i, "other", columns))
                case "columns":
                    lake[one.relation] = replace(current, version=version(9000 + i, "other", f"other {i}"))
                case "dropped":
                    del lake[one.relation]
                case "drifted":
                    lake[one.relation] = replace(current, drifted=True)
    for external in draw(st.sets(st.sampled_from(EXTERNALS))):
        touched.add(external)
        lake[Relation.parse(external)] = source(2)
    return World(tuple(now), project(*now, externals=EXTERNALS), lake, frozenset(touched))


def above(name: str, world: Project) -> set[str]:
    """Everything that a node is built from, itself included."""
    result, stack = set(), [name]
    while stack:
        one = stack.pop()
        if one not in result:
            result.add(one)
            stack += world.nodes[one].upstream if one in world.nodes else ()
    return result


@given(worlds())
def test_a_node_never_runs_with_nothing_changed_in_it_or_above_it(world: World) -> None:
    for planned in world.plan().nodes:
        if planned.action == "run":
            assert above(planned.name, world.project) & world.touched


@given(worlds())
def test_what_changed_itself_always_runs(world: World) -> None:
    plan = {n.name: n for n in world.plan().nodes}
    for one in world.nodes:
        current = world.lake.get(one.relation)
        if current is None or current.drifted or current.local_hash != one.local_hash:
            assert plan[one.name].action == "run" and not plan[one.name].pending


@given(worlds(), st.randoms(use_true_random=False))
def test_the_order_in_which_nodes_are_given_does_not_matter(world: World, random: object) -> None:
    nodes = list(world.nodes)
    random.shuffle(nodes)  # type: ignore[attr-defined]
    by_name = {n.name: n for n in nodes}
    order, _ = sort_topologically({n.name: n.upstream for n in nodes})
    other = project(*(by_name[name] for name in order), externals=EXTERNALS)
    again = make_plan(other, observed(world.lake, tuple(world.project.nodes)))
    assert {n.name: n for n in again.nodes} == {n.name: n for n in world.plan().nodes}
    assert set(again.warnings) == set(world.plan().warnings)


@given(worlds(), st.booleans())
def test_after_everything_was_built_as_planned_there_is_nothing_to_do(world: World, same_rows: bool) -> None:
    lake = dict(world.lake)
    for index, planned in enumerate(world.plan().nodes):
        if planned.action == "run":
            one = world.project.nodes[planned.name]
            made = built_node(one, world.project, lake, 20_000 + index)
            stood = lake.get(one.relation)
            if same_rows and stood is not None and one.kind != "view" and not stood.is_view:
                made = replace(made, version=replace(stood.version, snapshot_id=20_000 + index))
            lake[one.relation] = made
    assert make_plan(world.project, observed(lake, tuple(world.project.nodes))).nothing_to_do


@given(worlds())
def test_a_plan_lists_each_node_once_after_what_it_reads(world: World) -> None:
    names = [n.name for n in world.plan().nodes]
    assert sorted(names) == sorted(world.project.nodes)
    for planned in world.plan().nodes:
        read = [u for u in planned.upstream if u in world.project.nodes]
        assert all(names.index(u) < names.index(planned.name) for u in read)


@given(worlds(), st.data())
def test_a_selection_plans_its_nodes_and_no_others(world: World, data: st.DataObject) -> None:
    chosen = data.draw(st.frozensets(st.sampled_from(sorted(world.project.nodes))))
    plan = world.plan(Options(chosen))
    assert {n.name for n in plan.nodes} == chosen
    whole = {n.name: n for n in world.plan().nodes}
    for planned in plan.nodes:
        if planned.action == "run":
            assert whole[planned.name].action == "run"


@given(worlds())
def test_plans_of_any_world_survive_json(world: World) -> None:
    plan = world.plan(Options(force=True))
    assert Plan.from_json(plan.to_json()) == plan


@given(worlds())
def test_whatever_is_below_what_runs_runs_too_or_waits_for_it(world: World) -> None:
    plan = {n.name: n for n in world.plan().nodes}
    for planned in plan.values():
        kind = world.project.nodes[planned.name].kind
        # What a view says is known without running it; the tables beneath it count as read by whoever reads the view.
        read = [plan[u] for u in planned.upstream if u in plan and (plan[u].kind != "view" or kind == "view")]
        if any(u.action == "run" for u in read):
            assert planned.action == "run"


@given(worlds())
def test_a_reason_says_what_is_true_of_the_node(world: World) -> None:
    for planned in world.plan().nodes:
        one = world.project.nodes[planned.name]
        current = world.lake.get(one.relation)
        stored = current.identity if current is not None else CommitIdentity()
        match str(planned.reason):
            case "Relation missing":
                assert current is None
            case "Query changed":
                assert stored.query_hash != one.query_hash
            case "Config changed":
                assert stored.query_hash == one.query_hash
                assert stored.config_hash != one.config_hash
            case "Function changed":
                assert (stored.query_hash, stored.config_hash) == (one.query_hash, one.config_hash)
                assert one.functions.get("f") == "new"
            case "Normal":
                assert planned.action == "skip"
                assert current is not None and not current.drifted and current.local_hash == one.local_hash


@given(worlds(), st.data())
def test_a_build_that_was_cut_short_leaves_exactly_the_rest_to_be_done(world: World, data: st.DataObject) -> None:
    """What was built is not built again, and what was not still runs, whatever point the build had come to."""
    plan = world.plan()
    to_run = [n for n in plan.nodes if n.action == "run"]
    done = to_run[: data.draw(st.integers(0, len(to_run)))]
    lake = dict(world.lake)
    for index, planned in enumerate(done):
        one = world.project.nodes[planned.name]
        lake[one.relation] = built_node(one, world.project, lake, 30_000 + index)
    after = {n.name: n for n in make_plan(world.project, observed(lake, tuple(world.project.nodes))).nodes}
    assert all(after[n.name].action == "skip" for n in done)
    certain = [n for n in to_run if n not in done and not n.pending]
    assert all(after[n.name].action == "run" for n in certain)
