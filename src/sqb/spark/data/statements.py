"""Statements of the user's own, run for what they do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from sqb.sql.text.lexer import tokenize_code
from sqb.sql.text.table_names import QUERY_STARTS

_NOT_SET = "\0"


def run_statement(session: SparkSession, sql: str) -> None:
    """Run a statement to its end; of a query no row is kept."""
    frame = session.sql(sql)
    first = next((token.text.upper() for token in tokenize_code(sql)), "")
    if first in QUERY_STARTS or first == "(":
        # Spark runs commands at once, and queries only when their rows are read.
        frame.write.format("noop").mode("overwrite").save()


@contextmanager
def restore_settings(session: SparkSession, keys: Iterable[str]) -> Iterator[None]:
    """Put these settings back to what they were."""
    before = {key: session.conf.get(key, _NOT_SET) for key in keys}
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None or value == _NOT_SET:
                session.conf.unset(key)
            else:
                session.conf.set(key, value)
