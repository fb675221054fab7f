"""The function of a Python node in its file: the places of its name and arguments, and what it refers to."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from sqb.names import At
from sqb.project.functions.module_files import parse_module
from sqb.project.python.imports import decode_source

Function = ast.FunctionDef | ast.AsyncFunctionDef
_REFERRING = ("ref", "changes")


@dataclass(frozen=True, slots=True)
class Source:
    """A Python file that was parsed; `file` is its name in messages."""

    file: str
    tree: ast.Module
    lines: tuple[str, ...]

    @classmethod
    def read(cls, file: str, raw: bytes) -> Source:
        """Parse a file; raises what Python raises."""
        return cls(file, parse_module(raw), tuple(decode_source(raw).split("\n")))

    def locate(self, node: ast.expr | ast.stmt) -> At:
        """The place of a part of the file, as far as it goes on its line."""
        begin = self.compute_column(node.lineno, node.col_offset)
        end = self.compute_column(node.lineno, node.end_col_offset or 0)
        if node.end_lineno != node.lineno:
            end = len(self.lines[node.lineno - 1]) + 1
        return At(self.file, node.lineno, begin, max(1, end - begin))

    def compute_column(self, line: int, offset: int) -> int:
        """A column, counted from 1, of an offset that Python counts in bytes."""
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        return len(text.encode()[:offset].decode(errors="replace")) + 1


@dataclass(frozen=True, slots=True)
class WrittenFunction:
    """A decorated function in its file."""

    source: Source
    function: Function
    decorator: ast.expr

    @property
    def at(self) -> At:
        """The name after `def`."""
        line, name = self.source.lines[self.function.lineno - 1], self.function.name
        begin = line.find(name, self.source.compute_column(self.function.lineno, self.function.col_offset) + 2)
        return At(self.source.file, self.function.lineno, max(begin, 0) + 1, len(name))

    @property
    def decorator_at(self) -> At:
        return self.source.locate(self.decorator)

    @property
    def text(self) -> str:
        """Its text with its decorators, as if it stood at the margin."""
        first = min([self.function.lineno, *(d.lineno for d in self.function.decorator_list)])
        return textwrap.dedent("\n".join(self.source.lines[first - 1 : self.function.end_lineno])) + "\n"

    def find_argument_places(self) -> Mapping[str, At]:
        """Where each argument of the decorator is written, where that is known."""
        call = self.decorator
        if not isinstance(call, ast.Call):
            return {}
        # The only argument that may come without its name is the source of a loader.
        first = {"source": self.source.locate(call.args[0])} if call.args else {}
        return {**first, **{k.arg: self.source.locate(k.value) for k in call.keywords if k.arg is not None}}

    def find_argument_names(self) -> Mapping[str, At]:
        """Where the names of these arguments are written."""
        call = self.decorator
        keywords = call.keywords if isinstance(call, ast.Call) else []
        return {
            k.arg: At(self.source.file, k.lineno, self.source.compute_column(k.lineno, k.col_offset), len(k.arg))
            for k in keywords
            if k.arg is not None
        }

    def iter_refs(self) -> Iterator[tuple[str, str | None, At]]:
        """Each `ctx.ref(…)` and `ctx.changes(…)`: which of the two, the name when it is a literal, and its place."""
        arguments = [*self.function.args.posonlyargs, *self.function.args.args]
        if not arguments:
            return
        for node in ast.walk(ast.Module(self.function.body, [])):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=asked), args=args, keywords=keywords):
                    if owner != arguments[0].arg or asked not in _REFERRING:
                        continue
                    first = next(iter([*args, *(k.value for k in keywords)]), node)
                    literal = first.value if isinstance(first, ast.Constant) else None
                    yield asked, literal if isinstance(literal, str) else None, self.source.locate(first)


def read_source(name: str, path: str) -> Source | None:
    """A file that need not be one of the project's; None when it cannot be read."""
    try:
        return Source.read(name, Path(path).read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None


def find_function(source: Source, line: int) -> WrittenFunction | None:
    """The function that a decorator on a line is of."""
    for node in ast.walk(source.tree):
        if isinstance(node, Function):
            for decorator in node.decorator_list:
                if decorator.lineno <= line <= (decorator.end_lineno or decorator.lineno):
                    return WrittenFunction(source, node, decorator)
    return None
