"""The rules of following changes on Spark: frames are DataFrames, and texts read them by the names of views.

A plan holds everything that its frame was made from, also where that is cached: the change of a query over queries
would hold each of those as often as it is read on any way to it. So the engine counts how many relations a plan
reads, and a frame that is computed once anyway is cut off from a plan that has grown large.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import reduce
from weakref import WeakKeyDictionary

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sqb.names import quote
from sqb.spark.data.changes import MULTIPLICITY, persisted, sum_changes, union_all
from sqb.sql.text.lexer import tokenize_code

# A frame whose plan reads more relations than this is computed at once, and what reads it does not see its plan.
LARGEST_PLAN = 48
_CONSTRAINTS = "spark.sql.constraintPropagation.enabled"


class SparkEngine:
    """Runs the texts of rules in a session; what is computed once is kept until the stack is closed."""

    def __init__(self, session: SparkSession, stack: ExitStack) -> None:
        self.session, self.stack = session, stack
        # How many relations the plan of a frame reads, each as often as it is read; of views by their quoted names.
        self._sizes: WeakKeyDictionary[DataFrame, int] = WeakKeyDictionary()
        self._views: dict[str, int] = {}

    def run(self, text: str) -> DataFrame:
        return self._note(self.session.sql(text), self._count_relations(text))

    def _count_relations(self, text: str) -> int:
        """How many relations the plan of a text reads."""
        tokens = tokenize_code(text)
        written = sum(token.kind == "word" and token.text.upper() in ("FROM", "JOIN") for token in tokens)
        return written + sum(self._views.get(token.text, 0) for token in tokens if token.kind == "quoted")

    def _note(self, frame: DataFrame, size: int) -> DataFrame:
        self._sizes[frame] = size
        return frame

    def get_size(self, *frames: DataFrame) -> int:
        """How many relations the plans of some frames read together."""
        return sum(self._sizes.get(frame, 1) for frame in frames)

    def derive(self, frame: DataFrame, *sources: DataFrame) -> DataFrame:
        return self._note(frame, self.get_size(*sources))

    def list_columns(self, frame: DataFrame) -> list[str]:
        return list(frame.columns)

    def rename(self, frame: DataFrame, columns: Sequence[str]) -> DataFrame:
        return self._note(frame.toDF(*columns), self.get_size(frame))

    def persist(self, frame: DataFrame) -> DataFrame:
        if self.get_size(frame) > LARGEST_PLAN:
            return self._cut_off(frame)
        return self.stack.enter_context(persisted(frame))

    def _cut_off(self, frame: DataFrame) -> DataFrame:
        """Compute a frame, whose readers do not see its plan; Spark lets go of its rows with the last of them.

        Spark would hand on what the plan says of columns that the frame does not have, and then fail to find them.
        """
        before = self.session.conf.get(_CONSTRAINTS)
        self.session.conf.set(_CONSTRAINTS, "false")
        try:
            return frame.localCheckpoint()
        finally:
            self.session.conf.set(_CONSTRAINTS, str(before))

    def create_view(self, frame: DataFrame) -> str:
        # A Spark Connect server looks a name up each time that a frame is read: none may come to mean another view.
        name = f"__sqb_view_{len(self._views) + 1}"
        frame.createOrReplaceTempView(name)
        self.stack.callback(self.session.catalog.dropTempView, name)
        self._views[quote(name)] = self.get_size(frame)
        return quote(name)

    def weigh(self, frame: DataFrame, columns: Sequence[str]) -> DataFrame:
        # A star shows the multiplicity of the change that it was read from.
        shown = frame.drop(MULTIPLICITY)
        weight = F.col(quote(shown.columns[-1])).cast("bigint")
        weighed = shown.withColumn(shown.columns[-1], weight).toDF(*columns, MULTIPLICITY)
        return self._note(weighed, self.get_size(frame))

    def sum_changes(self, frames: Sequence[DataFrame], like: DataFrame) -> DataFrame:
        columns = like.columns
        if len(set(map(str.lower, columns))) < len(columns):
            return self._sum_by_place(frames, like)
        # Each is computed by itself: Spark fails to plan some queries as part of a grouped union.
        parts = [self._note(_cast(frame, like), self.get_size(frame)) for frame in frames]
        if len(parts) > 1:
            parts = [self.persist(part) for part in parts]
        return self.persist(self._note(sum_changes(union_all(parts), columns), self.get_size(*parts)))

    def _sum_by_place(self, frames: Sequence[DataFrame], like: DataFrame) -> DataFrame:
        """The net change of a relation in which two columns have one name."""
        names = [f"c{i}" for i in range(len(like.columns))]
        renamed = [self.rename(frame, [*names, MULTIPLICITY]) for frame in frames]
        return self.rename(self.sum_changes(renamed, like.toDF(*names)), [*like.columns, MULTIPLICITY])

    def expand(self, change: DataFrame) -> DataFrame:
        times = F.col(MULTIPLICITY)
        copies = F.array_repeat(F.signum(times).cast("bigint"), F.abs(times).cast("int"))
        # By position: two columns may have one name.
        names = [f"c{i}" for i in range(len(change.columns) - 1)]
        expanded = change.toDF(*names, MULTIPLICITY).select(*names, F.explode(copies)).toDF(*change.columns)
        return self._note(expanded, self.get_size(change))

    def list_rows(self, frames: Sequence[DataFrame], like: DataFrame) -> DataFrame:
        rows = union_all([_cast(frame, like) for frame in frames]).drop(MULTIPLICITY)
        return self.persist(self._note(rows.distinct(), self.get_size(*frames)))

    def restrict(self, frame: DataFrame, rows: DataFrame, like: DataFrame) -> DataFrame:
        own, wanted = [f"o{i}" for i in range(len(frame.columns))], [f"w{i}" for i in range(len(rows.columns))]
        kinds = [field.dataType for field in like.schema.fields]
        same = reduce(
            Column.__and__,
            (F.col(o).cast(kind).eqNullSafe(F.col(w)) for o, w, kind in zip(own, wanted, kinds, strict=True)),
        )
        restricted = frame.toDF(*own).join(rows.toDF(*wanted), same, "left_semi").toDF(*frame.columns)
        return self._note(restricted, self.get_size(frame, rows))


def _cast(change: DataFrame, like: DataFrame) -> DataFrame:
    """A change in the types and names of a relation, by position."""
    names = [f"c{i}" for i in range(len(like.columns))]
    fields = zip(names, like.schema.fields, strict=True)
    columns = [F.col(name).cast(field.dataType).alias(field.name) for name, field in fields]
    return change.toDF(*names, MULTIPLICITY).select(*columns, MULTIPLICITY)
