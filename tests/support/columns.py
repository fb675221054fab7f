"""Tables with columns for tests of columns and types."""

from __future__ import annotations

from collections.abc import Sequence

from sqb.sql.columns.sources import NamedColumn
from sqb.types.model import StructType
from sqb.types.parse import parse_type

Tables = dict[str, Sequence[NamedColumn]]


def read_tables(**tables: str) -> Tables:
    """Tables by their names, with columns as CREATE TABLE lists them."""
    return {name: read_columns(text) for name, text in tables.items()}


def read_columns(text: str) -> Sequence[NamedColumn]:
    """Columns from a list such as `id bigint, tags array<string>`."""
    listed = " ".join(text.split())
    kind = parse_type(f"struct<{listed}>")
    assert isinstance(kind, StructType), listed
    return [(field.name, field.type) for field in kind.fields]
