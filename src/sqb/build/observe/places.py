"""Where in a model's file something is that was found in its query."""

from __future__ import annotations

from pathlib import Path

from sqb.compile.model import Node, locate_source
from sqb.names import At, locate_offset
from sqb.project.files import read_bytes
from sqb.sql.columns.problems import Problem


def locate_problem(root: Path, node: Node, problem: Problem) -> At:
    """Where in a model's file a mistake is; the file where its query is run in another form than it was written."""
    if problem.start < 0 or not node.pieces:
        return At(node.file)
    return locate_source(node, _read_text(root, node), problem.start, problem.end - problem.start)


def locate_setting(root: Path, node: Node, key: str, value: str) -> At:
    """Where a value of a setting is in a model's header; the file where it is set elsewhere."""
    text = _read_text(root, node)
    start = text.find(key)
    place = text.find(value, start + len(key)) if start >= 0 else -1
    return locate_offset(text, place, node.file, len(value)) if place >= 0 else At(node.file)


def _read_text(root: Path, node: Node) -> str:
    return read_bytes(root / node.file).decode("utf-8-sig").replace("\r\n", "\n")
