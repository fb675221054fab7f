"""Reading a query with sqlglot: the one place that turns text into a tree. Loaded only when a text is new."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from sqb.sql.query import Query, QueryProblem, canonical_of, check_text, volatile_functions
from sqb.sql.spans import Reference

_DIALECT = "spark"
# sqlglot prints whole tokens into its messages; their text is what a reader knows.
_TOKEN = re.compile(r"<Token token_type: [^,]*, text: (.*?), line: .*?>", re.DOTALL)


def read_query(text: str, forced: Mapping[int, str]) -> Query:
    """Everything that sqb needs to know of a query; a `QueryProblem` when the text is not one."""
    found = check_text(text)
    tree = _tree(text)
    references = tuple(_references(tree, text, forced))
    identifiers = _identifiers(tree)
    runnable, slots = text, references
    if tree.find(exp.Qualify):
        # Spark has no QUALIFY; sqlglot writes it as a filter around a subquery.
        runnable = tree.sql(dialect=_DIALECT, comments=False)
        slots = tuple(_references(_tree(runnable), runnable, {}))
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
    return frozenset(i.meta["start"] for i in tree.find_all(exp.Identifier) if "start" in i.meta)


def _tree(text: str) -> exp.Query:
    try:
        statements = [s for s in sqlglot.parse(text, dialect=_DIALECT) if s is not None]
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
    return QueryProblem("parse", f"the SQL does not parse: {message}", start, min(end, len(text)))


def _references(tree: exp.Expr, text: str, forced: Mapping[int, str]) -> Iterator[Reference]:
    found: list[Reference] = []
    for table in _tables(tree):
        parts = [p for p in (table.args.get("catalog"), table.args.get("db"), table.this) if p is not None]
        if not all(isinstance(p, exp.Identifier) and "start" in p.meta for p in parts):
            _refuse_dynamic(table)
            continue
        start, end = parts[0].meta["start"], parts[-1].meta["end"] + 1
        alias = table.args.get("alias")
        named = isinstance(alias, exp.TableAlias) and alias.this is not None
        fixed = table.args.get("version") is not None or table.args.get("when") is not None
        found.append(
            Reference(
                parts=tuple(p.name for p in parts),
                start=start,
                end=end,
                # An alias cannot stand before VERSION AS OF or TABLESAMPLE.
                alias=None if named or fixed or table.args.get("sample") else parts[-1].name,
                kind=forced.get(start),
                fixed=fixed,
            )
        )
    yield from _with_qualifiers(_distinct_aliases(found), tree)


def _refuse_dynamic(table: exp.Table) -> None:
    if isinstance(table.this, exp.Anonymous) and table.this.name.upper() == "IDENTIFIER":
        raise QueryProblem(
            "parse",
            "IDENTIFIER(…) names a table that cannot be known before the query runs",
            0,
            1,
            "write the table's name, or build it with a @@variable or a @macro",
        )


def _tables(tree: exp.Expr) -> Iterator[exp.Table]:
    """Every table in the query that is not one of its own CTEs, in the order of the text."""
    found: list[exp.Table] = []
    stack: list[tuple[exp.Expr, frozenset[str]]] = [(tree, frozenset())]
    while stack:
        node, shadowed = stack.pop()
        if isinstance(node, exp.Table) and not (node.args.get("db") is None and node.name.lower() in shadowed):
            found.append(node)
        with_ = node.args.get("with_")
        if with_ is not None:
            for cte in with_.expressions:
                own = {cte.alias.lower()} if with_.args.get("recursive") else set()
                stack.append((cte.this, shadowed | own))
                shadowed = shadowed | {cte.alias.lower()}
        stack.extend((child, shadowed) for child in node.iter_expressions() if child is not with_)
    return iter(sorted(found, key=_position))


def _position(table: exp.Table) -> int:
    return min((i.meta["start"] for i in table.find_all(exp.Identifier) if "start" in i.meta), default=0)


def _distinct_aliases(references: list[Reference]) -> list[Reference]:
    """Two tables with one last name need two aliases; the qualified column names are rewritten with them."""
    names = {r.parts for r in references if r.alias}
    clashes = Counter(parts[-1].lower() for parts in names)
    return [
        replace(r, alias="__".join(r.parts)) if r.alias and clashes[r.parts[-1].lower()] > 1 else r for r in references
    ]


def _with_qualifiers(references: list[Reference], tree: exp.Expr) -> Iterator[Reference]:
    spans: dict[tuple[str, ...], list[tuple[int, int]]] = {}
    for column in tree.find_all(exp.Column):
        parts = [p for p in (column.args.get("catalog"), column.args.get("db"), column.args.get("table")) if p]
        if len(parts) > 1 and all("start" in p.meta for p in parts):
            key = tuple(p.name.lower() for p in parts)
            spans.setdefault(key, []).append((parts[0].meta["start"], parts[-1].meta["end"] + 1))
    taken: set[tuple[str, ...]] = set()
    for reference in references:
        key = tuple(p.lower() for p in reference.parts)
        if reference.alias and len(key) > 1 and key in spans and key not in taken:
            taken.add(key)
            yield replace(reference, qualifiers=tuple(spans[key]))
        else:
            yield reference
