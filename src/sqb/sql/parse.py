"""Reading a query with sqlglot: the one place that turns text into a tree. Loaded only when a text is new."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from sqb.sql.calls import FUNCTION, marks_of, with_calls
from sqb.sql.columns import columns_read
from sqb.sql.lexer import Token, tokens
from sqb.sql.qualify import written_without_qualify
from sqb.sql.query import Query, QueryProblem, canonical_of, canonical_token, check_text, volatile_parts
from sqb.sql.references import find_references
from sqb.sql.select_list import select_list
from sqb.sql.spans import without_scope
from sqb.sql.table_names import DynamicName, find_tables
from sqb.sql.unread import has_pipes, mistake_in, name_places, not_a_select, unread_query, writing_in

_DIALECT = "spark"
_DOES_NOT_PARSE = "the SQL does not parse: "
_VISIBLE = re.compile(r"[^\n]")
# sqlglot prints whole tokens into its messages; their text is what a reader knows.
_TOKEN = re.compile(r"<Token token_type: [^,]*, text: (.*?), line: .*?>", re.DOTALL)


def read_query(text: str, forced: Mapping[int, str]) -> Query:
    """Everything that sqb needs to know of a query; a `QueryProblem` when the text is not one."""
    found = check_text(text)
    try:
        return _read(text, found, forced)
    except _Unread as why:
        why.refuse_mistakes(found)
        return unread_query(text, found, forced, why.words, why.offset)


class _Unread(Exception):
    """sqlglot does not read a text, or not as Spark does; with a `problem` where it says that the text is wrong."""

    def __init__(self, words: str, offset: int, problem: QueryProblem | None = None) -> None:
        super().__init__(words)
        self.words, self.offset, self.problem = words, offset, problem

    def refuse_mistakes(self, found: list[Token]) -> None:
        mistake = mistake_in(found)
        if mistake is not None:
            raise (self.problem if self.problem and mistake.kind == "parse" else mistake) from self


def _read(text: str, found: list[Token], forced: Mapping[int, str]) -> Query:
    try:
        return _read_tree(text, found, _tree(text, found), forced)
    except RecursionError:
        raise _Unread("it is nested too deeply", found[0].start) from None


def _read_tree(text: str, found: list[Token], tree: exp.Query, forced: Mapping[int, str]) -> Query:
    references = with_calls(find_references(tree, forced), found, forced)
    identifiers = identifiers_in(tree)
    runnable, slots, executed, words = text, references, tree, found
    if tree.find(exp.Qualify):
        runnable = written_without_qualify(tree)
        words = check_text(runnable)
        executed = _tree(runnable, words)
        kinds = {r.name.lower(): r.kind for r in references if r.kind != FUNCTION}
        slots = tuple(replace(s, kind=kinds.get(s.name.lower())) for s in find_references(executed, {}))
        functions = {r.name.lower() for r in references if r.kind == FUNCTION}
        slots = with_calls(slots, words, marks_of(words, functions))
    return Query(
        canonical=canonical_of(text, references, identifiers),
        references=without_scope(references),
        runnable=runnable,
        slots=without_scope(slots),
        volatile=tuple(volatile_parts(found)),
        outputs=_outputs(tree),
        reading=columns_read(executed, slots, words),
        columns=select_list(text, tree, found, references, lambda token: canonical_token(token, identifiers)),
    )


def _outputs(tree: exp.Query) -> tuple[str, ...] | None:
    """The names of a query's columns; None when a star or an expression without a name is among them."""
    select = tree
    while isinstance(select, exp.SetOperation | exp.Subquery):
        if select.args.get("by_name"):
            return None
        select = select.this
    if not isinstance(select, exp.Select):
        return None
    names = []
    for item in select.expressions:
        named = isinstance(item, exp.Alias) or (isinstance(item, exp.Column) and not isinstance(item.this, exp.Star))
        if not named or not item.alias_or_name:
            return None
        names.append(item.alias_or_name)
    return tuple(names)


def identifier_places(text: str) -> frozenset[int]:
    """Where the names in a query stand, as against its keywords."""
    found = check_text(text)
    try:
        return identifiers_in(_tree(text, found))
    except RecursionError:
        return name_places(found)
    except _Unread as why:
        why.refuse_mistakes(found)
        return name_places(found)


def identifiers_in(tree: exp.Expr) -> frozenset[int]:
    """The offsets of names; those in hints count from the hint, which is one token for us."""
    found = tree.walk(prune=lambda node: isinstance(node, exp.Hint))
    return frozenset(n.meta["start"] for n in found if isinstance(n, exp.Identifier) and "start" in n.meta)


def tree_of(text: str) -> exp.Query:
    """The tree of a query; a `QueryProblem` when sqlglot does not read it."""
    try:
        return _tree(text, check_text(text))
    except RecursionError:
        raise QueryProblem("parse", "it is nested too deeply to be read", 0, 1) from None
    except _Unread as why:
        raise (why.problem or QueryProblem("parse", why.words, why.offset, why.offset + 1)) from why


def _tree(text: str, found: list[Token]) -> exp.Query:
    pipe = has_pipes(found)
    if pipe is not None:
        # sqlglot reads some of it, as a query of another form.
        raise _Unread("pipe syntax", pipe)
    try:
        statements = [s for s in sqlglot.parse(_without_comments(text), dialect=_DIALECT) if s is not None]
    except ParseError as error:
        problem = _parse_problem(error, text)
        raise _Unread(problem.message.removeprefix(_DOES_NOT_PARSE), problem.start, problem) from error
    except TokenError as error:
        raise _Unread("its tokens are not understood", found[0].start) from error
    tree = statements[0]
    if isinstance(tree, exp.Query):
        _refuse_hidden_tables(tree, found)
        return tree
    first = found[0]
    if first.text.upper() in ("VALUES", "TABLE", "("):
        raise _Unread(f"a query that begins with {first.text.upper()}", first.start)
    raise writing_in(found) or not_a_select(first, _statement_name(tree, first.text))


def _refuse_hidden_tables(tree: exp.Query, found: list[Token]) -> None:
    """Refuse a tree that misses a table: `f(TABLE(t))` is to sqlglot a function of columns."""
    at = next((t.start for t in found if t.kind == "word" and t.text.upper() == "TABLE"), None)
    if at is not None:
        seen = {i.meta["start"] for table in tree.find_all(exp.Table) for i in table.parts if "start" in i.meta}
        # A name that is only known when the query runs is refused by whoever looks at the tree.
        with suppress(DynamicName):
            if any(not name.own and name.name_start not in seen for name in find_tables(found)):
                raise _Unread("a table that is an argument", at)


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
    if "<class" in message or "SENTINEL" in message:
        message = "something is missing here"
    return QueryProblem("parse", f"{_DOES_NOT_PARSE}{message}", start, min(end, len(text)))
