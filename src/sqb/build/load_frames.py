"""Rows of a loader that are a Spark DataFrame: written by Spark, with the meaning that they have without it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqb.build.failures import spark_error
from sqb.build.load_columns import (
    LoadedColumn,
    columns_standing,
    declared_types,
    kept_columns,
    refuse_bad_names,
    replaced_columns,
)
from sqb.build.load_publish import Load, key_columns, publish, staged, unchanged
from sqb.build.turn import Outcome
from sqb.errors import KeyViolation, SchemaRefused, SqbError
from sqb.lake.port import Stage, TableState
from sqb.lake.row_types import shown_type
from sqb.names import quote
from sqb.project.column_types import Type
from sqb.spark import changes, keys, loaded
from sqb.spark.changes import Measured
from sqb.spark.checksum import Content

# Below so many rows a table is written anew in less time than it takes to find out which of its files to write anew.
_SMALL = 200_000


@contextmanager
def explained() -> Iterator[None]:
    """Turn what Spark says into an error of ours, of a value that does not fit as of anything else."""
    try:
        yield
    except SqbError:
        raise
    except Exception as error:
        raise loaded.unfit(error) or spark_error(error, None, None, Path()) from error


def replace_rows(load: Load, session: Any, frame: Any) -> Outcome:
    """Make the frame's rows all rows, unless they are those that stand."""
    types, declared = _types(load, frame)
    columns = replaced_columns(types, declared, columns_standing(load.standing))
    with staged(load, columns, keeps_rows=False) as (stage, shape):
        rows, content = loaded.write(session, _fitted(frame, columns), _text(load, stage), shape.columns, stage.sorts)
        load.announce("written", load.node)
        if stage.same_shape and content == content_that_stands(load.standing):
            load.lake.discard(stage)
            return unchanged(load)
        return publish(load, stage, rows, content, None)


def append_rows(load: Load, session: Any, frame: Any) -> Outcome:
    """Add the frame's rows to those that stand."""
    if load.standing is None:
        return replace_rows(load, session, frame)
    types, declared = _types(load, frame)
    columns = _kept(load, types, declared)
    return _add(load, session, _fitted(frame, columns), columns)


def _add(load: Load, session: Any, rows: Any, columns: Sequence[LoadedColumn]) -> Outcome:
    with staged(load, columns, keeps_rows=True) as (stage, shape):
        count, added = loaded.write(session, rows, _text(load, stage), shape.columns, stage.sorts)
        load.announce("written", load.node)
        if not count and load.standing is not None:
            load.lake.discard(stage)
            return unchanged(load)
        before = content_that_stands(load.standing) if stage.same_shape else None
        return publish(load, stage, count, changes.sum_of(before, added) if before is not None else None, ())


def upsert_rows(load: Load, session: Any, frame: Any) -> Outcome:
    """Put each row in the place of the rows with its key, or beside all others; rows that stand change nothing."""
    types, declared = _types(load, frame)
    columns = _kept(load, types, declared)
    key = key_columns(load, [c.name for c in columns if c.written])
    with changes.kept(_fitted(frame, columns)) as rows:
        _refuse_bad_keys(rows, key)
        standing, there = load.standing, columns_standing(load.standing)
        if standing is None:
            return replace_rows(load, session, rows)
        if standing.rows == 0 or not set(key) <= {c.name for c in there}:
            return _add(load, session, rows, columns)
        return _exchange(load, session, rows, key, columns)


def _exchange(load: Load, session: Any, rows: Any, key: list[str], columns: Sequence[LoadedColumn]) -> Outcome:
    """Compare new rows with those that stand for their keys, and write the difference."""
    standing = load.standing
    assert standing is not None and standing.snapshot_id is not None
    names = [c.name for c in columns]
    relation = quote(load.catalog, load.relation.schema, load.relation.name)
    table = session.sql(f"SELECT * FROM {relation} VERSION AS OF {standing.snapshot_id}")
    grown = [(c.name if c.name in table.columns else "", c.name, c.type) for c in columns]
    touched, others = keys.with_keys_of(loaded.fitted(table, grown), rows, key)
    both = changes.signed(rows, 1, names).unionAll(changes.signed(touched, -1, names))
    with changes.kept(changes.net(both, names)) as change:
        size = Measured(change, names)
        if not size.came and not size.went:
            return unchanged(load)
        before = content_that_stands(standing)
        after = size.applied(before) if before is not None else None
        if not size.went:
            outcome = _write(load, session, changes.rows_of(change, 1, names), columns, [], after)
        elif [c.name for c in columns] != list(table.columns) or _must_be_whole(load, standing):
            outcome = _write(load, session, others.unionAll(rows), columns, None, None)
        else:
            gone, written = changes.exchanged(session, relation, standing.snapshot_id, change, names)
            outcome = _write(load, session, written, columns, gone, after)
        return replace(outcome, rows=size.came)


def _must_be_whole(load: Load, standing: TableState) -> bool:
    """Whether all of a table is rewritten: a small one, or one with files that hide rows, which then go too."""
    past = load.lake.lineage(load.relation)
    return (standing.rows or 0) <= _SMALL or not past or past[0].delete_files


def _write(
    load: Load, session: Any, rows: Any, columns: Sequence[LoadedColumn], gone: list[str] | None, content: str | None
) -> Outcome:
    with staged(load, columns, keeps_rows=True) as (stage, shape):
        count, written = loaded.write(session, rows, _text(load, stage), shape.columns, stage.sorts)
        load.announce("written", load.node)
        known = written if gone is None else content if stage.same_shape else None
        return publish(load, stage, count, known, gone)


def _types(load: Load, frame: Any) -> tuple[dict[str, Type], dict[str, Type]]:
    types = loaded.types_of(frame)
    refuse_bad_names([name for name, _ in types], load.at)
    return dict(types), declared_types(load.columns, load.at)


def _kept(load: Load, types: dict[str, Type], declared: dict[str, Type]) -> tuple[LoadedColumn, ...]:
    """The columns of the table after this load, of which Spark must be able to write each."""
    columns = kept_columns(types, declared, columns_standing(load.standing), load.at)
    strange = next((c for c in columns if not c.is_of_spark), None)
    if strange is not None:
        raise SchemaRefused(
            f'column "{strange.name}" of {load.relation} has the type {shown_type(strange.type)}, which Spark lacks',
            hint='load rows that are not Spark\'s, with mode="append"',
        )
    return columns


def _fitted(frame: Any, columns: Sequence[LoadedColumn]) -> Any:
    return loaded.fitted(frame, [(c.written, c.name, c.type) for c in columns])


def _refuse_bad_keys(rows: Any, key: list[str]) -> None:
    try:
        keys.refuse_bad_keys(rows, key)
    except KeyViolation as violation:
        violation.hint = "hand over one row for each key, and none without"
        raise


def _text(load: Load, stage: Stage) -> str:
    return quote(load.catalog, stage.relation.schema, stage.relation.name)


def content_that_stands(standing: TableState | None) -> str | None:
    """The content of a table's rows as Spark counts it; None when nobody knows it."""
    if standing is None or standing.snapshot_columns != standing.columns:
        return None
    if standing.rows == 0:
        return str(Content())
    content = standing.identity.get("sqb.content", "")
    return content if content.startswith("n:") else None
