"""Writing through pyiceberg: stage, publish, touch. The only module that commits to models' tables.

A stage is a twin of its target with the final schema and its own private catalog entry. Spark appends to it; publishing
lists its data files in one new commit on the target, which also changes the schema, the layout and the properties. So
rows are written once, and a reader sees either everything of before or everything of after.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
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
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.serializers import ToOutputFile
from pyiceberg.table import Table
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
    update_table_metadata,
)

from sqb.errors.lake import CommitUnknown, Conflict
from sqb.lake.arrow.scan import find_files_with_keys
from sqb.lake.arrow.write import write_batches, write_rows
from sqb.lake.commit.clock import commit_ms
from sqb.lake.commit.schema import build_schema, build_sort_order, build_spec
from sqb.lake.commit.schema_evolution import evolve_schema
from sqb.lake.commit.snapshot import (
    Draft,
    add_rows,
    build_model,
    exchange_rows,
    list_live_files,
    remove_files,
    replace_rows,
    write_draft,
)
from sqb.lake.metadata.changed_partitions import find_changed_partitions, find_files_with_values
from sqb.lake.metadata.manifests import read_manifests
from sqb.lake.metadata.table_state import parse_state
from sqb.lake.port import STAGE_SCHEMA, Base, FileScan, PublishedCommit, Shape, Stage, build_conflict
from sqb.lake.private_api import open_file_io
from sqb.lake.storage.local import OUT_OF_SPACE
from sqb.names import Relation
from sqb.plan.recorded.commit_identity import PREFIX

_ATTEMPTS = 8
OWNED_PROPERTIES = "sqb.properties"
# Properties that say where a table's files go, or when they are seen: those of a stage are in its own place, at once.
_LOCATION_PROPERTIES = (
    "write.metadata.path",
    "write.data.path",
    "write.folder-storage",
    "write.object-storage",
    "write.location-provider",
    "write.py-location-provider",
    "write.wap",
)
# Says in a snapshot which stage it published, so that the janitor does not take the files of that stage for orphans.
STAGE_KEY = "sqb-stage"


@dataclass(frozen=True, slots=True)
class Twin:
    """What a stage was made from: the wanted shape, the metadata it has, and where the target is or will be."""

    shape: Shape
    metadata: TableMetadata
    location: str


@dataclass(frozen=True, slots=True)
class CommitResult:
    """A commit that is visible now, and the metadata file that holds it."""

    published: PublishedCommit
    location: str


class Writer:
    """Everything that changes models' tables, over any catalog that pyiceberg can open."""

    def __init__(
        self,
        catalog: Catalog,
        warehouse: str,
        swap_view: Callable[[Relation, str, Base], None],
        remove_folder: Callable[[str], None] = lambda folder: None,
    ) -> None:
        self.catalog = catalog
        self.warehouse = warehouse.rstrip("/")
        self._swap_view = swap_view
        # Object stores have no folders; a local one would be left empty.
        self._remove_folder = remove_folder
        self._unknown_stages: set[Relation] = set()

    def ensure_schemas(self, schemas: Iterable[str], properties: Mapping[str, str]) -> None:
        """Create the schemas that are not there yet."""
        for schema in sorted(set(schemas)):
            try:
                self.catalog.create_namespace(schema, dict(properties))
            except NamespaceAlreadyExistsError:
                continue
            except Exception:
                # Another process made it between pyiceberg's look and its insert.
                if not self.catalog.namespace_exists(schema):
                    raise

    def stage(self, target: Relation, shape: Shape, base: Base | None, run_id: str, view: Base | None = None) -> Stage:
        """Make an empty, invisible twin with the shape that `target` is to have."""
        table = self._load(target) if base is not None else None
        self._refuse_if_moved(target, base, table)
        metadata = table.metadata if table else None
        location = metadata.location if metadata else f"{self.warehouse}/{target.schema}/{target.name}"
        name = f"{target.schema}__{target.name}__{run_id}"
        data_path = f"{location}/data/{run_id}"
        twin = _build_twin(shape, metadata, f"{self.warehouse}/{STAGE_SCHEMA}/{name}", data_path)
        path = f"{twin.location}/metadata/00000-{uuid.uuid4()}.metadata.json"
        relation = Relation(STAGE_SCHEMA, name)
        try:
            ToOutputFile.table_metadata(twin, self._open_io(twin.location).new_output(path))
            self.catalog.register_table(_build_identifier(relation), path)
        except CommitStateUnknownException:
            # The catalog may name it by now.
            raise
        except BaseException:
            remove_files([path], self._open_io(twin.location))
            raise
        made_from = Twin(shape, twin, location)
        same_shape = metadata is not None and not _build_shape_updates(metadata, made_from, target)
        sorts = bool(twin.default_sort_order_id) or twin.properties.get("write.distribution-mode") == "range"
        return Stage(relation, target, base, data_path, same_shape, made_from, view, sorts)

    def fill(self, stage: Stage, columns: Sequence[Sequence[Any]]) -> None:
        """Append small rows, given column by column, to a stage without Spark."""
        staged = self._load_stage(stage)
        self._list_files(staged, write_rows(staged.metadata, staged.io, columns))

    def fill_batches(self, stage: Stage, batches: Iterable[Any]) -> None:
        """Append Arrow record batches to a stage without Spark."""
        staged = self._load_stage(stage)
        self._list_files(staged, write_batches(staged.metadata, staged.io, batches))

    def _load_stage(self, stage: Stage) -> Table:
        staged = self._load(stage.relation)
        if staged is None:
            raise build_conflict(stage.target, "its stage is gone, as a janitor took this build for dead")
        return staged

    def _list_files(self, staged: Table, files: Sequence[DataFile]) -> None:
        if files:
            drafted = write_draft(staged.metadata, staged.io, add_rows(staged.metadata, staged.io, files), {})
            self.catalog.commit_table(staged, (), drafted.updates)

    def publish(
        self, stage: Stage, summary: Mapping[str, str], replaced_files: Collection[str] | None = None
    ) -> CommitResult:
        """Make the stage's rows the rows of its target, in place of all others or of those in `replaced_files`."""
        staged = self._load_stage(stage)
        files = list_live_files(staged.metadata.current_snapshot(), staged.io)
        properties = {**summary, STAGE_KEY: stage.relation.name}
        twin: Twin = stage.twin

        def propose(table: Table) -> tuple[Draft, tuple[TableUpdate, ...]]:
            shaping = _build_shape_updates(table.metadata, twin, stage.target)
            if replaced_files is None:
                change = replace_rows(table.metadata, table.io, files)
            else:
                change = exchange_rows(table.metadata, table.io, files, replaced_files)
            shaped = update_table_metadata(table.metadata, shaping)
            return write_draft(shaped, table.io, change, properties), shaping

        try:
            if stage.base is None:
                shaped = _build_table_metadata(twin)
                io = self._open_io(twin.location)
                drafted = write_draft(shaped, io, replace_rows(shaped, io, files), properties)
                committed = self._create(stage.target, shaped, drafted, io, stage.view)
            else:
                committed = self._commit(stage.target, stage.base, propose)
        except CommitUnknown:
            self._unknown_stages.add(stage.relation)
            raise
        self._drop_stage(stage)
        return committed

    def find_changed_partitions(self, relation: Relation, snapshots: Collection[int]) -> dict[str, list[Any]]:
        """The values of the partition columns that files of these snapshots came or went with."""
        table = self._load(relation)
        return find_changed_partitions(table, snapshots) if table is not None else {}

    def find_files_with_values(self, relation: Relation, column: str, values: Collection[Any]) -> list[str] | None:
        """The data files of some values of a column that partitions the table."""
        table = self._load(relation)
        return find_files_with_values(table, column, values) if table is not None else None

    def find_files_with_keys(self, relation: Relation, base: Base, keys: Any) -> FileScan:
        """The data files of a table that may hold rows with these keys."""
        table = self._load(relation)
        self._refuse_if_moved(relation, base, table)
        assert table is not None
        return find_files_with_keys(table, relation, keys)

    def touch(self, target: Relation, base: Base, summary: Mapping[str, str]) -> CommitResult:
        """Commit a new identity without touching a row."""

        def propose(table: Table) -> tuple[Draft, tuple[TableUpdate, ...]]:
            return write_draft(table.metadata, table.io, add_rows(table.metadata, table.io), summary), ()

        return self._commit(target, base, propose)

    def set_properties(self, target: Relation, base: Base, properties: Mapping[str, str]) -> CommitResult:
        """Set properties of the table that `base` is a version of, whatever version it has got to."""
        for _ in _iter_attempts():
            table = self._load(target)
            if table is None or str(table.metadata.table_uuid) != base.uuid:
                raise build_conflict(target, "it was dropped or made again")
            try:
                response = self.catalog.commit_table(
                    table, _build_requirements(base)[:1], (SetPropertiesUpdate(updates=dict(properties)),)
                )
                return CommitResult(_build_published(response.metadata), response.metadata_location)
            except CommitFailedException:
                continue
            except CommitStateUnknownException as error:
                raise _build_unknown_error(target) from error
        raise build_conflict(target)

    def discard(self, stage: Stage) -> None:
        """Remove a stage and its rows, unless they are published or may be."""
        if stage.relation in self._unknown_stages:
            return
        if not self._is_published(stage):
            with suppress(NoSuchTableError):
                staged = self.catalog.load_table(_build_identifier(stage.relation))
                remove_files(
                    [f.file_path for f in list_live_files(staged.metadata.current_snapshot(), staged.io)], staged.io
                )
            # Files of a write that was cut off are listed nowhere, but they are in the run's own folder.
            self._remove_folder(stage.data_path)
        self._drop_stage(stage)

    def _is_published(self, stage: Stage) -> bool:
        table = self._load(stage.target)
        snapshots = table.metadata.snapshots if table else ()
        return any(s.summary is not None and s.summary[STAGE_KEY] == stage.relation.name for s in snapshots)

    def _create(
        self, target: Relation, shaped: TableMetadata, drafted: Draft, io: FileIO, view: Base | None
    ) -> CommitResult:
        """Write the metadata of a new table and register it, in the place of a view where there is one."""
        final = update_table_metadata(shaped, drafted.updates)
        path = f"{shaped.location}/metadata/00000-{uuid.uuid4()}.metadata.json"
        try:
            ToOutputFile.table_metadata(final, io.new_output(path))
            if view is not None:
                self._swap_view(target, path, view)
            else:
                self.catalog.register_table(_build_identifier(target), path)
        except Conflict:
            remove_files([path, *drafted.paths], io)
            raise
        except (TableAlreadyExistsError, CommitFailedException) as error:
            remove_files([path, *drafted.paths], io)
            raise build_conflict(target, "it was created") from error
        except CommitStateUnknownException as error:
            raise _build_unknown_error(target) from error
        except OSError as error:
            if error.errno in OUT_OF_SPACE:
                remove_files([path, *drafted.paths], io)
            raise
        return CommitResult(_build_published(final), path)

    def _commit(
        self, target: Relation, base: Base, propose: Callable[[Table], tuple[Draft, tuple[TableUpdate, ...]]]
    ) -> CommitResult:
        """Commit while the table is still at `base`; tags and properties that others set do not conflict."""
        for _ in _iter_attempts():
            table = self._load(target)
            self._refuse_if_moved(target, base, table)
            assert table is not None
            drafted, shaping = propose(table)
            try:
                response = self.catalog.commit_table(table, _build_requirements(base), (*shaping, *drafted.updates))
                return CommitResult(_build_published(response.metadata), response.metadata_location)
            except CommitFailedException:
                drafted.undo(table.io)
            except CommitStateUnknownException as error:
                raise _build_unknown_error(target) from error
            except OSError as error:
                # With any other failure the commit may have taken place, and then these files are the table's.
                if error.errno in OUT_OF_SPACE:
                    drafted.undo(table.io)
                raise
        raise build_conflict(target)

    def _refuse_if_moved(self, target: Relation, base: Base | None, table: Table | None) -> None:
        if base is None:
            return
        if table is None:
            raise build_conflict(target, "it was dropped")
        metadata = table.metadata
        current = metadata.current_snapshot()
        now = Base(str(metadata.table_uuid), current.snapshot_id if current else None, metadata.current_schema_id)
        if now != base:
            raise build_conflict(target)

    def read_first_rows(self, relation: Relation, limit: int) -> tuple[list[str], list[list[Any]]]:
        """The names of a table's columns, and at most so many of its rows."""
        table = self._load(relation)
        if table is None:
            return [], []
        rows = table.scan(limit=limit).to_arrow()
        return rows.column_names, [list(row.values()) for row in rows.to_pylist()]

    def _load(self, relation: Relation) -> Table | None:
        try:
            return self.catalog.load_table(_build_identifier(relation))
        except NoSuchTableError:
            return None

    def _drop_stage(self, stage: Stage) -> None:
        """Remove a stage's catalog entry and its metadata; its data files are another matter."""
        with suppress(NoSuchTableError):
            staged = self.catalog.load_table(_build_identifier(stage.relation))
            paths = _list_metadata_files(staged)
            self.catalog.drop_table(_build_identifier(stage.relation))
            remove_files(paths, staged.io)
            self._remove_folder(staged.metadata.location)

    def _open_io(self, location: str) -> FileIO:
        return open_file_io(self.catalog, location)


