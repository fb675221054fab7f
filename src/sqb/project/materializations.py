"""`materializations/*.py`: ways of one's own to build a model, read from the text of their files without running them.

from sqb import materialization

@materialization("partitioned_swap")
def swap(ctx): …                                # writes ctx.relation_name, and returns ctx.written(rows=…)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sqb.errors import Errors, SqbError
from sqb.errors_python import BadMaterialization
from sqb.names import At
from sqb.project.python_files import module_hash, parsed

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


def declared_materializations(root: Path, texts: Mapping[str, str], errors: Errors) -> dict[str, Materialization]:
    """The materialisations in these texts, by their names; what is wrong is reported and left out."""
    found: dict[str, Materialization] = {}
    for path, text in texts.items():
        if path.rpartition("/")[2].startswith("_"):
            continue
        for one in _declared(root, path, text, errors):
            if one.name in found:
                message = f"the materialization {one.name} is also declared in {found[one.name].at}"
                errors.add(BadMaterialization(message, at=one.at, hint="rename one of the two"))
            else:
                found[one.name] = one
    return found


def _declared(root: Path, file: str, text: str, errors: Errors) -> Iterator[Materialization]:
    try:
        tree = parsed(text)
    except SyntaxError as error:
        at = At(file, error.lineno or 1, error.offset or 1)
        errors.add(BadMaterialization(f"not Python: {error.msg}", at=at))
        return
    hash_ = module_hash(root / FOLDER, root / file)
    for node in tree.body:
        for decorator in getattr(node, "decorator_list", ()):
            if _called(decorator) != "materialization":
                continue
            try:
                name, function, at = _one(file, node, decorator)
                yield Materialization(name, file, function, at, hash_)
            except SqbError as error:
                errors.add(error)


def _called(decorator: ast.expr) -> str:
    found = decorator.func if isinstance(decorator, ast.Call) else decorator
    return found.attr if isinstance(found, ast.Attribute) else getattr(found, "id", "")


def _one(file: str, node: ast.stmt, decorator: ast.expr) -> tuple[str, str, At]:
    """The name, the function and the place of a materialisation; raises what is wrong with it."""
    said = At(file, decorator.lineno, decorator.col_offset + 1, max(1, _length(decorator)))
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        raise BadMaterialization("a materialization is a function, and this is a class", at=said, hint=_SAY)
    at = At(file, node.lineno, node.col_offset + 1 + len("async def " if _is_async(node) else "def "), len(node.name))
    if not isinstance(decorator, ast.Call):
        raise BadMaterialization("@materialization needs the name that models call it by", at=said, hint=_SAY)
    given = [*decorator.args, *(k.value for k in decorator.keywords if k.arg == "name")]
    if len(given) != 1 or len(decorator.args) + len(decorator.keywords) > 1:
        raise BadMaterialization("@materialization takes a name and nothing else", at=said, hint=_SAY)
    value = given[0]
    name = value.value if isinstance(value, ast.Constant) else None
    if not isinstance(name, str) or not name.isidentifier():
        message = "the name of a materialization is a plain text of letters, digits and underscores"
        raise BadMaterialization(message, at=said, hint=_SAY)
    taken = node.args
    needed = len(taken.posonlyargs) + len(taken.args) - len(taken.defaults)
    if needed > 1 or any(d is None for d in taken.kw_defaults):
        raise BadMaterialization(f"{node.name} is called with ctx alone, and takes more", at=at, hint=_SAY)
    return name, node.name, at


def _is_async(node: ast.stmt) -> bool:
    return isinstance(node, ast.AsyncFunctionDef)


def _length(node: ast.expr) -> int:
    return (node.end_col_offset or 0) - node.col_offset if node.end_lineno == node.lineno else 1
