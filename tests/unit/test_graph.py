"""Order and cycles."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqb.graph import find_reachable, format_cycle, reverse_edges, sort_topologically


def test_each_name_stands_after_what_it_depends_on() -> None:
    assert sort_topologically({"c": ["b"], "b": ["a"], "a": []}) == (["a", "b", "c"], [])


def test_names_outside_the_graph_are_ignored() -> None:
    assert sort_topologically({"b": ["raw.x", "a"], "a": ["raw.y"]}) == (["a", "b"], [])


def test_an_empty_graph_has_an_empty_order() -> None:
    assert sort_topologically({}) == ([], [])


@pytest.mark.parametrize(
    ("upstream", "cycle"),
    [
        ({"a": ["b"], "b": ["a"]}, {"a", "b"}),
        ({"a": ["b"], "b": ["c"], "c": ["a"]}, {"a", "b", "c"}),
        ({"x": ["a"], "a": ["b"], "b": ["c"], "c": ["a"], "y": []}, {"a", "b", "c"}),
        ({"a": ["a"]}, {"a"}),
    ],
)
def test_a_cycle_is_found_without_what_only_leads_to_it(upstream: Mapping[str, list[str]], cycle: set[str]) -> None:
    _, cycles = sort_topologically(upstream)
    assert [set(c) for c in cycles] == [cycle]
    entry = cycles[0]
    for reader, read in zip(entry, [*entry[1:], entry[0]], strict=True):
        assert read in upstream[reader]


def test_two_cycles_are_both_found() -> None:
    _, cycles = sort_topologically({"a": ["b"], "b": ["a"], "c": ["d"], "d": ["c"]})
    assert sorted(sorted(c) for c in cycles) == [["a", "b"], ["c", "d"]]


def test_of_many_who_read_each_other_the_shortest_circle_is_told() -> None:
    # A thousand in a ring, and one step that makes it short.
    ring = {f"m{i:04}": [f"m{(i + 1) % 1000:04}"] for i in range(1000)}
    _, cycles = sort_topologically({**ring, "m0502": ["m0503", "m0500"]})
    assert cycles == [["m0500", "m0501", "m0502"]]
    # Where all read all, two are enough.
    everyone = [f"m{i}" for i in range(150)]
    _, cycles = sort_topologically({name: [n for n in everyone if n != name] for name in everyone})
    assert cycles == [["m0", "m1"]]


def test_a_circle_without_a_shortcut_is_told_by_its_ends() -> None:
    _, (cycle,) = sort_topologically({f"m{i:04}": [f"m{(i + 1) % 1000:04}"] for i in range(1000)})
    assert len(cycle) == 1000
    shown = format_cycle(cycle)
    assert shown.startswith("m0000 → m0001 → ") and shown.endswith(" → m0999 → m0000") and len(shown) < 120
    assert "(990 more)" in shown
    assert format_cycle(["a", "b"]) == "a → b → a" and format_cycle(["a"]) == "a → a"


@given(st.dictionaries(st.integers(0, 7), st.lists(st.integers(0, 7)), max_size=8))
def test_no_circle_is_shorter_than_the_one_that_is_told(numbers: dict[int, list[int]]) -> None:
    upstream = {f"n{n}": [f"n{u}" for u in above if u in numbers] for n, above in numbers.items()}
    _, cycles = sort_topologically(upstream)

    def way_back(start: str) -> int | None:
        seen, level, depth = set[str](), {start}, 0
        while level:
            depth += 1
            level = {u for name in level for u in upstream[name]} - seen
            if start in level:
                return depth
            seen |= level
        return None

    for cycle in cycles:
        assert all(read in upstream[one] for one, read in zip(cycle, [*cycle[1:], cycle[0]], strict=True))
        reach = find_reachable(upstream[cycle[0]], upstream)
        together = [n for n in reach if cycle[0] in find_reachable(upstream[n], upstream)]
        assert len(cycle) == min(w for n in together if (w := way_back(n)) is not None)
    in_circles = {n for n in upstream if way_back(n) is not None}
    assert in_circles == {
        n
        for c in cycles
        for n in in_circles
        if n in find_reachable(c, upstream) and c[0] in find_reachable([n], upstream)
    }


def test_a_chain_longer_than_the_stack_is_no_problem() -> None:
    upstream = {str(i): [str(i + 1)] for i in range(5000)}
    order, cycles = sort_topologically(upstream)
    assert order[0] == "4999" and order[-1] == "0" and not cycles


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, list[str]]:
    size = draw(st.integers(1, 12))
    names = draw(st.permutations([f"n{i:02}" for i in range(size)]))
    rank = {name: i for i, name in enumerate(sorted(names))}
    return {
        name: draw(st.lists(st.sampled_from(sorted(names)[: rank[name]]), unique=True)) if rank[name] else []
        for name in names
    }


@given(graphs())
def test_any_graph_without_cycles_is_ordered(upstream: dict[str, list[str]]) -> None:
    order, cycles = sort_topologically(upstream)
    assert not cycles
    assert sorted(order) == sorted(upstream)
    place = {name: i for i, name in enumerate(order)}
    assert all(place[u] < place[n] for n, above in upstream.items() for u in above)


@given(graphs())
def test_who_reads_whom_turned_around_twice_is_the_same(upstream: dict[str, list[str]]) -> None:
    again = reverse_edges(reverse_edges(upstream))
    assert {n: sorted(a) for n, a in again.items()} == {n: sorted(a) for n, a in upstream.items()}


def test_everything_reachable() -> None:
    assert find_reachable(["c"], {"c": ["b"], "b": ["a"], "a": ["b"], "z": []}) == {"a", "b", "c"}
