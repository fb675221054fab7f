"""The columns that a loader's table gets: from those that its rows have, those it declares and those that stand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqb.errors import DuplicateColumn, RowsUnfit, SchemaRefused
from sqb.lake.port import Column, TableState
from sqb.lake.row_types import grown, holds, json_type, shown_type, stored, type_that_stands, united
from sqb.names import At
from sqb.project.column_types import Type, parse_type


@dataclass(frozen=True, slots=True)
class LoadedColumn:
    """A column of the table, and the name under which the rows have it; "" when they do not."""

    name: str
    type: Type
    written: str = ""

    @property
    def is_of_spark(self) -> bool:
        """Whether its type is one that Spark has; others are left as they are."""
        return bool(self.type[0] != "iceberg")

    @property
    def column(self) -> Column:
        return Column(self.name, json_type(self.type))


def declared_types(declared: Mapping[str, str], at: At) -> dict[str, Type]:
    """What a loader says of its columns' types."""
    found: dict[str, Type] = {}
    for name, text in declared.items():
        kind = parse_type(text)
        if kind is None or kind == "variant":
            raise RowsUnfit(
                f'columns= gives "{name}" the type {text!r}, which is none that a table can have',
                at=at,
                hint="types are written as in Spark SQL, for instance bigint, decimal(18,2) or array<string>",
            )
        found[name] = stored(kind)
    refuse_bad_names(list(found), at)
    return found


def types_in_all(schemas: Iterable[Mapping[str, Type]], declared: Mapping[str, Type], at: At) -> dict[str, Type]:
    """The columns of rows that come in several pieces, each with a type for all of them, by the first spelling."""
    said = {name.lower() for name in declared}
    names: dict[str, str] = {}
    found: dict[str, Type] = {}
    for schema in schemas:
        for written, kind in schema.items():
            name = names.setdefault(written.lower(), written)
            known = found.get(name, "void")
            both = united(known, kind)
            if both is None and name.lower() not in said:
                raise SchemaRefused(
                    f'column "{name}" is {shown_type(known)} in some rows and {shown_type(kind)} in others',
                    at=at,
                    hint=f'give it one type, or say which: columns={{"{name}": "string"}}',
                )
            found[name] = both or known
    return found


def refuse_bad_names(names: Sequence[str], at: At) -> None:
    """Refuse columns without a name, and names that are one to Spark."""
    counts = Counter(name.lower() for name in names)
    twice = sorted({name for name in names if counts[name.lower()] > 1}, key=lambda name: (name.lower(), name))
    if twice:
        listed = ", ".join(f'"{name}"' for name in twice)
        raise DuplicateColumn(
            f"the loader's rows have more than one column called {listed}",
            at=at,
            hint="give each its own name; names that differ only in case are the same",
        )
    if any(not name.strip() for name in names):
        raise RowsUnfit(
            "the loader's rows have a column without a name",
            at=at,
            hint="give every column a name; an index of pandas gets one by df.reset_index(names=…)",
        )


def columns_standing(standing: TableState | None) -> tuple[LoadedColumn, ...]:
    """The columns that a table has."""
    columns = standing.columns if standing is not None else ()
    return tuple(LoadedColumn(c.name, type_that_stands(c.type)) for c in columns)


def replaced_columns(
    rows: Mapping[str, Type], declared: Mapping[str, Type], standing: tuple[LoadedColumn, ...]
) -> tuple[LoadedColumn, ...]:
    """The columns of a table whose rows all go: those of the new rows.

    Those that stand keep their place, and their type where it holds all that the rows' type holds: the order of keys
    and a day without long numbers are no change of a table.
    """
    wanted = _wanted(rows, declared)
    known = {c.name.lower(): c for c in standing}
    said = {name.lower() for name in declared}
    found = {}
    for name, column in wanted.items():
        old = known.get(name, column)
        keeps = name not in said and holds(old.type, column.type)
        found[name] = LoadedColumn(old.name, old.type if keeps else column.type, column.written)
    columns = (*(found[name] for name in known if name in found), *(c for n, c in found.items() if n not in known))
    return tuple(LoadedColumn(c.name, stored(c.type), c.written) for c in columns)


def kept_columns(
    rows: Mapping[str, Type], declared: Mapping[str, Type], standing: tuple[LoadedColumn, ...], at: At
) -> tuple[LoadedColumn, ...]:
    """The columns of a table to which rows are added: its own, wider where that is needed, and new ones after them."""
    wanted = _wanted(rows, declared)
    found = []
    for old in standing:
        column = wanted.pop(old.name.lower(), None)
        if column is None:
            found.append(old)
            continue
        kind = grown(old.type, column.type)
        if kind is None:
            name = old.name
            raise SchemaRefused(
                f'column "{name}" is {shown_type(old.type)} in the table and {shown_type(column.type)} in the new rows',
                at=at,
                hint=f'make its values fit, say columns={{"{name}": "{shown_type(old.type)}"}} if they can be read as'
                ' that, or load everything anew once with mode="replace"',
            )
        found.append(LoadedColumn(old.name, kind, column.written))
    return (*found, *(LoadedColumn(c.name, stored(c.type), c.written) for c in wanted.values()))


def _wanted(rows: Mapping[str, Type], declared: Mapping[str, Type]) -> dict[str, LoadedColumn]:
    """The columns of the rows with the types that were declared, and declared ones that the rows do not have."""
    said = {name.lower(): (name, kind) for name, kind in declared.items()}
    found = {}
    for written, kind in rows.items():
        name, declared_kind = said.pop(written.lower(), (written, None))
        found[written.lower()] = LoadedColumn(name, declared_kind or kind, written)
    return found | {key: LoadedColumn(name, kind) for key, (name, kind) in said.items()}
