"""Window functions of a block, read from tokens: their partitions, their order, and whether equal rows matter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqb.sql.delta.errors import NotProven
from sqb.sql.delta.operators.model import WindowCall
from sqb.sql.delta.skeleton.model import Query, Span
from sqb.sql.delta.skeleton.read import split_tokens, tokens_within
from sqb.sql.functions.builtins import ORDERED_AGGREGATES
from sqb.sql.text.lexer import Token, find_closing, strip_quotes

# Window functions that are the same for the same rows, whatever the order of equal ones.
BY_RANK = frozenset("rank dense_rank percent_rank cume_dist".split())
# Functions that look at one row of several that may be equal.
_BY_PLACE = frozenset("row_number ntile lag lead first_value last_value nth_value first last any_value".split())

# Other words for the same clauses.
_SAME = {"DISTRIBUTE": "PARTITION", "SORT": "ORDER"}


def list_windows(
    text: str, spans: Sequence[Span], subqueries: Sequence[Query] = (), named: Span | None = None
) -> list[WindowCall]:
    """The window functions in some expressions; raises `NotProven` for one that is not understood.

    `named` is what stands behind WINDOW.
    """
    calls: list[WindowCall] = []
    windows = _list_named(text, named) if named is not None else {}
    for span in spans:
        tokens = tokens_within(text, span)
        for index, token in enumerate(tokens):
            inside = any(q.span.start <= token.start < q.span.end for q in subqueries)
            if token.kind == "word" and token.text.upper() == "OVER" and not inside:
                calls.append(_read_window(text, tokens, index, windows))
    return calls


def _list_named(text: str, span: Span) -> dict[str, list[Token]]:
    """The windows with a name, as the tokens in their brackets."""
    windows = {}
    for part in split_tokens(tokens_within(text, span)):
        is_known = len(part) > 3 and part[1].text.upper() == "AS" and part[2].text == "("
        if not is_known or find_closing(part, 2) != len(part) - 1:
            raise NotProven("a named window that is not understood", part[0].start)
        windows[strip_quotes(part[0]).lower()] = part[3:-1]
    return windows


def _read_window(text: str, tokens: list[Token], over: int, named: Mapping[str, Sequence[Token]]) -> WindowCall:
    offset = tokens[over].start
    if over + 1 >= len(tokens):
        raise NotProven("a window that is not understood", offset)
    name = strip_quotes(tokens[over + 1]).lower()
    if tokens[over + 1].text != "(":
        inner: Sequence[Token] = _get_named(named, name, offset)
    else:
        closing = find_closing(tokens, over + 1)
        if closing is None:
            raise NotProven("a window that is not understood", offset)
        inner = tokens[over + 2 : closing]
        if len(inner) == 1:
            inner = _get_named(named, strip_quotes(inner[0]).lower(), offset)
    starts = [i for i in _iter_outer(inner) if _begins_clause(inner, i)]
    clauses: dict[str, Sequence[Token]] = {}
    ends = [*starts[1:], len(inner)][: len(starts)]
    for start, end in zip(starts, ends, strict=True):
        word = inner[start].text.upper()
        clauses[_SAME.get(word, word)] = inner[start:end]
    if inner and (not starts or starts[0] != 0):
        raise NotProven("a window that is made of a named one", offset)
    partition = _split(text, clauses.get("PARTITION", ())[2:])
    order = _split(text, clauses.get("ORDER", ())[2:])
    return WindowCall(_find_function(tokens, over), partition, order, "ROWS" in clauses)


def _begins_clause(tokens: Sequence[Token], index: int) -> bool:
    """Whether a clause of a window begins at a token: a column may be called so, too."""
    word, before = tokens[index].text.upper(), tokens[index - 1].text.upper() if index else ""
    if word in ("PARTITION", "ORDER", *_SAME):
        return index + 1 < len(tokens) and tokens[index + 1].text.upper() == "BY"
    return word in ("ROWS", "RANGE") and before not in (".", ",", "BY")


def _get_named(named: Mapping[str, Sequence[Token]], name: str, offset: int) -> Sequence[Token]:
    if name not in named:
        raise NotProven("a named window that is not known", offset)
    return named[name]


def _iter_outer(tokens: Sequence[Token]) -> list[int]:
    outer, depth = [], 0
    for index, token in enumerate(tokens):
        if depth == 0:
            outer.append(index)
        depth += (token.text in ("(", "[")) - (token.text in (")", "]"))
    return outer


def _split(text: str, tokens: Sequence[Token]) -> tuple[str, ...]:
    """The expressions of a list, as they are written."""
    return tuple(text[part[0].start : part[-1].end] for part in split_tokens(tokens))


def _find_function(tokens: Sequence[Token], over: int) -> str:
    """The function before OVER, behind which FILTER and IGNORE NULLS may stand."""
    index = over - 1
    while index > 0 and tokens[index].text.upper() in ("NULLS", "IGNORE", "RESPECT"):
        index -= 1
    while index > 0 and tokens[index].text == ")":
        opening = _find_opening(tokens, index)
        name = tokens[opening - 1] if opening > 0 else None
        if name is None or name.kind != "word":
            break
        if name.text.upper() != "FILTER":
            return name.text.lower()
        index = opening - 2
    raise NotProven("a window that is not understood", tokens[over].start)


def _find_opening(tokens: Sequence[Token], closing: int) -> int:
    depth = 0
    for index in range(closing, -1, -1):
        depth += (tokens[index].text == ")") - (tokens[index].text == "(")
        if depth == 0:
            return index
    return 0


def depends_on_ties(window: WindowCall) -> bool:
    """Whether a window function may give another value when rows that are equal in its order come in another one."""
    if window.function in BY_RANK:
        return False
    return window.function in _BY_PLACE | ORDERED_AGGREGATES or window.by_rows
