"""Macros and functions in Python files, and variables in the settings, found in their texts: nothing is run."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqb.lsp.snapshot import Snapshot
from sqb.project.files import PROJECT_FILE, find_package_folder


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
    """The macros of the project and of its packages."""
    paths = [*sorted((snapshot.root / "macros").glob("*.py")), *list_package_files(snapshot, "macros")]
    return [m for path in paths for m in _iter_functions(snapshot.root, path)]


def list_package_files(snapshot: Snapshot, folder: str) -> list[Path]:
    """The files in a folder of the packages under [packages]."""
    names = _read_table(snapshot, "packages")
    if not names:
        return []
    from sqb.project.packages.installed import InstalledPackage  # few projects have any

    folders = ((name, find_package_folder(name)) for name in names)
    packages = [InstalledPackage(name, Path(place)) for name, place in folders if place is not None]
    return [path for package in packages for path in package.list_files(folder)]


def list_variables(snapshot: Snapshot) -> Mapping[str, Any]:
    """The variables under [vars], with their values."""
    return _read_table(snapshot, "vars")


def _read_table(snapshot: Snapshot, key: str) -> Mapping[str, Any]:
    try:
        values = tomllib.loads(snapshot.read_text(PROJECT_FILE)).get(key, {})
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
            file = (path.relative_to(root) if path.is_relative_to(root) else path).as_posix()
            yield PythonName(node.name, call, text, file, node.lineno, node.col_offset + len("def "))
