"""`sqb diff --from --to`: two virtual environments compared, or one model in them."""

from __future__ import annotations

import json
import sys
import time
from itertools import chain

from sqb.build.observe import open_lake
from sqb.console.environment_diff import (
    difference_lines,
    environment_diff_data,
    environment_diff_lines,
    model_diff_data,
)
from sqb.console.paint import Paint, terminal_width
from sqb.environments.diffing import Compared, between_environments, compare
from sqb.environments.entering import baseline_of, store_of
from sqb.names import human_seconds
from sqb.workspace import Workspace

# Where there is no terminal, most rows have room.
_ROOM = 160


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
    began = time.monotonic()
    store = store_of(workspace)
    try:
        compared = compare(
            workspace, store, open_lake(workspace), source, to if to is not None else baseline_of(workspace), name
        )
    finally:
        store.close()
    if name is not None:
        return _one(workspace, compared, key, limit, as_json, verbose, began)
    if as_json:
        print(json.dumps(environment_diff_data(compared), indent=2, ensure_ascii=False))
    else:
        for line in environment_diff_lines(compared, verbose, Paint(sys.stdout)):
            print(line)
        print(f"({human_seconds(time.monotonic() - began)})")
    return bool(compared.differences)


def _one(
    workspace: Workspace,
    compared: Compared,
    key: tuple[str, ...],
    limit: int,
    as_json: bool,
    verbose: bool,
    began: float,
) -> bool:
    one = compared.differences[0] if compared.differences else None
    rows = one is not None and one.before is not None and one.now is not None and one.now.relation is not None
    answer = None
    if one is not None and rows:
        from sqb.cli.diff import answered  # rows are compared on Spark

        answer = answered(between_environments(workspace, compared, one, key), limit, workspace)
    # Two versions may well have the same rows.
    differ = one is not None and (answer is None or not answer.same)
    if as_json:
        print(json.dumps(model_diff_data(compared, one, answer), indent=2, ensure_ascii=False))
        return differ
    paint = Paint(sys.stdout)
    if one is None or answer is None:
        lines = environment_diff_lines(compared, verbose, paint)
    else:
        from sqb.console.diff import diff_lines

        width, labels = terminal_width(sys.stdout) or _ROOM, (compared.target, compared.source)
        lines = chain(difference_lines(one, compared, verbose, paint), diff_lines(answer, width, paint, labels))
    for line in lines:
        print(line)
    print(f"({human_seconds(time.monotonic() - began)})")
    return differ
