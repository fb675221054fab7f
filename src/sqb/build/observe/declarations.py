"""Keys, cursors, contracts and checks held against the columns that a model will have, as far as they are known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from sqb.build.observe.places import locate_setting
from sqb.checks.stored import restore_checks
from sqb.checks.validate_columns import find_misfits
from sqb.compile.model import Node
from sqb.errors.base import SqbError
from sqb.errors.queries import UnknownColumn
from sqb.names import suggest_nearest
from sqb.plan.node_columns import ProjectColumns
from sqb.project.models.partitioning import PartitionField, SortField, parse_partition, parse_sort
from sqb.sql.columns.cache import Columns
from sqb.types.model import UNKNOWN, Type, iter_parts
from sqb.types.parse import parse_type

_KEYS = ("unique_key", "group_key", "cursor")
# The keys that say how rows are stored, by the columns that their texts name.
_LAYOUT: Mapping[str, Callable[[str], PartitionField | SortField | None]] = {
    "partitioned_by": parse_partition,
    "sorted_by": parse_sort,
}


def iter_declaration_errors(root: Path, node: Node, after: ProjectColumns) -> Iterator[SqbError]:
    """The columns that a model's header names and its result will not have."""
    columns = after.columns[node.name]
    if columns.is_open or any(name is None for name, _ in columns.columns):
        return
    present = {name.lower() for name in columns.names}
    for key in (*_KEYS, *_LAYOUT):
        for name in _list_named(node, key):
            if name.lower() not in present:
                message = f'{key} names "{name}", and the result has no such column'
                at = locate_setting(root, node, key, name)
                yield UnknownColumn(message, at=at, hint=_build_hint(name, columns))
    if node.contract is not None:
        for column in node.contract.columns:
            if column.name.lower() not in present:
                message = f'the contract names "{column.name}", and the result has no such column'
                yield UnknownColumn(message, at=node.contract.at, hint=_build_hint(column.name, columns))
    if node.checks.checks:
        others = {written: _read_types(after, name) for written, name in node.checks.relations.items()}
        known = {written: types for written, types in others.items() if types is not None}
        yield from find_misfits(restore_checks(node.checks.checks), _read_types(after, node.name) or {}, known)


def _list_named(node: Node, key: str) -> list[str]:
    """The columns that a key of the header names."""
    value = node.settings.get(key)
    texts = [value] if isinstance(value, str) else list(value or ())
    parse = _LAYOUT.get(key)
    if parse is None:
        return texts
    return [part.column for part in map(parse, texts) if part is not None]


def _read_types(after: ProjectColumns, name: str) -> dict[str, Type | None] | None:
    """The columns of a relation with their types, as far as these are known; None where there may be others."""
    columns = after.columns.get(name)
    if columns is None or columns.is_open or any(column is None for column, _ in columns.columns):
        return None
    return {column: _read_type(text) for column, text in columns.columns if column is not None}


def _build_hint(name: str, columns: Columns) -> str:
    return suggest_nearest(name, columns.names) or f"its columns are {', '.join(columns.names)}"


def _read_type(text: str) -> Type | None:
    kind = parse_type(text)
    return None if kind is None or UNKNOWN in iter_parts(kind) else kind
