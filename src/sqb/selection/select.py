"""`select(nodes, …)`: the names that selectors mean."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field

from sqb.errors.call import BadSelector
from sqb.graph import find_reachable, reverse_edges
from sqb.light_dataclass import dataclass
from sqb.names import suggest_nearest
from sqb.selection.expression import ALL, Expression, Intersection, Term, Union, parse_words
from sqb.selection.methods import FACTS, Nodes, match_names, match_nodes


@dataclass(frozen=True, slots=True)
class Selection:
    """The chosen names, and whether the whole project was chosen."""

    names: frozenset[str]
    everything: bool


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What selectors may name beside nodes."""

    externals: Collection[str] = ()
    # What each exposure depends on.
    exposures: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # What each node waits for, where that is more than what it reads: with a node goes what loads its sources.
    edges: Mapping[str, Iterable[str]] | None = None
    # The nodes, or for `source_status` the sources, that an answer is about.
    ask: Callable[[str, str], Collection[str]] | None = None
    # What each source that is a query reads.
    underlying: Mapping[str, Iterable[str]] = field(default_factory=dict)


def select(
    nodes: Nodes,
    around: Surroundings = Surroundings(),
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    named: Expression | None = None,
) -> Selection:
    """The nodes that `--select` or a named selector means (all of them without it), less those of `--exclude`."""
    edges = around.edges if around.edges is not None else {n.name: n.after for n in nodes.values()}
    upstream = {**around.underlying, **edges}
    walk = _Walk(nodes, around, upstream, reverse_edges(upstream))
    wanted = parse_words(include) if include else named
    chosen = set(nodes) if wanted is None else walk.evaluate(wanted)
    if around.edges is not None:
        chosen |= {u for name in tuple(chosen) for u in edges[name] if u in nodes and nodes[u].type == "loader"}
    dropped = walk.evaluate(parse_words(exclude)) if exclude else set()
    return Selection(frozenset(n for n in nodes if n in chosen and n not in dropped), wanted is None and not exclude)


@dataclass(frozen=True, slots=True)
class _Walk:
    nodes: Nodes
    around: Surroundings
    upstream: Mapping[str, Iterable[str]]
    downstream: Mapping[str, Iterable[str]]

    def evaluate(self, expression: Expression) -> set[str]:
        match expression:
            case Term():
                return {name for name in self._select_term(expression) if name in self.nodes}
            case Union(parts=parts, less=less):
                chosen = set[str]().union(*map(self.evaluate, parts))
            case Intersection(parts=parts, less=less):
                chosen = set.intersection(*map(self.evaluate, parts))
        return chosen.difference(*map(self.evaluate, less))

    def _select_term(self, term: Term) -> set[str]:
        above, below = term.above, term.below
        match term.method:
            case "source":
                start, below = self._match_sources(term.value), max(1, below)
            case "source_status":
                start, below = set(self._ask(term)), max(1, below)
            case "exposure":
                # An exposure itself is never built: it alone means what it reads directly.
                start, above = self._match_exposures(term.value), max(0, above - 1) if above < ALL else ALL
            case method if method in FACTS:
                start = set(self._ask(term))
            case method:
                start = match_nodes(self.nodes, method, term.value)
        selected = start | _reach(start, self.upstream, above) | _reach(start, self.downstream, below)
        return selected | find_reachable(selected, self.upstream) if term.whole else selected

    def _match_sources(self, pattern: str) -> set[str]:
        matches = match_names(self.around.externals, pattern)
        if not matches:
            hint = suggest_nearest(pattern, self.around.externals)
            raise BadSelector(f'no source is called "{pattern}"', hint=hint)
        return set(matches)

    def _match_exposures(self, pattern: str) -> set[str]:
        exposures = self.around.exposures
        matches = match_names(exposures, pattern)
        if not matches:
            hint = suggest_nearest(pattern, exposures) or "exposures are declared in exposures/*.yml"
            raise BadSelector(f'no exposure is called "{pattern}"', hint=hint)
        return {name for match in matches for name in exposures[match]}

    def _ask(self, term: Term) -> Collection[str]:
        values = FACTS[term.method]
        if term.value not in values:
            message = f'"{term.value}" is not a value of {term.method}:'
            raise BadSelector(message, hint=suggest_nearest(term.value, values) or f"values: {', '.join(values)}")
        if self.around.ask is None:
            raise BadSelector(f'"{term.method}:" cannot be asked for here', hint="name the nodes")
        return self.around.ask(term.method, term.value)


def _reach(start: Iterable[str], step: Mapping[str, Iterable[str]], depth: int) -> set[str]:
    """Everything that so many steps lead to."""
    if depth == ALL:
        return find_reachable(start, step)
    reached, level = set[str](), set(start)
    for _ in range(depth):
        level = {name for name_before in level for name in step.get(name_before, ())} - reached
        if not level:
            break
        reached |= level
    return reached
