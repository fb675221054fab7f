"""Functions from texts, and queries with functions in the place of their calls."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from sqb.compile.functions.definitions import Functions, parse_functions
from sqb.errors.base import Errors
from sqb.errors.project import BadSql
from sqb.sql.analysis.cache import AnalysisCache
from sqb.sql.functions.inline import InlinedQuery
from sqb.sql.text.expand import Expanded, ExpansionContext
from sqb.sql.text.lexer import strip_quotes, tokenize_code
from sqb.sql.text.spans import Piece

NOWHERE = Path("/nowhere")
WORDS = ExpansionContext(lambda _: None, lambda _: None, lambda _: None)


def read_functions(statements: Iterable[str], python: str = "") -> Functions:
    """The functions that these statements declare, each in a file of its own; errors are raised."""
    texts = {f"functions/{_name(text)}.sql": text for text in statements}
    if python:
        texts["functions/some.py"] = python
    errors = Errors()
    functions = parse_functions(
        NOWHERE, texts, WORDS, AnalysisCache(NOWHERE, ""), lambda p, at: BadSql(p.message, at=at), errors
    )
    errors.raise_any()
    return functions


def _name(statement: str) -> str:
    tokens = tokenize_code(statement)
    return strip_quotes(tokens[[t.text for t in tokens].index("(") - 1])


def inlined(statements: Iterable[str], query: str, python: str = "") -> InlinedQuery:
    """A query with these functions in the place of their calls."""
    whole = Expanded(query, (Piece(0, 0, len(query), True),))
    return read_functions(statements, python).inline_calls(whole) or InlinedQuery(whole, ())


def inlined_text(statements: Iterable[str], query: str, python: str = "") -> str:
    return inlined(statements, query, python).expanded.text
