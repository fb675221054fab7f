"""What can be named at a place of a query that is being written: read from tokens, as the text is seldom whole.

Knows no project: tables are names, and whoever asks says which columns they have.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from sqb.sql.text.lexer import Token, find_closing, strip_quotes, tokenize_code

_CLAUSES = frozenset(
    """
    WHERE GROUP HAVING ORDER SORT CLUSTER DISTRIBUTE LIMIT OFFSET WINDOW QUALIFY UNION INTERSECT EXCEPT MINUS
    SETMINUS SELECT
    """.split()
)
_SET_OPERATIONS = frozenset(["UNION", "INTERSECT", "EXCEPT", "MINUS", "SETMINUS"])
_JOIN_WORDS = frozenset(
    """
    JOIN INNER LEFT RIGHT FULL OUTER CROSS SEMI ANTI NATURAL ON USING LATERAL
    """.split()
)
_NO_ALIAS = (
    _CLAUSES | _JOIN_WORDS | frozenset(["AS", "TABLESAMPLE", "PIVOT", "UNPIVOT", "FOR", "VERSION", "TIMESTAMP", "FROM"])
)
_MOST_NESTED = 12

# A column with its type; "" where that is not known.
Column = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Cte:
    """A query under a name: the spans of its name and of what is in its brackets."""

    name: str
    name_start: int
    name_end: int
    start: int
    end: int
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FromItem:
    """A table or a query in FROM: its name's parts, or the span of the query, and what it is called."""

    alias: str
    parts: tuple[str, ...] = ()
    start: int = 0
    end: int = 0


@dataclass(frozen=True, slots=True)
class Block:
    """One SELECT around a place: its span, what it reads, and the aliases of its list."""

    start: int
    end: int
    items: tuple[FromItem, ...] = ()
    aliases: tuple[str, ...] = ()


def read_ctes(text: str, offset: int) -> list[Cte]:
    """The CTEs that can be seen from an offset."""
    tokens = tokenize_code(text)
    items: list[Cte] = []
    for start, end in _iter_regions(tokens, offset):
        items += _read_with(tokens, start, end)
    return [c for c in items if not c.start <= offset < c.end]


def read_blocks(text: str, offset: int) -> list[Block]:
    """The SELECTs around an offset, the innermost first."""
    tokens = tokenize_code(text)
    blocks = []
    for start, end in _iter_regions(tokens, offset):
        block = _read_block(tokens, start, end, offset)
        if block is not None:
            blocks.append(block)
    return blocks


def list_columns(
    text: str, item: FromItem, ctes: Sequence[Cte], lookup: Callable[[Sequence[str]], Sequence[Column]], depth: int = 0
) -> list[Column]:
    """The columns of something in FROM, by way of the CTEs and queries that it is made of."""
    if depth > _MOST_NESTED:
        return []
    if not item.parts:
        return _list_outputs(text, item.start, item.end, lookup, depth + 1)
    cte = next((c for c in ctes if len(item.parts) == 1 and c.name.lower() == item.parts[0].lower()), None)
    if cte is None:
        return list(lookup(item.parts))
    columns = _list_outputs(text, cte.start, cte.end, lookup, depth + 1)
    if cte.columns:
        types = [kind for _, kind in columns] + [""] * len(cte.columns)
        return list(zip(cte.columns, types, strict=False))
    return columns


def _list_outputs(
    text: str, start: int, end: int, lookup: Callable[[Sequence[str]], Sequence[Column]], depth: int
) -> list[Column]:
    """The columns of the first SELECT of a query."""
    tokens = [t for t in tokenize_code(text) if start <= t.start and t.end <= end]
    first = _find_word(tokens, 0, len(tokens), frozenset(["SELECT"]))
    if first is None:
        return []
    block = _read_block(tokens, 0, len(tokens), tokens[first].start)
    items = block.items if block is not None else ()
    ctes = read_ctes(text, tokens[first].start)
    sources = [(i.alias, list_columns(text, i, ctes, lookup, depth + 1)) for i in items]
    columns: list[Column] = []
    for piece in _iter_items(tokens, first):
        columns += _read_item(piece, sources)
    return columns


