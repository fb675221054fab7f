"""`macros/*.py`: Python functions that return SQL text."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqb.errors.base import Errors
from sqb.errors.project import BadMacro, DuplicateKey
from sqb.light_dataclass import dataclass
from sqb.names import At
from sqb.project.functions.module_files import (
    allow_imports,
    allow_package_imports,
    execute_module,
    hash_installed_module,
    hash_module,
)

if TYPE_CHECKING:
    from sqb.project.packages.installed import InstalledPackage

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
            is_own = file.is_relative_to(self.folder)
            self.hashes[file] = hash_module(self.folder, file) if is_own else hash_installed_module(file)
        return self.hashes[file]


def load_macros(root: Path, packages: Iterable[InstalledPackage], errors: Errors) -> Macros:
    """Every public function defined in `macros/*.py` of the project and of its packages, by name."""
    places: dict[str, At] = {}
    folder = root / "macros"
    macros = Macros({}, {}, folder)
    with allow_imports(folder) if folder.is_dir() else nullcontext():
        for path in sorted(folder.glob("*.py")):
            _load_file(path, path.relative_to(root).as_posix(), macros, places, errors)
    for package in packages:
        with allow_package_imports(package.folder):
            for path in package.list_files("macros"):
                _load_file(path, path.as_posix(), macros, places, errors)
    return macros


def _load_file(path: Path, file: str, macros: Macros, places: dict[str, At], errors: Errors) -> None:
    module = execute_module(path, file, BadMacro, errors)
    if module is None:
        return
    for name, function in vars(module).items():
        if name.startswith("_") or not inspect.isfunction(function) or function.__module__ != module.__name__:
            continue
        at = At(file, function.__code__.co_firstlineno, 1, len(name))
        if name in places:
            errors.add(DuplicateKey(f"the macro @{name} is also defined at {places[name]}", at=at))
            continue
        macros.functions[name], macros.files[name], places[name] = function, path, at
