"""`sqb diff --from --to`: two virtual environments compared, or one model in them."""

from __future__ import annotations

import json
import sys
import time
from itertools import chain

from sqb.build.observe.lake import open_lake
from sqb.console.environment_diff import (
    encode_environment_diff,
    encode_model_diff,
    format_difference,
    format_environment_diff,
)
from sqb.console.style import Paint, get_terminal_width
from sqb.environments.diff import Comparison, build_question, compare_environments
from sqb.environments.session import get_baseline, open_workspace_store
from sqb.names import format_seconds
from sqb.workspace import Workspace

# Where there is no terminal, most rows have room.
_DEFAULT_WIDTH = 160


def run_environment_diff(
    workspace: Workspace,
    name: str | None,
    source: str,
    to: str | None,
    key: tuple[str, ...],
    limit: int,
    as_json: bool,
    verbose: bool,
) -> bool:
    """Print how an environment differs from another one, by default from the baseline; whether it does."""
    started_at = time.monotonic()
    store = open_workspace_store(workspace)
    try:
        comparison = compare_environments(
            workspace, store, open_lake(workspace), source, to if to is not None else get_baseline(workspace), name
        )
    finally:
        store.close()
    if name is not None:
        return _print_node_diff(workspace, comparison, key, limit, as_json, verbose, started_at)
    if as_json:
        print(json.dumps(encode_environment_diff(comparison), indent=2, ensure_ascii=False))
    else:
        for line in format_environment_diff(comparison, verbose, Paint(sys.stdout)):
            print(line)
        print(f"({format_seconds(time.monotonic() - started_at)})")
    return bool(comparison.differences)


def _print_node_diff(
    workspace: Workspace,
    comparison: Comparison,
    key: tuple[str, ...],
    limit: int,
    as_json: bool,
    verbose: bool,
    started_at: float,
) -> bool:
    difference = comparison.differences[0] if comparison.differences else None
    rows = (
        difference is not None
        and difference.before is not None
        and difference.now is not None
        and difference.now.relation is not None
    )
    answer = None
    if difference is not None and rows:
        from sqb.cli.diff import compare_sides  # rows are compared on Spark

        answer = compare_sides(build_question(workspace, comparison, difference, key), limit, workspace)
    # Two versions may well have the same rows.
    differ = difference is not None and (answer is None or not answer.same)
    if as_json:
        print(json.dumps(encode_model_diff(comparison, difference, answer), indent=2, ensure_ascii=False))
        return differ
    paint = Paint(sys.stdout)
    if difference is None or answer is None:
        lines = format_environment_diff(comparison, verbose, paint)
    else:
        from sqb.console.diff import format_diff

        width, labels = get_terminal_width(sys.stdout) or _DEFAULT_WIDTH, (comparison.target, comparison.source)
        lines = chain(
            format_difference(difference, comparison, verbose, paint), format_diff(answer, width, paint, labels)
        )
    for line in lines:
        print(line)
    print(f"({format_seconds(time.monotonic() - started_at)})")
    return differ
