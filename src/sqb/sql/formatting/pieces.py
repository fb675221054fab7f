"""A text as pieces: its tokens, each with the comments around it and what its author did before it."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqb.sql.text.lexer import Token, tokenize


@dataclass(slots=True)
class Comment:
    """A comment: `is_alone` when it begins a line, `ends_line` when a line ends behind it."""

    text: str
    is_alone: bool
    ends_line: bool
    has_blank_before: bool = False

    @property
    def is_breaking(self) -> bool:
        """Whether what follows it must begin a line."""
        return self.ends_line or self.text.startswith("--") or "\n" in self.text


@dataclass(slots=True)
class Piece:
    """A token that counts, or the end of the text; `before` are comments above it, `after` those on its line."""

    text: str
    kind: str
    start: int
    before: list[Comment] = field(default_factory=list)
    after: list[Comment] = field(default_factory=list)
    # The author began a line here, left a line free above it, or left no space before it.
    is_on_new_line: bool = False
    has_blank_before: bool = False
    is_glued: bool = False

    @property
    def word(self) -> str:
        """The word in capitals; "" for what is not a word."""
        return self.text.upper() if self.kind == "word" else ""

    @property
    def has_breaks_inside(self) -> bool:
        """Whether it cannot stand in the middle of a line."""
        return "\n" in self.text or any(c.is_breaking for c in (*self.before, *self.after))


def read_pieces(text: str, start: int = 0) -> list[Piece]:
    """The pieces of a text; the last one is its end."""
    pieces: list[Piece] = []
    waiting: list[Comment] = []
    end = start
    for token in (*tokenize(text, start), Token("symbol", "", len(text), len(text))):
        gap = text[end : token.start]
        if token.kind == "comment":
            comment = _read_comment(text, token, gap, is_first=not pieces and not waiting)
            if pieces and not comment.is_alone and not waiting:
                pieces[-1].after.append(comment)
            else:
                waiting.append(comment)
        else:
            is_glued = token.start == end and bool(pieces) and not waiting
            piece = Piece(token.text, token.kind, token.start, waiting, is_glued=is_glued)
            piece.is_on_new_line = "\n" in gap or any(c.ends_line for c in waiting)
            piece.has_blank_before = gap.count("\n") > 1
            if token.text == "," and pieces and pieces[-1].after:
                # A comma at the beginning of a line goes to the end of the one before, in front of its comment.
                piece.after, pieces[-1].after, piece.is_on_new_line = pieces[-1].after, [], False
            pieces.append(piece)
            waiting = []
        end = token.end
    return pieces


def _read_comment(text: str, token: Token, gap: str, is_first: bool) -> Comment:
    rest = text[token.end :].partition("\n")[0]
    ends_line = token.text.startswith("--") or not rest.strip()
    lines = [line.rstrip() for line in token.text.split("\n")]
    return Comment("\n".join(lines), "\n" in gap or is_first, ends_line, gap.count("\n") > 1)
