"""Writing through pyiceberg: stage, publish, touch. The only module that commits.

A stage is a twin of its target with the final schema and its own private catalog entry. Spark appends to it; publishing
lists its data files in one new commit on the target, which also changes the schema, the layout and the properties. So
rows are written once, and a reader sees either everything of before or everything of after.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.serializers import ToOutputFile
from pyiceberg.table import CreateTableTransaction, StagedTable, Table, Transaction
from pyiceberg.table.metadata import TableMetadata, TableMetadataV2
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortOrder
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AddSortOrderUpdate,
    AssertCurrentSchemaId,
    AssertRefSnapshotId,
    AssertTableUUID,
    RemovePropertiesUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
    SetPropertiesUpdate,
    TableRequirement,
    TableUpdate,
)

from sqb.errors import CommitUnknown, Conflict
from sqb.lake.metadata import state_of
from sqb.lake.port import STAGE_SCHEMA, Base, Published, Shape, Stage
from sqb.lake.types import order_for, schema_for, spec_for
from sqb.names import Relation

_ATTEMPTS = 8
_OWNED = "sqb.properties"


class Writer:
    """Everything that changes the lake, over any catalog that pyiceberg can open."""

    def __init__(
        self,
        catalog: Catalog,
        warehouse: str,
        swap_view: Callable[[Relation, str], bool] | None = None,
        remove_folder: Callable[[str], None] = lambda folder: None,
    ) -> None:
        self.catalog = catalog
        self.warehouse = warehouse.rstrip("/")
        self._swap_view = swap_view
        # Object stores have no folders; a local one would be left empty.
        self._remove_folder = remove_folder

    def ensure_schemas(self, schemas: Iterable[str], properties: Mapping[str, str]) -> None:
        for schema in sorted(set(schemas)):
            with suppress(NamespaceAlreadyExistsError):
                self.catalog.create_namespace(schema, dict(properties))

    def stage(self, target: Relation, shape: Shape, base: Base | None, run_id: str) -> Stage:
        table = self._load(target) if base is not None else None
        self._refuse_if_moved(target, base, table)
        metadata = table.metadata if table else None
        location = metadata.location if metadata else f"{self.warehouse}/{target.schema}/{target.name}"
        name = f"{target.schema}__{target.name}__{run_id}"
        data_path = f"{location}/data/{run_id}"
        twin = _twin(shape, metadata, f"{self.warehouse}/{STAGE_SCHEMA}/{name}", data_path)
        path = f"{twin.location}/metadata/00000-{uuid.uuid4()}.metadata.json"
        ToOutputFile.table_metadata(twin, self._io(twin.location).new_output(path))
        relation = Relation(STAGE_SCHEMA, name)
        self.catalog.register_table(_identifier(relation), path)
        return Stage(relation, target, base, data_path, (shape, twin, location))

    def publish(self, stage: Stage, summary: Mapping[str, str]) -> Published:
        staged = self.catalog.load_table(_identifier(stage.relation))
        published = self._replace(stage, _files(staged), summary)
        self._forget(stage)
        return published

    def fill(self, stage: Stage, columns: Sequence[Sequence[Any]]) -> None:
        """Append small rows, given column by column, to a stage without Spark."""
        import pyarrow as pa  # heavy, and only seeds come this way

        staged = self.catalog.load_table(_identifier(stage.relation))
        schema = schema_to_pyarrow(staged.schema(), include_field_ids=False)
        arrays = [pa.array(values, type=field.type) for values, field in zip(columns, schema, strict=True)]
        staged.append(pa.Table.from_arrays(arrays, schema=schema))

    def touch(self, target: Relation, base: Base, summary: Mapping[str, str]) -> Published:
        def updates(transaction: Transaction) -> None:
            producer = transaction.update_snapshot(snapshot_properties=dict(summary)).fast_append()
            producer.commit()

        return self._commit(target, base, updates)

    def discard(self, stage: Stage) -> None:
        """Remove a stage; files of a stage whose write was cut off are found by their folder, named after the run."""
        with suppress(NoSuchTableError):
            staged = self.catalog.load_table(_identifier(stage.relation))
            for file in _files(staged):
                with suppress(FileNotFoundError, OSError):
                    staged.io.delete(file.file_path)
        self._forget(stage)
        self._remove_folder(stage.data_path)

    def append(self, relation: Relation, schema: Schema, rows: Sequence[Mapping[str, Any]]) -> None:
        """Append rows to a table that only ever grows, creating it when it is missing."""
        import pyarrow as pa  # heavy, and only needed when there is something to write

        try:
            table = self.catalog.load_table(_identifier(relation))
        except NoSuchTableError:
            with suppress(TableAlreadyExistsError):
                self.catalog.create_table(_identifier(relation), schema)
            table = self.catalog.load_table(_identifier(relation))
        arrow = schema_to_pyarrow(table.schema(), include_field_ids=False)
        table.append(pa.Table.from_pylist([dict(row) for row in rows], schema=arrow))

    def scan(self, relation: Relation) -> list[dict[str, Any]]:
        """All rows of a small table; none when it does not exist."""
        try:
            table = self.catalog.load_table(_identifier(relation))
        except NoSuchTableError:
            return []
        rows: list[dict[str, Any]] = table.scan().to_arrow().to_pylist()
        return rows

    def _replace(self, stage: Stage, files: Sequence[DataFile], summary: Mapping[str, str]) -> Published:
        shape, twin, location = stage.twin
        if stage.base is None:
            return self._create(stage.target, twin, location, shape, files, summary)

        def updates(transaction: Transaction) -> None:
            transaction._apply(_shape_updates(transaction.table_metadata, twin, shape))
            producer = transaction.update_snapshot(snapshot_properties=dict(summary)).overwrite()
            current = transaction.table_metadata.current_snapshot()
            for old in _live_files(current, transaction._table.io) if current else ():
                producer.delete_data_file(old)
            for file in files:
                producer.append_data_file(file)
            producer.commit()

        return self._commit(stage.target, stage.base, updates)

    def _create(
        self,
        target: Relation,
        twin: TableMetadata,
        location: str,
        shape: Shape,
        files: Sequence[DataFile],
        summary: Mapping[str, str],
    ) -> Published:
        properties = _properties(shape)
        metadata = twin.model_copy(update={"location": location, "properties": properties, "table_uuid": uuid.uuid4()})
        metadata_location = f"{location}/metadata/00000-{uuid.uuid4()}.metadata.json"
        staged = StagedTable(_identifier(target), metadata, metadata_location, self._io(location), self.catalog)
        transaction = CreateTableTransaction(staged)
        producer = transaction.update_snapshot(snapshot_properties=dict(summary)).fast_append()
        for file in files:
            producer.append_data_file(file)
        producer.commit()
        final = transaction.table_metadata
        try:
            if self._swap_view is not None:
                ToOutputFile.table_metadata(final, staged.io.new_output(metadata_location))
                if self._swap_view(target, metadata_location):
                    return _published(final)
                self.catalog.register_table(_identifier(target), metadata_location)
            else:
                transaction.commit_transaction()
        except (TableAlreadyExistsError, CommitFailedException) as error:
            raise _conflict(target) from error
        return _published(final)

    def _commit(self, target: Relation, base: Base, build: Callable[[Transaction], None]) -> Published:
        """Commit while the table is still at `base`; other people's tags and properties do not stand in the way."""
        for attempt in range(_ATTEMPTS):
            table = self._load(target)
            self._refuse_if_moved(target, base, table)
            assert table is not None
            transaction = Transaction(table)
            build(transaction)
            try:
                response = self.catalog.commit_table(table, _requirements(base), transaction._updates)
                return _published(response.metadata)
            except CommitFailedException:
                time.sleep(0.02 * 2**attempt)
            except CommitStateUnknownException as error:
                raise CommitUnknown(
                    f"the catalog did not say whether the commit to {target} took place",
                    hint="run the build again: it looks at the table and goes on from what is there",
                ) from error
        raise _conflict(target)

    def _refuse_if_moved(self, target: Relation, base: Base | None, table: Table | None) -> None:
        if base is None:
            return
        if table is None:
            raise _conflict(target, "it was dropped")
        metadata = table.metadata
        current = metadata.current_snapshot()
        now = Base(str(metadata.table_uuid), current.snapshot_id if current else None, metadata.current_schema_id)
        if now != base:
            raise _conflict(target)

    def _load(self, relation: Relation) -> Table | None:
        try:
            return self.catalog.load_table(_identifier(relation))
        except NoSuchTableError:
            return None

    def _forget(self, stage: Stage) -> None:
        with suppress(NoSuchTableError):
            staged = self.catalog.load_table(_identifier(stage.relation))
            paths = _own_metadata(staged)
            self.catalog.drop_table(_identifier(stage.relation))
            for path in paths:
                with suppress(FileNotFoundError, OSError):
                    staged.io.delete(path)
            self._remove_folder(staged.metadata.location)

    def _io(self, location: str) -> FileIO:
        return self.catalog._load_file_io(location=location)