def _build_identifier(relation: Relation) -> tuple[str, ...]:
    return (*relation.schema.split("."), relation.name)


def _build_twin(shape: Shape, metadata: TableMetadata | None, location: str, data_path: str) -> TableMetadataV2:
    if shape.keeps_layout and metadata is not None:
        return _build_evolved_twin(shape, metadata, location, data_path)
    schema = build_schema(shape.columns, metadata, shape.keeps_rows)
    spec = build_spec(shape, schema, metadata)
    order = build_sort_order(shape, schema, metadata)
    return _build_twin_metadata(
        location, metadata, schema, spec, order, {**_build_properties(shape), "write.data.path": data_path}
    )


def _build_evolved_twin(shape: Shape, metadata: TableMetadata, location: str, data_path: str) -> TableMetadataV2:
    """A twin with the columns of a shape, and for the rest as the table is that it belongs to."""
    schema = evolve_schema(shape, metadata)
    spec, order = metadata.spec(), metadata.sort_order()
    write_properties = {k: v for k, v in metadata.properties.items() if k.startswith("write.")}
    properties = {k: v for k, v in write_properties.items() if not k.startswith(_LOCATION_PROPERTIES)}
    return _build_twin_metadata(location, metadata, schema, spec, order, {**properties, "write.data.path": data_path})


