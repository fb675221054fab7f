"""What is proven about a query, as values. Whatever is not proven here is rebuilt in full."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from sqb.names import quote

QueryClass = Literal["linear", "keyed", "opaque"]

# What a table is restricted by is a term: the name of a column, or an expression with its column names between marks.
MARK = "\0"


def term_columns(term: str) -> tuple[str, ...]:
    """The columns of the table that a term is made of."""
    return tuple(dict.fromkeys(term.split(MARK)[1::2])) if MARK in term else (term,)


def term_sql(term: str, qualifier: str = "") -> str:
    """A term in SQL, over the columns of its table."""
    if MARK not in term:
        return f"{qualifier}{quote(term)}"
    pieces = term.split(MARK)
    return "".join(f"{qualifier}{quote(p)}" if i % 2 else p for i, p in enumerate(pieces))


def day_column(term: str) -> str | None:
    """The column whose day a term is."""
    pieces = term.split(MARK)
    return pieces[1] if len(pieces) == 3 and (pieces[0], pieces[2]) == ("CAST(", " AS DATE)") else None


def term_text(term: str) -> str:
    """A term as people would write it."""
    return term.replace(MARK, "")


@dataclass(frozen=True, slots=True)
class Key:
    """What the whole query falls apart by into independent pieces.

    `holes` says by which term each table has to be restricted; tables that are not in it are read whole. `outputs`
    are the columns of the result that hold the key; empty when the result does not show it.
    """

    holes: tuple[tuple[int, str], ...]
    outputs: tuple[str, ...] = ()

    def term(self, hole: int) -> str | None:
        return dict(self.holes).get(hole)


@dataclass(frozen=True, slots=True)
class Facts:
    """The class of a query and what is needed to work with it."""

    kind: QueryClass
    # Why it is not linear, or not even keyed, and where in the text.
    why: str = ""
    offset: int | None = None
    keys: tuple[Key, ...] = ()
    # For a linear query: the holes to leave empty while one hole holds its changes (other branches of a UNION ALL).
    apart: tuple[tuple[int, ...], ...] = ()
    # The columns that are read of each hole; None for all.
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

        def named(key: Key) -> Key:
            return replace(key, outputs=tuple(names[o] for o in key.outputs if o in names))

        return replace(self, keys=tuple(named(key) for key in self.keys))

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Facts:
        data: dict[str, Any] = json.loads(text)
        keys = tuple(Key(tuple((h, c) for h, c in k["holes"]), tuple(k["outputs"])) for k in data["keys"])
        return cls(
            data["kind"],
            data["why"],
            data["offset"],
            keys,
            tuple(tuple(a) for a in data["apart"]),
            tuple(tuple(c) if c is not None else None for c in data["columns"]),
            tuple(data["outputs"]),
        )


@dataclass(frozen=True, slots=True)
class Atom:
    """A key while it is followed through the blocks of a query: the columns that hold it, here, by (alias, name).

    An expression of the block that holds it is one of them too, under the alias `MARK`.
    """

    holes: frozenset[tuple[int, str]]
    held: frozenset[tuple[str, str]] = frozenset()

    @property
    def restricted(self) -> frozenset[int]:
        return frozenset(hole for hole, _ in self.holes)

    def merged(self, other: Atom, held: Iterable[tuple[str, str]], shared: frozenset[int]) -> Atom | None:
        """Both restrictions at once; a table that stands on both sides must be restricted alike, or on neither."""
        if {h for h in self.holes if h[0] in shared} != {h for h in other.holes if h[0] in shared}:
            return None
        return Atom(self.holes | other.holes, frozenset(held))


@dataclass(frozen=True, slots=True)
class Block:
    """What is known of a query block: the holes in it, its keys, and whether it is linear in every hole."""

    holes: frozenset[int]
    atoms: frozenset[Atom]
    linear: bool
    outputs: tuple[str, ...] = ()
    # Pairs of hole sets that stand in different branches of a UNION ALL.
    apart: tuple[tuple[frozenset[int], frozenset[int]], ...] = field(default=())
