"""Whether what is known of a dbt project is still true: then dbt need not be asked, which takes seconds.

The summary of a manifest is kept together with everything that dbt made it from: files, the profile, the command
itself, the values of the environment variables that the files name. Values of variables may be secrets and are kept
as hashes.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqb import __version__
from sqb.dbt.command import Dbt
from sqb.dbt.kept import keep, kept
from sqb.dbt.values import DbtProject
from sqb.workspace import same_files

_SUFFIXES = (".sql", ".yml", ".yaml", ".csv", ".md", ".py", ".dbtignore")
_SKIPPED = ("target", "logs", "__pycache__", "node_modules")
_NOT_READ = (".user.yml",)
_PATHS = ("model", "seed", "test", "analysis", "macro", "snapshot", "docs", "asset", "function")
_ENV_VAR = re.compile(r"""env_var\s*\(\s*['"]([^'"]+)['"]""")
Stamp = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Basis:
    """Everything that dbt reads besides the lake, as it was at one moment."""

    folders: tuple[str, ...] | None
    stamps: Mapping[str, Stamp]
    hashes: Mapping[str, str]
    environment: Mapping[str, str]
    written: int


def read_current(dbt: Dbt) -> DbtProject | None:
    """What is known of the dbt project, if nothing that it was derived from has changed."""
    known = kept(dbt.root)
    if known is None:
        return None
    head = known.head
    try:
        if head["code"] != _code_stamp() or head["call"] != _call(dbt) or head["command"] != _command_stamp(dbt):
            return None
        folders = head["folders"]
        stamps = _stamps(dbt, None if folders is None else tuple(folders))
        if not same_files(dbt.project_dir, stamps, head["stamps"], head["hashes"], head["written"]):
            return None
        if _environment(head["environment"]) != head["environment"]:
            return None
        return known.project()
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def look_before(dbt: Dbt) -> Basis:
    """What dbt is about to read; taken before it starts, so that an edit meanwhile is noticed next time."""
    written = time.time_ns()
    folders = _folders(dbt.project_dir)
    stamps = _stamps(dbt, folders)
    hashes: dict[str, str] = {}
    named: set[str] = set()
    for path in stamps:
        with suppress(OSError):
            content = (dbt.project_dir / path).read_bytes()
            hashes[path] = hashlib.sha256(content).hexdigest()[:32]
            if not path.endswith(".csv") and b"env_var" in content:
                named.update(_ENV_VAR.findall(content.decode("utf-8", "replace")))
    return Basis(folders, stamps, hashes, _environment(named), written)


def keep_project(dbt: Dbt, basis: Basis, project: DbtProject) -> None:
    """Write down what is known now, and what it was made from."""
    head = {
        "code": _code_stamp(),
        "call": _call(dbt),
        "command": _command_stamp(dbt),
        "folders": basis.folders,
        "stamps": {p: list(s) for p, s in basis.stamps.items()},
        "hashes": basis.hashes,
        "environment": basis.environment,
        "written": basis.written,
    }
    keep(dbt.root, head, project)


def keep_selections(dbt: Dbt, project: DbtProject) -> None:
    """Write down that more is known of a project that has not changed."""
    known = kept(dbt.root)
    if known is not None:
        keep(dbt.root, known.head, project)


def _call(dbt: Dbt) -> list[str]:
    """The settings that a project is read with."""
    places = [str(dbt.project_dir), str(dbt.profiles_file), str(dbt.target_path)]
    return [*dbt.command, *places, dbt.catalog, *dbt.given.arguments]


def _code_stamp() -> str:
    """What changes when the code changes that reads projects."""
    here = Path(__file__).parent
    marks = [f"{p.name}:{p.stat().st_mtime_ns}:{p.stat().st_size}" for p in sorted(here.glob("*.py"))]
    return _hash("\0".join([__version__, *marks]))[:16]


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def _environment(names: Iterable[str]) -> dict[str, str]:
    """Hashes of the values of these variables and of dbt's own; one that is not set has none."""
    own = {name for name in os.environ if name.startswith("DBT_")} - {"DBT_SEND_ANONYMOUS_USAGE_STATS"}
    wanted = sorted({*names, *own})
    return {name: _hash("sqb" + os.environ[name])[:32] if name in os.environ else "" for name in wanted}


def _command_stamp(dbt: Dbt) -> list[Any]:
    """What changes when another dbt, or another of its adapters, is installed."""
    marks: list[Any] = []
    for word in dbt.executable():
        path = Path(word) if os.path.isabs(word) else dbt.root / word
        if not path.is_file():
            continue
        status = path.stat()
        marks.append([str(path), status.st_mtime_ns, status.st_size])
        # Installing anything into an environment changes this folder.
        places = sorted(path.parent.parent.glob("lib/python*/site-packages"))
        marks += [[str(p), p.stat().st_mtime_ns, 0] for p in places]
    return marks


def _folders(project_dir: Path) -> tuple[str, ...] | None:
    """The folders that dbt reads, relative to its project; None where only dbt itself knows."""
    import yaml  # an unchanged project does not need it

    try:
        settings = yaml.safe_load((project_dir / "dbt_project.yml").read_text())
        found: list[str] = []
        for kind in _PATHS:
            default = {"analysis": ["analyses"], "docs": [], "asset": []}.get(kind, [f"{kind}s"])
            found += settings.get(f"{kind}-paths", default) or []
        found.append(settings.get("packages-install-path", "dbt_packages"))
    except (OSError, yaml.YAMLError, AttributeError, TypeError):
        return None
    if not all(isinstance(path, str) and "{" not in path and "$" not in path for path in found):
        return None
    # The whole project among them makes the others needless.
    return None if any(os.path.normpath(path) in (".", "") for path in found) else tuple(sorted(set(found)))


def _stamps(dbt: Dbt, folders: tuple[str, ...] | None) -> dict[str, Stamp]:
    """Every file that dbt reads, by its path relative to the dbt project, and the profile."""
    found: dict[str, Stamp] = {}
    top = str(dbt.project_dir)
    ignored = {os.path.realpath(dbt.target_path), os.path.realpath(dbt.root / ".sqb")}
    for entry in os.scandir(top):
        if entry.name.endswith(_SUFFIXES) and entry.name not in _NOT_READ and entry.is_file():
            found[entry.name] = _stamp(entry)
    if folders is None:
        found.update(_walk(top, "", ignored, ()))
    else:
        for folder in folders:
            found.update(_walk(os.path.join(top, folder), folder, ignored, ()))
    with suppress(OSError):
        status = os.stat(dbt.profiles_file)
        found[os.path.relpath(dbt.profiles_file, top)] = (status.st_mtime_ns, status.st_size)
    return found


def _stamp(entry: os.DirEntry[str]) -> Stamp:
    status = entry.stat()
    return (status.st_mtime_ns, status.st_size)


def _walk(folder: str, relative: str, ignored: set[str], above: tuple[str, ...]) -> Iterator[tuple[str, Stamp]]:
    try:
        entries = sorted(os.scandir(folder), key=lambda e: e.name)
    except (FileNotFoundError, NotADirectoryError):
        return
    if any(e.name == "pyvenv.cfg" for e in entries):
        return
    inside = (*above, folder)
    for entry in entries:
        path = f"{relative}/{entry.name}" if relative else entry.name
        if entry.is_dir():
            if entry.name.startswith(".") or (not relative and entry.name in _SKIPPED) or entry.name == "__pycache__":
                continue
            if entry.is_symlink() and os.path.realpath(entry.path) in {os.path.realpath(f) for f in inside}:
                continue
            if os.path.abspath(entry.path) not in ignored:
                yield from _walk(entry.path, path, ignored, inside)
        elif entry.name.endswith(_SUFFIXES) and entry.name not in _NOT_READ and entry.is_file():
            yield path, _stamp(entry)
