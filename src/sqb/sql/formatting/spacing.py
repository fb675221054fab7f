"""Whether there is a space between two tokens that stand on one line."""

from __future__ import annotations

from collections.abc import Sequence

from sqb.sql.formatting.pieces import Piece

# After these a bracket is not one of arguments.
_SPACE_BEFORE_BRACKET = frozenset(
    """
    ALL AND ANTI ANY AS BETWEEN BY CASE CROSS DISTINCT ELSE END EXCEPT EXISTS FILTER FROM FULL GROUP HAVING IN INNER
    INTERSECT INTERVAL IS JOIN LATERAL LIKE LIMIT MINUS NATURAL NOT ON OR ORDER OUTER OVER PARTITION PIVOT QUALIFY
    RECURSIVE RLIKE ILIKE SELECT SEMI SETS SOME TABLESAMPLE THEN UNION UNPIVOT USING VALUES WHEN WHERE WINDOW WITH
    WITHIN TABLE FOR OF INCLUDE EXCLUDE CLUSTER SORT DISTRIBUTE OFFSET MODEL RETURN ESCAPE
    """.split()
)
# After these a sign belongs to what follows it.
_BEFORE_SIGN = frozenset(
    """
    SELECT WHERE HAVING QUALIFY ON AND OR NOT WHEN THEN ELSE CASE BETWEEN IN LIKE BY LIMIT OFFSET DISTINCT INTERVAL
    RETURN DIV VALUES IS AS
    """.split()
)
_SIGNS = frozenset(["+", "-", "~", "!"])
# Written as the author wrote them, on both sides: paths into values, parameters, what templates leave.
_AS_WRITTEN = frozenset([":", "{", "}", "$", "@", "#", "?", "\\"])
_NAMES = ("word", "quoted", "string", "number", "variable", "macro")


class Spacing:
    """Says for every piece whether a space comes before it on a line."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.pieces = pieces
        self.is_type = _find_types(pieces)
        self.is_sign = _find_signs(pieces)

    def has_space(self, index: int) -> bool:
        """Whether a space comes before a piece that is not the first of its line."""
        before, piece = self.pieces[index - 1], self.pieces[index]
        if {"variable", "macro"} & {before.kind, piece.kind} and (piece.is_glued or piece.text == "("):
            # What a variable stands for grows together with what it touches.
            return not piece.is_glued
        if piece.text in (",", ")", "]", ";") or before.text in ("(", "["):
            return False
        if piece.text == "." or before.text == ".":
            # `1 .a` is not `1.a`.
            return not piece.is_glued and "number" in (before.kind, piece.kind)
        if "::" in (piece.text, before.text):
            return False
        if piece.text in _AS_WRITTEN or before.text in _AS_WRITTEN:
            return not piece.is_glued
        if self.is_type[index] or self.is_type[index - 1]:
            return self._has_space_in_type(index)
        if piece.text == "(":
            return self._has_space_before_bracket(index)
        if piece.text == "[":
            return not (before.kind in ("word", "quoted") or before.text in (")", "]"))
        if self.is_sign[index - 1]:
            # Two signs in a row would begin a comment.
            return piece.text == before.text == "-"
        if before.kind == piece.kind == "symbol" and piece.is_glued and not self.is_sign[index]:
            return before.text in (",", ")", "]", "*") or piece.text == "*"
        return True

    def _has_space_in_type(self, index: int) -> bool:
        before, piece = self.pieces[index - 1], self.pieces[index]
        if piece.text in ("<", ">", ">>", ">>>") and self.is_type[index]:
            return False
        if before.text == "<" and self.is_type[index - 1]:
            return False
        if piece.text == "(":
            return False
        return before.kind in (*_NAMES, "symbol")

    def _has_space_before_bracket(self, index: int) -> bool:
        before = self.pieces[index - 1]
        if before.word == "FILTER":
            # A function, unless it follows the brackets of an aggregate.
            return index > 1 and self.pieces[index - 2].text == ")"
        if before.kind == "word":
            return before.word in _SPACE_BEFORE_BRACKET
        return before.kind not in ("quoted",) and before.text not in (")", "]")


def _find_types(pieces: Sequence[Piece]) -> list[bool]:
    """Which pieces are the angle brackets of types: `array<int>`."""
    marked = [False] * len(pieces)
    depth = 0
    for index, piece in enumerate(pieces):
        if piece.text == "<" and index and (pieces[index - 1].word in ("ARRAY", "MAP", "STRUCT")):
            marked[index] = True
            depth += 1
        elif depth and piece.text in (">", ">>", ">>>"):
            marked[index] = True
            depth = max(0, depth - len(piece.text))
        elif depth and (piece.text in ("(", ")", ",", ":", "") or piece.kind in ("word", "quoted", "number", "string")):
            pass
        elif depth:
            depth = 0
    return marked


def _find_signs(pieces: Sequence[Piece]) -> list[bool]:
    """Which pieces are signs of what follows them, and not between two values."""
    marked = [False] * len(pieces)
    for index, piece in enumerate(pieces):
        if piece.text in _SIGNS and piece.kind == "symbol":
            before = pieces[index - 1] if index else None
            marked[index] = (
                before is None
                or before.word in _BEFORE_SIGN
                or (before.kind == "symbol" and before.text not in (")", "]", "}", "*"))
                or (
                    before.text == "*" and not piece.is_glued and index > 1 and pieces[index - 2].text not in (",", "(")
                )
            )
    return marked
