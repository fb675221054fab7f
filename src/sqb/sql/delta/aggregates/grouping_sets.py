"""ROLLUP, CUBE and GROUPING SETS: the expressions that they group by, and the sets of these that they stand for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations, product

from sqb.sql.delta.aggregates.model import GroupingSet
from sqb.sql.delta.errors import NotProven
from sqb.sql.delta.skeleton.model import Block, Span
from sqb.sql.delta.skeleton.read import fold, split_tokens, tokens_within
from sqb.sql.text.lexer import Token, find_closing

# More sets than a query would have that people wrote.
_MOST_SETS = 4096
_Set = tuple[Span, ...]


def list_set_members(text: str, block: Block) -> list[Span]:
    """The expressions that a block groups by, each once, in the order in which they are written."""
    members: dict[str, Span] = {}
    for sets in _list_parts(text, block):
        for span in sorted((span for members in sets for span in members), key=lambda span: span.start):
            members.setdefault(fold(span.cut(text)), span)
    return list(members.values())


def list_repeated_sets(text: str, block: Block, groups: Sequence[str]) -> tuple[GroupingSet, ...]:
    """The sets of a block by the numbers of their groups, each once; none where its own text lists each once.

    `groups` are the expressions of `list_set_members` as SQL; raises `NotProven` where two of them are one column.
    """
    names = [fold(group) for group in groups]
    plain = {name for name in names if "." not in name}
    if len(set(names)) < len(names) or any(n.rpartition(".")[2] in plain for n in names if "." in n):
        raise NotProven("grouping sets that name a column in two ways", block.span.start)
    numbers = {fold(span.cut(text)): i for i, span in enumerate(list_set_members(text, block))}
    parts = _list_parts(text, block)
    count = 1
    for sets in parts:
        count *= len(sets)
    if count > _MOST_SETS:
        raise NotProven("too many grouping sets", block.span.start)
    combined = (frozenset(numbers[fold(s.cut(text))] for members in each for s in members) for each in product(*parts))
    times = Counter(combined)
    if max(times.values()) == 1 and _find_with(_list_tokens(text, block)) is None:
        return ()
    return tuple(GroupingSet(tuple(sorted(members)), number) for members, number in times.items())


def _list_parts(text: str, block: Block) -> list[list[_Set]]:
    """The sets of each part of GROUP BY: each of one with each of the others makes a set of the whole."""
    tokens = _list_tokens(text, block)
    behind = _find_with(tokens)
    if behind is None:
        return [_list_sets(text, part, tokens[0].start) for part in split_tokens(tokens)]
    words = [token.text.upper() for token in tokens[behind + 1 :]]
    if words not in (["ROLLUP"], ["CUBE"]):
        raise NotProven("what follows GROUP BY is not understood", tokens[behind].start)
    return [_combine(words[0], [_read_set(part) for part in split_tokens(tokens[:behind])], tokens[0].start)]


def _list_tokens(text: str, block: Block) -> list[Token]:
    assert block.group_clause is not None
    return tokens_within(text, block.group_clause)[2:]


def _find_with(tokens: Sequence[Token]) -> int | None:
    """Where WITH ROLLUP or WITH CUBE begins."""
    return next((i for i, t in enumerate(tokens) if t.kind == "word" and t.text.upper() == "WITH"), None)


def _list_sets(text: str, tokens: Sequence[Token], offset: int) -> list[_Set]:
    word = tokens[0].text.upper()
    if word in ("ROLLUP", "CUBE") and len(tokens) > 1 and tokens[1].text == "(":
        return _combine(word, [_read_set(part) for part in split_tokens(tokens[2:-1])], offset)
    if word == "GROUPING" and len(tokens) > 2 and tokens[1].text.upper() == "SETS":
        sets = [_read_set(part) for part in split_tokens(tokens[3:-1])]
        if any(s.cut(text).upper().startswith(("ROLLUP", "CUBE", "GROUPING")) for members in sets for s in members):
            raise NotProven("grouping sets in grouping sets", offset)
        return sets
    return [(Span(tokens[0].start, tokens[-1].end),)]


def _combine(word: str, parts: Sequence[_Set], offset: int) -> list[_Set]:
    """The sets that ROLLUP or CUBE makes of its parts."""
    numbers = range(len(parts))
    if word == "ROLLUP":
        chosen = [tuple(range(length)) for length in range(len(parts), -1, -1)]
    elif len(parts) > _MOST_SETS.bit_length():
        raise NotProven("too many grouping sets", offset)
    else:
        chosen = [c for length in range(len(parts), -1, -1) for c in combinations(numbers, length)]
    return [tuple(span for number in each for span in parts[number]) for each in chosen]


def _read_set(tokens: Sequence[Token]) -> _Set:
    """One set: expressions in brackets, a single expression, or nothing."""
    if tokens and tokens[0].text == "(" and find_closing(list(tokens), 0) == len(tokens) - 1:
        return tuple(Span(part[0].start, part[-1].end) for part in split_tokens(tokens[1:-1]))
    return (Span(tokens[0].start, tokens[-1].end),) if tokens else ()
