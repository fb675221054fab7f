"""Selectors as values: terms, and what joins them. Knows how they are written, not what they mean."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator

from sqb.errors.call import BadSelector
from sqb.light_dataclass import dataclass

# As far as there is anything.
ALL = sys.maxsize
FORMS = "write a name, a folder, +name, name+, 2+name+1, @name, or a method such as tag:x, path:x, state:modified"

_TERM = re.compile(r"(?P<whole>@)?(?P<above>\d*\+)?(?P<core>[^+@][^+]*?)(?P<below>\+\d*)?")


@dataclass(frozen=True, slots=True)
class Term:
    """One name or one method with its value, and how far up and down from there."""

    text: str
    # "" for a name alone.
    method: str
    value: str
    above: int = 0
    below: int = 0
    # Also everything that those below are made from.
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Union:
    """All that one of its parts selects, less what the rest of them name."""

    parts: tuple[Expression, ...]
    less: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True)
class Intersection:
    """What all of its parts select, less what the rest of them name."""

    parts: tuple[Expression, ...]
    less: tuple[Expression, ...] = ()


Expression = Term | Union | Intersection


def iter_terms(expression: Expression) -> Iterator[Term]:
    """All terms of an expression."""
    if isinstance(expression, Term):
        yield expression
        return
    for part in (*expression.parts, *expression.less):
        yield from iter_terms(part)


def parse_words(texts: Iterable[str]) -> Union:
    """Words as on the command line: a space means all of them, a comma only what is in both."""
    words = [word for text in texts for word in text.split()]
    if not words:
        raise BadSelector("an empty selector selects nothing", hint=FORMS)
    return Union(tuple(_parse_word(word) for word in words))


def _parse_word(word: str) -> Expression:
    terms = tuple(parse_term(part.strip()) for part in word.split(","))
    return terms[0] if len(terms) == 1 else Intersection(terms)


def parse_term(text: str) -> Term:
    """One term: `x`, `+x`, `2+x+1`, `@x`, `tag:x`."""
    match = _TERM.fullmatch(text)
    if match is None or (match["whole"] and match["above"]):
        raise BadSelector(f'"{text}" is not a selector', hint=FORMS)
    method, colon, value = match["core"].partition(":")
    if not colon:
        method, value = "", method
    if not value:
        raise BadSelector(f'"{text}" is not a selector', hint=FORMS)
    whole = match["whole"] is not None
    below = ALL if whole else _parse_depth(match["below"])
    return Term(text, method, value, _parse_depth(match["above"]), below, whole)


def _parse_depth(text: str | None) -> int:
    """How far `+`, `2+` or `+2` goes."""
    if not text:
        return 0
    digits = text.strip("+")
    return int(digits) if digits else ALL
