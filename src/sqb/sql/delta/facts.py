"""What is proven about a query, as values. Whatever is not proven here is rebuilt in full."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal

from sqb.light_dataclass import dataclass
from sqb.names import quote
from sqb.sql.delta.operators.model import OperatorTree

QueryClass = Literal["linear", "keyed", "opaque"]

# A key expression restricts a table: the name of a column, or an expression with its column names between marks.
MARK = "\0"


def list_key_columns(expression: str) -> tuple[str, ...]:
    """List the columns of the table in a key expression."""
    return tuple(dict.fromkeys(expression.split(MARK)[1::2])) if MARK in expression else (expression,)


def render_key_expression(expression: str, qualifier: str = "") -> str:
    """Render a key expression in SQL, over the columns of its table."""
    if MARK not in expression:
        return f"{qualifier}{quote(expression)}"
    pieces = expression.split(MARK)
    return "".join(f"{qualifier}{quote(p)}" if i % 2 else p for i, p in enumerate(pieces))


# What a key is of a day or time: (before and behind the column, what the key's value is at most before and after it).
_SPANS: tuple[tuple[str, str, int, int], ...] = (
    ("CAST(", " AS DATE)", 0, 0),
    *(("trunc(", f", '{unit}')", 0, 6) for unit in ("WEEK",)),
    *(("trunc(", f", '{unit}')", 0, 30) for unit in ("MONTH", "MM", "MON")),
    *(("trunc(", f", '{unit}')", 0, 91) for unit in ("QUARTER",)),
    *(("trunc(", f", '{unit}')", 0, 365) for unit in ("YEAR", "YYYY", "YY")),
    ("last_day(", ")", 30, 0),
)


def find_day_span(expression: str) -> tuple[str, int, int] | None:
    """The column whose days a key puts together under one of them, and how many lie before and after that one."""
    pieces = expression.split(MARK)
    if len(pieces) != 3:
        return None
    spans = ((pieces[1], early, late) for start, end, early, late in _SPANS if (pieces[0], pieces[2]) == (start, end))
    return next(spans, None)


def format_key_expression(expression: str) -> str:
    """Format a key expression as people write it."""
    return expression.replace(MARK, "")


@dataclass(frozen=True, slots=True)
class Key:
    """A key that splits the whole query into independent parts.

    `slots` holds the expression that restricts each table; tables that are not in it are read whole. `outputs`
    are the columns of the result that hold the key; empty when the result does not show it.
    """

    slots: tuple[tuple[int, str], ...]
    outputs: tuple[str, ...] = ()

    def get_expression(self, slot: int) -> str | None:
        return dict(self.slots).get(slot)


@dataclass(frozen=True, slots=True)
class Facts:
    """The class of a query and what is needed to work with it."""

    kind: QueryClass
    # Why it is not linear, or not even keyed, and where in the text.
    why: str = ""
    offset: int | None = None
    keys: tuple[Key, ...] = ()
    # The slots that the query is linear in.
    linear_slots: tuple[int, ...] = ()
    # The operators of the query; none when its structure is not understood.
    tree: OperatorTree | None = None
    # The columns that are read of each slot; None for all.
    columns: tuple[tuple[str, ...] | None, ...] = ()
    # The columns of the result in their order, as the keys name them: Spark names those without an alias otherwise.
    outputs: tuple[str, ...] = ()

    def name_outputs(self, columns: Sequence[str]) -> Facts:
        """The same facts with the outputs of keys as Spark names the columns of the result.

        A column is known by its place; where the number of columns is not known (a generator makes several of one
        item), by its name if that is written. The result does not show a key none of whose columns is known.
        """
        places = dict(zip(self.outputs, columns, strict=True)) if len(self.outputs) == len(columns) else None
        names = {c.lower(): c for c in columns} if places is None else places

        def rename_outputs(key: Key) -> Key:
            return replace(key, outputs=tuple(names[o] for o in key.outputs if o in names))

        return replace(self, keys=tuple(rename_outputs(key) for key in self.keys))


@dataclass(frozen=True, slots=True)
class KeyCandidate:
    """A key while it is followed through the blocks of a query: the columns that hold it, here, by (alias, name).

    An expression of the block that holds it is one of them too, under the alias `MARK`.
    """

    slots: frozenset[tuple[int, str]]
    columns: frozenset[tuple[str, str]] = frozenset()

    @property
    def restricted_slots(self) -> frozenset[int]:
        return frozenset(hole for hole, _ in self.slots)

    def merge(
        self, other: KeyCandidate, columns: Iterable[tuple[str, str]], shared: frozenset[int]
    ) -> KeyCandidate | None:
        """Combine both restrictions; a table on both sides must be restricted alike, or on neither."""
        if {h for h in self.slots if h[0] in shared} != {h for h in other.slots if h[0] in shared}:
            return None
        return KeyCandidate(self.slots | other.slots, frozenset(columns))


@dataclass(frozen=True, slots=True)
class Block:
    """A query block: its slots and its key candidates."""

    slots: frozenset[int]
    candidates: frozenset[KeyCandidate]
    outputs: tuple[str, ...] = ()