def _build_twin_metadata(
    location: str,
    metadata: TableMetadata | None,
    schema: Schema,
    spec: PartitionSpec,
    order: SortOrder,
    properties: dict[str, str],
) -> TableMetadataV2:
    """The metadata of a stage: the target's field ids, with the schema and layout that the target will have."""
    return build_model(
        TableMetadataV2,
        location=location,
        table_uuid=uuid.uuid4(),
        last_updated_ms=commit_ms(),
        last_column_id=max(schema.highest_field_id, metadata.last_column_id if metadata else 0),
        schemas=[schema],
        current_schema_id=schema.schema_id,
        partition_specs=[spec],
        default_spec_id=spec.spec_id,
        last_partition_id=max((f.field_id for f in spec.fields), default=999),
        sort_orders=[UNSORTED_SORT_ORDER, order] if order.order_id else [UNSORTED_SORT_ORDER],
        default_sort_order_id=order.order_id,
        properties=properties,
    )


def _build_properties(shape: Shape) -> dict[str, str]:
    """The table's properties; the names that the model gave are kept, so that they can be taken back."""
    return {
        **shape.properties,
        OWNED_PROPERTIES: ",".join(sorted(k for k in shape.properties if not k.startswith(PREFIX))),
    }


def _build_table_metadata(twin: Twin) -> TableMetadata:
    """The metadata of a table that does not exist yet, before its first snapshot."""
    return twin.metadata.model_copy(
        update={"location": twin.location, "properties": _build_properties(twin.shape), "table_uuid": uuid.uuid4()}
    )


