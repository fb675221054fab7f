"""Changes as DataFrames: net signed multisets of rows.

A change holds each distinct row once, with how many times more (or, negative, less) often it is there now. A row that
was rewritten but is the same is nothing; an update is one row less and another one more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, timedelta
from functools import reduce
from typing import Any, Literal

from pyspark.sql import Column, DataFrame, Observation, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from sqb.names import quote
from sqb.spark.data.checksum import (
    Content,
    build_comparable,
    build_content_columns,
    build_weighted_columns,
    parse_content_sums,
)
from sqb.spark.data.column_types import convert_type, list_types
from sqb.spark.data.frames import wait_for_observation
from sqb.sql.delta.facts import find_day_span, list_key_columns, render_key_expression
from sqb.types import model as m
from sqb.types.model import DecimalType, Type, has_fraction, has_map

MULTIPLICITY = "__sqb_multiplicity"
_FILE = "__sqb_file"
# Columns of these types have bounds in Iceberg's file statistics that Spark can push a filter to.
_BOUNDED = (*m.INTEGER_BITS, m.DATE, m.TIMESTAMP, m.TIMESTAMP_NTZ, m.STRING)

# Of these the statistics hold the smallest and the largest value themselves, and not something beyond them.
_EXACT_BOUNDS = (m.INT, m.BIGINT, m.DATE, m.TIMESTAMP, m.TIMESTAMP_NTZ)
# Few values of these are compared as literals.
_LITERALS = (*m.INTEGER_BITS, m.DATE, m.STRING, m.BOOLEAN)

_EPOCH = date(1970, 1, 1)

ChangeMethod = Literal["appended", "changelog", "compared"]


def read_table_changes(
    session: SparkSession,
    table: str,
    old: int,
    new: int,
    columns: Sequence[str],
    method: ChangeMethod,
    net: bool = True,
) -> DataFrame:
    """The change of a table (a quoted name) between two snapshots, over some of its columns.

    Where it need not be `net`, rows that came and went unchanged may be among it, each with its own sign.
    """
    names = [quote(c) for c in columns]
    if method == "compared":
        now = session.sql(f"SELECT {', '.join(names)}, 1L AS {MULTIPLICITY} FROM {table} VERSION AS OF {new}")
        then = session.sql(f"SELECT {', '.join(names)}, -1L AS {MULTIPLICITY} FROM {table} VERSION AS OF {old}")
        return sum_changes(now.unionAll(then), columns) if net else now.unionAll(then)
    # By SQL and not by a reader, which reads the name of a table without the settings of its session.
    between = f"WITH ('start-snapshot-id' = '{old}', 'end-snapshot-id' = '{new}')"
    if method == "appended":
        return session.sql(f"SELECT {', '.join(names)}, 1L AS {MULTIPLICITY} FROM {table} {between}")
    changes = session.sql(f"SELECT * FROM {table}.changes {between}")
    sign = F.when(F.col("_change_type") == "INSERT", 1).otherwise(-1).cast("bigint").alias(MULTIPLICITY)
    signed = changes.select(*names, sign)
    return sum_changes(signed, columns) if net else signed


def sum_changes(frame: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Equal rows added up; rows that come out even are gone."""
    kinds = {f.name.lower(): f for f in frame.schema.fields}
    # Spark groups 0.0 and -0.0 together, and makes them one value; two rows that differ so are two rows.
    floating = [c for c in columns if has_fraction(convert_type(kinds[c.lower()].dataType))]
    comparable_values = {c: build_comparable(F.col(quote(c)), kinds[c.lower()].dataType, c) for c in floating}
    alias_names = {c: f"__sqb_alike_{i}" for i, c in enumerate(floating)}
    grouping = [
        comparable_values[c].alias(alias_names[c]) if c in comparable_values else F.col(quote(c)) for c in columns
    ]
    first_values = [F.first(F.col(quote(c))).alias(c) for c in floating]
    summed = frame.groupBy(*grouping).agg(F.sum(MULTIPLICITY).alias(MULTIPLICITY), *first_values)
    return summed.where(F.col(MULTIPLICITY) != 0).select(*[F.col(quote(c)) for c in columns], MULTIPLICITY)


