"""A few rows in the memory of this process: collected once, and read by Spark from then on without a table.

With so few rows, plans, jobs and commits take all of the time: one execution that hands over its rows takes less than
one that stores them, and so does a write by Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Observation, SparkSession

from sqb.spark.data.checksum import observe_content
from sqb.spark.data.frames import WrittenContent, read_content

# What Spark names when the rows of a result are too large to be collected.
_TOO_LARGE = "spark.driver.maxResultSize"


@dataclass(frozen=True, slots=True)
class LocalRows:
    """Rows, and the frame by which Spark reads them."""

    rows: pa.Table
    frame: DataFrame

    def count_true(self, column: str) -> int:
        """In how many rows a condition holds."""
        return int(pc.sum(self.rows[column].cast(pa.int64())).as_py() or 0)

    def list_nonzero(self, column: str, columns: Sequence[str]) -> pa.Table:
        """Some columns of the rows of which one column is a number other than 0."""
        return self.rows.filter(pc.not_equal(self.rows[column], 0)).select(list(columns))


def collect_rows(session: SparkSession, frame: DataFrame, most: int) -> LocalRows | None:
    """The rows of a frame, unless they are more than that, or more than Spark may hand over at once."""
    try:
        rows = frame.limit(most + 1).toArrow()
    except Exception as error:
        if _TOO_LARGE in str(error):
            return None
        raise
    if rows.num_rows > most:
        return None
    return LocalRows(rows, session.createDataFrame(rows, frame.schema))


def collect_and_compare(frame: DataFrame, part: Sequence[str] | None) -> tuple[pa.Table, WrittenContent]:
    """The rows of a frame, their number and content, and the content of some columns."""
    observation = Observation()
    rows = observe_content(frame, observation, part).toArrow()
    return rows, read_content(observation, lambda: frame, frame.schema, part)
