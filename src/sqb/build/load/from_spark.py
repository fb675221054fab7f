"""Rows of a loader that are a Spark DataFrame: written by Spark, with the meaning that they have without it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqb.build.errors import convert_spark_error
from sqb.build.load.columns import (
    LoadedColumn,
    check_column_names,
    compute_extended_columns,
    compute_replaced_columns,
    list_current_columns,
    parse_declared_types,
)
from sqb.build.load.publish import Load, build_unchanged_outcome, list_key_columns, open_stage, publish_stage
from sqb.build.node.context import NodeOutcome
from sqb.errors.base import SqbError
from sqb.errors.build import KeyViolation, SchemaRefused
from sqb.lake.port import Stage, TableState
from sqb.names import quote
from sqb.spark.data import changes, keys, loader_frames
from sqb.spark.data.changes import MeasuredChange
from sqb.spark.data.checksum import Content
from sqb.types.model import Type


@contextmanager
def explain_spark_errors() -> Iterator[None]:
    """Turn what Spark says into an error of ours, of a value that does not fit as of anything else."""
    try:
        yield
    except SqbError:
        raise
    except Exception as error:
        raise loader_frames.parse_unfit_error(error) or convert_spark_error(error, None, None, Path()) from error


def replace_rows(load: Load, session: Any, frame: Any) -> NodeOutcome:
    """Replace all rows by the frame's rows, unless they are the same."""
    types, declared = _merge_frame_types(load, frame)
    columns = compute_replaced_columns(types, declared, list_current_columns(load.current))
    with open_stage(load, columns, keeps_rows=False) as (stage, shape):
        rows, content = loader_frames.write_rows(
            session, _fit_columns(frame, columns), _format_stage(load, stage), shape.columns, stage.is_range_sorted
        )
        load.announce("written", load.node)
        if stage.same_shape and content == get_current_content(load.current):
            load.lake.discard(stage)
            return build_unchanged_outcome(load)
        return publish_stage(load, stage, rows, content, None)


def append_rows(load: Load, session: Any, frame: Any) -> NodeOutcome:
    """Add the frame's rows to the current ones."""
    if load.current is None:
        return replace_rows(load, session, frame)
    types, declared = _merge_frame_types(load, frame)
    columns = _compute_writable_columns(load, types, declared)
    return _append(load, session, _fit_columns(frame, columns), columns)


def _append(load: Load, session: Any, rows: Any, columns: Sequence[LoadedColumn]) -> NodeOutcome:
    with open_stage(load, columns, keeps_rows=True) as (stage, shape):
        count, added = loader_frames.write_rows(
            session, rows, _format_stage(load, stage), shape.columns, stage.is_range_sorted
        )
        load.announce("written", load.node)
        if not count and load.current is not None:
            load.lake.discard(stage)
            return build_unchanged_outcome(load)
        before = get_current_content(load.current) if stage.same_shape else None
        return publish_stage(
            load, stage, count, changes.add_contents(before, added) if before is not None else None, ()
        )


def upsert_rows(load: Load, session: Any, frame: Any) -> NodeOutcome:
    """Put each row in the place of the rows with its key, or beside all others; known rows change nothing."""
    types, declared = _merge_frame_types(load, frame)
    columns = _compute_writable_columns(load, types, declared)
    key = list_key_columns(load, [c.name for c in columns if c.written])
    with changes.persisted(_fit_columns(frame, columns)) as rows:
        _check_keys(rows, key)
        current, table_columns = load.current, list_current_columns(load.current)
        if current is None:
            return replace_rows(load, session, rows)
        if current.rows == 0 or not set(key) <= {c.name for c in table_columns}:
            return _append(load, session, rows, columns)
        return _exchange_rows(load, session, rows, key, columns)