def cancel_equal_rows(change: DataFrame, columns: Sequence[str], by: Sequence[str]) -> DataFrame:
    """Cancel added rows against removed rows that are equal in some columns."""
    names, times = [F.col(quote(c)) for c in by], F.col(MULTIPLICITY)
    plain = [name for name, kind in list_types(change) if name in columns and not has_map(kind)]
    order = F.xxhash64(*[F.col(quote(c)) for c in plain]) if plain else F.lit(0)
    equal_rows, size, is_new = Window.partitionBy(*names), F.abs(times), times > 0
    same_way = Window.partitionBy(*names, is_new).orderBy(order).rowsBetween(Window.unboundedPreceding, -1)
    opposite = F.sum(F.when(is_new, times).otherwise(0)).over(equal_rows)
    opposite = F.when(is_new, F.sum(F.when(is_new, 0).otherwise(-times)).over(equal_rows)).otherwise(opposite)
    before = F.coalesce(F.sum(size).over(same_way), F.lit(0))
    remaining = F.least(size, F.greatest(F.lit(0), before + size - opposite))
    result = change.select(
        *[F.col(quote(c)) for c in columns], (F.signum(times) * remaining).cast("bigint").alias(MULTIPLICITY)
    )
    return result.where(F.col(MULTIPLICITY) != 0)


def with_multiplicity(frame: DataFrame, sign: int, columns: Sequence[str]) -> DataFrame:
    """Every row of a result, counted once or minus once."""
    return frame.select(*[F.col(quote(c)) for c in columns], F.lit(sign).cast("bigint").alias(MULTIPLICITY))


def use_multiplicity_column(frame: DataFrame, column: str) -> DataFrame:
    """Use a column of the rows as their multiplicity."""
    return frame.withColumn(column, F.col(quote(column)).cast("bigint")).withColumnRenamed(column, MULTIPLICITY)


def expand_rows(change: DataFrame, sign: int, columns: Sequence[str]) -> DataFrame:
    """Expand the added (sign 1) or removed (sign -1) rows, each as often as its multiplicity says."""
    matching = change.where(F.col(MULTIPLICITY) * sign > 0)
    copies = F.explode(F.array_repeat(F.lit(1), F.abs(F.col(MULTIPLICITY)).cast("int")))
    return matching.select(*[F.col(quote(c)) for c in columns], copies.alias("__sqb_copy")).drop("__sqb_copy")


def union_all(frames: Sequence[DataFrame]) -> DataFrame:
    """The rows of several frames together."""
    return reduce(DataFrame.unionAll, frames)


@contextmanager
def persisted(frame: DataFrame) -> Iterator[DataFrame]:
    """A frame that is computed once, however often it is used."""
    frame.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield frame
    finally:
        frame.unpersist()


class MeasuredChange:
    """The size of a change and what it does to a content, in one pass."""

    def __init__(self, change: DataFrame, columns: Sequence[str], extra_columns: Sequence[Column] = ()) -> None:
        rows = change.select(*[F.col(quote(c)) for c in columns]).schema
        multiplicity = F.col(MULTIPLICITY)
        rows_added = F.sum(F.when(multiplicity > 0, multiplicity)).alias("rows_added")
        rows_removed = F.sum(F.when(multiplicity < 0, -multiplicity)).alias("rows_removed")
        aggregates = (
            change.agg(*build_weighted_columns(rows, multiplicity), rows_added, rows_removed, *extra_columns)
            .collect()[0]
            .asDict()
        )
        self.rows_added, self.rows_removed = int(aggregates["rows_added"] or 0), int(aggregates["rows_removed"] or 0)
        self._net = parse_content_sums(aggregates)
        # Whatever else was asked of the change.
        self.aggregates = aggregates

    def apply_to(self, content: str) -> str:
        """The content after the change."""
        return str(Content.parse(content) + self._net)


def compute_contents(frames: Mapping[str, DataFrame]) -> dict[str, Content]:
    """The contents of several frames with the same columns, in one pass over each."""
    tag = "__sqb_tag"
    tagged = [
        frame.select(F.lit(name).alias(tag), *[F.col(quote(c)) for c in frame.columns])
        for name, frame in frames.items()
    ]
    schema = next(iter(frames.values())).schema
    rows = union_all(tagged).groupBy(tag).agg(*build_content_columns(schema)).collect()
    sums = {row[tag]: parse_content_sums(row.asDict()) for row in rows}
    return {name: sums.get(name, Content()) for name in frames}


