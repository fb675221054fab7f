"""The columns that a loader's table gets: from those that its rows have, those declared and the current ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqb.errors.build import DuplicateColumn, RowsUnfit, SchemaRefused
from sqb.lake.port import Column, TableState
from sqb.names import At
from sqb.types.iceberg import parse_storable_type, parse_stored_type
from sqb.types.loaded import can_hold, join_types, to_loaded_type, widen_column
from sqb.types.model import VOID, IcebergType, Type
from sqb.types.spark_json import to_json_type


@dataclass(frozen=True, slots=True)
class LoadedColumn:
    """A column of the table, and the name under which the rows have it; "" when they do not."""

    name: str
    type: Type
    written: str = ""

    @property
    def is_of_spark(self) -> bool:
        """Whether its type is one that Spark has; others are left as they are."""
        return not isinstance(self.type, IcebergType)

    @property
    def column(self) -> Column:
        return Column(self.name, to_json_type(self.type))


def parse_declared_types(declared: Mapping[str, str], at: At) -> dict[str, Type]:
    """What a loader says of its columns' types."""
    types: dict[str, Type] = {}
    for name, text in declared.items():
        kind = parse_storable_type(text)
        if kind is None:
            raise RowsUnfit(
                f'columns= gives "{name}" the type {text!r}, which a table cannot have',
                at=at,
                hint="types are written as in Spark SQL, for instance bigint, decimal(18,2) or array<string>",
            )
        types[name] = to_loaded_type(kind)
    check_column_names(list(types), at)
    return types


def merge_types(schemas: Iterable[Mapping[str, Type]], declared: Mapping[str, Type], at: At) -> dict[str, Type]:
    """The columns of rows that come in several pieces, each with a type for all of them, by the first spelling."""
    declared_names = {name.lower() for name in declared}
    names: dict[str, str] = {}
    types: dict[str, Type] = {}
    for schema in schemas:
        for written, kind in schema.items():
            name = names.setdefault(written.lower(), written)
            merged = types.get(name, VOID)
            both = join_types(merged, kind)
            if both is None and name.lower() not in declared_names:
                raise SchemaRefused(
                    f'column "{name}" is {merged} in some rows and {kind} in others',
                    at=at,
                    hint=f'give it one type, or say which: columns={{"{name}": "string"}}',
                )
            types[name] = both or merged
    return types


def check_column_names(names: Sequence[str], at: At) -> None:
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


def list_current_columns(current: TableState | None) -> tuple[LoadedColumn, ...]:
    """The columns that a table has."""
    columns = current.columns if current is not None else ()
    return tuple(LoadedColumn(c.name, parse_stored_type(c.type)) for c in columns)


def compute_replaced_columns(
    rows: Mapping[str, Type], declared: Mapping[str, Type], current: tuple[LoadedColumn, ...]
) -> tuple[LoadedColumn, ...]:
    """The columns of a table whose rows all go: those of the new rows.

    Those that exist keep their place, and their type where it holds all that the rows' type holds: the order of keys
    and a day without long numbers do not change a table.
    """
    new_columns = _list_loaded_columns(rows, declared)
    current_columns = {c.name.lower(): c for c in current}
    declared_names = {name.lower() for name in declared}
    result = {}
    for name, column in new_columns.items():
        old = current_columns.get(name, column)
        keeps = name not in declared_names and can_hold(old.type, column.type)
        result[name] = LoadedColumn(old.name, old.type if keeps else column.type, column.written)
    columns = (
        *(result[name] for name in current_columns if name in result),
        *(c for n, c in result.items() if n not in current_columns),
    )
    return tuple(LoadedColumn(c.name, to_loaded_type(c.type), c.written) for c in columns)


def compute_extended_columns(
    rows: Mapping[str, Type], declared: Mapping[str, Type], current: tuple[LoadedColumn, ...], at: At
) -> tuple[LoadedColumn, ...]:
    """The columns of a table to which rows are added: its own, wider where that is needed, and new ones after them."""
    new_columns = _list_loaded_columns(rows, declared)
    result = []
    for old in current:
        column = new_columns.pop(old.name.lower(), None)
        if column is None:
            result.append(old)
            continue
        kind = widen_column(old.type, column.type)
        if kind is None:
            name = old.name
            raise SchemaRefused(
                f'column "{name}" is {old.type} in the table and {column.type} in the new rows',
                at=at,
                hint=f'make its values fit, say columns={{"{name}": "{old.type}"}} if they can be read as'
                ' that, or reload everything once with mode="replace"',
            )
        result.append(LoadedColumn(old.name, kind, column.written))
    return (*result, *(LoadedColumn(c.name, to_loaded_type(c.type), c.written) for c in new_columns.values()))


def _list_loaded_columns(rows: Mapping[str, Type], declared: Mapping[str, Type]) -> dict[str, LoadedColumn]:
    """The columns of the rows with the types that were declared, and declared ones that the rows do not have."""
    declared_columns = {name.lower(): (name, kind) for name, kind in declared.items()}
    result = {}
    for written, kind in rows.items():
        name, declared_kind = declared_columns.pop(written.lower(), (written, None))
        result[written.lower()] = LoadedColumn(name, declared_kind or kind, written)
    return result | {key: LoadedColumn(name, kind) for key, (name, kind) in declared_columns.items()}