def _read_item(piece: Sequence[Token], sources: Sequence[tuple[str, list[Column]]]) -> list[Column]:
    if piece[-1].text == "*" and (len(piece) == 1 or piece[-2].text == "."):
        wanted = strip_quotes(piece[0]).lower() if len(piece) > 1 else None
        return [c for alias, columns in sources if wanted in (None, alias.lower()) for c in columns]
    last = piece[-1]
    if last.kind not in ("word", "quoted"):
        return []
    name = strip_quotes(last)
    is_plain = all(t.kind in ("word", "quoted") or t.text == "." for t in piece)
    kinds = [kind for _, columns in sources for column, kind in columns if column.lower() == name.lower()]
    return [(name, kinds[0] if is_plain and kinds else "")]


def _iter_regions(tokens: Sequence[Token], offset: int) -> Iterator[tuple[int, int]]:
    """The brackets around an offset that hold queries, as spans of tokens, the innermost first; the whole is last."""
    opened: list[int] = []
    for index, token in enumerate(tokens):
        if token.start >= offset:
            break
        if token.text == "(":
            opened.append(index)
        elif token.text == ")" and opened:
            opened.pop()
    for index in reversed(opened):
        if index + 1 < len(tokens) and tokens[index + 1].text.upper() in ("SELECT", "WITH", "FROM"):
            close = find_closing(list(tokens), index)
            yield index + 1, close if close is not None else len(tokens)
    yield 0, len(tokens)


def _read_with(tokens: Sequence[Token], start: int, end: int) -> Iterator[Cte]:
    """The CTEs of a query."""
    index = _find_word(tokens, start, end, frozenset(["WITH"]))
    if index is None:
        return
    index += 1
    if index < end and tokens[index].text.upper() == "RECURSIVE":
        index += 1
    while index < end and tokens[index].kind in ("word", "quoted"):
        name = tokens[index]
        index += 1
        columns: tuple[str, ...] = ()
        if index < end and tokens[index].text == "(":
            close = find_closing(list(tokens), index) or end
            columns = tuple(strip_quotes(t) for t in tokens[index + 1 : close] if t.kind in ("word", "quoted"))
            index = close + 1
        while index < end and tokens[index].text != "(":
            if tokens[index].text.upper() in _CLAUSES:
                return
            index += 1
        if index >= end:
            return
        body_end = find_closing(list(tokens), index)
        stop = tokens[body_end].start if body_end is not None else tokens[-1].end
        yield Cte(strip_quotes(name), name.start, name.end, tokens[index].end, stop, columns)
        if body_end is None or body_end + 1 >= end or tokens[body_end + 1].text != ",":
            return
        index = body_end + 2


def _read_block(tokens: Sequence[Token], start: int, end: int, offset: int) -> Block | None:
    """The SELECT of a region that an offset is in: between two set operations."""
    edges = [start]
    for index, depth in _iter_flat(tokens, start, end):
        if depth == 0 and tokens[index].text.upper() in _SET_OPERATIONS and not _is_star_except(tokens, index):
            edges.append(index)
    edges.append(end)
    for first, last in itertools.pairwise(edges):
        until = tokens[last].start if last < len(tokens) else 10**12
        if offset <= until:
            items = tuple(_read_from(tokens, first, last))
            select = _find_word(tokens, first, last, frozenset(["SELECT"]))
            aliases = tuple(_list_aliases(tokens, select)) if select is not None else ()
            return Block(tokens[first].start if first < len(tokens) else 0, until, items, aliases)
    return None


def _is_star_except(tokens: Sequence[Token], index: int) -> bool:
    return index > 0 and tokens[index - 1].text == "*" and tokens[index].text.upper() == "EXCEPT"


