"""Reading a query with sqlglot: the one place that turns text into a tree. Loaded only when a text is new."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

import sqlglot
from sqlglot import exp
from sqlglot.errors import ErrorLevel, ParseError, TokenError

from sqb.sql.analysis.columns_read import list_columns_read
from sqb.sql.analysis.qualify import edit_out_qualify, generate, rewrite_qualify
from sqb.sql.analysis.query import (
    Query,
    QueryProblem,
    canonicalize_token,
    compute_canonical,
    iter_volatile_parts,
    tokenize_statement,
)
from sqb.sql.analysis.references import find_references
from sqb.sql.analysis.select_list import split_select_list
from sqb.sql.columns import outline
from sqb.sql.columns.count_arguments import count_arguments
from sqb.sql.columns.functions.signatures import Signatures
from sqb.sql.columns.read_outline import read_outline
from sqb.sql.text.calls import FUNCTION, add_function_calls, mark_function_calls
from sqb.sql.text.fallback import (
    build_not_a_select_problem,
    build_unparsed_query,
    find_mistake,
    find_name_places,
    find_pipe,
    find_write_statement,
)
from sqb.sql.text.lexer import Token, tokenize
from sqb.sql.text.other_dialects import find_foreign_words, find_unknown_type
from sqb.sql.text.spans import strip_scope
from sqb.sql.text.table_names import DynamicName, find_tables
from sqb.sql.text.trailing_commas import find_empty_list, find_trailing_comma

_DIALECT = "spark"
_DOES_NOT_PARSE = "the SQL does not parse: "
_VISIBLE = re.compile(r"[^\n]")
# sqlglot prints whole tokens into its messages; their text is what a reader knows.
_TOKEN = re.compile(r"<Token token_type: [^,]*, text: (.*?), line: .*?>", re.DOTALL)
# sqlglot logs which statements it only takes as words; they are refused, or left to Spark.
logging.getLogger("sqlglot").addFilter(lambda record: "Falling back to parsing" not in record.getMessage())


def read_query(text: str, forced: Mapping[int, str]) -> Query:
    """Everything that sqb needs to know of a query; a `QueryProblem` when the text is not one."""
    return read_query_with_outline(text, forced)[0]


def read_query_with_outline(text: str, forced: Mapping[int, str]) -> tuple[Query, outline.Query]:
    """The same, and the outline of the query that is run."""
    tokens = tokenize_statement(text)
    _refuse_missing_parts(tokens)
    _refuse_other_dialects(tokens)
    try:
        return _parse_query(text, tokens, forced)
    except _NotParsed as why:
        why.refuse_mistakes(tokens)
        _refuse_wrong_calls(text, tokens)
        query = build_unparsed_query(text, tokens, forced, why.reason, why.offset)
        return query, outline.UnreadableQuery()


def read_query_outline(text: str) -> outline.Query:
    """The outline of a query; one that sqlglot does not read is unreadable."""
    try:
        return read_outline(parse_tree(text), text, tokenize_statement(text))
    except QueryProblem:
        return outline.UnreadableQuery()


def _refuse_missing_parts(tokens: list[Token]) -> None:
    comma = find_trailing_comma(tokens)
    if comma is not None:
        message, hint = "something is missing after ,", "remove the comma, or write what is to follow it"
        raise QueryProblem("parse", message, comma.start, comma.end, hint)
    word = find_empty_list(tokens)
    if word is not None:
        raise QueryProblem("parse", f"something is missing after {word.text}", word.start, word.end)


def _refuse_other_dialects(tokens: list[Token]) -> None:
    problem = find_unknown_type(tokens) or find_foreign_words(tokens)
    if problem is not None:
        raise problem


def _refuse_wrong_calls(text: str, tokens: list[Token]) -> None:
    """Refuse calls of Spark's functions with too few arguments, over which sqlglot gives up the whole query."""
    try:
        trees = sqlglot.parse(_blank_comments(text), dialect=_DIALECT, error_level=ErrorLevel.IGNORE)
    except Exception:
        return  # then it is something else that sqlglot does not read
    counts, signatures = count_arguments(tokens), Signatures()
    for node in (n for tree in trees if tree is not None for n in tree.find_all(exp.Func)):
        start = node.meta.get("start", -1)
        if start in counts:
            end = node.meta["end"] + 1
            call = outline.Call(text[start:end].strip("`").lower(), (), start, end, False, counts[start])
            problem = signatures.find_problem(call)
            if problem is not None and problem.kind == "wrong arguments":
                raise QueryProblem("arguments", problem.message, start, end, problem.hint)


