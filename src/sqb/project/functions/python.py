"""`functions/*.py`: Python functions that SQL may call. What they take and return is read without running them.

from sqb import udf

def initials(name: str) -> str: …              # the annotation says what it returns

@udf(returns="decimal(10,2)", deterministic=False)
def quote(amount): …

Table functions are read by `functions.table`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sqb.errors.base import Errors, SqbError
from sqb.errors.project import BadPython
from sqb.light_dataclass import dataclass
from sqb.names import At
from sqb.project.files import is_package_file
from sqb.project.functions.module_files import allow_imports, allow_package_imports, execute_module, parse_module
from sqb.project.functions.sql import refuse_name
from sqb.project.functions.table import DeclaredTable, find_decorator, list_helpers, parse_table_function
from sqb.types.format import format_sql_type
from sqb.types.parse import parse_declared_type

_TYPES = {
    "int": "BIGINT",
    "float": "DOUBLE",
    "str": "STRING",
    "bool": "BOOLEAN",
    "bytes": "BINARY",
    "date": "DATE",
    "datetime.date": "DATE",
    "datetime": "TIMESTAMP",
    "datetime.datetime": "TIMESTAMP",
}
_SAY = 'annotate it, `-> int`, or write @udf(returns="decimal(10,2)")'


@dataclass(frozen=True, slots=True)
class DeclaredFunction:
    """A Python function as its file declares it: parameters with whether they have a default, and Spark's type."""

    name: str
    file: str
    line: int
    parameters: tuple[tuple[str, bool], ...]
    open: bool
    returns: str
    deterministic: bool = True

    @property
    def symbol(self) -> str:
        """What it is called in its file, in whatever case."""
        return self.name


def iter_declared_functions(file: str, text: str, errors: Errors) -> Iterator[DeclaredFunction | DeclaredTable]:
    """The public functions in a file, those that make tables included; what is wrong is reported and left out."""
    try:
        tree = parse_module(text)
    except SyntaxError as error:
        errors.add(BadPython(f"not Python: {error.msg}", at=At(file, error.lineno or 1, error.offset or 1)))
        return
    helpers = list_helpers(tree)
    for node in tree.body:
        decorator = find_decorator(node)
        try:
            if decorator is not None:
                yield parse_table_function(file, node, decorator, tree)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not _is_private(node, helpers):
                yield _parse_declaration(file, node)
        except SqbError as error:
            errors.add(error)


def _is_private(node: ast.FunctionDef | ast.AsyncFunctionDef, helpers: set[str]) -> bool:
    return node.name.startswith("_") or (node.name in helpers and not node.decorator_list)


def _parse_declaration(file: str, node: ast.FunctionDef | ast.AsyncFunctionDef) -> DeclaredFunction:
    at = At(file, node.lineno, node.col_offset + 1 + len("def "), len(node.name))
    if isinstance(node, ast.AsyncFunctionDef):
        raise BadPython(f"{node.name} is asynchronous, which Spark cannot call", at=at)
    refuse_name(node.name, at)
    options = _parse_options(file, node)
    returns = _parse_written_type(options["returns"], at) if options.get("returns") else _parse_annotation(node, at)
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    first = len(positional) - len(arguments.defaults)
    parameters = [(a.arg.lower(), i >= first) for i, a in enumerate(positional)]
    parameters += [
        (a.arg.lower(), d is not None) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    ]
    return DeclaredFunction(
        node.name.lower(),
        file,
        node.lineno,
        tuple(parameters),
        arguments.vararg is not None,
        returns,
        options.get("deterministic", True),
    )


def _parse_options(file: str, node: ast.FunctionDef) -> dict[str, Any]:
    """What `@udf(…)` says."""
    for decorator in node.decorator_list:
        call = decorator if isinstance(decorator, ast.Call) else ast.Call(decorator, [], [])
        named = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if named != "udf":
            continue
        at = At(file, decorator.lineno, decorator.col_offset + 1)
        options: dict[str, Any] = {}
        for name, value in [*(("returns", a) for a in call.args[:1]), *((k.arg, k.value) for k in call.keywords)]:
            kinds = {"returns": str, "deterministic": bool}
            if name not in kinds or not isinstance(value, ast.Constant) or not isinstance(value.value, kinds[name]):
                raise BadPython(
                    f"@udf does not take this {name or 'argument'}",
                    at=at,
                    hint='write @udf(returns="decimal(10,2)", deterministic=False), with plain values',
                )
            options[name] = value.value
        return options
    return {}


def _parse_written_type(text: str, at: At) -> str:
    kind = parse_declared_type(text)
    if kind is None:
        raise BadPython(f"there is no type {text}", at=at, hint="write a type of Spark's, for instance array<int>")
    return format_sql_type(kind)


def _parse_annotation(node: ast.FunctionDef, at: At) -> str:
    if node.returns is None:
        raise BadPython(
            f"{node.name} does not declare what it returns",
            at=at,
            hint=f"{_SAY}; a function whose name begins with _ is private",
        )
    type_name = _map_annotation(node.returns)
    if type_name is None:
        written = ast.unparse(node.returns)
        raise BadPython(f"the type that Spark has for {written} is not known", at=at, hint=_SAY)
    return type_name


def _map_annotation(node: ast.expr) -> str | None:
    match node:
        case ast.Constant(value=str(text)):
            if text in _TYPES:
                return _TYPES[text]
            kind = parse_declared_type(text)
            return format_sql_type(kind) if kind is not None else None
        case ast.Name() | ast.Attribute():
            return _TYPES.get(ast.unparse(node))
        case ast.BinOp(left=left, op=ast.BitOr(), right=ast.Constant(value=None)):
            return _map_annotation(left)
        case ast.Subscript(value=of, slice=inner):
            parts = [_map_annotation(part) for part in (inner.elts if isinstance(inner, ast.Tuple) else [inner])]
            known = [part for part in parts if part is not None]
            name = ast.unparse(of).rpartition(".")[2].lower()
            if len(known) < len(parts):
                return None
            if name == "optional" and len(known) == 1:
                return known[0]
            if name == "list" and len(known) == 1:
                return f"ARRAY<{known[0]}>"
            if name == "dict" and len(known) == 2:
                return f"MAP<{known[0]}, {known[1]}>"
            return None
        case _:
            return None


def load_python(root: Path, file: str, names: list[str], errors: Errors) -> dict[str, Callable[..., Any]]:
    """The functions with these names, in whatever case, in a file, which is carried out for that."""
    package = Path(file).parent.parent if is_package_file(file) else None
    with allow_imports(root / "functions") if package is None else allow_package_imports(package):
        module = execute_module(root / file, file, BadPython, errors)
    if module is None:
        return {}
    there = {name: value for name, value in vars(module).items() if callable(value)}
    folded = {name.lower(): value for name, value in there.items()}
    functions = {}
    for name in names:
        value = there.get(name) or folded.get(name.lower())
        if value is not None:
            functions[name] = value
        else:
            errors.add(BadPython(f"{name} is not there once the file has run", at=At(file)))
    return functions
