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
from sqb.spark.checksum import Content, comparable, content_columns, content_from_sums, weighted_columns
from sqb.spark.frames import reported
from sqb.sql.delta.facts import day_column, term_sql

TIMES = "__sqb_times"
_FILE = "__sqb_file"
# Columns of these types have bounds in Iceberg's file statistics that Spark can push a filter to.
_BOUNDED = ("int", "bigint", "smallint", "tinyint", "date", "timestamp", "timestamp_ntz", "string", "decimal")

# Of these the statistics hold the smallest and the largest value themselves, and not something beyond them.
_EXACT_BOUNDS = ("int", "bigint", "date", "timestamp", "timestamp_ntz")

_EPOCH = date(1970, 1, 1)

How = Literal["appended", "changelog", "compared"]


def source_changes(
    session: SparkSession, table: str, old: int, new: int, columns: Sequence[str], how: How
) -> DataFrame:
    """The net change of a table (a quoted name) between two snapshots, over some of its columns."""
    names = [quote(c) for c in columns]
    if how == "compared":
        now = session.sql(f"SELECT {', '.join(names)}, 1L AS {TIMES} FROM {table} VERSION AS OF {new}")
        then = session.sql(f"SELECT {', '.join(names)}, -1L AS {TIMES} FROM {table} VERSION AS OF {old}")
        return net(now.unionAll(then), columns)
    # By SQL and not by a reader, which reads the name of a table without the settings of its session.
    between = f"WITH ('start-snapshot-id' = '{old}', 'end-snapshot-id' = '{new}')"
    if how == "appended":
        return session.sql(f"SELECT {', '.join(names)}, 1L AS {TIMES} FROM {table} {between}")
    changes = session.sql(f"SELECT * FROM {table}.changes {between}")
    sign = F.when(F.col("_change_type") == "INSERT", 1).otherwise(-1).cast("bigint").alias(TIMES)
    return net(changes.select(*names, sign), columns)


