"""Python functions in a session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F


def register_function(
    session: SparkSession, name: str, function: Callable[..., Any], returns: str, deterministic: bool
) -> None:
    """Let SQL of a session call a Python function."""
    # Said outright, or Spark would look at the annotations for what they say of batches of rows.
    found: Any = F.udf(function, returns, useArrow=False)
    session.udf.register(name, found if deterministic else found.asNondeterministic())
