"""Keys that must be unique and never NULL: where they are not, the rows that say so."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sqb.errors import KeyMissing, KeyViolation
from sqb.names import nearest, quote
from sqb.spark.changes import TIMES, all_of

_SHOWN = 5


def refuse_missing_columns(key: Sequence[str], columns: Sequence[str], setting: str) -> None:
    """Refuse a key that names a column which the result does not have."""
    present = {c.lower() for c in columns}
    for name in key:
        if name.lower() not in present:
            close = nearest(name, columns)
            hint = (
                f"did you mean {' or '.join(repr(c) for c in close)}?"
                if close
                else f"its columns are {', '.join(columns)}"
            )
            raise KeyMissing(f'{setting} names "{name}", and the result has no such column', hint=hint)


def refuse_bad_keys(frame: DataFrame, key: Sequence[str]) -> None:
    """Refuse rows without a key, and keys with more than one row."""
    names = [quote(k) for k in key]
    counted = frame.groupBy(*names).agg(F.count(F.lit(1)).alias(TIMES))
    _refuse(counted, key)


def refuse_bad_change(change: DataFrame, target: DataFrame, key: Sequence[str]) -> None:
    """Refuse a change after which a key would be NULL or have more than one row in the target."""
    names = [quote(k) for k in key]
    coming = change.where(F.col(TIMES) > 0).select(*names).distinct()
    same = reduce(Column.__and__, [target[quote(k)].eqNullSafe(coming[quote(k)]) for k in key])
    there = target.join(coming, same, "left_semi").select(*names, F.lit(1).cast("bigint").alias(TIMES))
    moved = change.select(*names, TIMES)
    counted = all_of([there, moved]).groupBy(*names).agg(F.sum(TIMES).alias(TIMES))
    touched = counted.join(F.broadcast(coming), _on(counted, coming, key), "left_semi")
    _refuse(touched, key)


def without_lost_keys(change: DataFrame, key: Sequence[str], columns: Sequence[str]) -> DataFrame:
    """A change in which rows only go when another row with their key comes."""
    came = change.where(F.col(TIMES) > 0)
    coming = came.select(*[quote(k) for k in key]).distinct()
    went = change.where(F.col(TIMES) < 0)
    replaced = went.join(coming, _on(went, coming, key), "left_semi")
    return came.unionAll(replaced)


def with_keys_of(table: DataFrame, rows: DataFrame, key: Sequence[str]) -> tuple[DataFrame, DataFrame]:
    """The rows of a table whose keys others have, and those whose keys they do not."""
    coming = rows.select(*[quote(k) for k in key]).distinct()
    on = _on(table, coming, key)
    return table.join(coming, on, "left_semi"), table.join(coming, on, "left_anti")


def _on(left: DataFrame, right: DataFrame, key: Sequence[str]) -> Column:
    return reduce(Column.__and__, [left[quote(k)].eqNullSafe(right[quote(k)]) for k in key])


def _refuse(counted: DataFrame, key: Sequence[str]) -> None:
    missing = reduce(Column.__or__, [F.col(quote(k)).isNull() for k in key])
    bad = counted.where(missing | (F.col(TIMES) > 1))
    worst = bad.orderBy(missing.desc(), F.col(TIMES).desc()).limit(_SHOWN + 1)
    # Python has no days beyond 9999, which are to be shown too.
    days = {name for name, kind in worst.dtypes if kind.startswith(("date", "timestamp"))}
    shown_as = [F.col(quote(c)).cast("string").alias(c) if c in days else F.col(quote(c)) for c in worst.columns]
    found = worst.select(*shown_as).collect()
    if not found:
        return
    said = f"({', '.join(key)})" if len(key) > 1 else key[0]
    nulls = [row for row in found if any(row[i] is None for i in range(len(key)))]
    if nulls:
        total = counted.where(missing).agg(F.sum(TIMES)).collect()[0][0]
        raise KeyViolation(
            f"{total} {'row has' if total == 1 else 'rows have'} NULL in the unique key {said}",
            hint="filter these rows out, or give the key a value with COALESCE",
        )
    total = counted.where(F.col(TIMES) > 1).count()
    shown = "; ".join(f"{_shown(row, key)} ({row[TIMES]} rows)" for row in found[:_SHOWN])
    more = f" and {total - _SHOWN} more" if total > _SHOWN else ""
    raise KeyViolation(
        f"the unique key {said} is not unique: {shown}{more}",
        hint="make the query return one row for each key, for instance with QUALIFY row_number() OVER (…) = 1",
    )


def _shown(row: Sequence[object], key: Sequence[str]) -> str:
    return ", ".join(f"{name} = {row[i]}" for i, name in enumerate(key))
