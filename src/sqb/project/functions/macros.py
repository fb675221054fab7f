"""`macros/*.py`: Python functions that return SQL text."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import field
from pathlib import Path
from typing import Any

from sqb.errors.base import Errors
from sqb.errors.project import BadMacro, DuplicateKey
from sqb.light_dataclass import dataclass
from sqb.names import At
from sqb.project.functions.module_files import allow_imports, execute_module, hash_module

Macro = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Macros:
    """The macros of a project by name, and the file that each is in."""

    functions: dict[str, Macro]
    files: dict[str, Path]
    folder: Path
    # What files say, each read once.
    hashes: dict[Path, str] = field(default_factory=dict)

    def compute_hash(self, name: str) -> str:
        """What a macro says, with everything in its folder that its file imports."""
        file = self.files[name]
        if file not in self.hashes:
            self.hashes[file] = hash_module(self.folder, file)
        return self.hashes[file]


def load_macros(root: Path, errors: Errors) -> Macros:
    """Every public function defined in `macros/*.py`, by name."""
    places: dict[str, At] = {}
    folder = root / "macros"
    macros = Macros({}, {}, folder)
    if not folder.is_dir():
        return macros
    with allow_imports(folder):
        for path in sorted(folder.glob("*.py")):
            file = path.relative_to(root).as_posix()
            module = execute_module(path, file, BadMacro, errors)
            if module is None:
                continue
            for name, function in vars(module).items():
                if name.startswith("_") or not inspect.isfunction(function) or function.__module__ != module.__name__:
                    continue
                at = At(file, function.__code__.co_firstlineno, 1, len(name))
                if name in places:
                    errors.add(DuplicateKey(f"the macro @{name} is also defined at {places[name]}", at=at))
                    continue
                macros.functions[name], macros.files[name], places[name] = function, path, at
    return macros