def plan_key_replacement(
    session: SparkSession,
    table: str,
    snapshot_id: int,
    keys: ChangedKeys,
    by: Mapping[str, str],
    new_rows: DataFrame,
    small: bool,
) -> tuple[list[str] | None, DataFrame]:
    """How to put `now` in the place of a table's rows with touched keys: the files that go (None: all), the rows."""
    column_list = ", ".join(quote(c) for c in new_rows.columns)
    snapshot = f"{table} VERSION AS OF {snapshot_id}"
    if small:
        return None, session.sql(f"SELECT {column_list} FROM {keys.exclude(snapshot, by)}").unionAll(new_rows)
    touched_files = session.sql(
        f"SELECT DISTINCT {_FILE} FROM {keys.restrict(f'(SELECT *, _file AS {_FILE} FROM {snapshot})', by)}"
    )
    files = sorted(row[0] for row in touched_files.collect())
    target = session.sql(f"SELECT *, _file AS {_FILE} FROM {snapshot}")
    file_rows = target.where(_build_file_bounds(session, table, files, target, new_rows.columns)).where(
        F.col(_FILE).isin(files)
    )
    view = "__sqb_inside"
    file_rows.createOrReplaceTempView(view)
    return files, session.sql(f"SELECT {column_list} FROM {keys.exclude(view, by)}").unionAll(new_rows)


def plan_change(
    session: SparkSession, table: str, snapshot_id: int, change: DataFrame, columns: Sequence[str], small: bool = False
) -> tuple[list[str] | None, DataFrame]:
    """How to apply a change to a table: the data files that have to go (None: all), and the rows to write instead."""
    column_list = ", ".join(quote(c) for c in columns)
    target = session.sql(f"SELECT {column_list}, _file AS {_FILE} FROM {table} VERSION AS OF {snapshot_id}")
    if small:
        return None, _apply_change(target, change, columns)
    rows_removed = change.where(F.col(MULTIPLICITY) < 0)
    candidates = target.where(_build_bounds(rows_removed, columns))
    # Maps cannot be compared; without them a file too many may be found, and what leaves it is counted exactly below.
    plain = [name for name, kind in list_types(rows_removed) if name in columns and not has_map(kind)]
    same = reduce(Column.__and__, [candidates[quote(c)].eqNullSafe(rows_removed[quote(c)]) for c in plain], F.lit(True))
    touched_files = candidates.join(F.broadcast(rows_removed), same, "left_semi").select(_FILE).distinct()
    files = sorted(row[0] for row in touched_files.collect())
    file_rows = target.where(_build_file_bounds(session, table, files, target, columns)).where(F.col(_FILE).isin(files))
    return files, _apply_change(file_rows, change, columns)


def _apply_change(before: DataFrame, change: DataFrame, columns: Sequence[str]) -> DataFrame:
    """The rows that a change leaves."""
    current_rows = with_multiplicity(before, 1, columns)
    after = sum_changes(current_rows.unionAll(change.select(*[quote(c) for c in current_rows.columns])), columns)
    # A row that is to go but is not there means that the table is not what it was recorded to be.
    return expand_rows(after.withColumn(MULTIPLICITY, refuse_negative(F.col(MULTIPLICITY))), 1, columns)


def _build_file_bounds(
    session: SparkSession, table: str, files: Sequence[str], target: DataFrame, columns: Sequence[str]
) -> Column:
    """A condition that every row of some files fulfils and that lets other files be skipped, from their statistics."""
    kinds = dict(list_types(target))
    useful = [c for c in columns if kinds[c] in _EXACT_BOUNDS][:8]
    if not useful or not files:
        return F.lit(True)
    metrics = session.sql(f"SELECT * FROM {table}.files").where(F.col("file_path").isin(list(files)))
    aggregates = []
    for name in useful:
        metrics_path = f"readable_metrics.{quote(name)}"
        known = F.count(F.when(F.col(f"{metrics_path}.lower_bound").isNull(), 1))
        nulls = F.sum(F.coalesce(F.col(f"{metrics_path}.null_value_count"), F.lit(1)))
        low, high = F.min(f"{metrics_path}.lower_bound"), F.max(f"{metrics_path}.upper_bound")
        aggregates += [_encode_value(low, kinds[name]), _encode_value(high, kinds[name]), known, nulls]
    values = metrics.agg(*aggregates).collect()[0]
    condition = F.lit(True)
    for index, name in enumerate(useful):
        low, high, unknown, nulls = values[4 * index : 4 * index + 4]
        if low is None or unknown:
            continue
        inside = F.col(quote(name)).between(_decode_value(low, kinds[name]), _decode_value(high, kinds[name]))
        condition = condition & (inside | F.col(quote(name)).isNull() if nulls else inside)
    return condition


