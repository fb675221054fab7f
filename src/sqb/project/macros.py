"""`macros/*.py`: Python functions that return SQL text."""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from sqb.errors import BadMacro, DuplicateKey, Errors
from sqb.names import At

Macro = Callable[..., Any]


def load_macros(root: Path, errors: Errors) -> dict[str, Macro]:
    """Every public function defined in `macros/*.py`, by name."""
    found: dict[str, Macro] = {}
    places: dict[str, At] = {}
    folder = root / "macros"
    with _importable(folder):
        for path in sorted(folder.glob("*.py")) if folder.is_dir() else ():
            file = path.relative_to(root).as_posix()
            module = _execute(path, file, errors)
            for name, function in vars(module).items() if module else ():
                if name.startswith("_") or not inspect.isfunction(function) or function.__module__ != module.__name__:
                    continue
                at = At(file, function.__code__.co_firstlineno, 1, len(name))
                if name in found:
                    errors.add(DuplicateKey(f"the macro @{name} is also defined at {places[name]}", at=at))
                    continue
                found[name], places[name] = function, at
    return found


def _execute(path: Path, file: str, errors: Errors) -> ModuleType | Any:
    module = ModuleType(f"sqb_macros_{path.stem}")
    module.__file__ = str(path)
    try:
        exec(compile(path.read_bytes(), str(path), "exec"), vars(module))
    except SyntaxError as error:
        errors.add(BadMacro(f"not Python: {error.msg}", at=At(file, error.lineno or 1, error.offset or 1)))
        return None
    except (Exception, SystemExit) as error:
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
        errors.add(BadMacro(f"{type(error).__name__}: {error}", at=At(file, (lines or [1])[-1] or 1, 1)))
        return None
    return module


@contextmanager
def _importable(folder: Path) -> Any:
    """Let macro files import their siblings, and nothing else of the project."""
    sys.path.insert(0, str(folder))
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        sys.dont_write_bytecode = writes
