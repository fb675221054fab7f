"""What goes wrong while changes are followed is not the mistake of a model's author: the caller takes the full way.

Errors that would meet the full way too (Spark lost, no disk, no memory, a conflict, a cancelled build) stay errors,
and so does whatever sqb says itself. Rows that were written by then are in a stage that is thrown away.
"""

from __future__ import annotations

import os

from sqb.errors.base import SqbError
from sqb.project.config.secrets import hide_known

# Set where the suite of tests runs: a failure that a rebuild would make up for must not stay unseen.
NO_FALLBACK = "SQB_NO_FALLBACK"
# Noted on what fails while rows are checked and published, which may have been done nevertheless.
PUBLISHING = "while rows were checked and published"
_LONGEST = 200


class NotIncremental(Exception):
    """Why a result is rebuilt instead of brought up to date."""


def _is_publish_failure(error: BaseException) -> bool:
    return PUBLISHING in getattr(error, "__notes__", ())


def explain_fallback(error: Exception) -> NotIncremental:
    """Why changes could not be followed, or the error itself, raised, when that is to be seen."""
    if isinstance(error, NotIncremental):
        return error
    if isinstance(error, SqbError | OSError | MemoryError) or _is_publish_failure(error) or os.environ.get(NO_FALLBACK):
        raise error
    words = f"{type(error).__name__}: {hide_known(str(error))}"
    if type(error).__module__.startswith(("pyspark", "py4j", "grpc")):
        from sqb.spark.errors import explain_failure  # Spark is there, or this would not have failed

        failure = explain_failure(error, "")
        if failure.kind != "query":
            raise error
        words = failure.message
    short = " ".join(words.split())
    reason = NotIncremental(
        f"its changes could not be followed ({short[:_LONGEST]}{'…' if len(short) > _LONGEST else ''})"
    )
    reason.__cause__ = error
    return reason