def _build_shape_updates(metadata: TableMetadata, twin: Twin, target: Relation) -> tuple[TableUpdate, ...]:
    """What gives a table the schema, layout and properties of its twin; refused when its ids are taken by now."""
    target_metadata = twin.metadata
    order = target_metadata.sort_order_by_id(target_metadata.default_sort_order_id) or UNSORTED_SORT_ORDER
    if not (
        _can_use_schema(metadata, target_metadata.schema())
        and _can_use_spec(metadata, target_metadata.spec())
        and all(o.fields == order.fields for o in metadata.sort_orders if o.order_id == order.order_id)
    ):
        raise build_conflict(target, "its columns or its layout were altered")
    return (
        *_build_schema_updates(metadata, target_metadata.schema()),
        *_build_spec_updates(metadata, target_metadata.spec()),
        *_build_order_updates(metadata, order),
        *(() if twin.shape.keeps_layout else _build_property_updates(metadata, _build_properties(twin.shape))),
    )


def _can_use_schema(metadata: TableMetadata, schema: Schema) -> bool:
    """Whether the schema is one of the table's, or a new one whose new columns have ids that were never used."""
    for known in metadata.schemas:
        if known.schema_id == schema.schema_id:
            return known.fields == schema.fields
    unused = schema.field_ids - metadata.schema().field_ids
    return all(field_id > metadata.last_column_id for field_id in unused)


