"""The graph of nodes: order, cycles, and the selectors that name parts of it."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from sqb.errors import BadSelector
from sqb.names import did_you_mean, nearest


def ordered(upstream: Mapping[str, Iterable[str]]) -> tuple[list[str], list[list[str]]]:
    """The names, each after what it depends on and else in the given order, and the cycles that stand in the way."""
    done: dict[str, bool] = {}
    result: list[str] = []
    cycles: list[list[str]] = []
    for root in upstream:
        if root in done:
            continue
        path: list[str] = []
        stack: list[tuple[str, bool]] = [(root, False)]
        while stack:
            name, finished = stack.pop()
            if finished:
                done[name] = True
                result.append(name)
                path.pop()
                continue
            if name in done:
                if not done[name]:
                    cycles.append(path[path.index(name) :])
                continue
            done[name] = False
            path.append(name)
            stack.append((name, True))
            stack.extend((u, False) for u in sorted(upstream[name], reverse=True) if u in upstream)
    return result, cycles


def closure(start: Iterable[str], step: Mapping[str, Iterable[str]]) -> set[str]:
    """Everything reachable from `start`, itself included."""
    seen: set[str] = set()
    stack = list(start)
    while stack:
        name = stack.pop()
        if name not in seen:
            seen.add(name)
            stack.extend(step.get(name, ()))
    return seen


def reversed_edges(upstream: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """Who reads each name."""
    down: dict[str, list[str]] = {name: [] for name in upstream}
    for name, above in upstream.items():
        for one in above:
            down.setdefault(one, []).append(name)
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
    chosen = set(nodes) if not include else _union(nodes, outside, include, upstream)
    if edges is not None:
        chosen |= {u for name in tuple(chosen) for u in edges[name] if u in nodes and nodes[u].type == "loader"}
    dropped = _union(nodes, outside, exclude, upstream) if exclude else set()
    return Selection(frozenset(n for n in nodes if n in chosen and n not in dropped), not include and not exclude)


_FORMS = "write a name, +name, name+, tag:x, path:x or source:x"
_Edges = Mapping[str, Iterable[str]]


def _union(
    nodes: Mapping[str, Selectable], externals: Sequence[str], terms: Iterable[str], upstream: _Edges
) -> set[str]:
    found: set[str] = set()
    words = [t for text in terms for t in text.split()]
    if not words:
        raise BadSelector("an empty selector selects nothing", hint=_FORMS)
    for term in words:
        parts = [_one(nodes, externals, part.strip(), upstream) for part in term.split(",")]
        found |= set.intersection(*parts)
    return found


def _one(nodes: Mapping[str, Selectable], externals: Sequence[str], text: str, upstream: _Edges) -> set[str]:
    core = text.strip("+")
    if not core or "+" in core:
        raise BadSelector(f'"{text}" is not a selector', hint=_FORMS)
    up, down = text.startswith("+"), text.endswith("+")
    downstream = reversed_edges(upstream)
    if core.startswith("source:"):
        sources = _sources(externals, core.removeprefix("source:"))
        below = closure(sources, downstream)
        # A source itself is never built: `source:x` alone means its direct readers.
        direct = {name for s in sources for name in downstream.get(s, ())}
        return {n for n in (below if down else direct) if n in nodes}
    start = _matches(nodes, core)
    found = set(start)
    if up:
        found |= closure(start, upstream)
    if down:
        found |= closure(start, downstream)
    return {n for n in found if n in nodes}


def _sources(externals: Sequence[str], pattern: str) -> list[str]:
    found = [e for e in externals if fnmatch.fnmatchcase(e.lower(), pattern.lower())]
    if not found:
        raise BadSelector(f'no source is called "{pattern}"', hint=did_you_mean(pattern, externals))
    return found


def _matches(nodes: Mapping[str, Selectable], core: str) -> set[str]:
    before, colon, after = core.partition(":")
    method, value = (before, after) if colon else ("", core)
    test = _METHODS.get(method)
    if test is None:
        raise BadSelector(
            f'"{method}:" is not a selector method',
            hint=did_you_mean(method, (*_METHODS, "source"))
            or "methods: tag, path, source, model, seed, loader, task, asset, check",
        )
    found = {n.name for n in nodes.values() if test(n, value)}
    if not found:
        close = nearest(value, _candidates(nodes.values(), method))
        meant = " or ".join(repr(f"{method}:{c}" if method else c) for c in close)
        raise BadSelector(f'nothing is called "{core}"', hint=f"did you mean {meant}?" if close else None)
    return found


def _candidates(nodes: Iterable[Selectable], method: str) -> Iterator[str]:
    """What the value of a selector could have been."""
    for node in nodes:
        if method == "tag":
            yield from node.tags
        elif method == "path":
            folders = node.file.split("/")
            yield from ("/".join(folders[:i]) for i in range(1, len(folders) + 1))
        elif method in ("", node.type):
            yield from (node.name, node.name.rpartition(".")[2])


def _by_name(node: Selectable, value: str) -> bool:
    name, wanted = node.name.lower(), value.lower()
    return fnmatch.fnmatchcase(name, wanted) or fnmatch.fnmatchcase(name.rpartition(".")[2], wanted)


def _by_tag(node: Selectable, value: str) -> bool:
    return any(fnmatch.fnmatchcase(tag.lower(), value.lower()) for tag in node.tags)


def _by_path(node: Selectable, value: str) -> bool:
    """A file, a folder, or a glob; a folder may be named without the `models/` before it."""
    clean = value.removeprefix("./").rstrip("/")
    folder = node.file.rpartition("/")[0]
    return (
        node.file == clean
        or node.file.startswith(clean + "/")
        or fnmatch.fnmatchcase(node.file, clean)
        or f"/{clean}/" in f"/{folder}/"
    )


def _of_type(kind: str) -> Callable[[Selectable, str], bool]:
    return lambda node, value: node.type == kind and _by_name(node, value)


_METHODS: Mapping[str, Callable[[Selectable, str], bool]] = {
    "": _by_name,
    "tag": _by_tag,
    "path": _by_path,
    "model": _of_type("model"),
    "seed": _of_type("seed"),
    "loader": _of_type("loader"),
    "task": _of_type("task"),
    "asset": _of_type("asset"),
    "check": _of_type("check"),
}
