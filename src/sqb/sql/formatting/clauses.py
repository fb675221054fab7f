"""Where the clauses of a query begin: read from pieces, for laying out alone. A mistake here costs beauty only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from sqb.sql.formatting.pieces import Piece

ClauseKind = Literal["with", "select", "from", "join", "condition", "list", "set", "other"]
_BY = frozenset("GROUP ORDER SORT CLUSTER DISTRIBUTE PARTITION".split())
_JOIN_WORDS = frozenset("NATURAL LEFT RIGHT FULL INNER OUTER CROSS SEMI ANTI LATERAL JOIN".split())
_SET = frozenset("UNION INTERSECT EXCEPT MINUS SETMINUS".split())
_CONDITIONS = frozenset("WHERE HAVING QUALIFY".split())
_STARTS = frozenset(["SELECT", "WITH", "FROM", "VALUES", "TABLE"])


@dataclass(frozen=True, slots=True)
class Clause:
    """A clause: pieces from `start` to before `end`; `head` is where what follows its keywords begins."""

    kind: ClauseKind
    start: int
    head: int
    end: int


def begins_query(pieces: Sequence[Piece], start: int, end: int) -> bool:
    """Whether the pieces in a pair of brackets are a query."""
    return start < end and pieces[start].word in _STARTS


def iter_flat(pieces: Sequence[Piece], closing: Sequence[int], start: int, end: int) -> Iterator[int]:
    """The indexes of pieces that are in no brackets within the span; the brackets themselves are among them."""
    index = start
    while index < end:
        yield index
        close = closing[index]
        if index < close < end:
            index = close
            yield index
        index += 1


def split_clauses(pieces: Sequence[Piece], closing: Sequence[int], start: int, end: int) -> list[Clause]:
    """The clauses of a query."""
    begins: list[tuple[int, ClauseKind, int]] = []
    skip = start
    for index in iter_flat(pieces, closing, start, end):
        if index < skip:
            continue
        result = _read_start(pieces, index, start, end, bool(begins) and begins[-1][1] != "select")
        if result is not None:
            begins.append((index, *result))
            skip = result[1]
    if not begins or begins[0][0] != start:
        begins.insert(0, (start, "other", start))
    ends = [b[0] for b in begins[1:]] + [end]
    return [Clause(kind, index, head, stop) for (index, kind, head), stop in zip(begins, ends, strict=True)]


def _read_start(
    pieces: Sequence[Piece], index: int, start: int, end: int, is_after_select: bool
) -> tuple[ClauseKind, int] | None:
    piece = pieces[index]
    word = piece.word
    before = pieces[index - 1] if index > start else None
    after = pieces[index + 1] if index + 1 < end else None
    if piece.text == "|" and after is not None and after.text == ">" and after.is_glued:
        return "other", index + 2
    if not word or (before is not None and before.text == ".") or (after is not None and after.text == "."):
        return None
    if word in _BY and after is not None and after.word == "BY" and word != "PARTITION":
        return "list", index + 2
    if word in _CONDITIONS and before is not None and before.word != "AS":
        return "condition", index + 1
    if word == "WITH" and index == start:
        return "with", index + (2 if after is not None and after.word == "RECURSIVE" else 1)
    if word == "SELECT":
        return "select", _skip_words(pieces, index + 1, end, ("DISTINCT", "ALL"))
    if word == "FROM" and (before is None or before.word != "DISTINCT" or pieces[index - 2].word not in ("IS", "NOT")):
        return "from", index + 1
    if word in _SET and before is not None and before.text != "*":
        return "set", _skip_words(pieces, index + 1, end, ("ALL", "DISTINCT", "BY", "NAME"))
    if word in _JOIN_WORDS and is_after_select:
        return _read_join(pieces, index, end)
    if (
        word in ("LIMIT", "OFFSET", "WINDOW")
        and is_after_select
        and after is not None
        and after.text not in ("=", ",", ")")
    ):
        return "other", index + 1
    if word == "VALUES" and index == start:
        return "list", index + 1
    return None


def _read_join(pieces: Sequence[Piece], index: int, end: int) -> tuple[ClauseKind, int] | None:
    if pieces[index].word == "LATERAL" and index + 1 < end and pieces[index + 1].word == "VIEW":
        return "other", index + 2
    position = index
    while position < end and pieces[position].word in _JOIN_WORDS:
        position += 1
        if pieces[position - 1].word == "JOIN":
            return "join", position
    return None


def _skip_words(pieces: Sequence[Piece], index: int, end: int, words: tuple[str, ...]) -> int:
    while index < end and (pieces[index].word in words or pieces[index].kind == "hint"):
        index += 1
    return index


def match_brackets(pieces: Sequence[Piece]) -> list[int]:
    """For every opening bracket the index of what closes it; for everything else its own index."""
    closing = list(range(len(pieces)))
    opened: list[int] = []
    for index, piece in enumerate(pieces):
        if piece.kind == "symbol" and piece.text in ("(", "["):
            opened.append(index)
        elif piece.kind == "symbol" and piece.text in (")", "]") and opened:
            closing[opened.pop()] = index
    return closing
