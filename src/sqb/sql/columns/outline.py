"""The outline of a query: what its columns and types follow from, with places, and without a parser's tree.

It is read once, when a text is parsed, and evaluated as often as the columns of its tables change. Whatever is not
understood in full is `Opaque`: nothing is said of what is in it. Tuples, as there are many: a project of 500 models
has tens of thousands of them.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from sqb.types.model import Type


class Name(NamedTuple):
    """A column's name as written, qualifiers and fields included."""

    parts: tuple[str, ...]
    start: int
    end: int


class Constant(NamedTuple):
    """A value that is written out; `text` is what Spark calls it, where that can be a column's name."""

    type: Type
    text: str
    start: int
    end: int


class Call(NamedTuple):
    """A call of a function, by its name in lower case; `end` is the end of the name."""

    name: str
    arguments: tuple[Expression, ...]
    start: int
    end: int
    # It is followed by OVER: an aggregate then takes no group.
    is_windowed: bool = False
    # How many arguments are written; -1 where they are not a plain list: a star, DISTINCT, names, words between them.
    written_count: int = -1


class Operation(NamedTuple):
    """An operator, CASE or IF with its operands."""

    operator: str
    operands: tuple[Expression, ...]


class Conversion(NamedTuple):
    """A CAST."""

    value: Expression
    type: Type
    is_try: bool


class Field(NamedTuple):
    """A field of something that is not just a name."""

    value: Expression
    name: str
    start: int
    end: int


class Star(NamedTuple):
    """All columns, or those of one table; `hidden` are the names after EXCEPT."""

    qualifier: tuple[str, ...]
    hidden: tuple[Name, ...]
    start: int
    end: int


class Nested(NamedTuple):
    """A query in an expression; `use` is scalar, exists or in."""

    query: Query
    use: str


class Lambda(NamedTuple):
    """A function in an argument, with its own names."""

    parameters: tuple[str, ...]
    body: Expression


class Opaque(NamedTuple):
    """Something of an unknown type, with the parts of it that are understood."""

    parts: tuple[Expression, ...] = ()


class Item(NamedTuple):
    """A column of a SELECT list; `aliases` has several names for a generator of several columns.

    `start` and `end` are the place of an alias; without one the place is that of the value.
    """

    value: Expression
    aliases: tuple[str, ...]
    start: int
    end: int


class Table(NamedTuple):
    """A table or CTE by its name; `slot` is where its name begins."""

    parts: tuple[str, ...]
    slot: int
    alias: str
    columns: tuple[str, ...]
    # Other rows or columns are read than those of the table as it is: a version, a pivot.
    is_changed: bool
    # What a pivot reads of the table.
    pivoted: tuple[Expression, ...] = ()


class Derived(NamedTuple):
    """A query in FROM."""

    query: Query
    alias: str
    columns: tuple[str, ...]
    is_lateral: bool
    is_changed: bool
    pivoted: tuple[Expression, ...] = ()


class Generated(NamedTuple):
    """Rows that a function or VALUES makes; `slot` is where the function's name begins, if it is the project's."""

    value: Expression
    alias: str
    columns: tuple[str, ...]
    slot: int
    # Of VALUES: its rows.
    rows: tuple[tuple[Expression, ...], ...] | None
    is_view: bool


class Unreadable(NamedTuple):
    """Something in FROM that is not understood."""


class Join(NamedTuple):
    """A source and how it is joined to those before it."""

    source: Source
    # "inner" for the first one and for commas; "semi" and "anti" hide the source.
    kind: str
    on: Expression | None
    using: tuple[Name, ...]
    is_natural: bool
    # All rows of the source are kept: a column of USING has its value where there is none before it.
    keeps_source: bool = False


class Cte(NamedTuple):
    """A query under a name, which is written from `start` to `end`."""

    name: str
    query: Query
    columns: tuple[str, ...]
    is_recursive: bool
    start: int = -1
    end: int = -1


class Select(NamedTuple):
    """One SELECT."""

    ctes: tuple[Cte, ...]
    joins: tuple[Join, ...]
    items: tuple[Item, ...]
    where: Expression | None
    # None without GROUP BY; `is_group_all` for GROUP BY ALL.
    group: tuple[Expression, ...] | None
    is_group_all: bool
    having: Expression | None
    order: tuple[Expression, ...]
    # What else has expressions over the sources: windows by name, DISTRIBUTE BY, …
    others: tuple[Expression, ...]
    is_distinct: bool


class SetOperation(NamedTuple):
    """Two queries as one: `operator` is UNION, INTERSECT or EXCEPT."""

    ctes: tuple[Cte, ...]
    operator: str
    left: Query
    right: Query
    is_by_name: bool
    order: tuple[Expression, ...]


class UnreadableQuery(NamedTuple):
    """A query whose columns are not known."""


Expression: TypeAlias = Name | Constant | Call | Operation | Conversion | Field | Star | Nested | Lambda | Opaque
Source: TypeAlias = Table | Derived | Generated | Unreadable
Query: TypeAlias = Select | SetOperation | UnreadableQuery
