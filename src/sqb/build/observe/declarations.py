"""Keys, cursors, contracts and checks held against the columns that a model will have, as far as they are known."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sqb.build.observe.places import locate_setting
from sqb.checks.stored import restore_checks
from sqb.checks.validate_columns import find_misfits
from sqb.compile.model import Node
from sqb.errors.base import SqbError
from sqb.errors.queries import UnknownColumn
from sqb.names import suggest_nearest
from sqb.plan.node_columns import ProjectColumns
from sqb.sql.columns.cache import Columns
from sqb.types.model import UNKNOWN, Type, iter_parts
from sqb.types.parse import parse_type

_KEYS = ("unique_key", "group_key", "cursor")


def iter_declaration_errors(root: Path, node: Node, after: ProjectColumns) -> Iterator[SqbError]:
    """The columns that a model's header names and its result will not have."""
    columns = after.columns[node.name]
    if columns.is_open or any(name is None for name, _ in columns.columns):
        return
    present = {name.lower() for name in columns.names}
    for key in _KEYS:
        value = node.settings.get(key)
        names = [value] if isinstance(value, str) else list(value or ())
        for name in names:
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
        known = {name: _read_type(text) for name, text in columns.columns if name is not None}
        yield from find_misfits(restore_checks(node.checks.checks), known)


def _build_hint(name: str, columns: Columns) -> str:
    return suggest_nearest(name, columns.names) or f"its columns are {', '.join(columns.names)}"


def _read_type(text: str) -> Type | None:
    kind = parse_type(text)
    return None if kind is None or UNKNOWN in iter_parts(kind) else kind
