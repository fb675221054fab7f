"""Which functions and macros changed since a node was built."""

from __future__ import annotations

import json
from collections.abc import Mapping

from sqb.compile.model import Node
from sqb.plan.recorded.commit_identity import CommitIdentity


def encode_functions(node: Node) -> str:
    """What is committed about a node's functions and macros, beside its rows; "" where it uses none."""
    return json.dumps(dict(node.functions), separators=(",", ":"), sort_keys=True) if node.functions else ""


def describe_function_change(node: Node, identity: CommitIdentity) -> str | None:
    """What changed in the functions or macros of a node that itself says what it said before; None when it does not."""
    if identity.config_hash != node.config_hash:
        return None
    then, now = _parse_functions(identity), dict(node.functions)
    if identity.query_hash == node.query_hash:
        return _describe_changes(_select_functions(then, macros=False), _select_functions(now, macros=False)) or None
    if not node.written_hash or identity.written_hash != node.written_hash:
        return None
    return _describe_changes(_select_functions(then, macros=True), _select_functions(now, macros=True)) or None


def _parse_functions(identity: CommitIdentity) -> dict[str, str]:
    try:
        functions = json.loads(identity.functions or "{}")
    except ValueError:
        return {}
    return functions if isinstance(functions, dict) else {}


def _select_functions(functions: Mapping[str, str], macros: bool) -> dict[str, str]:
    return {name: function_hash for name, function_hash in functions.items() if name.startswith("@") is macros}


def _describe_changes(then: Mapping[str, str], now: Mapping[str, str]) -> str:
    names = [name for name in sorted({*then, *now}) if then.get(name) != now.get(name)]
    parts = [_describe_difference(name, then.get(name), now.get(name)) for name in names[:3]]
    return ", ".join(parts) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _describe_difference(name: str, then: str | None, now: str | None) -> str:
    what = f"macro {name[1:]}" if name.startswith("@") else name if " " in name else f"function {name}"
    if then is None or now is None:
        return f"{what} is {'used now' if then is None else 'no longer used'}"
    return f"{what} {then[:8]} → {now[:8]}"
