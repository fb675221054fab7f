"""Files as relations that all sessions can name: exactly the files that were listed, and one schema for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import SparkSession

_SCHEMA = "schema"
# Spark takes paths for globs, and these for their wildcards.
_SPECIAL = frozenset("{}[]*?\\")


def create_file_view(
    session: SparkSession, view: str, format_: str, options: Mapping[str, str], folder: str, paths: Sequence[str]
) -> None:
    """Let `global_temp.<view>` be these files; folders called `key=value` below `folder` become columns."""
    reader_options = {key: value for key, value in options.items() if key.lower() != _SCHEMA}
    reader = session.read.format(format_)
    if paths:
        reader = reader.option("basePath", f"file://{folder}")
    reader = reader.options(**reader_options)
    schema = get_schema(options)
    if schema is not None:
        reader = reader.schema(schema)
    reader.load([f"file://{_escape(path)}" for path in paths]).createOrReplaceGlobalTempView(view)


def get_schema(options: Mapping[str, str]) -> str | None:
    """The columns that the options of a source declare."""
    return next((value for key, value in options.items() if key.lower() == _SCHEMA), None)


def _escape(path: str) -> str:
    return "".join(f"\\{c}" if c in _SPECIAL else c for c in path)
