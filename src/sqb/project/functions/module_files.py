"""Python files of a project: carried out by themselves, and known by what they say rather than how it is laid out."""

from __future__ import annotations

import ast
import hashlib
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from sqb.errors.base import Errors, SqbError
from sqb.names import At

# Python 3.11 may fail to make trees in several threads at once.
_PARSING = threading.Lock()


def execute_module(path: Path, file: str, kind: type[SqbError], errors: Errors) -> ModuleType | None:
    """The module in a file, which nothing else can import; None when what is wrong with it was reported."""
    module = ModuleType(f"sqb_{file.removesuffix('.py').replace('/', '_')}")
    module.__file__ = str(path)
    try:
        exec(compile(path.read_bytes(), file, "exec"), vars(module))
    except SyntaxError as error:
        errors.add(kind(f"not Python: {error.msg}", at=At(file, error.lineno or 1, error.offset or 1)))
        return None
    except (Exception, SystemExit) as error:
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
        errors.add(kind(f"{type(error).__name__}: {error}", at=At(file, (lines or [1])[-1] or 1, 1)))
        return None
    return module


def hash_installed_module(path: Path) -> str:
    """The same of a file in an installed package: what it imports of its own package counts."""
    package = path.parent.parent
    top = package
    while (top / "__init__.py").is_file():
        top = top.parent
    return _hash_files(path, package, lambda tree: (p for p in _iter_siblings(tree, top) if p.is_relative_to(package)))


@contextmanager
def allow_package_imports(package: Path) -> Iterator[None]:
    """Let files of an installed package import it; nothing of it stays imported, as another version may come."""
    known = set(sys.modules)
    try:
        yield
    finally:
        for name in [n for n in sys.modules.keys() - known if _is_in(sys.modules[n], package)]:
            del sys.modules[name]


@contextmanager
def allow_imports(folder: Path) -> Iterator[None]:
    """Let the files of a folder import each other, and nothing else of the project; nothing of it stays imported."""
    known = set(sys.modules)
    sys.path.insert(0, str(folder))
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        sys.dont_write_bytecode = writes
        # Another file of this name may be read next, and functions that are sent to Spark take what they need along.
        for name in [n for n in sys.modules.keys() - known if _is_in(sys.modules[n], folder)]:
            del sys.modules[name]


def _is_in(module: ModuleType, folder: Path) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and Path(file).is_relative_to(folder)


def hash_module(folder: Path, path: Path) -> str:
    """What a file and the files of its folder that it imports say, whatever their comments and layout."""
    return _hash_files(path, folder, lambda tree: _iter_siblings(tree, folder))


def _hash_files(path: Path, base: Path, list_imports: Callable[[ast.AST], Iterable[Path]]) -> str:
    texts: dict[str, str] = {}
    stack = [path]
    while stack:
        current = stack.pop()
        name = current.relative_to(base).as_posix()
        if name in texts:
            continue
        try:
            tree = parse_module(current.read_bytes())
        except (OSError, SyntaxError, ValueError):
            texts[name] = ""
            continue
        texts[name] = repr(dump_tree(tree))
        stack.extend(list_imports(tree))
    parts = [f"{name}\0{text}" for name, text in sorted(texts.items())]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def _iter_siblings(tree: ast.AST, folder: Path) -> Iterator[Path]:
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            parts = name.split(".")
            for length in range(1, len(parts) + 1):
                base = folder.joinpath(*parts[:length])
                yield from (p for p in (base.with_suffix(".py"), base / "__init__.py") if p.is_file())


def parse_module(raw: bytes | str) -> ast.Module:
    """The syntax tree of a file. What Python only warns of is reported when it is imported."""
    with _PARSING, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(raw)


def dump_tree(node: Any) -> Any:
    """A syntax tree as values: without places, and without what a version of Python leaves empty."""
    if isinstance(node, list):
        return [dump_tree(item) for item in node]
    if not isinstance(node, ast.AST):
        return [type(node).__name__, repr(node)]
    fields = ((name, value) for name, value in ast.iter_fields(node) if name not in ("ctx", "kind", "type_comment"))
    return [type(node).__name__, *([name, dump_tree(value)] for name, value in fields if value not in (None, []))]


def strip_docstrings(tree: ast.AST) -> ast.AST:
    """A syntax tree without its docstrings, which is the same tree; one that looks at them keeps them."""
    nodes = list(ast.walk(tree))
    if any("__doc__" in (getattr(node, "id", None), getattr(node, "attr", None)) for node in nodes):
        return tree
    for node in nodes:
        match node:
            case (
                ast.Module(body=[ast.Expr(value=ast.Constant(value=str())), *rest])
                | ast.ClassDef(body=[ast.Expr(value=ast.Constant(value=str())), *rest])
                | ast.FunctionDef(body=[ast.Expr(value=ast.Constant(value=str())), *rest])
                | ast.AsyncFunctionDef(body=[ast.Expr(value=ast.Constant(value=str())), *rest])
            ):
                node.body = rest
    return tree
