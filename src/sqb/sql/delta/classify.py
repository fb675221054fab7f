"""The class of a query: linear, keyed or opaque. Rules are conservative: what is not recognised is opaque."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from sqb.sql.delta.errors import NotProven
from sqb.sql.delta.facts import Facts, Key, list_key_columns
from sqb.sql.delta.keys.propagate import BlockReader
from sqb.sql.delta.operators.column_sources import ColumnSources
from sqb.sql.delta.operators.model import OperatorTree
from sqb.sql.delta.operators.read import read_operators
from sqb.sql.delta.proposal import list_linear_slots
from sqb.sql.delta.skeleton.model import SLOT
from sqb.sql.functions.builtins import AGGREGATES, GENERATORS, ORDERED_AGGREGATES, SCALAR, VOLATILE, WINDOW
from sqb.sql.text.lexer import Token, strip_quotes, tokenize_code
from sqb.sql.text.special_dates import iter_special_dates
from sqb.sql.text.template import Template

_NOT_UNDERSTOOD = "the query is written in a way that is not understood"
# Words before a bracket that are not functions.
_KEYWORDS = frozenset(
    """
    all and any array as between by case char character cross cube date dec decimal distinct else except exists filter
    for from full group grouping having in inner intersect interval is join lateral left like limit map minus natural
    not numeric on or order outer over partition qualify range right rollup rows select semi anti sets some string
    struct table then timestamp union unpivot using values varchar when where window with within
    """.split()
)
# What the names of all that rules add to a text begin with, and how they go on.
_OWN = "__sqb_"
_ADDED = frozenset({"multiplicity", "weight", "g", "k", "t", "u", "w"})
# Types by which rows can be grouped and compared; a map cannot.
_INCOMPARABLE = ("map", "variant", "geometry", "geography")


def classify_query(
    template: Template, schemas: Sequence[Mapping[str, str]], scalars: frozenset[str] = frozenset()
) -> Facts:
    """Classify a query whose slots have these columns (name → type), in order.

    `scalars` are deterministic functions of the project.
    """
    text = template.render(lambda index: f"{SLOT}{index}")
    every = Facts("opaque", columns=tuple(tuple(schema) for schema in schemas))
    try:
        if not template.names:
            raise NotProven("it reads no table at the version of the build")
        _refuse_incomparable(schemas)
        _refuse_own_names(text, schemas)
        tree = sqlglot.parse_one(text, dialect="spark")
        ordered = _refuse_functions(text, tree, scalars)
    except NotProven as problem:
        return replace(every, why=problem.why, offset=problem.offset)
    except (SqlglotError, RecursionError):
        return replace(every, why=_NOT_UNDERSTOOD)
    sources = ColumnSources(tree, schemas)
    operators = _read_operators(text, tree, schemas, sources)
    facts = _find_keys(tree, schemas, sources)
    if ordered is not None:
        facts = replace(facts, kind="opaque", keys=(), why=ordered.why, offset=ordered.offset)
    if isinstance(operators, NotProven):
        # Where no key splits the query either, what the operators stopped at is the obstacle.
        return facts if facts.keys or ordered else replace(facts, why=operators.why, offset=operators.offset)
    linear = list_linear_slots(operators)
    if linear >= frozenset(range(len(schemas))):
        facts = replace(facts, kind="linear", why="", offset=None)
    return replace(facts, linear_slots=tuple(sorted(linear)), tree=operators)


def _read_operators(
    text: str, tree: exp.Expr, schemas: Sequence[Mapping[str, str]], sources: ColumnSources
) -> OperatorTree | NotProven:
    try:
        return read_operators(text, tree, schemas, sources)
    except NotProven as problem:
        return problem
    except (SqlglotError, RecursionError, KeyError, ValueError, AttributeError, TypeError, IndexError):
        return NotProven(_NOT_UNDERSTOOD)


def _find_keys(tree: exp.Expr, schemas: Sequence[Mapping[str, str]], sources: ColumnSources) -> Facts:
    """The keys that split the query into independent parts, or why it has none."""
    all_columns = tuple(tuple(schema) for schema in schemas)
    try:
        reader = BlockReader(SLOT, schemas)
        block = reader.read(sources.qualify(), {})
    except NotProven as problem:
        return Facts("opaque", problem.why, problem.offset, columns=all_columns)
    except (SqlglotError, RecursionError, KeyError, ValueError, AttributeError, TypeError):
        return Facts("opaque", _NOT_UNDERSTOOD, columns=all_columns)
    # A star reads all of them.
    reads_all = any(not isinstance(star.parent, exp.Count) for star in tree.find_all(exp.Star))
    columns = tuple(
        None if reads_all else _list_columns_read(reader, index, schema) for index, schema in enumerate(schemas)
    )
    keys = tuple(
        sorted(
            (
                Key(tuple(sorted(a.slots)), tuple(sorted(name for _, name in a.columns)))
                for a in block.candidates
                if all(_is_read(c, columns[slot]) for slot, expression in a.slots for c in list_key_columns(expression))
            ),
            key=lambda k: (-len(k.slots), not k.outputs, k.slots, k.outputs),
        )
    )
    first = reader.reasons[0] if reader.reasons else NotProven("it is not linear")
    if keys:
        return Facts("keyed", first.why, first.offset, keys, columns=columns, outputs=block.outputs)
    # What took the last key away is the obstacle, and not the first thing that is not linear.
    obstacle = reader.obstacles[-1] if reader.obstacles else first
    return Facts("opaque", obstacle.why, obstacle.offset, columns=columns, outputs=block.outputs)


def _is_read(column: str, read: tuple[str, ...] | None) -> bool:
    """Changes are only known in the columns that are read."""
    return read is None or column in {name.lower() for name in read}


def _refuse_incomparable(schemas: Sequence[Mapping[str, str]]) -> None:
    for schema in schemas:
        for name, kind in schema.items():
            if any(word in kind.lower() for word in _INCOMPARABLE):
                raise NotProven(f'rows with the column "{name}" cannot be compared: its type is {kind}')


def _refuse_own_names(text: str, schemas: Sequence[Mapping[str, str]]) -> None:
    """Refuse the names that rules give to what they add: in the texts that they write, both would mean one column."""
    for name in (name for schema in schemas for name in schema):
        if name.lower().startswith(_OWN):
            raise NotProven(f'a column is called "{name}", a name of sqb\'s own')
    for token in tokenize_code(text):
        name = strip_quotes(token).lower() if token.kind in ("word", "quoted") else ""
        if name.startswith(_OWN) and name.removeprefix(_OWN).rstrip("0123456789") in _ADDED:
            raise NotProven(f'"{name}" is a name of sqb\'s own', token.start)


def _refuse_functions(text: str, tree: exp.Expr, scalars: frozenset[str]) -> NotProven | None:
    """Refuse functions that are volatile or not known; the first one that depends on the order of rows is returned."""
    names = frozenset(i.meta["start"] for i in tree.find_all(exp.Identifier) if "start" in i.meta)
    tokens = tokenize_code(text)
    ordered: NotProven | None = None
    for special_date, start in iter_special_dates(tokens):
        raise NotProven(f"{special_date} is volatile", start)
    for index, token in enumerate(tokens):
        called = index + 1 < len(tokens) and tokens[index + 1].text == "("
        if token.kind == "quoted" and called:
            raise NotProven(f"{token.text} before a bracket is not understood", token.start)
        if called and token.text.lower() in scalars:
            continue
        after_dot = index > 0 and tokens[index - 1].text == "."
        if token.kind != "word" or token.start in names or after_dot:
            continue
        if called and token.text.lower() in ORDERED_AGGREGATES:
            ordered = ordered or NotProven(f"{token.text.lower()}() depends on the order of rows", token.start)
        elif called or token.text.lower() in VOLATILE | {"collate"}:
            _refuse_function(token, called)
    return ordered


def _refuse_function(token: Token, called: bool) -> None:
    name = token.text.lower()
    if name == "collate":
        # Which of them a group or an extreme shows is not told.
        raise NotProven("COLLATE makes texts equal that are not the same", token.start)
    if name in VOLATILE or (name == "unix_timestamp" and called):
        raise NotProven(f"{name}() is volatile", token.start)
    if not called or name in SCALAR or name in AGGREGATES or name in WINDOW or name in GENERATORS or name in _KEYWORDS:
        return
    raise NotProven(f"{name}() is not known to be the same each time", token.start)


def _list_columns_read(reader: BlockReader, slot: int, schema: Mapping[str, str]) -> tuple[str, ...] | None:
    """List the columns of a slot that the query reads, in the table's order; None for all of them."""
    read = reader.read_columns.get(slot, set())
    # A query that only counts rows still needs something to count.
    return tuple(name for name in schema if name.lower() in read) or None
