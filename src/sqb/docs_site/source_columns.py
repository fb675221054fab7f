"""The columns of sources that no catalog has: as their options declare them, or as queries name them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqb.compile.source_model import DeclaredSource
from sqb.inspect.lineage import LineageGraph, Ref
from sqb.types.model import StructType
from sqb.types.parse import parse_type


def list_declared_columns(source: DeclaredSource | None) -> dict[str, str]:
    """The columns of files with their types, where the option `schema` says them."""
    if source is None or source.path is None:
        return {}
    options = {str(key).lower(): value for key, value in source.options.items()}
    kind = parse_type(f"struct<{options.get('schema') or ''}>")
    return {field.name: str(field.type) for field in kind.fields} if isinstance(kind, StructType) else {}


def map_named_columns(lineage: LineageGraph, names: Iterable[str]) -> Mapping[str, list[str]]:
    """Of tables whose columns are not known: those that queries name, each once."""
    by_name: dict[str, dict[str, None]] = {name: {} for name in names}
    for table in lineage.tables.values():
        refs: list[Ref] = [*(ref for refs in table.columns.values() for ref in refs), *table.rows_from]
        for name, column in refs:
            if name in by_name:
                by_name[name][column] = None
    return {name: list(columns) for name, columns in by_name.items()}