def _identifier(relation: Relation) -> tuple[str, ...]:
    return (*relation.schema.split("."), relation.name)


def _twin(shape: Shape, metadata: TableMetadata | None, location: str, data_path: str) -> TableMetadataV2:
    schema = schema_for(shape.columns, metadata)
    spec = spec_for(shape, schema, metadata)
    order = order_for(shape, schema, metadata)
    return TableMetadataV2(
        location=location,
        table_uuid=uuid.uuid4(),
        last_updated_ms=int(time.time() * 1000),
        last_column_id=max(schema.highest_field_id, metadata.last_column_id if metadata else 0),
        schemas=[schema],
        current_schema_id=schema.schema_id,
        partition_specs=[spec],
        default_spec_id=spec.spec_id,
        last_partition_id=max((f.field_id for f in spec.fields), default=999),
        sort_orders=[UNSORTED_SORT_ORDER, order] if order.order_id else [UNSORTED_SORT_ORDER],
        default_sort_order_id=order.order_id,
        properties={**_properties(shape), "write.data.path": data_path},
    )


def _properties(shape: Shape) -> dict[str, str]:
    """The table's properties; the names that the model gave are kept, so that they can be taken back."""
    return {**shape.properties, _OWNED: ",".join(sorted(k for k in shape.properties if not k.startswith("sqb.")))}