_INCONSISTENT = "sqb: the table does not hold the rows that its commit says"


def refuse_negative(count: Column) -> Column:
    """A count of rows that cannot be below zero, unless the table is not what it was recorded to be."""
    return F.when(count < 0, F.raise_error(F.lit(_INCONSISTENT)).cast("bigint")).otherwise(count)


def is_inconsistent(error: BaseException) -> bool:
    """Whether a write failed because the table was not what it was recorded to be."""
    return _INCONSISTENT in str(error)


def _build_bounds(rows: DataFrame, columns: Sequence[str]) -> Column:
    """A condition that all these rows fulfil and that lets files be skipped by their statistics."""
    kinds = dict(list_types(rows))
    useful = [c for c in columns if kinds[c] in _BOUNDED or isinstance(kinds[c], DecimalType)][:12]
    if not useful:
        return F.lit(True)
    aggregates = []
    for name in useful:
        low, high = F.min(quote(name)), F.max(quote(name))
        nulls = F.count(F.when(F.col(quote(name)).isNull(), 1))
        aggregates += [_encode_value(low, kinds[name]), _encode_value(high, kinds[name]), nulls]
    values = rows.agg(*aggregates).collect()[0]
    condition = F.lit(True)
    for index, name in enumerate(useful):
        low, high, nulls = values[3 * index : 3 * index + 3]
        if low is not None and not nulls:
            inside = F.col(quote(name)).between(_decode_value(low, kinds[name]), _decode_value(high, kinds[name]))
            condition = condition & inside
    return condition


def _encode_value(value: Column, kind: Type) -> Column:
    """A value as Python can hand it back: it has no days beyond 9999, and moments depend on its time zone."""
    match kind:
        case m.TIMESTAMP:
            return F.unix_micros(value)
        case m.TIMESTAMP_NTZ:
            return value.cast("string")
        case m.DATE:
            return F.unix_date(value)
        case _:
            return value


def _decode_value(encoded: Any, kind: Type) -> Column:
    """Decode a value that `_encode_value` encoded."""
    match kind:
        case m.TIMESTAMP:
            return F.timestamp_micros(F.lit(encoded))
        case m.TIMESTAMP_NTZ:
            return F.lit(encoded).cast("timestamp_ntz")
        case m.DATE:
            return F.date_from_unix_date(F.lit(encoded))
        case _:
            return F.lit(encoded)


class ChangedKeys:
    """The key values that a change touches: as literals where they are few, as a table to look them up in otherwise.

    Values never become text of SQL: what is restricted by them is a frame, which SQL reads under the name of a view.
    """

    FEW = 200

    def __init__(self, session: SparkSession, values: DataFrame, view: str) -> None:
        self._session, self.view = session, view
        self.names = list(values.columns)
        values.createOrReplaceTempView(view)
        self.literals: dict[str, list[Any] | None] = {name: self._collect_literals(values, name) for name in self.names}
        self.all_literal = all(v is not None for v in self.literals.values())
        self._columns: dict[str, list[Column]] = {}
        self._views = 0

    @classmethod
    def from_literals(cls, session: SparkSession, literals: Mapping[str, list[Any]]) -> ChangedKeys:
        """Keys whose values are known and few."""
        keys = cls.__new__(cls)
        keys._session, keys.view, keys._columns, keys._views = session, "", {}, 0
        keys.names, keys.literals, keys.all_literal = list(literals), dict(literals), True
        return keys

    def _collect_literals(self, values: DataFrame, name: str) -> list[Any] | None:
        kind = dict(list_types(values))[name]
        if kind not in _LITERALS and not isinstance(kind, DecimalType):
            return None
        column = _encode_value(F.col(name), kind)
        rows = values.select(column).distinct().limit(self.FEW + 1).collect()
        if len(rows) > self.FEW:
            return None
        try:
            return [_EPOCH + timedelta(days=v) if kind == m.DATE and v is not None else v for (v,) in rows]
        except OverflowError:
            # Python has no dates before the year 1 and after 9999.
            return None

    def restrict(self, relation: str, expressions: Mapping[str, str]) -> str:
        """The rows of a relation with touched keys; `expressions` maps the keys' names to those of the relation."""
        rows = self._session.sql(f"SELECT * FROM {relation}")
        for name, values in self.literals.items():
            if values is not None and name in expressions:
                rows = rows.where(
                    _build_day_bounds(expressions[name], values)
                    & self._build_condition(name, render_key_expression(expressions[name]))
                )
        plain = self._create_view(rows)
        if self.all_literal:
            return f"(SELECT * FROM {plain})"
        on = " AND ".join(f"{render_key_expression(expressions[n], 'r.')} <=> k.{quote(n)}" for n in self.names)
        return f"(SELECT r.* FROM {plain} r LEFT SEMI JOIN {self.view} k ON {on})"

    def exclude(self, relation: str, columns: Mapping[str, str]) -> str:
        """A relation's rows whose columns hold no touched key."""
        if self.all_literal:
            conditions = [self._build_condition(name, quote(columns[name])) for name in self.literals]
            touched = F.coalesce(reduce(Column.__and__, conditions), F.lit(False))
            return (
                f"(SELECT * FROM {self._create_view(self._session.sql(f'SELECT * FROM {relation}').where(~touched))})"
            )
        on = " AND ".join(f"r.{quote(columns[n])} <=> k.{quote(n)}" for n in self.names)
        return f"(SELECT r.* FROM {relation} r LEFT ANTI JOIN {self.view} k ON {on})"

    def _build_condition(self, name: str, expression: str) -> Column:
        """Whether a term (in SQL) holds one of a key's values."""
        values = self.literals[name] or []
        if name not in self._columns:
            self._columns[name] = [_build_literal(v) for v in values if v is not None]
        known, value = self._columns[name], F.expr(expression)
        parts = [value.isin(*known)] if known else []
        parts += [value.isNull()] if len(known) < len(values) else []
        return reduce(Column.__or__, parts) if parts else F.lit(False)

    def _create_view(self, rows: DataFrame) -> str:
        """A view for SQL to read a frame by; none takes the place of another one that is still read."""
        name = f"__sqb_rows_{self._views}"
        self._views += 1
        rows.createOrReplaceTempView(name)
        return name


