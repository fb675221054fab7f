"""ROLLUP, CUBE and GROUPING SETS: the expressions that they group by, and whether a set could come twice."""

from __future__ import annotations

from collections.abc import Sequence

from sqb.sql.delta.errors import NotProven
from sqb.sql.delta.skeleton.model import Block, Span
from sqb.sql.delta.skeleton.read import fold, split_tokens, tokens_within
from sqb.sql.text.lexer import Token, find_closing


def list_set_members(text: str, block: Block) -> list[Span]:
    """The expressions that a block groups by, each once; raises `NotProven` where groups could come twice."""
    assert block.group_clause is not None
    tokens = tokens_within(text, block.group_clause)[2:]
    if any(t.text.upper() == "WITH" for t in tokens):
        raise NotProven("WITH ROLLUP and WITH CUBE", block.group_clause.start)
    members: list[Span] = []
    for part in split_tokens(tokens):
        members += _list_members(text, part, block)
    folded = [fold(span.cut(text)) for span in members]
    if len(set(folded)) != len(folded):
        raise NotProven("grouping sets that list a group twice", block.group_clause.start)
    return members


def _list_members(text: str, tokens: Sequence[Token], block: Block) -> list[Span]:
    """The expressions of a part of GROUP BY, those of its sets each once."""
    word = tokens[0].text.upper()
    if word in ("ROLLUP", "CUBE") and len(tokens) > 1 and tokens[1].text == "(":
        members: list[Span] = []
        for part in split_tokens(tokens[2:-1]):
            members += _list_set(text, part)
        return members
    if word == "GROUPING" and len(tokens) > 2 and tokens[1].text.upper() == "SETS":
        return _list_sets(text, tokens, block)
    return [Span(tokens[0].start, tokens[-1].end)]


def _list_sets(text: str, tokens: Sequence[Token], block: Block) -> list[Span]:
    assert block.group_clause is not None
    sets = [_list_set(text, part) for part in split_tokens(tokens[3:-1])]
    folded = [frozenset(fold(span.cut(text)) for span in members) for members in sets]
    if len(set(folded)) != len(folded):
        raise NotProven("the same grouping set twice", block.group_clause.start)
    if any(span.cut(text).upper().startswith(("ROLLUP", "CUBE", "GROUPING")) for members in sets for span in members):
        raise NotProven("grouping sets in grouping sets", block.group_clause.start)
    known: dict[str, Span] = {}
    for members in sets:
        for span in members:
            known.setdefault(fold(span.cut(text)), span)
    return list(known.values())


def _list_set(text: str, tokens: Sequence[Token]) -> list[Span]:
    """One set: expressions in brackets, a single expression, or nothing."""
    if tokens and tokens[0].text == "(" and find_closing(list(tokens), 0) == len(tokens) - 1:
        return [Span(part[0].start, part[-1].end) for part in split_tokens(tokens[1:-1])]
    return [Span(tokens[0].start, tokens[-1].end)] if tokens else []
