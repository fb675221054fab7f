"""The cached summary of a dbt project, and whether it is current: then dbt is not started, which takes seconds.

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

from sqb.cache import codec
from sqb.cache.files import read_lines, stamp_code, write_lines
from sqb.dbt.command import Dbt
from sqb.dbt.model import DbtProject
from sqb.project.config.dbt_names import DbtName, DbtNames, get_summary_file
from sqb.workspace import has_same_files

_SUFFIXES = (".sql", ".yml", ".yaml", ".csv", ".md", ".py", ".dbtignore")
_SKIPPED_FOLDERS = ("target", "logs", "__pycache__", "node_modules")
_IGNORED_FILES = (".user.yml",)
_PATH_KINDS = ("model", "seed", "test", "analysis", "macro", "snapshot", "docs", "asset", "function")
_ENV_VAR = re.compile(r"""env_var\s*\(\s*['"]([^'"]+)['"]""")
Stamp = tuple[int, int]


@dataclass(frozen=True, slots=True)
class ProjectInputs:
    """Everything that dbt reads besides the lake, as it was at one moment."""

    folders: tuple[str, ...] | None
    stamps: Mapping[str, Stamp]
    hashes: Mapping[str, str]
    environment: Mapping[str, str]
    written: int


@dataclass(frozen=True, slots=True)
class SummaryOrigin:
    """What a cached summary was made from: how dbt was called, and the inputs that it read."""

    call: tuple[str, ...]
    # Of dbt and of what it is installed with: paths, times and sizes.
    command: tuple[tuple[str, int, int], ...]
    inputs: ProjectInputs


@dataclass(frozen=True, slots=True)
class CachedSummary:
    """A cached summary: what it was made from, and the project, decoded on demand."""

    origin: SummaryOrigin
    text: str

    def decode_project(self) -> DbtProject:
        return codec.decode(DbtProject, self.text)


def read_current(dbt: Dbt) -> DbtProject | None:
    """What is known of the dbt project, if nothing that it was derived from has changed."""
    summary = read_summary(dbt.root)
    try:
        return summary.decode_project() if summary is not None and _is_current(dbt, summary.origin) else None
    except (OSError, ValueError):
        return None


def _is_current(dbt: Dbt, origin: SummaryOrigin) -> bool:
    if origin.call != _list_call(dbt) or origin.command != _compute_command_stamp(dbt):
        return False
    inputs = origin.inputs
    stamps = _read_stamps(dbt, inputs.folders)
    if not has_same_files(dbt.project_dir, stamps, inputs.stamps, inputs.hashes, inputs.written):
        return False
    return _hash_environment(inputs.environment) == inputs.environment


def read_inputs(dbt: Dbt) -> ProjectInputs:
    """What dbt is about to read; taken before it starts, so that an edit meanwhile is noticed next time."""
    written = time.time_ns()
    folders = _read_folders(dbt.project_dir)
    stamps = _read_stamps(dbt, folders)
    hashes: dict[str, str] = {}
    variables: set[str] = set()
    for path in stamps:
        with suppress(OSError):
            content = (dbt.project_dir / path).read_bytes()
            hashes[path] = hashlib.sha256(content).hexdigest()[:32]
            if not path.endswith(".csv") and b"env_var" in content:
                variables.update(_ENV_VAR.findall(content.decode("utf-8", "replace")))
    return ProjectInputs(folders, stamps, hashes, _hash_environment(variables), written)


def write_project(dbt: Dbt, inputs: ProjectInputs, project: DbtProject) -> None:
    """Write the summary of a project, and the inputs that it was made from."""
    write_summary(dbt.root, SummaryOrigin(_list_call(dbt), _compute_command_stamp(dbt), inputs), project)


def write_selections(dbt: Dbt, project: DbtProject) -> None:
    """Write the summary of an unchanged project with more selections."""
    summary = read_summary(dbt.root)
    if summary is not None:
        write_summary(dbt.root, summary.origin, project)


def write_summary(root: Path, origin: SummaryOrigin, project: DbtProject) -> None:
    """Write the summary of the dbt project of the sqb project at `root`."""
    names = DbtNames(
        tuple(
            DbtName(n.unique_id, n.name, n.package, n.relation, n.path, n.is_latest)
            for n in project.nodes.values()
            if not n.is_test
        )
    )
    lines = (codec.encode(origin), codec.encode(names), codec.encode(project))
    write_lines(get_summary_file(root), _compute_code_stamp(), lines)


def read_summary(root: Path) -> CachedSummary | None:
    """The summary that was kept; None when there is none that can be read."""
    lines = read_lines(get_summary_file(root), _compute_code_stamp())
    try:
        return CachedSummary(codec.decode(SummaryOrigin, lines[0]), lines[2]) if lines else None
    except (codec.Undecodable, IndexError):
        return None


def _list_call(dbt: Dbt) -> tuple[str, ...]:
    """The settings that a project is read with."""
    places = [str(dbt.project_dir), str(dbt.profiles_file), str(dbt.target_path)]
    return (*dbt.command, *places, dbt.catalog, *dbt.arguments.command_line)


def _compute_code_stamp() -> str:
    """What changes when the code changes that reads projects."""
    return stamp_code("cache", "dbt", "names.py", "project/config/dbt_names.py")


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def _hash_environment(names: Iterable[str]) -> dict[str, str]:
    """Hashes of the values of these variables and of dbt's own; one that is not set has none."""
    dbt_variables = {name for name in os.environ if name.startswith("DBT_")} - {"DBT_SEND_ANONYMOUS_USAGE_STATS"}
    variables = sorted({*names, *dbt_variables})
    return {name: _hash("sqb" + os.environ[name])[:32] if name in os.environ else "" for name in variables}


def _compute_command_stamp(dbt: Dbt) -> tuple[tuple[str, int, int], ...]:
    """What changes when another dbt, or another of its adapters, is installed."""
    marks: list[tuple[str, int, int]] = []
    for word in dbt.find_executable():
        path = Path(word) if os.path.isabs(word) else dbt.root / word
        if not path.is_file():
            continue
        status = path.stat()
        marks.append((str(path), status.st_mtime_ns, status.st_size))
        # Installing anything into an environment changes this folder.
        places = sorted(path.parent.parent.glob("lib/python*/site-packages"))
        marks += [(str(p), p.stat().st_mtime_ns, 0) for p in places]
    return tuple(marks)


def _read_folders(project_dir: Path) -> tuple[str, ...] | None:
    """The folders that dbt reads, relative to its project; None where only dbt itself knows."""
    import yaml  # an unchanged project does not need it

    try:
        settings = yaml.safe_load((project_dir / "dbt_project.yml").read_text())
        paths: list[str] = []
        for kind in _PATH_KINDS:
            default = {"analysis": ["analyses"], "docs": [], "asset": []}.get(kind, [f"{kind}s"])
            paths += settings.get(f"{kind}-paths", default) or []
        paths.append(settings.get("packages-install-path", "dbt_packages"))
    except (OSError, yaml.YAMLError, AttributeError, TypeError):
        return None
    if not all(isinstance(path, str) and "{" not in path and "$" not in path for path in paths):
        return None
    # The whole project among them makes the others needless.
    return None if any(os.path.normpath(path) in (".", "") for path in paths) else tuple(sorted(set(paths)))


def _read_stamps(dbt: Dbt, folders: tuple[str, ...] | None) -> dict[str, Stamp]:
    """Every file that dbt reads, by its path relative to the dbt project, and the profile."""
    stamps: dict[str, Stamp] = {}
    top = str(dbt.project_dir)
    ignored = {os.path.realpath(dbt.target_path), os.path.realpath(dbt.root / ".sqb")}
    for entry in os.scandir(top):
        if entry.name.endswith(_SUFFIXES) and entry.name not in _IGNORED_FILES and entry.is_file():
            stamps[entry.name] = _read_stamp(entry)
    if folders is None:
        stamps.update(_iter_files(top, "", ignored, ()))
    else:
        for folder in folders:
            stamps.update(_iter_files(os.path.join(top, folder), folder, ignored, ()))
    with suppress(OSError):
        status = os.stat(dbt.profiles_file)
        stamps[os.path.relpath(dbt.profiles_file, top)] = (status.st_mtime_ns, status.st_size)
    return stamps


def _read_stamp(entry: os.DirEntry[str]) -> Stamp:
    status = entry.stat()
    return (status.st_mtime_ns, status.st_size)


def _iter_files(folder: str, relative: str, ignored: set[str], parents: tuple[str, ...]) -> Iterator[tuple[str, Stamp]]:
    try:
        entries = sorted(os.scandir(folder), key=lambda e: e.name)
    except (FileNotFoundError, NotADirectoryError):
        return
    if any(e.name == "pyvenv.cfg" for e in entries):
        return
    inside = (*parents, folder)
    for entry in entries:
        path = f"{relative}/{entry.name}" if relative else entry.name
        if entry.is_dir():
            if (
                entry.name.startswith(".")
                or (not relative and entry.name in _SKIPPED_FOLDERS)
                or entry.name == "__pycache__"
            ):
                continue
            if entry.is_symlink() and os.path.realpath(entry.path) in {os.path.realpath(f) for f in inside}:
                continue
            if os.path.abspath(entry.path) not in ignored:
                yield from _iter_files(entry.path, path, ignored, inside)
        elif entry.name.endswith(_SUFFIXES) and entry.name not in _IGNORED_FILES and entry.is_file():
            yield path, _read_stamp(entry)
