"""sqb builds SQL pipelines on Spark and Iceberg, and runs only what changed."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import sqb.build
import sqb.plan  # noqa: F401
from sqb.decorators import (
    asset,
    check,
    lint_rule,
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
    from sqb import errors, events
    from sqb.api import Node, Plan, Project, Result, Rows, build, error_text, plan, show
    from sqb.python_runtime.context import Context
else:
    # Packages of these names are loaded above, so that from here on the names mean what people call.
    def plan(*arguments: Any, **options: Any) -> Any:
        """What a build would do, and why: see `sqb.api`."""
        return import_module("sqb.api").plan(*arguments, **options)

    def build(*arguments: Any, **options: Any) -> Any:
        """Build what changed: see `sqb.api`."""
        return import_module("sqb.api").build(*arguments, **options)


__version__ = "0.2.0"

__all__ = [
    "Context",
    "Node",
    "Plan",
    "Project",
    "Result",
    "Rows",
    "asset",
    "build",
    "check",
    "error_text",
    "errors",
    "events",
    "lint_rule",
    "loader",
    "materialization",
    "model",
    "on_failure",
    "on_run_end",
    "on_run_start",
    "plan",
    "show",
    "table_function",
    "task",
    "udf",
]

# Loaded when they are asked for: everything imports sqb, and Python nodes do so in every process of theirs.
_LATER = {
    "Context": "sqb.python_runtime.context",
    **dict.fromkeys(("Node", "Plan", "Project", "Result", "Rows", "error_text", "show"), "sqb.api"),
}


def load_ipython_extension(shell: Any) -> None:
    """What `%load_ext sqb` calls in a notebook."""
    shell.register_magics(import_module("sqb.notebook.magics").SqbMagics)


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    if name in ("errors", "events"):
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
