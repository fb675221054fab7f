"""The write of a loader: rows from outside become the rows of a source's table, in one commit on what the build saw.

The table stays a source's: nothing here makes it a model's, and how it is laid out is left as it is. Without Spark rows
are streamed from Arrow files; a DataFrame is written by Spark, with the same meaning.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sqb import __version__
from sqb.build.load_columns import (
    LoadedColumn,
    columns_standing,
    declared_types,
    kept_columns,
    refuse_bad_names,
    replaced_columns,
    types_in_all,
)
from sqb.build.steps import Announce, silent
from sqb.build.turn import Outcome
from sqb.errors import BuildError, RowsUnfit, SqbError, UnsupportedType
from sqb.lake.jdbc import JdbcLake
from sqb.lake.port import Shape, Stage, TableState
from sqb.lake.state import IDENTITY_KEY, IDENTITY_VERSION
from sqb.names import At, Relation
from sqb.plan.observed import LOADER
from sqb.project.column_types import Type

if TYPE_CHECKING:
    from sqb.lake.arrow_content import RowsContent


@dataclass(frozen=True, slots=True)
class Load:
    """Where a loader's rows go and how."""

    node: str
    relation: Relation
    mode: Literal["replace", "append", "upsert"]
    key: tuple[str, ...]
    # Types that are declared, as Spark writes them, by the columns' names.
    columns: Mapping[str, str]
    # What stood there when the build looked.
    standing: TableState | None
    run_id: str
    git: str
    local_hash: str
    lake: JdbcLake
    at: At
    announce: Announce = silent
    # The name of the catalog in SQL.
    catalog: str = "lake"
    started: float = field(default_factory=time.monotonic)

    @property
    def run_type(self) -> str:
        if self.standing is None:
            return "backfill"
        return "full" if self.mode == "replace" else "incremental"

    def identity(self, content: object) -> dict[str, str]:
        """What is committed with the rows: who wrote them, and their content where it is known."""
        found = {
            LOADER: self.node,
            "sqb.local_hash": self.local_hash,
            "sqb.run_id": self.run_id,
            "sqb.run_type": self.run_type,
            "sqb.seconds": f"{time.monotonic() - self.started:.3f}",
            "sqb.version": __version__,
            IDENTITY_KEY: str(IDENTITY_VERSION),
        }
        if content is not None:
            found["sqb.content"] = str(content)
        if self.git:
            found["sqb.git"] = self.git
        return found


def load_files(load: Load, files: Sequence[Path]) -> Outcome:
    """Write the rows of Arrow files, without Spark."""
    with placed(load):
        refuse_taken(load)
        if load.mode == "upsert":
            raise RowsUnfit("upsert is not available yet", hint='use mode="replace" or mode="append"')
        rows = _local_rows(load, files)
        if load.mode == "replace" or load.standing is None:
            return _replace(load, rows)
        return _append(load, rows, load.standing)


@contextmanager
def placed(load: Load) -> Iterator[None]:
    """Give mistakes in a loader's rows the place of the loader."""
    try:
        yield
    except SqbError as error:
        if error.at is None and isinstance(error, BuildError | UnsupportedType):
            error.at = load.at
        raise


def refuse_taken(load: Load) -> None:
    """Refuse to write where something stands that is not a source's table."""
    standing = load.standing
    if standing is None:
        return
    model = standing.properties.get("sqb.model") or standing.identity.get("sqb.model")
    if model:
        raise RowsUnfit(
            f"{load.relation} is what the model {model} builds: a loader does not write to it",
            hint="give the source of the loader another table, or drop this one if the model is gone",
        )
    if standing.is_view:
        raise RowsUnfit(
            f"{load.relation} is a view: a loader can only write to a table",
            hint="give the source of the loader another table, or drop the view",
        )


@dataclass(frozen=True, slots=True)
class LocalRows:
    """Rows in Arrow files, with the columns that they have in all."""

    files: tuple[Path, ...]
    types: Mapping[str, Type]
    declared: Mapping[str, Type]

    @property
    def has_columns(self) -> bool:
        return bool(self.types or self.declared)

    def count(self) -> int:
        from sqb.lake.arrow_files import rows_in  # loads pyarrow, which nothing unchanged needs

        return rows_in(self.files)

    def batches(self, columns: Sequence[LoadedColumn]) -> Iterator[Any]:
        from sqb.lake.arrow_files import batches_in  # loads pyarrow, which nothing unchanged needs

        return batches_in(self.files, [(c.written, c.name, c.type) for c in columns])


