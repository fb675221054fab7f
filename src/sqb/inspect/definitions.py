"""How the definitions of nodes differ from those that were built, as unified diffs."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from sqb.compile.model import Project
from sqb.plan.model import Plan
from sqb.sql.functions.body import LEAD

_DEFINITION_REASONS = ("Query changed", "Config changed", "Function changed", "Code changed")


def list_changed_nodes(plan: Plan, project: Project) -> list[str]:
    """The nodes whose own definition is why they run."""
    return [
        n.name
        for n in plan.nodes
        if n.reason in _DEFINITION_REASONS and (n.name in project.nodes or n.name in project.python)
    ]


def diff_definitions(stored: str, node_definition: str) -> str:
    """The unified diff between a stored definition and the present one: query, settings and functions that differ."""
    then, now = json.loads(stored or "{}"), json.loads(node_definition or "{}")
    lines: list[str] = []
    parts = [(_split_lines(then.get(key, "")), _split_lines(now.get(key, ""))) for key in ("sql", "config")]
    for a, b in (*parts, (_list_functions(then), _list_functions(now))):
        lines += [
            line
            for line in difflib.unified_diff(a, b, "built", "now", lineterm="", n=3)
            if not line.startswith(("---", "+++"))
        ]
    for file, a, b in _iter_changed_modules(then, now):
        changed = list(difflib.unified_diff(a, b, "built", "now", lineterm="", n=3))[2:]
        lines += [f"{file}:", *changed] if changed else []
    return "\n".join(lines)


def _iter_changed_modules(
    then: Mapping[str, Any], now: Mapping[str, Any]
) -> Iterator[tuple[str, list[str], list[str]]]:
    """The modules of Python code that are not what they were, with their text then and now."""
    hashes, new_hashes = then.get("dependencies", {}), now.get("dependencies", {})
    for file in sorted(f for f in {*hashes, *new_hashes} if hashes.get(f) != new_hashes.get(f)):
        yield file, _split_lines(then.get("texts", {}).get(file, "")), _split_lines(now.get("texts", {}).get(file, ""))


def diff_code(stored: str, definition: str) -> str:
    """The unified diffs between a Python node as it last ran and as it is: its source, its arguments, its modules."""
    then, now = json.loads(stored or "{}"), json.loads(definition or "{}")
    parts = [("source", _split_lines(then.get("source", "")), _split_lines(now.get("source", "")))]
    parts.append(("arguments", _split_lines(then.get("config", {})), _split_lines(now.get("config", {}))))
    parts += _iter_changed_modules(then, now)
    lines: list[str] = []
    for name, a, b in parts:
        changed = list(difflib.unified_diff(a, b, "built", "now", lineterm="", n=3))[2:]
        lines += [f"{name}:", *changed] if changed else []
    return "\n".join(lines)


def _list_functions(definition: Mapping[str, Any]) -> list[str]:
    """The SQL functions in a stored definition, by name: what they take, and what they say."""
    lines: list[str] = []
    for name, ((_, _, *parameters), text, _) in sorted(definition.get("bodies", {}).items()):
        lines.append(f"{name}({', '.join(parameter.strip() for parameter in parameters)})")
        lines += text.removeprefix(LEAD).removesuffix(")").splitlines()
    return lines


def _split_lines(value: object) -> list[str]:
    if isinstance(value, dict):
        return [f"{k}: {json.dumps(v)}" for k, v in sorted(value.items())]
    return str(value).strip().splitlines()
