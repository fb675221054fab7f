"""The write of a loader: rows from outside become the rows of a source's table, in one commit on what the build saw.

What a child process hands over is either files of Arrow rows, which need no Spark, or a DataFrame of the build's Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sqb.build.load_publish import Load, placed, refuse_taken
from sqb.build.turn import Outcome

__all__ = ["Load", "load_files", "load_frame"]


def load_files(load: Load, files: Sequence[Path]) -> Outcome:
    """Write the rows of Arrow files, without Spark."""
    from sqb.build import load_rows  # loads pyarrow, which nothing unchanged needs

    with placed(load):
        refuse_taken(load)
        rows = load_rows.local_rows(load, files)
        match load.mode:
            case "upsert":
                return load_rows.upsert_rows(load, rows)
            case "append":
                return load_rows.append_rows(load, rows)
            case _:
                return load_rows.replace_rows(load, rows)


def load_frame(load: Load, session: Any, frame: Any) -> Outcome:
    """Write the rows of a Spark DataFrame, by Spark."""
    from sqb.build import load_frames  # loads pyspark, which only such a load needs

    with placed(load), load_frames.explained():
        refuse_taken(load)
        match load.mode:
            case "upsert":
                return load_frames.upsert_rows(load, session, frame)
            case "append":
                return load_frames.append_rows(load, session, frame)
            case _:
                return load_frames.replace_rows(load, session, frame)
