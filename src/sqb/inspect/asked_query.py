"""A query as its author wrote it, and the places in it that errors of the text that runs are about."""

from __future__ import annotations

from dataclasses import dataclass

from sqb.names import At, locate_offset
from sqb.sql.text.spans import Piece, find_piece, trace_offset

# Longer lines of a query are not shown with an error.
_MAX_SHOWN = 160


@dataclass(frozen=True, slots=True)
class AskedQuery:
    """The text that was written, and the way there from the one with the bodies of functions in it."""

    written: str
    pieces: tuple[Piece, ...]

    @classmethod
    def from_text(cls, sql: str) -> AskedQuery:
        """A query without calls of the project's functions."""
        return cls(sql, (Piece(0, 0, len(sql), True),))

    def locate(self, start: int, end: int) -> tuple[At, tuple[str, ...]]:
        """The place of a span, and its line with the span underlined."""
        piece = find_piece(self.pieces, start)
        length = end - start
        if piece is not None and piece.within:  # inside of a function's body: its call
            length = piece.origin_end - piece.origin
        at = locate_offset(self.written, trace_offset(self.pieces, start), "", length)
        line = self.written.split("\n")[at.line - 1].rstrip("\r")
        if len(line) > _MAX_SHOWN:
            return at, ()
        before = line[: at.column - 1]
        lead = "".join("\t" if character == "\t" else " " for character in before)
        return at, (line, lead + "^" * max(1, min(at.length, len(line) - len(before))))