class _NotParsed(Exception):
    """sqlglot does not read a text, or not as Spark does; with a `problem` where it says that the text is wrong."""

    def __init__(self, reason: str, offset: int, problem: QueryProblem | None = None) -> None:
        super().__init__(reason)
        self.reason, self.offset, self.problem = reason, offset, problem

    def refuse_mistakes(self, tokens: list[Token]) -> None:
        mistake = find_mistake(tokens)
        if mistake is not None:
            # One with a hint is known by what it is, and not only by where reading ended.
            is_vague = mistake.kind == "parse" and mistake.hint is None
            raise (self.problem if self.problem and is_vague else mistake) from self


def _parse_query(text: str, tokens: list[Token], forced: Mapping[int, str]) -> tuple[Query, outline.Query]:
    try:
        return _analyze_tree(text, tokens, _parse_tree(text, tokens), forced)
    except RecursionError:
        raise _NotParsed("it is nested too deeply", tokens[0].start) from None


def _analyze_tree(
    text: str, tokens: list[Token], tree: exp.Query, forced: Mapping[int, str]
) -> tuple[Query, outline.Query]:
    references = add_function_calls(find_references(tree, forced), tokens, forced)
    identifiers = list_identifier_offsets(tree)
    runnable, slots, executed, executed_tokens = text, references, tree, tokens
    if _has_word(tokens, "QUALIFY") and tree.find(exp.Qualify):
        runnable, executed = _leave_out_qualify(text, tree)
        executed_tokens = tokenize_statement(runnable)
        kinds = {r.name.lower(): r.kind for r in references if r.kind != FUNCTION}
        slots = tuple(replace(s, kind=kinds.get(s.name.lower())) for s in find_references(executed, {}))
        functions = {r.name.lower() for r in references if r.kind == FUNCTION}
        slots = add_function_calls(slots, executed_tokens, mark_function_calls(executed_tokens, functions))
    query = Query(
        canonical=compute_canonical(text, references, identifiers),
        references=strip_scope(references),
        runnable=runnable,
        slots=strip_scope(slots),
        volatile=tuple(iter_volatile_parts(tokens)),
        outputs=_list_outputs(tree),
        reading=list_columns_read(executed, slots, executed_tokens),
        columns=split_select_list(text, tree, tokens, references, lambda token: canonicalize_token(token, identifiers)),
    )
    return query, read_outline(executed, runnable, executed_tokens)


def _leave_out_qualify(text: str, tree: exp.Query) -> tuple[str, exp.Query]:
    """The text of a query without QUALIFY, and its tree: the author's text if it says what it should then."""
    wanted = rewrite_qualify(tree)
    edited = edit_out_qualify(text, tree)
    with suppress(_NotParsed, QueryProblem):
        executed = _parse_tree(edited, tokenize_statement(edited))
        if executed == wanted:
            return edited, executed
    generated = generate(wanted)
    return generated, _parse_tree(generated, tokenize_statement(generated))


def _has_word(tokens: list[Token], word: str) -> bool:
    """Whether a word is anywhere in a text: a look at all of the tree costs more."""
    return any(token.text.upper() == word for token in tokens)


def _list_outputs(tree: exp.Query) -> tuple[str, ...] | None:
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
        has_name = isinstance(item, exp.Alias) or (isinstance(item, exp.Column) and not isinstance(item.this, exp.Star))
        if not has_name or not item.alias_or_name:
            return None
        names.append(item.alias_or_name)
    return tuple(names)


def find_identifier_places(text: str) -> frozenset[int]:
    """Where the names in a query are, as against its keywords."""
    tokens = tokenize_statement(text)
    try:
        return list_identifier_offsets(_parse_tree(text, tokens))
    except RecursionError:
        return find_name_places(tokens)
    except _NotParsed as why:
        why.refuse_mistakes(tokens)
        return find_name_places(tokens)


def list_identifier_offsets(tree: exp.Expr) -> frozenset[int]:
    """The offsets of names; those in hints count from the hint, which is one token for us."""
    nodes = tree.walk(prune=lambda node: isinstance(node, exp.Hint))
    return frozenset(n.meta["start"] for n in nodes if isinstance(n, exp.Identifier) and "start" in n.meta)