def _exchange_rows(load: Load, session: Any, rows: Any, key: list[str], columns: Sequence[LoadedColumn]) -> NodeOutcome:
    """Compare new rows with the current rows of their keys, and write the difference."""
    current = load.current
    assert current is not None and current.snapshot_id is not None
    names = [c.name for c in columns]
    relation = quote(load.catalog, load.relation.schema, load.relation.name)
    table = session.sql(f"SELECT * FROM {relation} VERSION AS OF {current.snapshot_id}")
    grown = [(c.name if c.name in table.columns else "", c.name, c.type) for c in columns]
    affected, others = keys.split_by_keys(loader_frames.cast_to_columns(table, grown), rows, key)
    both = changes.with_multiplicity(rows, 1, names).unionAll(changes.with_multiplicity(affected, -1, names))
    with changes.persisted(changes.sum_changes(both, names)) as change:
        size = MeasuredChange(change, names)
        if not size.rows_added and not size.rows_removed:
            return build_unchanged_outcome(load)
        before = get_current_content(current)
        after = size.apply_to(before) if before is not None else None
        if not size.rows_removed:
            outcome = _write_frame(load, session, changes.expand_rows(change, 1, names), columns, [], after)
        elif [c.name for c in columns] != list(table.columns) or _must_rewrite_table(load, current):
            outcome = _write_frame(load, session, others.unionAll(rows), columns, None, None)
        else:
            gone, written = changes.plan_change(session, relation, current.snapshot_id, change, names)
            outcome = _write_frame(load, session, written, columns, gone, after)
        return replace(outcome, rows=size.rows_added)


def _must_rewrite_table(load: Load, current: TableState) -> bool:
    """Whether all of a table is rewritten: a small one, or one with files that hide rows, which then go too."""
    past = load.lake.read_lineage(load.relation)
    return (current.rows or 0) <= load.small_rows or not past or past[0].has_delete_files


def _write_frame(
    load: Load, session: Any, rows: Any, columns: Sequence[LoadedColumn], gone: list[str] | None, content: str | None
) -> NodeOutcome:
    with open_stage(load, columns, keeps_rows=True) as (stage, shape):
        count, written = loader_frames.write_rows(
            session, rows, _format_stage(load, stage), shape.columns, stage.is_range_sorted
        )
        load.announce("written", load.node)
        new_content = written if gone is None else content if stage.same_shape else None
        return publish_stage(load, stage, count, new_content, gone)


def _merge_frame_types(load: Load, frame: Any) -> tuple[dict[str, Type], dict[str, Type]]:
    types = loader_frames.list_stored_types(frame)
    check_column_names([name for name, _ in types], load.at)
    return dict(types), parse_declared_types(load.columns, load.at)


def _compute_writable_columns(
    load: Load, types: dict[str, Type], declared: dict[str, Type]
) -> tuple[LoadedColumn, ...]:
    """The columns of the table after this load, of which Spark must be able to write each."""
    columns = compute_extended_columns(types, declared, list_current_columns(load.current), load.at)
    strange = next((c for c in columns if not c.is_of_spark), None)
    if strange is not None:
        raise SchemaRefused(
            f'column "{strange.name}" of {load.relation} has the type {strange.type}, which Spark lacks',
            hint='load rows that are not Spark\'s, with mode="append"',
        )
    return columns


def _fit_columns(frame: Any, columns: Sequence[LoadedColumn]) -> Any:
    return loader_frames.cast_to_columns(frame, [(c.written, c.name, c.type) for c in columns])


def _check_keys(rows: Any, key: list[str]) -> None:
    try:
        keys.refuse_bad_keys(rows, key)
    except KeyViolation as violation:
        violation.hint = "return one row for each key, and none without a key"
        raise


def _format_stage(load: Load, stage: Stage) -> str:
    return quote(load.catalog, stage.relation.schema, stage.relation.name)


def get_current_content(current: TableState | None) -> str | None:
    """The content of a table's rows as Spark counts it; None when it is unknown."""
    if current is None or current.snapshot_columns != current.columns:
        return None
    if current.rows == 0:
        return str(Content())
    content = current.identity.content
    return content if content.startswith("n:") else None
