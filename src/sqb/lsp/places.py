"""Places in the texts of models: between what is run and what is written, and what stands at an offset."""

from __future__ import annotations

from dataclasses import dataclass

from sqb.compile.model import Node
from sqb.errors.base import Errors
from sqb.names import At
from sqb.project.models.header import parse_header
from sqb.sql.text.lexer import Token, tokenize
from sqb.sql.text.spans import find_piece


@dataclass(frozen=True, slots=True)
class Place:
    """A half-open span of a file's text."""

    file: str
    start: int
    end: int


def find_origin(node: Node, start: int, end: int) -> Place | None:
    """Where in a model's file a span of its query is written; None for what macros and functions made."""
    piece, last = find_piece(node.pieces, start), find_piece(node.pieces, max(start, end - 1))
    if piece is None or piece is not last or not piece.is_copied or piece.within:
        return None
    origin = piece.origin + start - piece.at
    return Place(node.file, origin, origin + end - start)


def find_token(text: str, offset: int) -> Token | None:
    """The token that an offset is in or right behind; a name is preferred to a mark."""
    touching = []
    for token in tokenize(text):
        if token.start > offset:
            break
        if token.start <= offset <= token.end:
            touching.append(token)
    named = [t for t in touching if t.kind in ("word", "quoted", "variable", "macro")]
    best = named or touching
    return best[-1] if best else None


def find_body(text: str, file: str) -> int:
    """Where the query begins, after the header."""
    return parse_header(text, file, Errors()).body_start


def to_offset(text: str, line: int, column: int) -> int:
    """The offset of a line and a column that count from 0."""
    start = 0
    for _ in range(line):
        newline = text.find("\n", start)
        if newline < 0:
            return len(text)
        start = newline + 1
    newline = text.find("\n", start)
    return min(start + column, newline if newline >= 0 else len(text))


def to_line(text: str, offset: int) -> tuple[int, int]:
    """The line and column of an offset, counted from 0."""
    return text.count("\n", 0, offset), offset - (text.rfind("\n", 0, offset) + 1)


def find_place(text: str, at: At) -> Place:
    """The span of an error's place; the first line of a file for one that has no line."""
    if not at.line:
        newline = text.find("\n")
        return Place(at.file, 0, newline if newline >= 0 else len(text))
    start = to_offset(text, at.line - 1, max(0, at.column - 1))
    newline = text.find("\n", start)
    end = min(start + at.length, newline if newline >= 0 else len(text))
    return Place(at.file, start, max(end, start))
