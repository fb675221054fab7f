"""Spark's types as Iceberg's, and the schema, partition spec and sort order that a `Shape` asks for.

Field ids are the care here: a column that keeps its name and type keeps its id, every other one gets an id that the
table has never used, so that no old file is ever read as a new column.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

from pyiceberg import types as t
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.sorting import (
    UNSORTED_SORT_ORDER,
    NullOrder,
    SortDirection,
    SortField,
    SortOrder,
)
from pyiceberg.transforms import IdentityTransform, parse_transform

from sqb.errors.lake import UnsupportedType
from sqb.lake.port import Column, Shape
from sqb.project.models.partitioning import parse_partition, parse_sort
from sqb.types.iceberg import NotStorable, can_promote, parse_iceberg_name, to_iceberg_json
from sqb.types.model import VOID
from sqb.types.spark_json import from_json_type

_LAST_UNASSIGNED_PARTITION_ID = 999


def build_iceberg_type(spark_type: Any, column: str) -> t.IcebergType:
    """The Iceberg type for a type in Spark's JSON notation; nested ids are placeholders."""
    try:
        kind: t.IcebergType = t.IcebergType.model_validate(to_iceberg_json(from_json_type(spark_type), column))
    except NotStorable as error:
        raise _build_unsupported_error(error) from None
    return kind


def _build_unsupported_error(error: NotStorable) -> UnsupportedType:
    if error.kind == VOID:
        return UnsupportedType(
            f'column "{error.path}" is NULL in every row and has no type',
            hint=f"give it one: CAST(NULL AS STRING) AS {error.path}",
        )
    return UnsupportedType(
        f'column "{error.path}" has the type {error.kind}, which an Iceberg table cannot hold',
        hint="cast it to a type that can be stored, for instance STRING",
    )


def build_schema(columns: tuple[Column, ...], metadata: TableMetadata | None, keeps_rows: bool = False) -> Schema:
    """The schema for these columns: the table's own where it already has it, else one with ids that are new."""
    present = {f.name: f for f in metadata.schema().fields} if metadata else {}
    counter = itertools.count((metadata.last_column_id if metadata else 0) + 1)
    fields = [
        _add_comment(column, _build_field(column, present, lambda: next(counter), keeps_rows)) for column in columns
    ]
    if metadata is None:
        # New tables get the ids that Iceberg itself would give: breadth first, from one.
        return assign_fresh_schema_ids(Schema(*fields, schema_id=0))
    for schema in (metadata.schema(), *metadata.schemas):
        if list(schema.fields) == fields:
            return schema
    return Schema(*fields, schema_id=1 + max(s.schema_id for s in metadata.schemas))


def _add_comment(column: Column, field: t.NestedField) -> t.NestedField:
    """The field with the column's comment; without one it keeps the comment that it has."""
    return field.model_copy(update={"doc": column.comment}) if column.comment else field


def _build_field(
    column: Column, present: Mapping[str, t.NestedField], next_id: Callable[[], int], keeps_rows: bool
) -> t.NestedField:
    kind = build_iceberg_type(column.type, column.name)
    old = present.get(column.name)
    if old is not None and not old.required and _is_same_type(old.field_type, kind):
        return old
    if old is not None and keeps_rows:
        if not can_widen(old.field_type, kind):
            raise UnsupportedType(
                f'column "{column.name}" changed from {old.field_type} to {kind}: rows that are there would lose it',
                hint="cast it to the type it had, give it another name, or rebuild with --full-refresh",
            )
        return t.NestedField(old.field_id, old.name, kind, required=False)
    fresh = assign_fresh_schema_ids(Schema(t.NestedField(1, column.name, kind, required=False)), next_id)
    return fresh.fields[0]


def can_widen(old: t.IcebergType, new: t.IcebergType) -> bool:
    """Whether a column of one type can become one of another without its files being rewritten."""
    if not (old.is_primitive and new.is_primitive):
        return False
    return can_promote(parse_iceberg_name(str(old)), parse_iceberg_name(str(new)))


def _is_same_type(left: t.IcebergType, right: t.IcebergType) -> bool:
    return assign_fresh_schema_ids(Schema(t.NestedField(1, "c", left))) == assign_fresh_schema_ids(
        Schema(t.NestedField(1, "c", right))
    )


def build_spec(shape: Shape, schema: Schema, metadata: TableMetadata | None) -> PartitionSpec:
    """The partition spec for a shape: the table's own where it has an equal one."""
    partitions = [_resolve_partition(text, schema) for text in shape.partitioned_by]
    if metadata is None:
        ids = itertools.count(_LAST_UNASSIGNED_PARTITION_ID + 1)
        fields = [PartitionField(source, next(ids), transform, name) for source, transform, name in partitions]
        return PartitionSpec(*fields, spec_id=0) if fields else UNPARTITIONED_PARTITION_SPEC
    for spec in (metadata.spec(), *metadata.partition_specs):
        if [(f.source_id, f.transform, f.name) for f in spec.fields] == partitions:
            return spec
    ids = itertools.count((metadata.last_partition_id or _LAST_UNASSIGNED_PARTITION_ID) + 1)
    taken = {f.name for spec in metadata.partition_specs for f in spec.fields}
    fields = []
    for source, transform, name in partitions:
        field_id = next(ids)
        fields.append(PartitionField(source, field_id, transform, f"{name}_{field_id}" if name in taken else name))
    return PartitionSpec(*fields, spec_id=1 + max(s.spec_id for s in metadata.partition_specs))


def _resolve_partition(text: str, schema: Schema) -> tuple[int, Any, str]:
    parsed = parse_partition(text)
    if parsed is None:
        raise UnsupportedType(f"partitioned_by: `{text}` is not a partition transform")
    field = _find_field(schema, parsed.column, "partitioned_by")
    transform = parse_transform(parsed.transform)
    if not transform.can_transform(field.field_type):
        raise UnsupportedType(
            f'partitioned_by: {parsed.transform} does not work on "{field.name}", which is {field.field_type}'
        )
    name = field.name if isinstance(transform, IdentityTransform) else f"{field.name}_{parsed.transform.split('[')[0]}"
    return field.field_id, transform, name


def build_sort_order(shape: Shape, schema: Schema, metadata: TableMetadata | None) -> SortOrder:
    """The sort order for a shape: the table's own where it has an equal one."""
    fields = [_resolve_sort(text, schema) for text in shape.sorted_by]
    if not fields:
        return UNSORTED_SORT_ORDER
    for order in metadata.sort_orders if metadata else ():
        if list(order.fields) == fields:
            return order
    return SortOrder(
        *fields, order_id=1 + max((o.order_id for o in metadata.sort_orders), default=0) if metadata else 1
    )


def _resolve_sort(text: str, schema: Schema) -> SortField:
    parsed = parse_sort(text)
    if parsed is None:
        raise UnsupportedType(f"sorted_by: `{text}` is not a column with an optional ASC or DESC")
    return SortField(
        _find_field(schema, parsed.column, "sorted_by").field_id,
        IdentityTransform(),
        SortDirection.DESC if parsed.descending else SortDirection.ASC,
        NullOrder.NULLS_FIRST if parsed.nulls_first else NullOrder.NULLS_LAST,
    )


def _find_field(schema: Schema, column: str, key: str) -> t.NestedField:
    for field in schema.fields:
        if field.name.lower() == column.lower():
            return field
    names = ", ".join(f.name for f in schema.fields)
    raise UnsupportedType(f'{key}: the result has no column "{column}"', hint=f"its columns are {names}")