def read_partition_keys(
    session: SparkSession, name: str, expressions: Mapping[int, str], values: Mapping[int, Sequence[Any]]
) -> ChangedKeys:
    """The values of a key, as an expression at each slot, over the values of the columns that it is made of there."""
    if all(expressions[slot] == list_key_columns(expressions[slot])[0] for slot in values):
        plain = dict.fromkeys(value for listed in values.values() for value in listed)
        return ChangedKeys.from_literals(session, {name: list(plain)})
    parts = []
    for slot, listed in values.items():
        column = list_key_columns(expressions[slot])[0]
        literals = [F.lit(None) if value is None else _build_literal(value) for value in listed]
        rows = session.range(1).select(F.explode(F.array(*literals)).alias(column))
        parts.append(rows.select(F.expr(render_key_expression(expressions[slot])).alias(name)))
    return ChangedKeys(session, union_all(parts).distinct(), "__sqb_keys")


def _build_day_bounds(expression: str, days: Sequence[Any]) -> Column:
    """A condition on the column whose days are asked for, a day wider on both sides, so that files can be skipped."""
    span, known = find_day_span(expression), [d for d in days if d is not None]
    if span is None or not known:
        return F.lit(True)
    column, early, late = span
    try:
        first, last = min(known) - timedelta(days=early + 1), max(known) + timedelta(days=late + 2)
    except OverflowError:
        return F.lit(True)
    value = F.col(quote(column))
    inside = value.between(_build_literal(first), _build_literal(last))
    return inside | value.isNull() if len(known) < len(days) else inside


def _build_literal(value: Any) -> Column:
    """A value as a literal of Spark's."""
    # Java's own dates, which a literal would go through, lack ten days of 1582.
    return _decode_value((value - _EPOCH).days, m.DATE) if type(value) is date else F.lit(value)


def add_contents(one: str, other: str) -> str:
    """The content of two relations together."""
    return str(Content.parse(one) + Content.parse(other))


def build_content_replacement(content: str, then: Content) -> Callable[[str], str]:
    """The content of a table after some of it has given way to rows of another content."""
    return lambda now: str(Content.parse(content) - then + Content.parse(now))


def observe_count(frame: DataFrame) -> tuple[DataFrame, Callable[[], int]]:
    """The same rows, and how many they were once they have been written."""
    observation = Observation()
    observed = frame.observe(observation, F.count(F.lit(1)).alias("rows"))
    return observed, lambda: int((wait_for_observation(observation) or {}).get("rows") or 0)
