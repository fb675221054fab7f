"""The graph of nodes: order, cycles, and what is reachable."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence


def sort_topologically(upstream: Mapping[str, Iterable[str]]) -> tuple[list[str], list[list[str]]]:
    """The names, each after what it depends on and else in the given order, and the cycles that prevent an order.

    Of names that all depend on each other one cycle is reported, the shortest.
    """
    done: dict[str, bool] = {}
    result: list[str] = []
    circular = False
    for root in upstream:
        if root in done:
            continue
        stack: list[tuple[str, bool]] = [(root, False)]
        while stack:
            name, finished = stack.pop()
            if finished:
                done[name] = True
                result.append(name)
                continue
            if name in done:
                circular = circular or not done[name]
                continue
            done[name] = False
            stack.append((name, True))
            stack.extend((u, False) for u in sorted(upstream[name], reverse=True) if u in upstream)
    return result, _find_shortest_cycles(upstream, result) if circular else []


def format_cycle(cycle: Sequence[str]) -> str:
    """A cycle as a line that people can read, back to its first name; of a long one its ends."""
    names = [*cycle, cycle[0]]
    if len(names) > _MAX_CYCLE_NAMES:
        left, right = _MAX_CYCLE_NAMES - 4, 3
        names = [*names[:left], f"({len(names) - left - right} more)", *names[-right:]]
    return " → ".join(names)


_MAX_CYCLE_NAMES = 12
# Steps that are spent on making cycles shorter: far more than projects of thousands of nodes need.
_MAX_STEPS = 2_000_000


def _find_shortest_cycles(upstream: Mapping[str, Iterable[str]], order: Sequence[str]) -> list[list[str]]:
    """One cycle of each set of names that depend on each other, in the given order of their first names."""
    steps = {name: [u for u in dict.fromkeys(above) if u in upstream] for name, above in upstream.items()}
    cycles = []
    for group in _iter_components(steps, order):
        if len(group) == 1 and group[0] not in steps[group[0]]:
            continue
        inside = set(group)
        names = [name for name in upstream if name in inside]
        cycles.append(_find_shortest_cycle(names, {n: [u for u in steps[n] if u in inside] for n in names}))
    places = {name: i for i, name in enumerate(upstream)}
    return sorted(cycles, key=lambda cycle: places[cycle[0]])


def _iter_components(steps: Mapping[str, list[str]], order: Sequence[str]) -> Iterator[list[str]]:
    """The sets of names that depend on each other; `order` is that in which a walk along the steps left the names."""
    readers = reverse_edges(steps)
    visited: set[str] = set()
    for root in reversed(order):
        group, stack = [], [root]
        while stack:
            name = stack.pop()
            if name not in visited:
                visited.add(name)
                group.append(name)
                stack.extend(readers[name])
        if group:
            yield group


def _find_shortest_cycle(names: Sequence[str], steps: Mapping[str, list[str]]) -> list[str]:
    """The shortest way from one of the names back to it, all of which depend on each other."""
    itself = next((name for name in names if name in steps[name]), None)
    if itself is not None:
        return [itself]
    best: list[str] = []
    step_count = 0
    for start in names:
        before: dict[str, str] = {}
        level = [start]
        depth = 0
        while level and start not in before and not (best and depth + 1 >= len(best)):
            depth += 1
            next_level = []
            for name in level:
                for above in steps[name]:
                    if above not in before:
                        before[above] = name
                        next_level.append(above)
            step_count += len(next_level)
            level = next_level
        if start in before:
            best = _trace_cycle(start, before)
        # A ring without a shortcut has no other cycle.
        if len(best) == 2 or len(best) == len(names) == sum(map(len, steps.values())) or step_count > _MAX_STEPS:
            return best
    return best


def _trace_cycle(start: str, before: Mapping[str, str]) -> list[str]:
    way = [before[start]]
    while way[-1] != start:
        way.append(before[way[-1]])
    return way[::-1]


def find_reachable(start: Iterable[str], step: Mapping[str, Iterable[str]]) -> set[str]:
    """Everything reachable from `start`, itself included."""
    visited: set[str] = set()
    stack = list(start)
    while stack:
        name = stack.pop()
        if name not in visited:
            visited.add(name)
            stack.extend(step.get(name, ()))
    return visited


def reverse_edges(upstream: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """Who reads each name."""
    down: dict[str, list[str]] = {name: [] for name in upstream}
    for name, above in upstream.items():
        for upstream_name in above:
            down.setdefault(upstream_name, []).append(name)
    return down
