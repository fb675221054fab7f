"""Formats one query, and holds the result against what was there: only white space and keyword case may differ."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from sqb.sql.analysis.query import QueryProblem
from sqb.sql.formatting.casing import list_cased
from sqb.sql.formatting.layout import Layout
from sqb.sql.formatting.pieces import Piece, read_pieces
from sqb.sql.formatting.settings import FormatSettings
from sqb.sql.text.lexer import tokenize, tokenize_code


def format_query(text: str, settings: FormatSettings = FormatSettings()) -> str:
    """A query in its usual form, with a new line at its end; as it is where it cannot be read to its end."""
    pieces = read_pieces(text)
    if any(piece.kind == "broken" for piece in pieces):
        return text
    names = _find_names(text)
    formatted = Layout(pieces, list_cased(pieces, names, settings.keyword_case), settings).run()
    lines = [line.rstrip() for line in formatted.split("\n")] if not _has_lines_inside(pieces) else [formatted]
    formatted = "\n".join(lines).strip("\n") + "\n"
    return formatted if is_same_query(text, formatted, names) else text


def _has_lines_inside(pieces: Sequence[Piece]) -> bool:
    """Whether a text or a name goes over lines: what is in it must stay."""
    return any("\n" in piece.text for piece in pieces)


def is_same_query(before: str, after: str, names: frozenset[int] | None) -> bool:
    """Whether two texts have the same tokens but for the case of keywords, and the same comments."""
    old, new = tokenize_code(before), tokenize_code(after)
    if len(old) != len(new) or _list_comments(before) != _list_comments(after):
        return False
    for one, two in zip(old, new, strict=True):
        is_cased = one.kind == "word" and one.text.upper() == two.text.upper()
        is_name = names is not None and one.start in names
        if one.kind != two.kind or (one.text != two.text and (not is_cased or is_name)):
            return False
    pasted = [(a.end == b.start) for a, b in itertools.pairwise(old) if _pastes(a.kind, b.kind)]
    return pasted == [(a.end == b.start) for a, b in itertools.pairwise(new) if _pastes(a.kind, b.kind)]


def _list_comments(text: str) -> list[list[str]]:
    return [[line.strip() for line in t.text.split("\n")] for t in tokenize(text) if t.kind == "comment"]


def _pastes(one: str, two: str) -> bool:
    return "variable" in (one, two) or "macro" in (one, two)


def _find_names(text: str) -> frozenset[int] | None:
    """The places of names, by the parser; None where it does not read the text. Variables and macros stand as names."""
    from sqb.sql.analysis.parse import find_identifier_places  # loads sqlglot

    plain = list(text)
    for token in tokenize(text):
        if token.kind in ("variable", "macro"):
            plain[token.start : token.end] = list(token.text.replace("@", "_").replace(":", "_"))
    try:
        return find_identifier_places("".join(plain))
    except (QueryProblem, RecursionError):
        return None
