"""sqb builds SQL pipelines on Spark and Iceberg, and runs only what changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__version__ = "0.1.0"


def udf(returns: Any = None, *, deterministic: bool = True) -> Any:
    """Say what a Python function of `functions/` returns, as a type of Spark's, and whether by chance."""
    if callable(returns):
        return returns

    def unchanged(function: Callable[..., Any]) -> Callable[..., Any]:
        return function

    return unchanged