def _local_rows(load: Load, files: Sequence[Path]) -> LocalRows:
    from sqb.lake.arrow_files import schemas_in, types_of  # loads pyarrow, which nothing unchanged needs

    declared = declared_types(load.columns, load.at)
    schemas = schemas_in(files)
    for schema in schemas:
        refuse_bad_names([name for name, _ in schema], load.at)
    return LocalRows(tuple(files), types_in_all(map(types_of, schemas), declared, load.at), declared)


def _replace(load: Load, rows: LocalRows) -> Outcome:
    """Make the new rows all rows, unless they are those that stand."""
    there = columns_standing(load.standing)
    if not rows.has_columns and load.standing is None:
        return nothing_to_make(load)
    columns = replaced_columns(rows.types, rows.declared, there) if rows.has_columns else there
    before = content_that_stands(load.standing)
    if before is not None and same_columns(columns, there) and before.count == rows.count():
        from sqb.lake.arrow_content import content_of  # loads pyarrow, which nothing unchanged needs

        if content_of(rows.batches(columns)) == before:
            return unchanged(load)
    return write(load, columns, rows.batches(columns))


def _append(load: Load, rows: LocalRows, standing: TableState) -> Outcome:
    """Add the new rows to those that stand."""
    if not rows.count():
        return unchanged(load)
    columns = kept_columns(rows.types, rows.declared, columns_standing(standing), load.at)
    return write(load, columns, rows.batches(columns), gone=(), before=content_that_stands(standing))


def write(
    load: Load,
    columns: Sequence[LoadedColumn],
    batches: Iterable[Any],
    gone: Collection[str] | None = None,
    before: RowsContent | None = None,
) -> Outcome:
    """Write rows and publish them: as all rows, or with `gone` beside those that are not in these files.

    `before` is the content of the rows that stay; None when it is not known.
    """
    from sqb.lake.arrow_content import RowsContent, content_of  # loads pyarrow, which nothing unchanged needs

    written = RowsContent()

    def summed() -> Iterator[Any]:
        nonlocal written
        for batch in batches:
            written += content_of([batch])
            yield batch

    with staged(load, columns, keeps_rows=gone is not None) as stage:
        load.lake.fill_batches(stage, summed())
        load.announce("written", load.node)
        stays = RowsContent() if gone is None else before
        return publish(load, stage, written.count, None if stays is None else stays + written, gone)


@contextmanager
def staged(load: Load, columns: Sequence[LoadedColumn], keeps_rows: bool) -> Iterator[Stage]:
    """A stage for a loader's rows; whatever fails before the publish leaves nothing behind."""
    shape = Shape(
        tuple(c.column for c in columns if c.type[0] != "iceberg"),
        properties={LOADER: load.node},
        keeps_rows=keeps_rows,
        keeps_layout=True,
    )
    load.announce("before stage", load.node)
    if load.standing is None:
        load.lake.ensure_schemas([load.relation.schema])
    base = load.standing.base if load.standing is not None else None
    stage = load.lake.stage(load.relation, shape, base, load.run_id)
    try:
        load.announce("staged", load.node)
        yield stage
    except BaseException:
        load.lake.discard(stage)
        raise


def publish(load: Load, stage: Stage, rows: int, content: object, gone: Collection[str] | None) -> Outcome:
    """Make staged rows visible in one commit."""
    load.announce("before publish", load.node)
    published = load.lake.publish(stage, load.identity(content), gone)
    load.announce("published", load.node)
    return Outcome(rows, published.snapshot_id, published.state, run_type=load.run_type)


def unchanged(load: Load) -> Outcome:
    """What is said when the table already is what it is to be: nothing is committed."""
    snapshot_id = load.standing.snapshot_id if load.standing is not None else None
    return Outcome(0, snapshot_id, load.standing, identical=True)


def nothing_to_make(load: Load) -> Outcome:
    """What is said when there are neither rows nor columns nor a table."""
    notice = f"it gave no rows, and nothing says which columns {load.relation} has: no table was made; columns= would"
    return Outcome(0, None, None, identical=True, notices=(notice,))


def same_columns(columns: Sequence[LoadedColumn], there: Sequence[LoadedColumn]) -> bool:
    """Whether a table has these columns, in this order."""
    return [(c.name, c.type) for c in columns] == [(c.name, c.type) for c in there]


def content_that_stands(standing: TableState | None) -> RowsContent | None:
    """The content of a table's rows as this way of loading counts it; None when nobody knows it."""
    from sqb.lake.arrow_content import RowsContent  # loads pyarrow, which nothing unchanged needs

    if standing is None or standing.snapshot_columns != standing.columns:
        return None
    if standing.rows == 0:
        return RowsContent()
    return RowsContent.parse(standing.identity.get("sqb.content", ""))