def net(frame: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Equal rows added up; rows that come out even are gone."""
    kinds = {f.name.lower(): f for f in frame.schema.fields}
    # Spark groups 0.0 and -0.0 together, and makes them one value; two rows that differ so are two rows.
    floating = [c for c in columns if any(w in kinds[c.lower()].dataType.simpleString() for w in ("float", "double"))]
    alike = {c: comparable(F.col(quote(c)), kinds[c.lower()].dataType, c) for c in floating}
    named = {c: f"__sqb_alike_{i}" for i, c in enumerate(floating)}
    by = [alike[c].alias(named[c]) if c in alike else F.col(quote(c)) for c in columns]
    kept = [F.first(F.col(quote(c))).alias(c) for c in floating]
    summed = frame.groupBy(*by).agg(F.sum(TIMES).alias(TIMES), *kept)
    return summed.where(F.col(TIMES) != 0).select(*[F.col(quote(c)) for c in columns], TIMES)


def without_alike(change: DataFrame, columns: Sequence[str], by: Sequence[str]) -> DataFrame:
    """A change without rows that came in the place of rows that went, where both are the same in some columns."""
    names, times = [F.col(quote(c)) for c in by], F.col(TIMES)
    plain = [f.name for f in change.schema.fields if f.name in columns and "map<" not in f.dataType.simpleString()]
    order = F.xxhash64(*[F.col(quote(c)) for c in plain]) if plain else F.lit(0)
    alike, size, is_new = Window.partitionBy(*names), F.abs(times), times > 0
    same_way = Window.partitionBy(*names, is_new).orderBy(order).rowsBetween(Window.unboundedPreceding, -1)
    opposite = F.sum(F.when(is_new, times).otherwise(0)).over(alike)
    opposite = F.when(is_new, F.sum(F.when(is_new, 0).otherwise(-times)).over(alike)).otherwise(opposite)
    before = F.coalesce(F.sum(size).over(same_way), F.lit(0))
    left = F.least(size, F.greatest(F.lit(0), before + size - opposite))
    found = change.select(*[F.col(quote(c)) for c in columns], (F.signum(times) * left).cast("bigint").alias(TIMES))
    return found.where(F.col(TIMES) != 0)


def signed(frame: DataFrame, sign: int, columns: Sequence[str]) -> DataFrame:
    """Every row of a result, counted once or minus once."""
    return frame.select(*[F.col(quote(c)) for c in columns], F.lit(sign).cast("bigint").alias(TIMES))


def counted(frame: DataFrame, column: str) -> DataFrame:
    """Rows that say themselves, in a column, how often they come or go."""
    return frame.withColumn(column, F.col(quote(column)).cast("bigint")).withColumnRenamed(column, TIMES)


def rows_of(change: DataFrame, sign: int, columns: Sequence[str]) -> DataFrame:
    """The rows that came (sign 1) or went (sign -1), each as often as it did."""
    some = change.where(F.col(TIMES) * sign > 0)
    copies = F.explode(F.array_repeat(F.lit(1), F.abs(F.col(TIMES)).cast("int")))
    return some.select(*[F.col(quote(c)) for c in columns], copies.alias("__sqb_copy")).drop("__sqb_copy")


def all_of(frames: Sequence[DataFrame]) -> DataFrame:
    """The rows of several frames together."""
    return reduce(DataFrame.unionAll, frames)


@contextmanager
def kept(frame: DataFrame) -> Iterator[DataFrame]:
    """A frame that is computed once, however often it is used."""
    frame.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield frame
    finally:
        frame.unpersist()


class Measured:
    """The size of a change and what it does to a content, in one pass."""

    def __init__(self, change: DataFrame, columns: Sequence[str], more: Sequence[Column] = ()) -> None:
        rows = change.select(*[F.col(quote(c)) for c in columns]).schema
        times = F.col(TIMES)
        came = F.sum(F.when(times > 0, times)).alias("came")
        went = F.sum(F.when(times < 0, -times)).alias("went")
        found = change.agg(*weighted_columns(rows, times), came, went, *more).collect()[0].asDict()
        self.came, self.went = int(found["came"] or 0), int(found["went"] or 0)
        self._net = content_from_sums(found)
        # Whatever else was asked of the change.
        self.found = found

    def applied(self, content: str) -> str:
        """The content after the change."""
        return str(Content.parse(content) + self._net)


def contents(frames: Mapping[str, DataFrame]) -> dict[str, Content]:
    """The contents of several frames with the same columns, in one pass over each."""
    tag = "__sqb_tag"
    tagged = [
        frame.select(F.lit(name).alias(tag), *[F.col(quote(c)) for c in frame.columns])
        for name, frame in frames.items()
    ]
    schema = next(iter(frames.values())).schema
    found = all_of(tagged).groupBy(tag).agg(*content_columns(schema)).collect()
    sums = {row[tag]: content_from_sums(row.asDict()) for row in found}
    return {name: sums.get(name, Content()) for name in frames}


def renewed(
    session: SparkSession, table: str, snapshot_id: int, keys: Keys, by: Mapping[str, str], now: DataFrame, small: bool
) -> tuple[list[str] | None, DataFrame]:
    """How to put `now` in the place of a table's rows with touched keys: the files that go (None: all), the rows."""
    listed = ", ".join(quote(c) for c in now.columns)
    at = f"{table} VERSION AS OF {snapshot_id}"
    if small:
        return None, session.sql(f"SELECT {listed} FROM {keys.others(at, by)}").unionAll(now)
    hit = session.sql(f"SELECT DISTINCT {_FILE} FROM {keys.restricted(f'(SELECT *, _file AS {_FILE} FROM {at})', by)}")
    files = sorted(row[0] for row in hit.collect())
    target = session.sql(f"SELECT *, _file AS {_FILE} FROM {at}")
    inside = target.where(_bounds_of_files(session, table, files, target, now.columns)).where(F.col(_FILE).isin(files))
    view = "__sqb_inside"
    inside.createOrReplaceTempView(view)
    return files, session.sql(f"SELECT {listed} FROM {keys.others(view, by)}").unionAll(now)


def exchanged(
    session: SparkSession, table: str, snapshot_id: int, change: DataFrame, columns: Sequence[str], small: bool = False
) -> tuple[list[str] | None, DataFrame]:
    """How to apply a change to a table: the data files that have to go (None: all), and the rows to write instead."""
    listed = ", ".join(quote(c) for c in columns)
    target = session.sql(f"SELECT {listed}, _file AS {_FILE} FROM {table} VERSION AS OF {snapshot_id}")
    if small:
        return None, _after(target, change, columns)
    leaving = change.where(F.col(TIMES) < 0)
    near = target.where(_bounds(leaving, columns))
    # Maps cannot be compared; without them a file too many may be found, and what leaves it is counted exactly below.
    plain = [f.name for f in leaving.schema.fields if f.name in columns and "map<" not in f.dataType.simpleString()]
    same = reduce(Column.__and__, [near[quote(c)].eqNullSafe(leaving[quote(c)]) for c in plain], F.lit(True))
    hit = near.join(F.broadcast(leaving), same, "left_semi").select(_FILE).distinct()
    files = sorted(row[0] for row in hit.collect())
    inside = target.where(_bounds_of_files(session, table, files, target, columns)).where(F.col(_FILE).isin(files))
    return files, _after(inside, change, columns)


def _after(before: DataFrame, change: DataFrame, columns: Sequence[str]) -> DataFrame:
    """The rows that a change leaves."""
    counted = signed(before, 1, columns)
    after = net(counted.unionAll(change.select(*[quote(c) for c in counted.columns])), columns)
    # A row that is to go but is not there means that the table is not what it was recorded to be.
    checked = F.when(F.col(TIMES) < 0, F.raise_error(F.lit(_INCONSISTENT)).cast("bigint")).otherwise(F.col(TIMES))
    return rows_of(after.withColumn(TIMES, checked), 1, columns)


def _bounds_of_files(
    session: SparkSession, table: str, files: Sequence[str], target: DataFrame, columns: Sequence[str]
) -> Column:
    """A condition that every row of some files fulfils and that lets other files be skipped, from their statistics."""
    kinds = {f.name: f.dataType.simpleString() for f in target.schema.fields}
    useful = [c for c in columns if kinds[c] in _EXACT_BOUNDS][:8]
    if not useful or not files:
        return F.lit(True)
    metrics = session.sql(f"SELECT * FROM {table}.files").where(F.col("file_path").isin(list(files)))
    wanted = []
    for name in useful:
        of = f"readable_metrics.{quote(name)}"
        known = F.count(F.when(F.col(f"{of}.lower_bound").isNull(), 1))
        nulls = F.sum(F.coalesce(F.col(f"{of}.null_value_count"), F.lit(1)))
        low, high = F.min(f"{of}.lower_bound"), F.max(f"{of}.upper_bound")
        wanted += [_told(low, kinds[name]), _told(high, kinds[name]), known, nulls]
    found = metrics.agg(*wanted).collect()[0]
    condition = F.lit(True)
    for index, name in enumerate(useful):
        low, high, unknown, nulls = found[4 * index : 4 * index + 4]
        if low is None or unknown:
            continue
        inside = F.col(quote(name)).between(_value_of(low, kinds[name]), _value_of(high, kinds[name]))
        condition = condition & (inside | F.col(quote(name)).isNull() if nulls else inside)
    return condition


_INCONSISTENT = "sqb: the table does not hold the rows that its commit says"


def is_inconsistent(error: BaseException) -> bool:
    """Whether a write failed because the table was not what it was recorded to be."""
    return _INCONSISTENT in str(error)


def _bounds(rows: DataFrame, columns: Sequence[str]) -> Column:
    """A condition that all these rows fulfil and that lets files be skipped by their statistics."""
    kinds = {f.name: f.dataType.simpleString() for f in rows.schema.fields}
    useful = [c for c in columns if kinds[c].startswith(_BOUNDED)][:12]
    if not useful:
        return F.lit(True)
    wanted = []
    for name in useful:
        low, high = F.min(quote(name)), F.max(quote(name))
        nulls = F.count(F.when(F.col(quote(name)).isNull(), 1))
        wanted += [_told(low, kinds[name]), _told(high, kinds[name]), nulls]
    found = rows.agg(*wanted).collect()[0]
    condition = F.lit(True)
    for index, name in enumerate(useful):
        low, high, nulls = found[3 * index : 3 * index + 3]
        if low is not None and not nulls:
            inside = F.col(quote(name)).between(_value_of(low, kinds[name]), _value_of(high, kinds[name]))
            condition = condition & inside
    return condition


def _told(value: Column, kind: str) -> Column:
    """A value as Python can hand it back: it has no days beyond 9999, and moments depend on its time zone."""
    match kind:
        case "timestamp":
            return F.unix_micros(value)
        case "timestamp_ntz":
            return value.cast("string")
        case "date":
            return F.unix_date(value)
        case _:
            return value


def _value_of(told: Any, kind: str) -> Column:
    """The value again that was told so."""
    match kind:
        case "timestamp":
            return F.timestamp_micros(F.lit(told))
        case "timestamp_ntz":
            return F.lit(told).cast(kind)
        case "date":
            return F.date_from_unix_date(F.lit(told))
        case _:
            return F.lit(told)


class Keys:
    """The key values that a change touches: as literals where they are few, as a table to look them up in otherwise.

    Values never become text of SQL: what is restricted by them is a frame, which SQL reads under the name of a view.
    """

    FEW = 200

    def __init__(self, session: SparkSession, values: DataFrame, view: str) -> None:
        self._session, self.view = session, view
        self.names = list(values.columns)
        values.createOrReplaceTempView(view)
        self.literals: dict[str, list[Any] | None] = {name: self._few(values, name) for name in self.names}
        self.all_literal = all(v is not None for v in self.literals.values())
        self._columns: dict[str, list[Column]] = {}
        self._views = 0

    @classmethod
    def of_literals(cls, session: SparkSession, literals: Mapping[str, list[Any]]) -> Keys:
        """Keys whose values are known and few."""
        keys = cls.__new__(cls)
        keys._session, keys.view, keys._columns, keys._views = session, "", {}, 0
        keys.names, keys.literals, keys.all_literal = list(literals), dict(literals), True
        return keys

    def _few(self, values: DataFrame, name: str) -> list[Any] | None:
        kind = dict(values.dtypes)[name]
        if not kind.startswith(("int", "bigint", "smallint", "tinyint", "date", "string", "boolean", "decimal")):
            return None
        column = _told(F.col(name), kind)
        found = values.select(column).distinct().limit(self.FEW + 1).collect()
        if len(found) > self.FEW:
            return None
        try:
            return [_EPOCH + timedelta(days=v) if kind == "date" and v is not None else v for (v,) in found]
        except OverflowError:
            # Python has no dates before the year 1 and after 9999.
            return None

    def restricted(self, relation: str, terms: Mapping[str, str]) -> str:
        """A relation's rows whose terms hold touched keys; `terms` maps the keys' names to the relation's terms."""
        rows = self._session.sql(f"SELECT * FROM {relation}")
        for name, values in self.literals.items():
            if values is not None and name in terms:
                rows = rows.where(_within_days(terms[name], values) & self._condition(name, term_sql(terms[name])))
        plain = self._view_of(rows)
        if self.all_literal:
            return f"(SELECT * FROM {plain})"
        on = " AND ".join(f"{term_sql(terms[n], 'r.')} <=> k.{quote(n)}" for n in self.names)
        return f"(SELECT r.* FROM {plain} r LEFT SEMI JOIN {self.view} k ON {on})"

    def others(self, relation: str, columns: Mapping[str, str]) -> str:
        """A relation's rows whose columns hold no touched key."""
        if self.all_literal:
            conditions = [self._condition(name, quote(columns[name])) for name in self.literals]
            touched = F.coalesce(reduce(Column.__and__, conditions), F.lit(False))
            return f"(SELECT * FROM {self._view_of(self._session.sql(f'SELECT * FROM {relation}').where(~touched))})"
        on = " AND ".join(f"r.{quote(columns[n])} <=> k.{quote(n)}" for n in self.names)
        return f"(SELECT r.* FROM {relation} r LEFT ANTI JOIN {self.view} k ON {on})"

    def _condition(self, name: str, term: str) -> Column:
        """Whether a term (in SQL) holds one of a key's values."""
        values = self.literals[name] or []
        if name not in self._columns:
            self._columns[name] = [_typed(v) for v in values if v is not None]
        known, value = self._columns[name], F.expr(term)
        parts = [value.isin(*known)] if known else []
        parts += [value.isNull()] if len(known) < len(values) else []
        return reduce(Column.__or__, parts) if parts else F.lit(False)

    def _view_of(self, rows: DataFrame) -> str:
        """A view for SQL to read a frame by; none takes the place of another one that is still read."""
        name = f"__sqb_rows_{self._views}"
        self._views += 1
        rows.createOrReplaceTempView(name)
        return name


def _within_days(term: str, days: Sequence[Any]) -> Column:
    """A condition on the column whose days are asked for, a day wider on both sides, so that files can be skipped."""
    column, known = day_column(term), [d for d in days if d is not None]
    if column is None or not known:
        return F.lit(True)
    try:
        first, last = min(known) - timedelta(days=1), max(known) + timedelta(days=2)
    except OverflowError:
        return F.lit(True)
    value = F.col(quote(column))
    inside = value.between(_typed(first), _typed(last))
    return inside | value.isNull() if len(known) < len(days) else inside


def _typed(value: Any) -> Column:
    """A value as a literal of Spark's."""
    # Java's own dates, which a literal would go through, lack ten days of 1582.
    return _value_of((value - _EPOCH).days, "date") if type(value) is date else F.lit(value)


def sum_of(one: str, other: str) -> str:
    """The content of two relations together."""
    return str(Content.parse(one) + Content.parse(other))


def replacing(content: str, then: Content) -> Callable[[str], str]:
    """The content of a table after some of it has given way to rows of another content."""
    return lambda now: str(Content.parse(content) - then + Content.parse(now))


def counting(frame: DataFrame) -> tuple[DataFrame, Callable[[], int]]:
    """The same rows, and how many they were once they have been written."""
    observation = Observation()
    counted = frame.observe(observation, F.count(F.lit(1)).alias("rows"))
    return counted, lambda: int((reported(observation) or {}).get("rows") or 0)