def _iter_flat(tokens: Sequence[Token], start: int, end: int) -> Iterator[tuple[int, int]]:
    depth = 0
    for index in range(start, end):
        if tokens[index].text in (")", "]"):
            depth = max(0, depth - 1)
        yield index, depth
        if tokens[index].text in ("(", "["):
            depth += 1


def _find_word(tokens: Sequence[Token], start: int, end: int, words: frozenset[str]) -> int | None:
    return next(
        (i for i, depth in _iter_flat(tokens, start, end) if depth == 0 and tokens[i].text.upper() in words), None
    )


def _read_from(tokens: Sequence[Token], start: int, end: int) -> Iterator[FromItem]:
    """The tables of FROM and of joins."""
    is_listing = False
    index = start
    flat = [i for i, depth in _iter_flat(tokens, start, end) if depth == 0]
    position = 0
    while position < len(flat):
        index = flat[position]
        word = tokens[index].text.upper()
        position += 1
        if word == "FROM" and not (index and tokens[index - 1].text.upper() == "DISTINCT"):
            is_listing = True
        elif word == "JOIN" or (word == "," and is_listing):
            pass
        elif word in _CLAUSES:
            is_listing = False
            continue
        else:
            continue
        item, after = _read_from_item(tokens, index + 1, end)
        if item is not None:
            yield item
        while position < len(flat) and flat[position] < after:
            position += 1


def _read_from_item(tokens: Sequence[Token], index: int, end: int) -> tuple[FromItem | None, int]:
    while index < end and tokens[index].text.upper() == "LATERAL":
        index += 1
    if index >= end:
        return None, index
    start, stop = 0, 0
    parts: list[str] = []
    if tokens[index].text == "(":
        close = find_closing(list(tokens), index)
        start = tokens[index].end
        stop = tokens[close].start if close is not None else tokens[-1].end
        index = (close if close is not None else end) + 1
    else:
        while index < end and tokens[index].kind in ("word", "quoted"):
            if tokens[index].text.upper() in _NO_ALIAS and tokens[index].kind == "word":
                break
            parts.append(strip_quotes(tokens[index]))
            index += 1
            if index >= end or tokens[index].text != ".":
                break
            index += 1
        if not parts:
            return None, index
    alias = parts[-1] if parts else ""
    if index < end and tokens[index].text.upper() == "AS":
        index += 1
    if index < end and tokens[index].kind in ("word", "quoted") and tokens[index].text.upper() not in _NO_ALIAS:
        alias = strip_quotes(tokens[index])
        index += 1
    return FromItem(alias, tuple(parts), start, stop), index


def _iter_items(tokens: Sequence[Token], select: int) -> Iterator[list[Token]]:
    """The items of a SELECT list."""
    piece: list[Token] = []
    for index, depth in _iter_flat(tokens, select + 1, len(tokens)):
        word = tokens[index].text.upper()
        if depth == 0 and (word == "FROM" or (word in _CLAUSES and not _is_star_except(tokens, index))):
            break
        if depth == 0 and word == ",":
            if piece:
                yield piece
            piece = []
        elif not (not piece and word in ("DISTINCT", "ALL")):
            piece.append(tokens[index])
    if piece:
        yield piece


def _list_aliases(tokens: Sequence[Token], select: int) -> Iterator[str]:
    for piece in _iter_items(tokens, select):
        if len(piece) > 2 and piece[-2].text.upper() == "AS" and piece[-1].kind in ("word", "quoted"):
            yield strip_quotes(piece[-1])


def find_item_start(text: str, offset: int) -> int:
    """Where the item of a list begins that an offset is in."""
    begins: list[int] = [0]
    for token in tokenize_code(text):
        if token.start >= offset:
            break
        if token.text == "(":
            begins.append(token.end)
        elif token.text == ")" and len(begins) > 1:
            begins.pop()
        elif token.text == "," or token.text.upper() in ("SELECT", "DISTINCT"):
            begins[-1] = token.end
    return begins[-1]
