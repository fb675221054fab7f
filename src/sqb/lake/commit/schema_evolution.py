"""The schema of a table that another tool lays out and that sqb writes rows to.

Names are matched whatever their case and keep the table's spelling. A field keeps its id where its values stay what
they are, down to the fields of structs; what the table says of NULLs stays, too.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

from pyiceberg import types as t
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table.metadata import TableMetadata

from sqb.errors.build import SchemaRefused
from sqb.lake.commit.schema import build_iceberg_type, can_widen
from sqb.lake.port import Column, Shape

NextId = Callable[[], int]


def evolve_schema(shape: Shape, metadata: TableMetadata) -> Schema:
    """The table's schema with the columns of a shape: instead of its own, or with `keeps_rows` beside them."""
    counter = itertools.count(metadata.last_column_id + 1)
    build_fields = _extend_fields if shape.keeps_rows else _replace_fields
    fields = list(build_fields(shape, metadata.schema(), lambda: next(counter)))
    ids = {field.field_id for field in fields}
    _refuse_lost_layout(metadata, ids)
    for schema in (metadata.schema(), *metadata.schemas):
        if list(schema.fields) == fields:
            return schema
    number = 1 + max(s.schema_id for s in metadata.schemas)
    identifiers = [i for i in metadata.schema().identifier_field_ids if i in ids]
    return Schema(*fields, schema_id=number, identifier_field_ids=identifiers)


def _extend_fields(shape: Shape, schema: Schema, next_id: NextId) -> Iterator[t.NestedField]:
    new_columns = {c.name.lower(): c for c in shape.columns}
    for old in schema.fields:
        column = new_columns.pop(old.name.lower(), None)
        kind = old.field_type if column is None else merge_types(old.field_type, _build_type(column), next_id)
        if kind is None:
            assert column is not None
            raise SchemaRefused(
                f'column "{old.name}" is {old.field_type} in the table and {_build_type(column)} in the new rows',
                hint="cast it to the type that it has, or give it another name",
            )
        yield _set_type(old, kind)
    for column in new_columns.values():
        yield _build_field(column, next_id)


def _replace_fields(shape: Shape, schema: Schema, next_id: NextId) -> Iterator[t.NestedField]:
    present = {f.name.lower(): f for f in schema.fields}
    for column in shape.columns:
        old = present.get(column.name.lower())
        kind = merge_types(old.field_type, _build_type(column), next_id) if old is not None else None
        same = kind is not None and _strip_ids(kind) == _strip_ids(_build_type(column))
        yield _set_type(old, kind) if old is not None and kind is not None and same else _build_field(column, next_id)


def merge_types(old: t.IcebergType, new: t.IcebergType, next_id: NextId) -> t.IcebergType | None:
    """The type that holds the values of both without a file being rewritten, under the ids of the first."""
    match old, new:
        case t.StructType(), t.StructType():
            return _merge_structs(old, new, next_id)
        case t.ListType(), t.ListType():
            element = merge_types(old.element_type, new.element_type, next_id)
            return None if element is None else t.ListType(old.element_id, element, old.element_required)
        case t.MapType(), t.MapType():
            value = merge_types(old.value_type, new.value_type, next_id)
            if value is None or _strip_ids(old.key_type) != _strip_ids(new.key_type):
                return None
            return t.MapType(old.key_id, old.key_type, old.value_id, value, old.value_required)
        case _ if old == new or (new.is_primitive and can_widen(new, old)):
            return old
        case _:
            return new if can_widen(old, new) else None


def _merge_structs(old: t.StructType, new: t.StructType, next_id: NextId) -> t.StructType | None:
    new_fields = {f.name.lower(): f for f in new.fields}
    fields = []
    for field in old.fields:
        other = new_fields.pop(field.name.lower(), None)
        kind = field.field_type if other is None else merge_types(field.field_type, other.field_type, next_id)
        if kind is None:
            return None
        fields.append(_set_type(field, kind))
    added = [assign_fresh_schema_ids(Schema(f), next_id).fields[0] for f in new_fields.values()]
    return t.StructType(*fields, *added)


def _set_type(field: t.NestedField, kind: t.IcebergType) -> t.NestedField:
    return field if field.field_type == kind else field.model_copy(update={"field_type": kind})


def _build_field(column: Column, next_id: NextId) -> t.NestedField:
    fresh = Schema(t.NestedField(1, column.name, _build_type(column), required=False))
    return assign_fresh_schema_ids(fresh, next_id).fields[0]


def _build_type(column: Column) -> t.IcebergType:
    return build_iceberg_type(column.type, column.name)


def _strip_ids(kind: t.IcebergType) -> object:
    """A type without ids and without what it says of NULLs."""
    match kind:
        case t.StructType():
            return tuple((f.name, _strip_ids(f.field_type)) for f in kind.fields)
        case t.ListType():
            return [_strip_ids(kind.element_type)]
        case t.MapType():
            return [_strip_ids(kind.key_type), _strip_ids(kind.value_type)]
        case _:
            return str(kind)


def _refuse_lost_layout(metadata: TableMetadata, ids: set[int]) -> None:
    """Refuse columns without those that the table is partitioned or sorted by."""
    names = {f.field_id: f.name for schema in metadata.schemas for f in schema.fields}
    for what, fields in (("partitioned", metadata.spec().fields), ("sorted", metadata.sort_order().fields)):
        lost = [names[f.source_id] for f in fields if f.source_id in names and f.source_id not in ids]
        if lost:
            raise SchemaRefused(
                f'the table is {what} by "{lost[0]}", which the new rows do not have with that type',
                hint="give the rows this column as it was, or drop the table: the next build makes a new one",
            )
