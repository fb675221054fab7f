"""The checks of nodes, for those who show them."""

from __future__ import annotations

from sqb.api.values import NodeCheck
from sqb.checks.stored import restore_checks
from sqb.compile.model import Node


def list_checks(node: Node | None) -> tuple[NodeCheck, ...]:
    """The checks of a model or seed; a Python node has none."""
    checks = restore_checks(node.checks.checks) if node is not None else ()
    return tuple(NodeCheck(check.text, check.role, check.is_blocking) for check in checks)
