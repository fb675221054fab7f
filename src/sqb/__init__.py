"""sqb builds SQL pipelines on Spark and Iceberg, and runs only what changed."""

from __future__ import annotations

from sqb.decorators import (
    asset,
    check,
    loader,
    materialization,
    model,
    on_failure,
    on_run_end,
    on_run_start,
    table_function,
    task,
    udf,
)

__version__ = "0.1.0"

__all__ = [
    "asset",
    "check",
    "loader",
    "materialization",
    "model",
    "on_failure",
    "on_run_end",
    "on_run_start",
    "table_function",
    "task",
    "udf",
]
