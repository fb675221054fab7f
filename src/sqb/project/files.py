"""The files of a project: which there are, their stamps, and their texts."""

from __future__ import annotations

import errno
import hashlib
import importlib.util
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from sqb.errors.base import Errors
from sqb.errors.call import NoProject
from sqb.errors.project import Unreadable
from sqb.names import At

PROJECT_FILE = "sqlbuild_project.toml"
LOCAL_FILE = "sqlbuild_local.toml"
SELECTORS_FILE = "selectors.yml"
_FOLDERS = {
    "models": (".sql",),
    "seeds": (".csv", ".yml", ".yaml"),
    "sources": (".yml", ".yaml"),
    "exposures": (".yml", ".yaml"),
    "macros": (".py",),
    "functions": (".sql", ".py"),
    "audits": (".sql",),
    "golden": (".csv", ".yml", ".yaml"),
    "tests": (".yml", ".yaml"),
    "python": (".py",),
    "materializations": (".py",),
}

# A file's stamp: modification time in nanoseconds and size.
Stamp = tuple[int, int]

# What an editor has not saved yet: texts that are read in the place of files, by absolute path; None for a file that
# is taken to be gone.
_UNSAVED: ContextVar[Mapping[Path, str | None] | None] = ContextVar("_UNSAVED", default=None)


@contextmanager
def read_unsaved(texts: Mapping[Path, str | None]) -> Iterator[None]:
    """Read these texts in the place of files; Python files are always read as they are saved."""
    token = _UNSAVED.set(texts)
    try:
        yield
    finally:
        _UNSAVED.reset(token)


def read_bytes(path: Path) -> bytes:
    """What is in a file, or what an editor has in its place."""
    unsaved = _UNSAVED.get()
    if not unsaved or path not in unsaved:
        return path.read_bytes()
    text = unsaved[path]
    if text is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    return text.encode("utf-8", "surrogatepass")


def list_seed_files(file: str) -> tuple[str, str, str]:
    """The file of a seed's rows, and those beside it that may say more of its columns."""
    stem = file.removesuffix(".csv")
    return file, f"{stem}.yml", f"{stem}.yaml"


def is_there(path: Path) -> bool:
    """Whether a file exists, or an editor has one in its place."""
    unsaved = _UNSAVED.get()
    return unsaved[path] is not None if unsaved and path in unsaved else path.exists()


def hash_path(path: Path) -> str:
    """What a file holds, or which names a folder has; "" where there is neither."""
    try:
        content = path.read_bytes()
    except IsADirectoryError:
        names = sorted(entry.name for entry in os.scandir(path) if entry.name != "__pycache__")
        content = "\0".join(names).encode()
    except OSError:
        return ""
    return hashlib.sha256(content).hexdigest()[:32]


def find_root(start: Path) -> Path:
    """The project folder: `start` or the nearest one above it that holds the project file."""
    try:
        start = start.absolute()
    except FileNotFoundError as error:
        raise NoProject(
            "the current folder no longer exists", hint="go to your project's folder, `cd` into it again"
        ) from error
    if not start.exists():
        # One above it would be another project than the one that was named.
        raise NoProject(f"there is no folder {start}", hint="name your project's folder with --project-dir")
    for folder in (start, *start.parents):
        if (folder / PROJECT_FILE).is_file():
            return folder
    raise NoProject(
        f"no {PROJECT_FILE} in {start} or above it",
        hint="go to your project's folder, name it with --project-dir, or make a new project with `sqb init`",
    )


def read_stamps(root: Path) -> dict[str, Stamp]:
    """Every file that can change what the project means, by its path relative to the root."""
    stamps_by_path: dict[str, Stamp] = {}
    for name in (PROJECT_FILE, LOCAL_FILE):
        try:
            status = os.stat(root / name)
        except FileNotFoundError:
            continue
        stamps_by_path[name] = (status.st_mtime_ns, status.st_size)
    for folder, suffixes in _FOLDERS.items():
        stamps_by_path.update(_walk(str(root / folder), folder, suffixes))
    for path, text in (_UNSAVED.get() or {}).items():
        name = path.relative_to(root).as_posix() if path.is_relative_to(root) else ""
        if text is None:
            stamps_by_path.pop(name, None)
        elif is_project_path(name):
            stamps_by_path.setdefault(name, (0, 0))
    return stamps_by_path


def is_project_path(path: str) -> bool:
    """Whether a file of this path, relative to the root, would be one of the project's."""
    folder, _, rest = path.partition("/")
    return bool(rest) and rest.endswith(_FOLDERS.get(folder, ()))


def _walk(
    folder: str, relative: str, suffixes: tuple[str, ...], above: tuple[str, ...] = ()
) -> Iterator[tuple[str, Stamp]]:
    try:
        entries = sorted(os.scandir(folder), key=lambda e: e.name)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise Unreadable(
            f"this folder cannot be read: {error.strerror}", at=At(relative), hint="check its permissions"
        ) from error
    for entry in entries:
        if entry.name.startswith((".", "__pycache__")):
            continue
        path = f"{relative}/{entry.name}"
        if _is_folder(entry, path):
            # Only links can lead back up, and asking where each folder really is would take longer than reading it.
            inside = (*above, folder)
            if entry.is_symlink() and os.path.realpath(entry.path) in {os.path.realpath(f) for f in inside}:
                raise Unreadable("this link leads back to a folder that it is in", at=At(path), hint="remove the link")
            yield from _walk(entry.path, path, suffixes, inside)
        elif entry.name.endswith(suffixes):
            try:
                status = entry.stat()
            except OSError as error:
                raise Unreadable("this file cannot be read: a broken link?", at=At(path)) from error
            yield path, (status.st_mtime_ns, status.st_size)


def _is_folder(entry: os.DirEntry[str], path: str) -> bool:
    try:
        return entry.is_dir()
    except OSError as error:
        raise Unreadable(f"this file cannot be read: {error.strerror}", at=At(path)) from error


def read_text(root: Path, path: str, errors: Errors) -> str | None:
    """A file's text, or None with the reason reported."""
    try:
        raw = read_bytes(root / path)
    except OSError as error:
        errors.add(Unreadable(f"this file cannot be read: {error.strerror}", at=At(path)))
        return None
    try:
        return raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        errors.add(Unreadable("this file is not UTF-8", at=At(path, line, 1), hint="save it as UTF-8"))
        return None


def read_git_commit(root: Path) -> str:
    """The commit that the project's folder is at, read without git; "" when it is not in a repository."""
    for folder in (root, *root.parents):
        head = folder / ".git" / "HEAD"
        try:
            text = head.read_text().strip()
        except OSError:
            continue
        if not text.startswith("ref: "):
            return text
        try:
            return (folder / ".git" / text.removeprefix("ref: ")).read_text().strip()
        except OSError:
            return ""
    return ""


def is_package_file(path: str) -> bool:
    """Whether a path is one of a package's, and not of the project's."""
    return os.path.isabs(path)


def is_in_folder(path: str, folder: str) -> bool:
    """Whether a file of the project or of a package is one of the macros, audits or functions."""
    return Path(path).parent.name == folder if is_package_file(path) else path.startswith(f"{folder}/")


def find_package_folder(name: str) -> str | None:
    """The folder of a Python package by its import name, without importing it; None where it is not installed."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    places = spec.submodule_search_locations if spec is not None else None
    return os.path.abspath(next(iter(places))) if places else None
