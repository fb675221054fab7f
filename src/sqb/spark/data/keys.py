"""Keys that must be unique and never NULL: where they are not, the rows that say so."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sqb.errors.build import KeyMissing, KeyViolation
from sqb.names import find_nearest, quote
from sqb.spark.data.changes import MULTIPLICITY, union_all
from sqb.spark.data.column_types import list_types
from sqb.types.model import DATE, is_moment

_SHOWN = 5


def refuse_missing_columns(key: Sequence[str], columns: Sequence[str], setting: str) -> None:
    """Refuse a key that names a column which the result does not have."""
    present = {c.lower() for c in columns}
    for name in key:
        if name.lower() not in present:
            close = find_nearest(name, columns)
            hint = (
                f"did you mean {' or '.join(repr(c) for c in close)}?"
                if close
                else f"its columns are {', '.join(columns)}"
            )
            raise KeyMissing(f'{setting} names "{name}", and the result has no such column', hint=hint)


def refuse_bad_keys(frame: DataFrame, key: Sequence[str]) -> None:
    """Refuse rows without a key, and keys with more than one row."""
    names = [quote(k) for k in key]
    counted = frame.groupBy(*names).agg(F.count(F.lit(1)).alias(MULTIPLICITY))
    _refuse_violations(counted, key)


def refuse_bad_change(change: DataFrame, target: DataFrame, key: Sequence[str]) -> None:
    """Refuse a change after which a key would be NULL or have more than one row in the target."""
    names = [quote(k) for k in key]
    added_keys = change.where(F.col(MULTIPLICITY) > 0).select(*names).distinct()
    same = reduce(Column.__and__, [target[quote(k)].eqNullSafe(added_keys[quote(k)]) for k in key])
    current = target.join(added_keys, same, "left_semi").select(*names, F.lit(1).cast("bigint").alias(MULTIPLICITY))
    changed = change.select(*names, MULTIPLICITY)
    counted = union_all([current, changed]).groupBy(*names).agg(F.sum(MULTIPLICITY).alias(MULTIPLICITY))
    touched = counted.join(F.broadcast(added_keys), _build_key_condition(counted, added_keys, key), "left_semi")
    _refuse_violations(touched, key)


def keep_lost_keys(change: DataFrame, key: Sequence[str], columns: Sequence[str]) -> DataFrame:
    """Drop removals whose key gets no new row from a change."""
    added = change.where(F.col(MULTIPLICITY) > 0)
    added_keys = added.select(*[quote(k) for k in key]).distinct()
    removed = change.where(F.col(MULTIPLICITY) < 0)
    replaced = removed.join(added_keys, _build_key_condition(removed, added_keys, key), "left_semi")
    return added.unionAll(replaced)


def split_by_keys(table: DataFrame, rows: DataFrame, key: Sequence[str]) -> tuple[DataFrame, DataFrame]:
    """The rows of a table whose keys others have, and those whose keys they do not."""
    other_keys = rows.select(*[quote(k) for k in key]).distinct()
    on = _build_key_condition(table, other_keys, key)
    return table.join(other_keys, on, "left_semi"), table.join(other_keys, on, "left_anti")


def _build_key_condition(left: DataFrame, right: DataFrame, key: Sequence[str]) -> Column:
    return reduce(Column.__and__, [left[quote(k)].eqNullSafe(right[quote(k)]) for k in key])


def _refuse_violations(counted: DataFrame, key: Sequence[str]) -> None:
    missing = reduce(Column.__or__, [F.col(quote(k)).isNull() for k in key])
    bad = counted.where(missing | (F.col(MULTIPLICITY) > 1))
    worst = bad.orderBy(missing.desc(), F.col(MULTIPLICITY).desc()).limit(_SHOWN + 1)
    # Python has no days beyond 9999, which are to be shown too.
    days = {name for name, kind in list_types(worst) if kind == DATE or is_moment(kind)}
    shown_as = [F.col(quote(c)).cast("string").alias(c) if c in days else F.col(quote(c)) for c in worst.columns]
    violations = worst.select(*shown_as).collect()
    if not violations:
        return
    key_text = f"({', '.join(key)})" if len(key) > 1 else key[0]
    nulls = [row for row in violations if any(row[i] is None for i in range(len(key)))]
    if nulls:
        total = counted.where(missing).agg(F.sum(MULTIPLICITY)).collect()[0][0]
        raise KeyViolation(
            f"{total} {'row has' if total == 1 else 'rows have'} NULL in the unique key {key_text}",
            hint="filter these rows out, or give the key a value with COALESCE",
        )
    total = counted.where(F.col(MULTIPLICITY) > 1).count()
    examples = "; ".join(f"{_format_key(row, key)} ({row[MULTIPLICITY]} rows)" for row in violations[:_SHOWN])
    more = f" and {total - _SHOWN} more" if total > _SHOWN else ""
    raise KeyViolation(
        f"the unique key {key_text} is not unique: {examples}{more}",
        hint="make the query return one row for each key, for instance with QUALIFY row_number() OVER (…) = 1",
    )


def _format_key(row: Sequence[object], key: Sequence[str]) -> str:
    return ", ".join(f"{name} = {row[i]}" for i, name in enumerate(key))
