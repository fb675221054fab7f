"""Macros and functions in Python files, and variables in the settings, found in their texts: nothing is run."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqb.lsp.snapshot import Snapshot
from sqb.project.files import PROJECT_FILE


@dataclass(frozen=True, slots=True)
class PythonName:
    """A function in a Python file: how it is called, its docstring and its place."""

    name: str
    call: str
    text: str
    file: str
    line: int
    column: int


def list_macros(snapshot: Snapshot) -> list[PythonName]:
    """The macros of the project."""
    return [m for path in sorted((snapshot.root / "macros").glob("*.py")) for m in _iter_functions(snapshot.root, path)]


def list_variables(snapshot: Snapshot) -> Mapping[str, Any]:
    """The variables under [vars], with their values."""
    try:
        values = tomllib.loads(snapshot.read_text(PROJECT_FILE)).get("vars", {})
    except tomllib.TOMLDecodeError:
        return {}
    return values if isinstance(values, dict) else {}


def find_python_function(snapshot: Snapshot, file: str, symbol: str) -> PythonName | None:
    """A function of a Python file by its name."""
    return next((f for f in _iter_functions(snapshot.root, snapshot.root / file) if f.name == symbol), None)


def _iter_functions(root: Path, path: Path) -> Iterator[PythonName]:
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            call = f"{node.name}({ast.unparse(node.args)})"
            text = ast.get_docstring(node) or ""
            file = path.relative_to(root).as_posix()
            yield PythonName(node.name, call, text, file, node.lineno, node.col_offset + len("def "))
