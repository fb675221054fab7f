"""Private parts of PySpark and pyiceberg are used in one module each."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "sqb"
ALLOWED = {"spark/private_api.py", "lake/private_api.py"}
# Of Python itself and of named tuples.
OTHERS = {"_getframe", "_current_frames", "_xoptions", "_exit", "_run_exitfuncs", "_worker", "_fields", "_make"}


def is_private(name: object) -> bool:
    return isinstance(name, str) and name.startswith("_") and not name.startswith("__") and name != "_"


def list_own_names(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """What sqb itself defines: functions, classes, fields, variables and attributes of `self`."""
    for node in nodes:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.Attribute(attr=name, value=ast.Name(id="self"), ctx=ast.Store()):
                yield name
            case ast.Call(func=ast.Attribute(attr="__setattr__"), args=[_, ast.Constant(value=str(name)), _]):
                yield name


def list_private_uses(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    for node in nodes:
        match node:
            case ast.Attribute(attr=name) if is_private(name):
                yield node.lineno, name
            case ast.Call(func=ast.Name(id="getattr" | "setattr" | "hasattr"), args=[_, ast.Constant(value=name), *_]):
                if is_private(name):
                    yield node.lineno, str(name)
            case ast.keyword(arg=str(name)) if is_private(name):
                yield node.lineno, name
            case ast.ImportFrom(module=str(module), names=names) if not module.startswith("sqb"):
                yield from ((node.lineno, alias.name) for alias in names if is_private(alias.name))


def test_private_parts_of_others_are_used_in_one_module_each() -> None:
    trees = {str(p.relative_to(SOURCE)): list(ast.walk(ast.parse(p.read_text()))) for p in SOURCE.rglob("*.py")}
    own = {name for nodes in trees.values() for name in list_own_names(nodes)} | OTHERS
    items = [
        f"{path}:{line}: {name}"
        for path, nodes in sorted(trees.items())
        if path not in ALLOWED
        for line, name in list_private_uses(nodes)
        if name not in own
    ]
    assert items == []
