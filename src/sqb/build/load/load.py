"""The write of a loader: rows from outside become the rows of a source's table, in one commit on what the build saw.

What a child process hands over is either files of Arrow rows, which need no Spark, or a DataFrame of the build's Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sqb.build.load.publish import Load, check_target, locate_errors
from sqb.build.node.context import NodeOutcome

__all__ = ["Load", "load_files", "load_frame"]


def load_files(load: Load, files: Sequence[Path]) -> NodeOutcome:
    """Write the rows of Arrow files, without Spark."""
    from sqb.build.load import from_arrow  # loads pyarrow, which nothing unchanged needs

    with locate_errors(load):
        check_target(load)
        rows = from_arrow.read_local_rows(load, files)
        match load.mode:
            case "upsert":
                return from_arrow.upsert_rows(load, rows)
            case "append":
                return from_arrow.append_rows(load, rows)
            case _:
                return from_arrow.replace_rows(load, rows)


def load_frame(load: Load, session: Any, frame: Any) -> NodeOutcome:
    """Write the rows of a Spark DataFrame, by Spark."""
    from sqb.build.load import from_spark  # loads pyspark, which only such a load needs

    with locate_errors(load), from_spark.explain_spark_errors():
        check_target(load)
        match load.mode:
            case "upsert":
                return from_spark.upsert_rows(load, session, frame)
            case "append":
                return from_spark.append_rows(load, session, frame)
            case _:
                return from_spark.replace_rows(load, session, frame)
