"""Functions from texts, and queries with functions in the place of their calls."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from sqb.compile_functions import Functions, functions_in
from sqb.errors import BadSql, Errors
from sqb.sql.analyses import Analyses
from sqb.sql.calls import bare_name
from sqb.sql.expand import Expanded, Words
from sqb.sql.inline import Inlined
from sqb.sql.lexer import code
from sqb.sql.spans import Piece

NOWHERE = Path("/nowhere")
WORDS = Words(lambda _: None, lambda _: None, lambda _: None)


def read_functions(statements: Iterable[str], python: str = "") -> Functions:
    """The functions that these statements declare, each in a file of its own; errors are raised."""
    texts = {f"functions/{_name(text)}.sql": text for text in statements}
    if python:
        texts["functions/some.py"] = python
    errors = Errors()
    found = functions_in(NOWHERE, texts, WORDS, Analyses(NOWHERE, ""), lambda p, at: BadSql(p.message, at=at), errors)
    errors.raise_any()
    return found


def _name(statement: str) -> str:
    found = code(statement)
    return bare_name(found[[t.text for t in found].index("(") - 1])


def inlined(statements: Iterable[str], query: str, python: str = "") -> Inlined:
    """A query with these functions in the place of their calls."""
    whole = Expanded(query, (Piece(0, 0, len(query), True),))
    return read_functions(statements, python).inlined(whole) or Inlined(whole, ())


def inlined_text(statements: Iterable[str], query: str, python: str = "") -> str:
    return inlined(statements, query, python).expanded.text
