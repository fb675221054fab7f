"""The graph of nodes: order, cycles, and the selectors that name parts of it."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from sqb.errors.call import BadSelector
from sqb.names import find_nearest, suggest_nearest


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


class Selectable(Protocol):
    """What a selector looks at."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def file(self) -> str: ...
    @property
    def tags(self) -> tuple[str, ...]: ...
    @property
    def after(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, slots=True)
class Selection:
    """The chosen names, and whether the whole project was chosen."""

    names: frozenset[str]
    everything: bool


def select(
    nodes: Mapping[str, Selectable],
    externals: Iterable[str],
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    edges: Mapping[str, Iterable[str]] | None = None,
) -> Selection:
    """The nodes that `--select` names (all of them without it), less those that `--exclude` names.

    `edges` is what each node waits for, where that is more than what it reads: with a node goes what loads its sources.
    """
    outside = tuple(externals)
    upstream = edges if edges is not None else {n.name: n.after for n in nodes.values()}
    chosen = set(nodes) if not include else _select_union(nodes, outside, include, upstream)
    if edges is not None:
        chosen |= {u for name in tuple(chosen) for u in edges[name] if u in nodes and nodes[u].type == "loader"}
    dropped = _select_union(nodes, outside, exclude, upstream) if exclude else set()
    return Selection(frozenset(n for n in nodes if n in chosen and n not in dropped), not include and not exclude)


_FORMS = "write a name, +name, name+, tag:x, path:x or source:x"
_Edges = Mapping[str, Iterable[str]]


def _select_union(
    nodes: Mapping[str, Selectable], externals: Sequence[str], terms: Iterable[str], upstream: _Edges
) -> set[str]:
    selected: set[str] = set()
    words = [t for text in terms for t in text.split()]
    if not words:
        raise BadSelector("an empty selector selects nothing", hint=_FORMS)
    for term in words:
        parts = [_select_term(nodes, externals, part.strip(), upstream) for part in term.split(",")]
        selected |= set.intersection(*parts)
    return selected


def _select_term(nodes: Mapping[str, Selectable], externals: Sequence[str], text: str, upstream: _Edges) -> set[str]:
    core = text.strip("+")
    if not core or "+" in core:
        raise BadSelector(f'"{text}" is not a selector', hint=_FORMS)
    up, down = text.startswith("+"), text.endswith("+")
    downstream = reverse_edges(upstream)
    if core.startswith("source:"):
        sources = _match_sources(externals, core.removeprefix("source:"))
        below = find_reachable(sources, downstream)
        # A source itself is never built: `source:x` alone means its direct readers.
        direct = {name for s in sources for name in downstream.get(s, ())}
        return {n for n in (below if down else direct) if n in nodes}
    start = _match_nodes(nodes, core)
    selected = set(start)
    if up:
        selected |= find_reachable(start, upstream)
    if down:
        selected |= find_reachable(start, downstream)
    return {n for n in selected if n in nodes}


def _match_sources(externals: Sequence[str], pattern: str) -> list[str]:
    matches = [e for e in externals if fnmatch.fnmatchcase(e.lower(), pattern.lower())]
    if not matches:
        raise BadSelector(f'no source is called "{pattern}"', hint=suggest_nearest(pattern, externals))
    return matches


def _match_nodes(nodes: Mapping[str, Selectable], core: str) -> set[str]:
    before, colon, after = core.partition(":")
    method, value = (before, after) if colon else ("", core)
    test = _METHODS.get(method)
    if test is None:
        raise BadSelector(
            f'"{method}:" is not a selector method',
            hint=suggest_nearest(method, (*_METHODS, "source"))
            or "methods: tag, path, source, model, seed, loader, task, asset, check",
        )
    matches = {n.name for n in nodes.values() if test(n, value)}
    if not matches:
        close = find_nearest(value, _iter_candidates(nodes.values(), method))
        suggestions = " or ".join(repr(f"{method}:{c}" if method else c) for c in close)
        raise BadSelector(f'nothing is called "{core}"', hint=f"did you mean {suggestions}?" if close else None)
    return matches


def _iter_candidates(nodes: Iterable[Selectable], method: str) -> Iterator[str]:
    """What the value of a selector could have been."""
    for node in nodes:
        if method == "tag":
            yield from node.tags
        elif method == "path":
            folders = node.file.split("/")
            yield from ("/".join(folders[:i]) for i in range(1, len(folders) + 1))
        elif method in ("", node.type):
            yield from (node.name, node.name.rpartition(".")[2])


def _matches_name(node: Selectable, value: str) -> bool:
    name, pattern = node.name.lower(), value.lower()
    return fnmatch.fnmatchcase(name, pattern) or fnmatch.fnmatchcase(name.rpartition(".")[2], pattern)


def _matches_tag(node: Selectable, value: str) -> bool:
    return any(fnmatch.fnmatchcase(tag.lower(), value.lower()) for tag in node.tags)


def _matches_path(node: Selectable, value: str) -> bool:
    """A file, a folder, or a glob; a folder may be named without the `models/` before it."""
    clean = value.removeprefix("./").rstrip("/")
    folder = node.file.rpartition("/")[0]
    return (
        node.file == clean
        or node.file.startswith(clean + "/")
        or fnmatch.fnmatchcase(node.file, clean)
        or f"/{clean}/" in f"/{folder}/"
    )


def _build_type_matcher(kind: str) -> Callable[[Selectable, str], bool]:
    return lambda node, value: node.type == kind and _matches_name(node, value)


_METHODS: Mapping[str, Callable[[Selectable, str], bool]] = {
    "": _matches_name,
    "tag": _matches_tag,
    "path": _matches_path,
    "model": _build_type_matcher("model"),
    "seed": _build_type_matcher("seed"),
    "loader": _build_type_matcher("loader"),
    "task": _build_type_matcher("task"),
    "asset": _build_type_matcher("asset"),
    "check": _build_type_matcher("check"),
}
