"""Reading a query with sqlglot: the one place that turns text into a tree. Loaded only when a text is new."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from sqb.sql.lexer import tokens
from sqb.sql.qualify import without_qualify
from sqb.sql.query import Query, QueryProblem, canonical_of, check_text, volatile_functions
from sqb.sql.references import find_references

_DIALECT = "spark"
_VISIBLE = re.compile(r"[^\n]")
# sqlglot prints whole tokens into its messages; their text is what a reader knows.
_TOKEN = re.compile(r"<Token token_type: [^,]*, text: (.*?), line: .*?>", re.DOTALL)


def read_query(text: str, forced: Mapping[int, str]) -> Query:
    """Everything that sqb needs to know of a query; a `QueryProblem` when the text is not one."""
    found = check_text(text)
    tree = _tree(text)
    references = find_references(tree, forced)
    identifiers = _identifiers(tree)
    runnable, slots = text, references
    if tree.find(exp.Qualify):
        runnable = without_qualify(tree).sql(dialect=_DIALECT, comments=False)
        slots = find_references(_tree(runnable), {})
        kinds = {r.name.lower(): r.kind for r in references}
        slots = tuple(replace(s, kind=kinds.get(s.name.lower())) for s in slots)
    return Query(
        canonical=canonical_of(text, references, identifiers),
        references=references,
        runnable=runnable,
        slots=slots,
        volatile=tuple(volatile_functions(found)),
    )


def identifier_places(text: str) -> frozenset[int]:
    """Where the names in a query stand, as against its keywords."""
    return _identifiers(_tree(text))


def _identifiers(tree: exp.Expr) -> frozenset[int]:
    """The offsets of names; those in hints count from the hint, which is one token for us."""
    found = tree.walk(prune=lambda node: isinstance(node, exp.Hint))
    return frozenset(n.meta["start"] for n in found if isinstance(n, exp.Identifier) and "start" in n.meta)


def _tree(text: str) -> exp.Query:
    try:
        statements = [s for s in sqlglot.parse(_without_comments(text), dialect=_DIALECT) if s is not None]
    except ParseError as error:
        raise _parse_problem(error, text) from error
    except TokenError as error:
        raise QueryProblem("parse", "this text cannot be read as SQL", 0, 1) from error
    except RecursionError as error:
        raise QueryProblem("parse", "the query is nested too deeply to be read", 0, 1) from error
    tree = statements[0]
    if not isinstance(tree, exp.Query):
        first = check_text(text)[0]
        raise QueryProblem(
            "not a select",
            f"a model is one SELECT; this is {_statement_name(tree, first.text)}",
            first.start,
            first.end,
            "write the query whose rows the model should have; sqb creates and fills the table",
        )
    return tree


def _without_comments(text: str) -> str:
    """The text with blanks for comments, so that places hold: sqlglot takes some of them for the end of a clause."""
    if "--" not in text and "/*" not in text:
        return text
    out, copied = [], 0
    for token in tokens(text):
        if token.kind == "comment":
            out += [text[copied : token.start], _VISIBLE.sub(" ", token.text)]
            copied = token.end
    return "".join([*out, text[copied:]])


def _statement_name(tree: exp.Expr, first: str) -> str:
    article = "an" if first[:1].upper() in "AEIOU" else "a"
    return f"{article} {first.upper()}" if isinstance(tree, exp.Expr) else "something else"


def _parse_problem(error: ParseError, text: str) -> QueryProblem:
    detail = error.errors[0] if error.errors else {}
    line, column = detail.get("line") or 1, detail.get("col") or 1
    highlight = detail.get("highlight") or ""
    starts = [0]
    for row in text.split("\n")[:-1]:
        starts.append(starts[-1] + len(row) + 1)
    # sqlglot counts the column of a token's last character.
    end = starts[min(line, len(starts)) - 1] + column
    start = max(0, end - max(1, len(highlight)))
    message = _TOKEN.sub(r"`\1`", detail.get("description") or str(error)).rstrip(".")
    if "<class" in message:
        message = "something is missing here"
    return QueryProblem("parse", f"the SQL does not parse: {message}", start, min(end, len(text)))