def parse_tree(text: str) -> exp.Query:
    """The tree of a query; a `QueryProblem` when sqlglot does not read it."""
    try:
        return _parse_tree(text, tokenize_statement(text))
    except RecursionError:
        raise QueryProblem("parse", "it is nested too deeply to be read", 0, 1) from None
    except _NotParsed as why:
        raise (why.problem or QueryProblem("parse", why.reason, why.offset, why.offset + 1)) from why


def _parse_tree(text: str, tokens: list[Token]) -> exp.Query:
    pipe = find_pipe(tokens)
    if pipe is not None:
        # sqlglot reads some of it, as a query of another form.
        raise _NotParsed("pipe syntax", pipe)
    try:
        statements = [s for s in sqlglot.parse(_blank_comments(text), dialect=_DIALECT) if s is not None]
    except ParseError as error:
        problem = _build_parse_problem(error, text)
        raise _NotParsed(problem.message.removeprefix(_DOES_NOT_PARSE), problem.start, problem) from error
    except TokenError as error:
        raise _NotParsed("its tokens are not understood", tokens[0].start) from error
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        # sqlglot fails over some calls with too few arguments, such as map(1).
        raise _NotParsed("sqlglot fails to read it", tokens[0].start) from error
    tree = statements[0]
    if isinstance(tree, exp.Query):
        _refuse_hidden_tables(tree, tokens)
        return tree
    first = tokens[0]
    if first.text.upper() in ("VALUES", "TABLE", "("):
        raise _NotParsed(f"a query that begins with {first.text.upper()}", first.start)
    raise find_write_statement(tokens) or build_not_a_select_problem(first, _format_statement_name(tree, first.text))


def _refuse_hidden_tables(tree: exp.Query, tokens: list[Token]) -> None:
    """Refuse a tree that misses a table: `f(TABLE(t))` is to sqlglot a function of columns."""
    table_offset = next((t.start for t in tokens if t.kind == "word" and t.text.upper() == "TABLE"), None)
    if table_offset is not None:
        known_starts = {i.meta["start"] for table in tree.find_all(exp.Table) for i in table.parts if "start" in i.meta}
        # A name that is only known when the query runs is refused by whoever looks at the tree.
        with suppress(DynamicName):
            if any(not name.is_cte and name.name_start not in known_starts for name in find_tables(tokens)):
                raise _NotParsed("a table that is an argument", table_offset)


def _blank_comments(text: str) -> str:
    """The text with blanks for comments, so that places hold: sqlglot takes some of them for the end of a clause."""
    if "--" not in text and "/*" not in text:
        return text
    out, copied = [], 0
    for token in tokenize(text):
        if token.kind == "comment":
            out += [text[copied : token.start], _VISIBLE.sub(" ", token.text)]
            copied = token.end
    return "".join([*out, text[copied:]])


def _format_statement_name(tree: exp.Expr, first: str) -> str:
    article = "an" if first[:1].upper() in "AEIOU" else "a"
    return f"{article} {first.upper()}" if isinstance(tree, exp.Expr) else "something else"


def _build_parse_problem(error: ParseError, text: str) -> QueryProblem:
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


_LEAD = "SELECT 1 WHERE ("


def list_expression_columns(text: str) -> tuple[str, ...]:
    """The columns of a row that a condition uses, each once; a `QueryProblem` when the text is not one condition."""
    tokenize_statement(text)
    whole = f"{_LEAD}{text}\n)"
    if read_query(whole, {}).references:
        raise QueryProblem(
            "references", "it reads another table", 0, 1, "write it as a query in audits/, with the rows that are wrong"
        )
    tree = parse_tree(whole)
    if not isinstance(tree.args["where"].this, exp.Paren):
        raise QueryProblem("parse", "its brackets do not pair", 0, 1)
    if tree.find(exp.AggFunc, exp.Window):
        raise QueryProblem(
            "aggregate",
            "it looks at more than one row",
            0,
            1,
            "write it as a query in audits/, with the rows that are wrong",
        )
    names: dict[str, str] = {}
    for column in tree.find_all(exp.Column):
        if _is_lambda_parameter(column):
            continue
        # What is before a dot is the column; the rest are fields in it.
        first = column.parts[0]
        names.setdefault(first.name.lower(), first.name)
    return tuple(names.values())


def _is_lambda_parameter(column: exp.Expression) -> bool:
    """Whether it is the parameter of a lambda such as `x -> x > 0`."""
    name = column.name.lower()
    above = column.find_ancestor(exp.Lambda)
    while above is not None:
        if any(argument.name.lower() == name for argument in above.expressions):
            return True
        above = above.find_ancestor(exp.Lambda)
    return False