def _shape_updates(metadata: TableMetadata, twin: TableMetadata, shape: Shape) -> tuple[TableUpdate, ...]:
    return (
        *_schema_updates(metadata, twin.schema()),
        *_spec_updates(metadata, twin.spec()),
        *_order_updates(metadata, twin.sort_order_by_id(twin.default_sort_order_id) or UNSORTED_SORT_ORDER),
        *_property_updates(metadata, _properties(shape)),
    )


def _schema_updates(metadata: TableMetadata, schema: Schema) -> Iterable[TableUpdate]:
    if schema.schema_id not in {s.schema_id for s in metadata.schemas}:
        yield AddSchemaUpdate(schema_=schema)
    if schema.schema_id != metadata.current_schema_id:
        yield SetCurrentSchemaUpdate(schema_id=schema.schema_id)


def _spec_updates(metadata: TableMetadata, spec: PartitionSpec) -> Iterable[TableUpdate]:
    if spec.spec_id not in {s.spec_id for s in metadata.partition_specs}:
        yield AddPartitionSpecUpdate(spec=spec)
    if spec.spec_id != metadata.default_spec_id:
        yield SetDefaultSpecUpdate(spec_id=spec.spec_id)


def _order_updates(metadata: TableMetadata, order: SortOrder) -> Iterable[TableUpdate]:
    if order.order_id not in {o.order_id for o in metadata.sort_orders}:
        yield AddSortOrderUpdate(sort_order=order)
    if order.order_id != metadata.default_sort_order_id:
        yield SetDefaultSortOrderUpdate(sort_order_id=order.order_id)


def _property_updates(metadata: TableMetadata, wanted: Mapping[str, str]) -> Iterable[TableUpdate]:
    changed = {k: v for k, v in wanted.items() if metadata.properties.get(k) != v}
    owned = [k for k in metadata.properties.get(_OWNED, "").split(",") if k]
    gone = [k for k in owned if k not in wanted and k in metadata.properties]
    if changed:
        yield SetPropertiesUpdate(updates=changed)
    if gone:
        yield RemovePropertiesUpdate(removals=gone)


def _requirements(base: Base) -> tuple[TableRequirement, ...]:
    return (
        AssertTableUUID(uuid=uuid.UUID(base.uuid)),
        AssertRefSnapshotId(ref="main", snapshot_id=base.snapshot_id),
        AssertCurrentSchemaId(current_schema_id=base.schema_id),
    )


def _files(table: Table) -> list[DataFile]:
    snapshot = table.metadata.current_snapshot()
    return _live_files(snapshot, table.io) if snapshot else []


def _live_files(snapshot: Any, io: FileIO) -> list[DataFile]:
    return [
        entry.data_file
        for manifest in snapshot.manifests(io)
        for entry in manifest.fetch_manifest_entry(io, discard_deleted=True)
    ]


def _own_metadata(staged: Table) -> list[str]:
    """The metadata files that belong to a stage alone."""
    paths = [staged.metadata_location, *(e.metadata_file for e in staged.metadata.metadata_log)]
    for snapshot in staged.metadata.snapshots:
        paths.append(snapshot.manifest_list)
        paths.extend(m.manifest_path for m in snapshot.manifests(staged.io))
    return paths


def _published(metadata: TableMetadata) -> Published:
    state = state_of(metadata.model_dump(mode="json", by_alias=True, exclude_none=True))
    assert state.snapshot_id is not None
    return Published(state.snapshot_id, state)


def _conflict(target: Relation, what: str = "another build or a manual write changed it") -> Conflict:
    return Conflict(
        f"{target} moved while it was being built: {what}; nothing was overwritten",
        hint="run the build again: it starts from what is there now",
    )
