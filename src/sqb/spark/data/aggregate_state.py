"""The state of an aggregation as DataFrames: what changes add to it, and the rows of the result before and after.

A row of state is a group: its key, a sample of its rows' columns, how many rows it has, and figures that add up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

from pyarrow import Table
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql import types as t

from sqb.spark.data.changes import is_inconsistent, refuse_negative, union_all
from sqb.spark.data.frames import wait_for_observation
from sqb.spark.data.local_rows import LocalRows
from sqb.sql.delta.aggregates.state_design import ROWS, SAMPLE, Figure, StateDesign
from sqb.sql.delta.rules.add_up import SIGN

_GONE = "__sqb_gone_"
_IS_OLD = "__sqb_is_old"
# Groups that changed may be added to a state again and again: those of the highest layer count.
LAYER = "__sqb_layer"
# Of a group: whether a change touches it, and whether its rows must be looked at again.
TOUCHED = "__sqb_touched"
REDO = "__sqb_redo"
_NOT_EXACT = "sqb: an average of large numbers"
# What Iceberg gives back as it was stored, and what is one value wherever it is equal.
_KEYS = (
    t.BooleanType,
    t.IntegerType,
    t.LongType,
    t.DecimalType,
    t.DateType,
    t.TimestampType,
    t.TimestampNTZType,
    t.BinaryType,
)
_STORED = (*_KEYS, t.FloatType, t.DoubleType)


def find_unfit_column(state: DataFrame, design: StateDesign) -> str:
    """A column of a state whose values a table would not hold as they are, with its type; "" where all fit."""
    for field in state.schema.fields:
        kind = field.dataType.simpleString()
        if field.name in design.keys and not _is_plain(field.dataType, _KEYS):
            return f"a group of type {kind}"
        if field.name == SAMPLE and not _is_plain(field.dataType, _STORED):
            return f"a column of type {kind} beside the groups"
        if field.name not in (*design.keys, SAMPLE) and not _is_plain(field.dataType, _KEYS):
            return f"a smallest or largest value of type {kind}"
    return ""


def _is_plain(kind: t.DataType, accepted: tuple[type[t.DataType], ...]) -> bool:
    match kind:
        case t.StringType():
            # A collation makes values equal that are not the same.
            return kind.simpleString() == "string"
        case t.StructType():
            return all(_is_plain(f.dataType, accepted) for f in kind.fields)
        case t.ArrayType():
            return _is_plain(kind.elementType, accepted)
    return isinstance(kind, accepted)


def add_up(frames: Sequence[DataFrame], design: StateDesign) -> DataFrame:
    """The state of all changes together: each frame holds states of rows that came (sign 1) and that went (-1)."""
    came = F.col(SIGN) > 0
    parts: list[Column] = []
    for figure in design.figures:
        value = F.col(figure.name)
        if figure.merge == "sum":
            # A minus keeps the type of a decimal; a product would not.
            parts.append(_merge(figure, F.when(came, value).otherwise(F.negative(value))))
        else:
            parts.append(_merge(figure, F.when(came, value)))
            parts.append(_merge(figure, F.when(~came, value)).alias(_GONE + figure.name))
    added = union_all(frames).groupBy(*design.keys).agg(*_sample(design), *parts)
    # The group of all rows is there whatever happens to them.
    is_kept_whole = design.has_extremes or not design.keys
    return added if is_kept_whole else added.where(~_is_even(design))


def _is_even(design: StateDesign) -> Column:
    """Whether a change leaves a group what it was: a rewritten file holds rows of many groups, and few changed.

    A sum that is NULL says nothing: it may be one of no values.
    """
    same = reduce(Column.__and__, (F.col(figure.name) == 0 for figure in design.figures))
    return F.coalesce(same, F.lit(False))


def _sample(design: StateDesign) -> list[Column]:
    return [F.any_value(SAMPLE).alias(SAMPLE)] if design.samples else []


def _merge(figure: Figure, value: Column) -> Column:
    match figure.merge:
        case "min":
            return F.min(value).alias(figure.name)
        case "max":
            return F.max(value).alias(figure.name)
        case _:
            return F.sum(value).cast(figure.type).alias(figure.name)


def _join_groups(left: DataFrame, right: DataFrame, names: Sequence[str], how: str) -> DataFrame:
    """The rows of one frame whose groups are (`left_semi`) or are not (`left_anti`) among those of another."""
    wanted = right.select(*[F.col(name).alias(f"t_{name}") for name in names], F.lit(1).alias("t_"))
    same = [F.col(name).eqNullSafe(F.col(f"t_{name}")) for name in names]
    return left.join(F.broadcast(wanted), reduce(Column.__and__, same, F.lit(True)), how)


@dataclass(frozen=True, slots=True)
class KeptState:
    """A state as its table holds it: all groups, and over them, layer by layer, those that changed since.

    A group that is gone is a row without rows in the layer from which it is gone.
    """

    rows: DataFrame
    design: StateDesign
    layers: int = 0

    def read_all(self) -> DataFrame:
        """All groups. What was written as a whole is not moved: the groups over it are few."""
        columns = self.design.columns
        if not self.layers:
            return self.rows.select(*columns)
        layer = F.col(LAYER)
        added = self.rows.where(layer > 0)
        whole = self.rows.where(layer.isNull() | (layer == 0)).select(*columns)
        kept = _join_groups(whole, added, self.design.keys, "left_anti")
        return kept.unionAll(list_groups(self._keep_newest(added), self.design))

    def read_groups(self, wanted: DataFrame, names: Sequence[str]) -> DataFrame:
        """The groups that are equal to some others in these columns, which tell at least groups apart."""
        rows = _join_groups(self.rows, wanted, names, "left_semi")
        if not self.layers:
            return rows.select(*self.design.columns)
        return list_groups(self._keep_newest(rows), self.design)

    def _keep_newest(self, rows: DataFrame) -> DataFrame:
        keys, columns = self.design.keys, self.design.columns
        values = F.struct(*[F.col(name) for name in columns if name not in keys])
        newest = rows.groupBy(*keys).agg(F.max_by(values, F.coalesce(F.col(LAYER), F.lit(0))).alias("newest"))
        return newest.select(*[F.col(name) if name in keys else F.col(f"newest.{name}") for name in columns])


class StateChange:
    """A state before a change, the change, and what becomes of it."""

    def __init__(self, state: KeptState, delta: DataFrame) -> None:
        self.state, self.delta, self.design = state, delta, state.design

    def read_touched(self) -> DataFrame:
        """The groups of before that the change touches."""
        return self.state.read_groups(self.delta, self.design.keys)

    def compute_touched(self, before: DataFrame) -> DataFrame:
        """The touched groups as they are after the change, from what they were."""
        return self._merge_into(before)

    def compute_all(self) -> DataFrame:
        """All groups as they are after the change, in one pass over the state; `TOUCHED` says which it touches."""
        return self._merge_into(self.state.read_all())

    def _merge_into(self, groups: DataFrame) -> DataFrame:
        """Groups of before with the change added to them, those too that have no rows left.

        `REDO` says of which groups only their rows can tell the smallest and largest values.
        """
        design = self.design
        extremes = [f for f in design.figures if f.merge != "sum"]
        old = groups.select(
            *design.columns,
            *[F.lit(None).cast(self.delta.schema[f.name].dataType).alias(_GONE + f.name) for f in extremes],
            F.lit(True).alias(_IS_OLD),
        )
        new = self.delta.select(*design.columns, *[_GONE + f.name for f in extremes], F.lit(False).alias(_IS_OLD))
        is_old = F.col(_IS_OLD)
        sums = [_merge(f, F.col(f.name)) for f in design.figures if f.merge == "sum"]
        parts: list[Column] = []
        for figure in extremes:
            before = _merge(figure, F.when(is_old, F.col(figure.name))).alias(f"b_{figure.name}")
            came = _merge(figure, F.when(~is_old, F.col(figure.name))).alias(f"n_{figure.name}")
            parts += [before, came, _merge(figure, F.col(_GONE + figure.name)).alias(_GONE + figure.name)]
        touched = F.bool_or(~is_old).alias(TOUCHED)
        merged = old.unionAll(new).groupBy(*design.keys).agg(*_sample(design), *sums, *parts, touched)
        values = {f.name: _choose_extreme(f) for f in extremes}
        chosen = [values.get(name, F.col(name)).alias(name) for name in design.columns]
        redo = reduce(Column.__or__, (_is_unknown(f) for f in extremes), F.lit(False))
        return check_exact(merged.select(*chosen, TOUCHED, F.coalesce(redo, F.lit(False)).alias(REDO)), design)

    def add_untouched(self, touched: DataFrame) -> DataFrame:
        """All groups as they are after the change, from those that it touches."""
        columns = [*self.design.columns, TOUCHED]
        if not self.design.keys:
            return touched.select(*columns)
        untouched = _join_groups(self.state.read_all(), self.delta, self.design.keys, "left_anti")
        return untouched.withColumn(TOUCHED, F.lit(False)).select(*columns).unionAll(touched.select(*columns))

    def restrict_groups(self, state: KeptState) -> DataFrame:
        """The rows of a state whose group a change touches, whichever of the values counted in it."""
        names = self.design.groups
        return state.read_groups(self.delta.select(*names).distinct(), names) if names else state.read_all()


def list_groups(groups: DataFrame, design: StateDesign) -> DataFrame:
    """The rows of a state: groups that have no rows are gone, but for the one of an aggregate over all rows."""
    rows = groups.where(F.col(ROWS) != 0) if design.keys else groups
    return rows.select(*design.columns)


def list_local_groups(groups: LocalRows, design: StateDesign) -> Table:
    """The same of groups in memory, as an Arrow table."""
    return groups.list_nonzero(ROWS, design.columns) if design.keys else groups.rows.select(list(design.columns))


def replace_groups(touched: DataFrame, redone: DataFrame, design: StateDesign) -> DataFrame:
    """Touched groups, of which some were computed from their rows again."""
    rows = _join_groups(redone, touched.where(REDO), design.keys, "left_semi").select(*design.columns)
    done = touched.where(~F.col(REDO)).select(*design.columns, TOUCHED)
    return done.unionAll(rows.withColumn(TOUCHED, F.lit(True)))


def _choose_extreme(figure: Figure) -> Column:
    """The smallest or largest value of a group after a change; NULL where only its rows could tell."""
    before, came, gone = F.col(f"b_{figure.name}"), F.col(f"n_{figure.name}"), F.col(_GONE + figure.name)
    better = F.least(before, came) if figure.merge == "min" else F.greatest(before, came)
    return F.when(gone.isNull() | _stays(figure), better).when(F.col(ROWS) != 0, came)


def _stays(figure: Figure) -> Column:
    before, gone = F.col(f"b_{figure.name}"), F.col(_GONE + figure.name)
    return before < gone if figure.merge == "min" else before > gone


def _is_unknown(figure: Figure) -> Column:
    """Whether the extreme of a group may have left, and nothing that came is more extreme than all that left.

    What is as extreme as what left may be a row that came and left again, and is in neither version.
    """
    came, gone = F.col(f"n_{figure.name}"), F.col(_GONE + figure.name)
    replaced = came < gone if figure.merge == "min" else came > gone
    return gone.isNotNull() & ~_stays(figure) & (F.col(ROWS) != 0) & ~F.coalesce(replaced, F.lit(False))


def count_redo(groups: DataFrame) -> int:
    """Of how many groups only their rows can tell what they are."""
    return int(groups.agg(F.count_if(F.col(REDO)).alias("redo")).collect()[0]["redo"])


def observe_touched(groups: DataFrame) -> tuple[DataFrame, Callable[[], int | None]]:
    """The same groups, and how many of them the change touches, once they have been written; None if that is lost."""
    observation = Observation()
    observed = groups.observe(observation, F.count_if(F.col(TOUCHED)).alias("touched"))

    def read() -> int | None:
        count = (wait_for_observation(observation) or {}).get("touched")
        return int(count) if count is not None else None

    return observed, read


def add_layer(groups: DataFrame, layer: int) -> DataFrame:
    """Rows of a state, for one of its layers; the lowest one is the whole."""
    return groups.withColumn(LAYER, F.lit(layer))


def check_exact(groups: DataFrame, design: StateDesign) -> DataFrame:
    """Groups, each checked to be what Spark's own aggregate would give."""
    checked = groups.withColumn(ROWS, refuse_negative(F.col(ROWS)))
    if inexact := design.render_inexact():
        wrong = F.raise_error(F.lit(_NOT_EXACT)).cast("bigint")
        checked = checked.withColumn(ROWS, F.when(F.expr(inexact), wrong).otherwise(F.col(ROWS)))
    return checked


def explain_refused(error: BaseException) -> str:
    """Why a state cannot be used, where a write of it failed for that; "" for any other failure."""
    text = str(error)
    reasons = {_NOT_EXACT: "an average over numbers too large to add up exactly"}
    if is_inconsistent(error):
        return "the state of its groups does not fit the rows that left"
    return next((why for sign, why in reasons.items() if sign in text), "")
