"""Keys, cursors, contracts and checks held against the columns that a model will have, as far as they are known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from sqb.build.observe.places import locate_setting
from sqb.checks.stored import restore_checks
from sqb.checks.validate_columns import find_misfits
from sqb.compile.model import Contract, Node
from sqb.errors.base import SqbError
from sqb.errors.queries import UnknownColumn, WrongType
from sqb.names import suggest_nearest
from sqb.plan.node_columns import ProjectColumns
from sqb.project.models.kinds import KINDS
from sqb.project.models.partitioning import PartitionField, SortField, parse_partition, parse_sort
from sqb.sql.columns.cache import Columns
from sqb.types.classes import classify_type
from sqb.types.model import UNKNOWN, Type, iter_parts
from sqb.types.parse import parse_type

_KEYS = ("unique_key", "group_key", "cursor")
# The keys that say how rows are stored, by the columns that their texts name.
_LAYOUT: Mapping[str, Callable[[str], PartitionField | SortField | None]] = {
    "partitioned_by": parse_partition,
    "sorted_by": parse_sort,
}


def iter_declaration_errors(root: Path, node: Node, after: ProjectColumns, is_ansi: bool = True) -> Iterator[SqbError]:
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
        yield from _iter_contract_errors(node, node.contract, columns, is_ansi)
    if node.checks.checks:
        others = {written: _read_types(after, name) for written, name in node.checks.relations.items()}
        known = {written: types for written, types in others.items() if types is not None}
        yield from find_misfits(restore_checks(node.checks.checks), _read_types(after, node.name) or {}, known)


def _iter_contract_errors(node: Node, contract: Contract, columns: Columns, is_ansi: bool) -> Iterator[SqbError]:
    """Columns that a contract promises and the result has not, or has not as they are promised; and the reverse."""
    kinds = {name.lower(): _read_type(text) for name, text in columns.columns if name is not None}
    for column in contract.columns:
        if column.name.lower() not in kinds:
            message = f'the contract names "{column.name}", and the result has no such column'
            yield UnknownColumn(message, at=contract.at, hint=_build_hint(column.name, columns))
        elif is_ansi and _are_surely_unlike(parse_type(column.type), kind := kinds[column.name.lower()]):
            message = f'the contract promises "{column.name}" as {column.type}, and the result has it as {kind}'
            yield WrongType(message, at=contract.at, hint="cast it in the query, or change the contract")
    # Other kinds may have columns from before.
    if KINDS[node.kind].has_query_columns:
        promised = {column.name.lower() for column in contract.columns}
        for name in (name for name in columns.names if name.lower() not in promised):
            message = f'the result has the column "{name}", and the contract does not name it'
            yield UnknownColumn(message, at=contract.at, hint="add it to the contract, or leave it out of the query")


def _are_surely_unlike(promised: Type | None, derived: Type | None) -> bool:
    """Whether two types are of different classes: how wide a number is, is left to Spark."""
    if promised is None or derived is None:
        return False
    classes = classify_type(promised), classify_type(derived)
    return None not in classes and classes[0] != classes[1]


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
