"""`sqb list`: its output."""

from __future__ import annotations

import json
import re
from typing import Any

from sqb.cli.options import parse_call
from sqb.cli.output import create_spark, print_document
from sqb.errors.call import CallError
from sqb.names import suggest_nearest
from sqb.operations.inspect.list import KEYS, ListOptions, list_nodes


def run_list(names: tuple[str, ...], form: str, output_keys: str | None, **values: Any) -> int:
    """Print the nodes that are selected, one a line, or one document."""
    common, options = parse_call(ListOptions, {**values, "select": (*values["select"], *names)})
    keys = _parse_keys(output_keys, form)
    workspace = common.open_workspace()
    spark = create_spark(workspace, "list_")
    try:
        listed = list_nodes(workspace, options, spark)
    finally:
        spark.stop()
    if common.as_json:
        print_document(listed.to_data())
        return 0
    if form == "json":
        for row in listed.to_data()["nodes"]:
            print(json.dumps({key: row[key] for key in keys}, ensure_ascii=False, default=str))
        return 0
    for node in listed.nodes:
        print(node.file if form == "path" else node.name)
    return 0


def _parse_keys(text: str | None, form: str) -> tuple[str, ...]:
    if text is None:
        return KEYS
    if form != "json":
        raise CallError("--output-keys is for --output json", hint="add --output json")
    keys = tuple(filter(None, re.split(r"[\s,]+", text)))
    for key in keys:
        if key not in KEYS:
            hint = suggest_nearest(key, KEYS) or f"keys: {', '.join(KEYS)}"
            raise CallError(f'--output-keys: a node has no "{key}"', hint=hint)
    return keys
