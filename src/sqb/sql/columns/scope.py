"""Which column a name means: the sources that can be seen from a place, and Spark's rules for looking names up.

A relation is open where it may have more columns than are known: a name that is not found there is not a mistake.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sqb.types import model as m
from sqb.types.model import ArrayType, MapType, StructType, Type

# Columns that Iceberg and Spark add to every table, and words that Spark reads as functions without brackets.
_HIDDEN = frozenset(
    """
    _file _pos _partition _spec_id _deleted _row_id _last_updated_sequence_number _metadata _change_type _change_ordinal
    _commit_snapshot_id current_date current_timestamp current_time localtimestamp localtime current_user user
    session_user current_catalog current_database current_schema current_path grouping__id spark_grouping_id default
    window session_window
    """.split()
)


class Column(NamedTuple):
    """A column of a relation; `key` is the same for columns that are one and the same attribute to Spark."""

    # None where only Spark can tell how it is called.
    name: str | None
    type: Type
    key: int


class Relation:
    """Columns in their order; an open relation may have more."""

    __slots__ = ("_by_name", "columns", "has_unnamed", "is_open")

    def __init__(self, columns: Iterable[Column], is_open: bool = False) -> None:
        self.columns = tuple(columns)
        self.is_open = is_open
        self.has_unnamed = any(c.name is None for c in self.columns)
        self._by_name: dict[str, list[Column]] | None = None

    def find(self, folded: str) -> list[Column]:
        """The columns of a name in lower case."""
        if self._by_name is None:
            self._by_name = {}
            for column in self.columns:
                if column.name is not None:
                    self._by_name.setdefault(column.name.lower(), []).append(column)
        return self._by_name.get(folded, [])

    def may_have(self, folded: str) -> bool:
        """Whether a name that is not among the columns may be one all the same."""
        return self.is_open or (self.has_unnamed and not folded.isidentifier())


OPEN = Relation((), is_open=True)


@dataclass(slots=True)
class Source:
    """A relation under the names that qualify its columns, in lower case."""

    names: tuple[str, ...]
    relation: Relation
    # Columns of it that USING made one with another's: alone, their names mean those.
    merged: frozenset[str] = frozenset()


class Found(NamedTuple):
    """A column, and the fields of it that are asked for."""

    column: Column
    fields: tuple[str, ...]


class Ambiguous(NamedTuple):
    """Several columns that a name can mean, by the names of their sources."""

    sources: tuple[str, ...]


class Unsure(NamedTuple):
    """A name that may be one of an open relation."""


@dataclass(slots=True)
class Scope:
    """What can be seen from a place in a query."""

    outer: Scope | None = None
    sources: list[Source] = field(default_factory=list)
    # The aliases of the SELECT list that can be seen, in lower case; None for one whose type is not known.
    aliases: dict[str, Type] = field(default_factory=dict)
    # The parameters of functions in arguments.
    variables: frozenset[str] = frozenset()
    # The columns that a star stands for, in their order, and whether there may be more.
    star: list[Column] = field(default_factory=list)
    has_open_star: bool = False
    # In ORDER BY and HAVING the columns of the result come before those of the sources.
    has_aliases_first: bool = False
    # The list has columns that Spark names by their texts.
    has_unnamed: bool = False
    # Of columns that RIGHT and FULL joins make one by USING: the key of the first for those of the others.
    joined_keys: dict[int, int] = field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        return any(s.relation.is_open for s in self.sources)

    def identify(self, column: Column) -> int:
        """What a column has in common with those that may be the same."""
        return self.joined_keys.get(column.key, column.key)

    def lookup(self, parts: Sequence[str]) -> Found | Ambiguous | Unsure | None:
        """What a name means among the sources here; None when nothing here has it."""
        folded = [p.lower() for p in parts]
        unsure = False
        for length in range(len(folded) - 1, 0, -1):
            result: dict[int, Found] = {}
            is_merged = False
            for source in self.sources:
                if _is_qualifier(folded[:length], source.names):
                    is_merged = is_merged or folded[length] in source.merged
                    for column in source.relation.find(folded[length]):
                        result[column.key] = Found(column, tuple(parts[length + 1 :]))
                    unsure = unsure or source.relation.may_have(folded[length])
            if result and is_merged and len(result) > 1:
                # Two relations of one name: Spark takes the one that USING leaves.
                return Unsure()
            if result:
                return self._choose(result, folded[length])
        name = folded[0]
        result, merged_seen = {}, False
        for source in self.sources:
            columns = source.relation.find(name)
            if name in source.merged:
                if merged_seen and columns:
                    continue
                merged_seen = merged_seen or bool(columns)
            for column in columns:
                result[column.key] = Found(column, tuple(parts[1:]))
            unsure = unsure or source.relation.may_have(name)
        if result:
            if unsure:
                return Unsure() if len(result) == 1 else self._choose(result, name)
            return self._choose(result, name)
        return Unsure() if unsure else None

    def _choose(self, found: dict[int, Found], name: str) -> Found | Ambiguous:
        if len(found) == 1:
            return next(iter(found.values()))
        owners = [".".join(s.names) for s in self.sources if any(c.key in found for c in s.relation.find(name))]
        return Ambiguous(tuple(owners))

    def list_names(self, qualifier: Sequence[str]) -> list[str]:
        """The columns that a name could have meant: those of the qualified source, or of all sources here."""
        folded = [p.lower() for p in qualifier]
        sources = [s for s in self.sources if folded and _is_qualifier(folded, s.names)] or self.sources
        return [c.name for s in sources for c in s.relation.columns if c.name is not None]


def is_hidden(parts: Sequence[str]) -> bool:
    """Whether a name is one that no relation lists and that is there all the same."""
    folded = [part.lower() for part in parts]
    if folded[:-1] in (["session"], ["system", "session"]):
        # A variable of the session, which may be handed in.
        return True
    return any(part in _HIDDEN or part.startswith("_gen_input_") for part in folded)


def _is_qualifier(parts: Sequence[str], names: tuple[str, ...]) -> bool:
    """Whether parts are the last of a source's names, or its names after those of the catalog."""
    if not names:
        return False
    if len(parts) <= len(names):
        return tuple(parts) == names[-len(parts) :]
    return tuple(parts[-len(names) :]) == names


class UnknownField(Exception):
    """A field that a type does not have, and the fields that it has."""

    def __init__(self, name: str, kind: Type, fields: Sequence[str]) -> None:
        super().__init__(name)
        self.name, self.kind, self.fields = name, kind, fields


def get_field_type(kind: Type, name: str) -> Type:
    """The type of a field of a value; `UnknownField` where it surely has none of this name."""
    match kind:
        case StructType(fields):
            match = kind.fold_fields().get(name.lower())
            if match is None:
                raise UnknownField(name, kind, [f.name for f in fields])
            return match.type
        case ArrayType(StructType() as element):
            return ArrayType(get_field_type(element, name))
        case MapType(_, value):
            return value
        case _ if m.is_number(kind) or m.is_text(kind) or m.is_moment(kind) or kind in (m.DATE, m.BOOLEAN, m.BINARY):
            raise UnknownField(name, kind, ())
        case _:
            return m.UNKNOWN