def _can_use_spec(metadata: TableMetadata, spec: PartitionSpec) -> bool:
    for known in metadata.partition_specs:
        if known.spec_id == spec.spec_id:
            return known.fields == spec.fields
    return all(field.field_id > (metadata.last_partition_id or 0) for field in spec.fields)


def _build_schema_updates(metadata: TableMetadata, schema: Schema) -> Iterable[TableUpdate]:
    if schema.schema_id not in {s.schema_id for s in metadata.schemas}:
        yield build_model(AddSchemaUpdate, schema_=schema)
    if schema.schema_id != metadata.current_schema_id:
        yield build_model(SetCurrentSchemaUpdate, schema_id=schema.schema_id)


def _build_spec_updates(metadata: TableMetadata, spec: PartitionSpec) -> Iterable[TableUpdate]:
    if spec.spec_id not in {s.spec_id for s in metadata.partition_specs}:
        yield AddPartitionSpecUpdate(spec=spec)
    if spec.spec_id != metadata.default_spec_id:
        yield build_model(SetDefaultSpecUpdate, spec_id=spec.spec_id)


def _build_order_updates(metadata: TableMetadata, order: SortOrder) -> Iterable[TableUpdate]:
    if order.order_id not in {o.order_id for o in metadata.sort_orders}:
        yield build_model(AddSortOrderUpdate, sort_order=order)
    if order.order_id != metadata.default_sort_order_id:
        yield build_model(SetDefaultSortOrderUpdate, sort_order_id=order.order_id)


def _build_property_updates(metadata: TableMetadata, properties: Mapping[str, str]) -> Iterable[TableUpdate]:
    changed = {k: v for k, v in properties.items() if metadata.properties.get(k) != v}
    owned = [k for k in metadata.properties.get(OWNED_PROPERTIES, "").split(",") if k]
    removed = [k for k in owned if k not in properties and k in metadata.properties]
    if changed:
        yield SetPropertiesUpdate(updates=changed)
    if removed:
        yield RemovePropertiesUpdate(removals=removed)


def _iter_attempts() -> Iterator[int]:
    """A number of tries, with longer and longer pauses between them."""
    for attempt in range(_ATTEMPTS):
        yield attempt
        time.sleep(0.02 * 2**attempt * random.uniform(0.5, 1.0))


def _build_requirements(base: Base) -> tuple[TableRequirement, ...]:
    """That it is the same table, and that it has the same rows and columns."""
    return (
        AssertTableUUID(uuid=uuid.UUID(base.uuid)),
        build_model(AssertRefSnapshotId, ref="main", snapshot_id=base.snapshot_id),
        build_model(AssertCurrentSchemaId, current_schema_id=base.schema_id),
    )


def _list_metadata_files(staged: Table) -> list[str]:
    """The metadata files that belong to a stage alone."""
    paths = [staged.metadata_location, *(e.metadata_file for e in staged.metadata.metadata_log)]
    for snapshot in staged.metadata.snapshots:
        paths.append(snapshot.manifest_list)
        paths.extend(m.manifest_path for m in read_manifests(snapshot, staged.io))
    return paths


def _build_published(metadata: TableMetadata) -> PublishedCommit:
    state = parse_state(metadata.model_dump(mode="json", by_alias=True, exclude_none=True))
    assert state.snapshot_id is not None
    return PublishedCommit(state.snapshot_id, state)


def _build_unknown_error(target: Relation) -> CommitUnknown:
    return CommitUnknown(
        f"the catalog did not say whether the commit to {target} took place",
        hint="run the build again: it looks at the table and goes on from what is there",
    )
