"""Table functions of `functions/*.py`, read from the text of their file without running it.

from sqb import table_function

@table_function(schema="id bigint, day date")
def gam_report(day: str): …                     # yields rows

@table_function("id bigint", version=latest)
class Numbers: …                                # Spark's own protocol: `eval`, and `terminate` if it likes
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from sqb.errors.project import BadPython
from sqb.light_dataclass import dataclass
from sqb.names import At, quote, suggest_nearest
from sqb.project.functions.sql import refuse_name
from sqb.types.format import format_sql_type
from sqb.types.model import StructType
from sqb.types.parse import parse_declared_type

_OPTIONS = ("schema", "version", "name")
_SAY = 'write @table_function(schema="id bigint, day date")'


@dataclass(frozen=True, slots=True)
class DeclaredTable:
    """A table function as its file declares it: parameters with whether they have a default, and its columns."""

    name: str
    file: str
    at: At
    # What it is called in its file.
    symbol: str
    parameters: tuple[tuple[str, bool], ...]
    open: bool
    columns: tuple[tuple[str, str], ...]
    versioned: bool = False

    @property
    def returns(self) -> str:
        """Its columns in the words of Spark."""
        return ", ".join(f"{quote(name)} {kind}" for name, kind in self.columns)

    @property
    def deterministic(self) -> bool:
        """Whether its rows are the same as long as what it says of itself is."""
        return self.versioned


def find_decorator(node: ast.stmt) -> ast.expr | None:
    """The `@table_function` of a function or class; None when it has none."""
    for decorator in getattr(node, "decorator_list", ()):
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        if (called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")) == "table_function":
            name: ast.expr = decorator
            return name
    return None


def list_helpers(tree: ast.Module) -> set[str]:
    """The functions of a file that only tell the version of a table function; no SQL calls them."""
    names = set()
    for decorator in filter(None, map(find_decorator, tree.body)):
        for keyword in decorator.keywords if isinstance(decorator, ast.Call) else ():
            if keyword.arg == "version" and isinstance(keyword.value, ast.Name):
                names.add(keyword.value.id)
    return names


def parse_table_function(file: str, node: ast.stmt, decorator: ast.expr, tree: ast.Module) -> DeclaredTable:
    """The table function that a decorated function or class is; raises what is wrong with it."""
    if not isinstance(node, ast.FunctionDef | ast.ClassDef):
        name = node.name if isinstance(node, ast.AsyncFunctionDef) else "this"
        raise BadPython(f"{name} is asynchronous, which Spark cannot call", at=_locate(file, decorator))
    word = "class " if isinstance(node, ast.ClassDef) else "def "
    at = At(file, node.lineno, node.col_offset + 1 + len(word), len(node.name))
    options = _parse_options(file, decorator)
    name = _parse_name(file, options["name"]) if "name" in options else node.name
    refuse_name(name, at)
    if "schema" not in options:
        raise BadPython(f"{node.name} does not declare its columns", at=at, hint=_SAY)
    arguments = _find_arguments(node, at)
    positional = [*arguments.posonlyargs, *arguments.args]
    first = len(positional) - len(arguments.defaults)
    parameters = [(a.arg.lower(), i >= first) for i, a in enumerate(positional)]
    parameters += [
        (a.arg.lower(), d is not None) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    ]
    # The first parameter of a method is the object.
    sql_parameters = parameters[1:] if isinstance(node, ast.ClassDef) else parameters
    columns = _parse_columns(file, options["schema"])
    versioned = "version" in options and _is_versioned(file, options["version"], tree)
    opened = arguments.vararg is not None
    return DeclaredTable(name.lower(), file, at, node.name, tuple(sql_parameters), opened, columns, versioned)


def _parse_options(file: str, decorator: ast.expr) -> dict[str, ast.expr]:
    if not isinstance(decorator, ast.Call):
        raise BadPython("@table_function needs the columns of its rows", at=_locate(file, decorator), hint=_SAY)
    options: dict[str, ast.expr] = {}
    if len(decorator.args) > 1:
        raise BadPython("only the schema may be given without a name", at=_locate(file, decorator.args[1]), hint=_SAY)
    for name, value in [*(("schema", a) for a in decorator.args), *((k.arg, k.value) for k in decorator.keywords)]:
        if name is None:
            raise BadPython("@table_function takes no **arguments", at=_locate(file, value), hint=_SAY)
        if name not in _OPTIONS:
            hint = suggest_nearest(name, _OPTIONS) or f"it takes {', '.join(_OPTIONS)}"
            raise BadPython(f"@table_function takes no {name}", at=_locate(file, value), hint=hint)
        if name in options:
            raise BadPython(f"{name} is given twice", at=_locate(file, value))
        options[name] = value
    return {name: value for name, value in options.items() if not _is_none(value) or name == "schema"}


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def _locate(file: str, node: ast.expr) -> At:
    length = (node.end_col_offset or 0) - node.col_offset if node.end_lineno == node.lineno else 1
    return At(file, node.lineno, node.col_offset + 1, max(1, length))


def _parse_name(file: str, value: ast.expr) -> str:
    if not isinstance(value, ast.Constant) or not isinstance(value.value, str) or not value.value.isidentifier():
        hint = 'such as name="gam_report": letters, digits and underscores'
        raise BadPython("`name` must be a plain text that SQL can call", at=_locate(file, value), hint=hint)
    return value.value


def _parse_columns(file: str, value: ast.expr) -> tuple[tuple[str, str], ...]:
    at = _locate(file, value)
    if not isinstance(value, ast.Constant) or not isinstance(value.value, str):
        message = "`schema` must be a plain text: it is read without running the file"
        raise BadPython(message, at=at, hint=_SAY)
    kind = parse_declared_type(f"struct<{value.value}>")
    if not isinstance(kind, StructType) or not kind.fields:
        hint = "columns with types of Spark's, such as id bigint, day date, tags array<string>"
        raise BadPython(f'"{value.value}" is not a list of columns', at=at, hint=hint)
    columns = tuple((f.name, format_sql_type(f.type)) for f in kind.fields)
    names: set[str] = set()
    for name, _ in columns:
        if name.lower() in names:
            raise BadPython(f'the column "{name}" is there twice', at=at, hint="the case of names does not matter")
        names.add(name.lower())
    return columns


def _find_arguments(node: ast.FunctionDef | ast.ClassDef, at: At) -> ast.arguments:
    if isinstance(node, ast.FunctionDef):
        return node.args
    methods = {m.name: m for m in node.body if isinstance(m, ast.FunctionDef)}
    if "analyze" in methods:
        hint = "remove `analyze`: the columns are those of `schema`"
        raise BadPython(f"{node.name} says its columns twice", at=at, hint=hint)
    if "eval" not in methods:
        hint = "a class of rows has `def eval(self, …)`, which yields them"
        raise BadPython(f"{node.name} has no method eval", at=at, hint=hint)
    return methods["eval"].args


def _is_versioned(file: str, value: ast.expr, tree: ast.Module) -> bool:
    """Whether it tells its version; raises where what it is given cannot be called, or asks for arguments."""
    hint = "a function without arguments that returns what changes with the rows, such as version=latest_day"
    if isinstance(value, ast.Constant):
        raise BadPython("`version` must be a function", at=_locate(file, value), hint=hint)
    function: ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef | None = None
    if isinstance(value, ast.Lambda):
        function = value
    elif isinstance(value, ast.Name):
        function = next((n for n in _iter_functions(tree) if n.name == value.id), None)
    if isinstance(function, ast.AsyncFunctionDef):
        raise BadPython("`version` is asynchronous, and sqb does not await it", at=_locate(file, value), hint=hint)
    needed = function.args if function is not None else None
    if needed is not None:
        count = len(needed.posonlyargs) + len(needed.args) - len(needed.defaults)
        if count or any(d is None for d in needed.kw_defaults):
            raise BadPython(
                "`version` is called without arguments, and this needs some", at=_locate(file, value), hint=hint
            )
    return True


def _iter_functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (n for n in tree.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
