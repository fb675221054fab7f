"""`materializations/*.py`: custom ways to build a model, read from the text of their files without running them.

from sqb import materialization

@materialization("partitioned_swap")
def swap(ctx): …                                # writes ctx.relation_name, and returns ctx.written(rows=…)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from sqb.errors.base import Errors, SqbError
from sqb.errors.python import BadMaterialization
from sqb.light_dataclass import dataclass
from sqb.names import At
from sqb.project.functions.module_files import hash_module, parse_module

FOLDER = "materializations"
_SAY = 'write @materialization("name") before a function that takes ctx'


@dataclass(frozen=True, slots=True)
class Materialization:
    """A way to build a model: its file and function, and the hash of what the file and those that it imports say."""

    name: str
    file: str
    function: str
    at: At
    hash: str = ""


def parse_materializations(root: Path, texts: Mapping[str, str], errors: Errors) -> dict[str, Materialization]:
    """The materialisations in these texts, by their names; what is wrong is reported and left out."""
    materializations: dict[str, Materialization] = {}
    for path, text in texts.items():
        if path.rpartition("/")[2].startswith("_"):
            continue
        for materialization in _iter_declared(root, path, text, errors):
            if materialization.name in materializations:
                other = materializations[materialization.name].at
                message = f"the materialization {materialization.name} is also declared in {other}"
                errors.add(BadMaterialization(message, at=materialization.at, hint="rename one of the two"))
            else:
                materializations[materialization.name] = materialization
    return materializations


def _iter_declared(root: Path, file: str, text: str, errors: Errors) -> Iterator[Materialization]:
    try:
        tree = parse_module(text)
    except SyntaxError as error:
        at = At(file, error.lineno or 1, error.offset or 1)
        errors.add(BadMaterialization(f"not Python: {error.msg}", at=at))
        return
    hash_ = hash_module(root / FOLDER, root / file)
    for node in tree.body:
        for decorator in getattr(node, "decorator_list", ()):
            if _get_decorator_name(decorator) != "materialization":
                continue
            try:
                name, function, at = _parse_declaration(file, node, decorator)
                yield Materialization(name, file, function, at, hash_)
            except SqbError as error:
                errors.add(error)


def _get_decorator_name(decorator: ast.expr) -> str:
    function = decorator.func if isinstance(decorator, ast.Call) else decorator
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _parse_declaration(file: str, node: ast.stmt, decorator: ast.expr) -> tuple[str, str, At]:
    """The name, the function and the place of a materialisation; raises what is wrong with it."""
    decorator_at = At(file, decorator.lineno, decorator.col_offset + 1, max(1, _measure_length(decorator)))
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        raise BadMaterialization("a materialization is a function, and this is a class", at=decorator_at, hint=_SAY)
    at = At(file, node.lineno, node.col_offset + 1 + len("async def " if _is_async(node) else "def "), len(node.name))
    if not isinstance(decorator, ast.Call):
        raise BadMaterialization("@materialization needs the name that models call it by", at=decorator_at, hint=_SAY)
    names = [*decorator.args, *(k.value for k in decorator.keywords if k.arg == "name")]
    if len(names) != 1 or len(decorator.args) + len(decorator.keywords) > 1:
        raise BadMaterialization("@materialization takes a name and nothing else", at=decorator_at, hint=_SAY)
    value = names[0]
    name = value.value if isinstance(value, ast.Constant) else None
    if not isinstance(name, str) or not name.isidentifier():
        message = "the name of a materialization is a plain text of letters, digits and underscores"
        raise BadMaterialization(message, at=decorator_at, hint=_SAY)
    arguments = node.args
    needed = len(arguments.posonlyargs) + len(arguments.args) - len(arguments.defaults)
    if not (arguments.posonlyargs or arguments.args or arguments.vararg):
        raise BadMaterialization(f"{node.name} takes no argument, and is given ctx", at=at, hint=_SAY)
    if needed > 1 or any(d is None for d in arguments.kw_defaults):
        raise BadMaterialization(
            f"{node.name} takes more arguments than ctx, the only one that it is given", at=at, hint=_SAY
        )
    return name, node.name, at


def _is_async(node: ast.stmt) -> bool:
    return isinstance(node, ast.AsyncFunctionDef)


def _measure_length(node: ast.expr) -> int:
    return (node.end_col_offset or 0) - node.col_offset if node.end_lineno == node.lineno else 1
