"""sqb builds SQL pipelines on Spark and Iceberg, and runs only what changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from sqb.python_nodes.context import Context

__version__ = "0.1.0"

__all__ = [
    "Context",
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


def __getattr__(name: str) -> Any:
    """`Context`, the type of what a node is called with: loaded when somebody asks, since everything imports sqb."""
    if name == "Context":
        from sqb.python_nodes.context import Context

        return Context
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
