"""Spans: the places of things in a text, how to replace them, and the way back to the file. Needs no parser."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqb.light_dataclass import dataclass
from sqb.names import quote

# Before a name in a function's body: it means a relation of the project, whatever the query around it calls so.
SCOPE = "@function"


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of the expanded text: where it begins there and in the file, and whether it was copied as it stood."""

    at: int
    origin: int
    origin_end: int
    is_copied: bool
    # The function whose body it is part of.
    within: str = ""


def find_piece(pieces: Sequence[Piece], offset: int) -> Piece | None:
    """Find the run of the expanded text that holds an offset."""
    index = bisect_right([p.at for p in pieces], offset) - 1
    return pieces[index] if index >= 0 else None


def trace_offset(pieces: Sequence[Piece], offset: int) -> int:
    """The original offset behind an expanded one; inside a macro's result, where the macro was called."""
    piece = find_piece(pieces, offset)
    if piece is None:
        return 0
    return min(piece.origin + (offset - piece.at if piece.is_copied else 0), max(piece.origin, piece.origin_end))


@dataclass(frozen=True, slots=True)
class Reference:
    """A table name in a query, its half-open span, and what has to be rewritten with it."""

    parts: tuple[str, ...]
    start: int
    end: int
    # The alias to add after it, because the query names its columns by the table's own name; None: it has one.
    alias: str | None = None
    # Spans of column qualifiers such as `staging.orders` in `staging.orders.id`.
    qualifiers: tuple[tuple[int, int], ...] = ()
    kind: str | None = None
    # The query itself says `VERSION AS OF`, so that it reads a fixed version.
    is_pinned: bool = False
    # Only a query can replace it: `TABLE orders`.
    is_whole_query: bool = False

    @property
    def name(self) -> str:
        return ".".join(self.parts)


def strip_scope(references: Sequence[Reference]) -> tuple[Reference, ...]:
    """References with the names that people wrote; those in functions' bodies keep their spans."""
    return tuple(replace(r, parts=r.parts[1:]) if r.parts[0] == SCOPE else r for r in references)


def fill_references(
    text: str, slots: Sequence[Reference], relations: Mapping[int, str]
) -> tuple[str, list[tuple[int, int, int]]]:
    """The query with each reference (by index) replaced by a relation, and (at, origin, length) of what was copied."""
    edits: list[tuple[int, int, str]] = []
    for index, slot in enumerate(slots):
        alias = f" AS {quote(slot.alias)}" if slot.alias else ""
        relation = f"(SELECT * FROM {relations[index]})" if slot.is_whole_query else relations[index] + alias
        edits.append((slot.start, slot.end, relation))
        edits.extend((start, end, quote(slot.alias)) for start, end in slot.qualifiers if slot.alias)
    out: list[str] = []
    copied: list[tuple[int, int, int]] = []
    position = length = 0
    for start, end, replacement in sorted(edits):
        copied.append((length, position, start - position))
        out += [text[position:start], replacement]
        length += start - position + len(replacement)
        position = end
    copied.append((length, position, len(text) - position))
    out.append(text[position:])
    return "".join(out), copied


def trace_copy(copied: Sequence[tuple[int, int, int]], offset: int) -> int:
    """The offset in a query behind an offset of the text that `fill_references` made of it."""
    index = bisect_right([at for at, _, _ in copied], offset) - 1
    at, origin, length = copied[max(index, 0)]
    return origin + min(max(offset - at, 0), length)
