"""The class of a query: linear, keyed or opaque. Rules are conservative: what is not recognised is opaque."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.qualify import qualify

from sqb.sql.delta.blocks import BlockReader, NotProven
from sqb.sql.delta.facts import Facts, Key, term_columns
from sqb.sql.functions import AGGREGATES, GENERATORS, ORDERED_AGGREGATES, SCALAR, VOLATILE, WINDOW
from sqb.sql.lexer import Token, code
from sqb.sql.special_dates import special_dates
from sqb.sql.template import Template

_HOLE = "__sqb_hole_"
# Before the number of a column that has no name of its own: nobody can refer to it.
_UNNAMED = "__sqb_unnamed_"
# Words before a bracket that are not functions.
_KEYWORDS = frozenset(
    """
    all and any array as between by case char character cross cube date dec decimal distinct else except exists filter
    for from full group grouping having in inner intersect interval is join lateral left like limit map minus natural
    not numeric on or order outer over partition qualify range right rollup rows select semi anti sets some string
    struct table then timestamp union unpivot using values varchar when where window with within
    """.split()
)
# Types by which rows can be grouped and compared; a map cannot.
_INCOMPARABLE = ("map", "variant", "geometry", "geography")


def classify(template: Template, schemas: Sequence[Mapping[str, str]], scalars: frozenset[str] = frozenset()) -> Facts:
    """What can be proven of a query whose holes have these columns (name → type), in order.

    `scalars` are functions of the project's own that are known to say the same of the same values.
    """
    text = template.render(lambda index: f"{_HOLE}{index}")
    everything = tuple(tuple(schema) for schema in schemas)
    try:
        if not template.names:
            raise NotProven("it reads no table")
        _refuse_incomparable(schemas)
        tree = sqlglot.parse_one(text, dialect="spark")
        _refuse_functions(text, tree, scalars)
        qualified = _qualified(tree, schemas)
        reader = BlockReader(_HOLE, schemas)
        block = reader.read(qualified, {})
    except NotProven as problem:
        return Facts("opaque", problem.why, problem.offset, columns=everything)
    except (SqlglotError, RecursionError, KeyError, ValueError, AttributeError, TypeError):
        return Facts("opaque", "the query is written in a way that is not understood", columns=everything)
    columns = tuple(_columns_read(tree, reader, index, schema) for index, schema in enumerate(schemas))
    keys = tuple(
        sorted(
            (
                Key(tuple(sorted(a.holes)), tuple(sorted(name for _, name in a.held)))
                for a in block.atoms
                if all(_is_read(c, columns[hole]) for hole, term in a.holes for c in term_columns(term))
            ),
            key=lambda k: (-len(k.holes), not k.outputs, k.holes, k.outputs),
        )
    )
    if block.linear and block.holes == frozenset(range(len(schemas))):
        apart = tuple(_apart(index, block.apart) for index in range(len(schemas)))
        return Facts("linear", keys=keys, apart=apart, columns=columns, outputs=block.outputs)
    first = reader.reasons[0] if reader.reasons else NotProven("it is not linear")
    if keys:
        return Facts("keyed", first.why, first.offset, keys, columns=columns, outputs=block.outputs)
    # What took the last key away is the obstacle, and not the first thing that is not linear.
    obstacle = reader.obstacles[-1] if reader.obstacles else first
    return Facts("opaque", obstacle.why, obstacle.offset, columns=columns)


def _is_read(column: str, read: tuple[str, ...] | None) -> bool:
    """Changes are only known in the columns that are read."""
    return read is None or column in {name.lower() for name in read}


def _apart(hole: int, pairs: Sequence[tuple[frozenset[int], frozenset[int]]]) -> tuple[int, ...]:
    found: set[int] = set()
    for left, right in pairs:
        if hole in left:
            found |= right
        if hole in right:
            found |= left
    return tuple(sorted(found))


def _qualified(tree: exp.Expr, schemas: Sequence[Mapping[str, str]]) -> exp.Expr:
    # Only names matter here; types are compared where keys meet.
    columns = ({name.lower(): "string" for name in schema} for schema in schemas)
    schema: dict[str, object] = {f"{_HOLE}{i}": found for i, found in enumerate(columns)}
    named = tree.copy()
    _name_columns(named)
    return qualify(
        named,
        dialect="spark",
        schema=schema,
        quote_identifiers=False,
        identify=False,
        validate_qualify_columns=True,
    )


def _name_columns(tree: exp.Expr) -> None:
    """Give each column without a name one that no other has: the parser's own could be the name of another column."""
    unnamed = (item for s in tree.find_all(exp.Select) for item in s.expressions if not item.output_name)
    for index, item in enumerate([i for i in unnamed if not i.is_star]):
        item.replace(exp.alias_(item.copy(), f"{_UNNAMED}{index}"))


def _refuse_incomparable(schemas: Sequence[Mapping[str, str]]) -> None:
    for schema in schemas:
        for name, kind in schema.items():
            if any(word in kind.lower() for word in _INCOMPARABLE):
                raise NotProven(f'rows with the column "{name}" cannot be compared: its type is {kind}')


def _refuse_functions(text: str, tree: exp.Expr, scalars: frozenset[str]) -> None:
    """Refuse functions that are volatile, depend on the order of rows, or are not known."""
    names = frozenset(i.meta["start"] for i in tree.find_all(exp.Identifier) if "start" in i.meta)
    found = code(text)
    for written, start in special_dates(found):
        raise NotProven(f"{written} is volatile", start)
    for index, token in enumerate(found):
        called = index + 1 < len(found) and found[index + 1].text == "("
        if token.kind == "quoted" and called:
            raise NotProven(f"{token.text} before a bracket is not understood", token.start)
        if called and token.text.lower() in scalars:
            continue
        if token.kind == "word" and token.start not in names and (called or token.text.lower() in VOLATILE):
            _refuse_function(token, called, index > 0 and found[index - 1].text == ".")


def _refuse_function(token: Token, called: bool, after_dot: bool) -> None:
    name = token.text.lower()
    if after_dot:
        return
    if name in VOLATILE or (name == "unix_timestamp" and called):
        raise NotProven(f"{name}() is volatile", token.start)
    if not called or name in SCALAR or name in AGGREGATES or name in WINDOW or name in GENERATORS or name in _KEYWORDS:
        return
    if name in ORDERED_AGGREGATES:
        raise NotProven(f"{name}() depends on the order of rows", token.start)
    raise NotProven(f"{name}() is not known to be the same each time", token.start)


def _columns_read(tree: exp.Expr, reader: BlockReader, hole: int, schema: Mapping[str, str]) -> tuple[str, ...] | None:
    """The columns of a hole that the query reads, in the table's order; None when a star asks for all of them."""
    if any(not isinstance(star.parent, exp.Count) for star in tree.find_all(exp.Star)):
        return None
    read = reader.read_columns.get(hole, set())
    # A query that only counts rows still needs something to count.
    return tuple(name for name in schema if name.lower() in read) or None
