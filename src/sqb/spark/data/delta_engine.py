"""The rules of following changes on Spark: frames are DataFrames, and texts read them by the names of views."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sqb.names import quote
from sqb.spark.data.changes import MULTIPLICITY, persisted, sum_changes, union_all


class SparkEngine:
    """Runs the texts of rules in a session; what is computed once is kept until the stack is closed."""

    def __init__(self, session: SparkSession, stack: ExitStack) -> None:
        self.session, self.stack = session, stack
        self._views = 0

    def run(self, text: str) -> DataFrame:
        return self.session.sql(text)

    def list_columns(self, frame: DataFrame) -> list[str]:
        return list(frame.columns)

    def rename(self, frame: DataFrame, columns: Sequence[str]) -> DataFrame:
        return frame.toDF(*columns)

    def persist(self, frame: DataFrame) -> DataFrame:
        return self.stack.enter_context(persisted(frame))

    def create_view(self, frame: DataFrame) -> str:
        # A Spark Connect server looks a name up each time that a frame is read: none may come to mean another view.
        self._views += 1
        name = f"__sqb_view_{self._views}"
        frame.createOrReplaceTempView(name)
        self.stack.callback(self.session.catalog.dropTempView, name)
        return quote(name)

    def weigh(self, frame: DataFrame, columns: Sequence[str]) -> DataFrame:
        # A star shows the multiplicity of the change that it was read from.
        shown = frame.drop(MULTIPLICITY)
        weight = F.col(quote(shown.columns[-1])).cast("bigint")
        return shown.withColumn(shown.columns[-1], weight).toDF(*columns, MULTIPLICITY)

    def sum_changes(self, frames: Sequence[DataFrame], like: DataFrame) -> DataFrame:
        columns = like.columns
        if len(set(map(str.lower, columns))) < len(columns):
            return self._sum_by_place(frames, like)
        # Each is computed by itself: Spark fails to plan some queries as part of a grouped union.
        parts = [self.persist(_cast(frame, like)) if len(frames) > 1 else _cast(frame, like) for frame in frames]
        return self.persist(sum_changes(union_all(parts), columns))

    def _sum_by_place(self, frames: Sequence[DataFrame], like: DataFrame) -> DataFrame:
        """The net change of a relation in which two columns have one name."""
        names = [f"c{i}" for i in range(len(like.columns))]
        renamed = [frame.toDF(*names, MULTIPLICITY) for frame in frames]
        return self.sum_changes(renamed, like.toDF(*names)).toDF(*like.columns, MULTIPLICITY)

    def expand(self, change: DataFrame) -> DataFrame:
        times = F.col(MULTIPLICITY)
        copies = F.array_repeat(F.signum(times).cast("bigint"), F.abs(times).cast("int"))
        rows = [F.col(quote(c)) for c in change.columns[:-1]]
        return change.select(*rows, F.explode(copies).alias(MULTIPLICITY))

    def list_rows(self, frames: Sequence[DataFrame], like: DataFrame) -> DataFrame:
        rows = union_all([_cast(frame, like) for frame in frames]).drop(MULTIPLICITY)
        return self.persist(rows.distinct())

    def restrict(self, frame: DataFrame, rows: DataFrame, like: DataFrame) -> DataFrame:
        own, wanted = [f"o{i}" for i in range(len(frame.columns))], [f"w{i}" for i in range(len(rows.columns))]
        kinds = [field.dataType for field in like.schema.fields]
        same = reduce(
            Column.__and__,
            (F.col(o).cast(kind).eqNullSafe(F.col(w)) for o, w, kind in zip(own, wanted, kinds, strict=True)),
        )
        return frame.toDF(*own).join(rows.toDF(*wanted), same, "left_semi").toDF(*frame.columns)


def _cast(change: DataFrame, like: DataFrame) -> DataFrame:
    """A change in the types and names of a relation, by position."""
    names = [f"c{i}" for i in range(len(like.columns))]
    fields = zip(names, like.schema.fields, strict=True)
    columns = [F.col(name).cast(field.dataType).alias(field.name) for name, field in fields]
    return change.toDF(*names, MULTIPLICITY).select(*columns, MULTIPLICITY)
