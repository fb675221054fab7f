"""A project folder opened for one target: the compiled project, from the cache when no file has changed."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqb.cache import codec
from sqb.cache.files import read_lines, stamp_code, write_lines
from sqb.compile.model import Node, Project
from sqb.errors.base import Errors, SqbError
from sqb.errors.call import UnknownTarget
from sqb.light_dataclass import dataclass
from sqb.names import suggest_nearest
from sqb.project import files
from sqb.project.config.connections.lake_location import LakeLocation, locate_lake
from sqb.project.config.connections.model import Connection
from sqb.project.config.dbt_names import read_names_text
from sqb.project.config.session_settings import compute_session_settings
from sqb.project.config.settings import CostGate, EngineMode, OpenLineageSettings, Retention
from sqb.project.config.virtual import VirtualSettings, apply_state_variable, has_password

if TYPE_CHECKING:
    from sqb.compile.project import Compilation
    from sqb.project.values import Config, Target
    from sqb.sql.analysis.cache import AnalysisCache
    from sqb.sql.columns.outline import Query

# The code that decides what a compiled project is, and how it is cached.
_COMPILING = (
    "cache",
    "checks",
    "compile",
    "decorators.py",
    "graph.py",
    "identity.py",
    "names.py",
    "project",
    "python_runtime",
    "sql",
    "types",
    "workspace.py",
)
# A file changed this recently may change again within the clock's grain, so its stamp alone proves nothing.
_RACY_NS = 2_000_000_000
# Edits of more models than these compile everything: another branch was checked out.
_MOST_EDITED = 100


@dataclass(frozen=True, slots=True)
class ProjectHome:
    """Where a project is, and how to reach its lake and Spark; nothing of its models."""

    root: Path
    connection: Connection
    concurrency: int | None

    @property
    def folder(self) -> Path:
        """Where caches and logs are kept."""
        return self.root / ".sqb"

    @property
    def lake_location(self) -> LakeLocation:
        """Where its lake is, with secrets as the environment has them now."""
        return locate_lake(self.connection, self.root)


@dataclass(frozen=True, slots=True)
class Workspace(ProjectHome):
    """An opened project: where it is, how to reach its lake and Spark, and what it says."""

    project: Project
    gate: CostGate = CostGate()
    retention: Retention = Retention()
    from_cache: bool = False
    virtual: VirtualSettings = VirtualSettings()
    # The values of @@variables that it was opened with.
    variables: Mapping[str, Any] = field(default_factory=dict)
    # When commands leave an engine for the next one.
    engine: EngineMode = "auto"
    openlineage: OpenLineageSettings = OpenLineageSettings()
    # The outlines of the queries that were parsed to compile it, by their texts.
    outlines: Mapping[str, Query] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class _Origin:
    """What a cached project was compiled from, and the settings that were read with it."""

    environment: Mapping[str, str | None]
    # Python modules outside of the project's folders: the hash of each, and its stamp where it exists.
    outside: Mapping[str, tuple[str, files.Stamp | None]]
    stamps: Mapping[str, files.Stamp]
    hashes: Mapping[str, str]
    written: int
    # A private connection, and an address with a password, are not written down: they are read from the files again.
    connection_name: str
    connection: Connection | None
    virtual: VirtualSettings | None
    concurrency: int | None
    engine: EngineMode
    gate: CostGate
    retention: Retention
    loads: bool
    openlineage: OpenLineageSettings
    # Where the packages are that it uses, by their import names.
    packages: Mapping[str, str]
    # Stands for the names of the dbt project; None for a project without one.
    dbt: str | None


def open_workspace(
    start: Path,
    target: str | None = None,
    variables: Mapping[str, Any] | None = None,
    while_compiling: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Workspace:
    """Open the project at or above `start`; raises every error of its files at once.

    Where it has to be compiled, that is done within `while_compiling()`.
    """
    root = files.find_root(start)
    overrides = dict(variables or {})
    stamps = files.read_stamps(root)
    cache = (
        root
        / ".sqb"
        / "cache"
        / f"project-{_build_cache_key(target or '', json.dumps(overrides, sort_keys=True, default=str))}.json"
    )
    workspace = _open_cached(root, cache, stamps, target, overrides)
    if workspace is None:
        with while_compiling():
            workspace = _compile_and_cache(root, cache, stamps, target, overrides)
    return replace(workspace, variables=overrides)


def open_project_home(start: Path, target: str | None = None) -> ProjectHome:
    """The home of the project at or above `start`: its settings are read, and nothing is compiled.

    For what is to work whatever the models are like, and whichever variables they need.
    """
    root, errors = files.find_root(start), Errors()
    config, chosen = _load_settings(root, target, errors)
    errors.raise_any()
    return ProjectHome(root, config.get_connection(chosen), config.concurrency)


def _load_settings(root: Path, target: str | None, errors: Errors) -> tuple[Config, Target]:
    from sqb.project.config.config import load_config  # an unchanged project is served without reading its settings

    config = load_config(root, errors)
    if config is None:
        errors.raise_any()
        raise SqbError("the project file could not be read")
    name = target or config.default_target
    if name not in config.targets:
        raise UnknownTarget(
            f'there is no target "{name}"',
            hint=suggest_nearest(name, config.targets) or f"targets: {', '.join(config.targets)}",
        )
    return config, config.targets[name]


def _build_cache_key(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


@functools.cache
def compute_code_stamp() -> str:
    """What changes when sqb's own code or sqlglot changes, found without importing either.

    A process asks once: it goes on with the code that it has loaded.
    """
    spec = importlib.util.find_spec("sqlglot")
    sqlglot = (Path(spec.origin).with_name("_version.py"),) if spec and spec.origin else ()
    return stamp_code(*_COMPILING, also=sqlglot)


@dataclass(frozen=True, slots=True)
class _Cached:
    """A cached project that was written by the same code: what it was compiled from, and the texts of its parts."""

    origin: _Origin
    # The project without its nodes, and each node in its order: an edit writes few of them anew.
    project: str
    nodes: list[str]

    def decode(self) -> Project:
        """The project as it was compiled."""
        nodes = codec.decode_all(Node, self.nodes)
        return replace(codec.decode(Project, self.project), nodes={node.name: node for node in nodes})


def _open_cached(
    root: Path, cache: Path, stamps: Mapping[str, files.Stamp], target: str | None, variables: Mapping[str, Any]
) -> Workspace | None:
    """The project from its cache, where nothing but a few models changed; None where all has to be compiled."""
    lines = read_lines(cache, compute_code_stamp())
    try:
        if lines is None:
            return None
        # The project is decoded only if it is of use.
        cached = _Cached(codec.decode(_Origin, lines[0]), lines[1], lines[2:])
        edited = _find_edited_models(root, cached.origin, stamps)
        if edited is None:
            return None
        if edited:
            return _recompile_and_cache(root, cache, stamps, cached, edited, target, variables)
        origin, project = cached.origin, cached.decode()
        connection = origin.connection or _reload_config(root).connections[origin.connection_name]
        virtual = apply_state_variable(origin.virtual or _reload_config(root).virtual)
    except (OSError, ValueError, LookupError):
        return None
    project = replace(project, session=compute_session_settings(connection), loads=origin.loads)
    return Workspace(
        root,
        connection,
        origin.concurrency,
        project,
        origin.gate,
        origin.retention,
        from_cache=True,
        virtual=virtual,
        engine=origin.engine,
        openlineage=origin.openlineage,
    )


def _find_edited_models(root: Path, origin: _Origin, stamps: Mapping[str, files.Stamp]) -> dict[str, str] | None:
    """The model files that were edited, with their hashes; None when anything else changed, or very many did."""
    if any(os.environ.get(k) != v for k, v in origin.environment.items()):
        return None
    edited = _find_changed_files(root, stamps, origin.stamps, origin.hashes, origin.written, _MOST_EDITED)
    if edited is None or not all(path.startswith("models/") for path in edited):
        return None
    if any(files.find_package_folder(name) != folder for name, folder in origin.packages.items()):
        return None
    if not _has_same_outside(root, origin.outside, origin.written):
        return None
    same_dbt = origin.dbt is None or origin.dbt == _build_cache_key(read_names_text(root))
    return edited if same_dbt else None


def has_same_files(
    root: Path, now: Mapping[str, files.Stamp], then: Mapping[str, files.Stamp], hashes: Mapping[str, str], written: int
) -> bool:
    """Whether files are what they were: by their stamps where these prove it, else by their hashes."""
    return _find_changed_files(root, now, then, hashes, written, most=0) is not None


def _find_changed_files(
    root: Path,
    now: Mapping[str, files.Stamp],
    then: Mapping[str, files.Stamp],
    hashes: Mapping[str, str],
    written: int,
    most: int,
) -> dict[str, str] | None:
    """The files whose contents changed, with their hashes; None when files came or went, or more than `most` did."""
    if now.keys() != then.keys():
        return None
    changed: dict[str, str] = {}
    for path, stamp in now.items():
        if stamp == then[path] and stamp[0] < written - _RACY_NS:
            continue
        content = _hash_content(root, path)
        if content != hashes[path]:
            changed[path] = content
            if len(changed) > most:
                return None
    return changed


def _has_same_outside(root: Path, then: Mapping[str, tuple[str, files.Stamp | None]], written: int) -> bool:
    """Whether Python modules outside of the project's folders are what they were, and none came that was missing."""
    for path, (content, stamp) in then.items():
        now = _read_stamp(root, path)
        if now is not None and now == stamp and now[0] < written - _RACY_NS:
            continue
        if (now is not None or content) and _hash_content(root, path) != content:
            return False
    return True


def _read_stamp(root: Path, path: str) -> files.Stamp | None:
    with suppress(OSError):
        status = os.stat(root / path)
        return (status.st_mtime_ns, status.st_size)
    return None


def _hash_content(root: Path, path: str) -> str:
    return files.hash_path(root / path)


def _recompile_and_cache(
    root: Path,
    cache: Path,
    stamps: Mapping[str, files.Stamp],
    cached: _Cached,
    edited: Mapping[str, str],
    target: str | None,
    variables: Mapping[str, Any],
) -> Workspace | None:
    """The project with edited models read again; None where that is not enough."""
    from sqb.compile.recompile import recompile_models  # an unchanged project is served without it
    from sqb.sql.analysis.cache import AnalysisCache

    written, errors, code = time.time_ns(), Errors(), compute_code_stamp()
    config, chosen = _load_settings(root, target, errors)
    analyses = AnalysisCache(cache.with_name("queries.json"), code)
    before = cached.decode()
    result = recompile_models(root, stamps, edited, before, config, chosen, variables, analyses)
    if errors.found or result is None:
        return None
    analyses.save_added()
    origin = replace(
        cached.origin,
        environment={**cached.origin.environment, **result.environment},
        stamps=stamps,
        hashes={**cached.origin.hashes, **edited},
        written=written,
    )
    texts = dict(zip(before.nodes, cached.nodes, strict=True))
    nodes = (codec.encode(n) if n.name in result.changed else texts[n.name] for n in result.project)
    project = codec.encode(replace(result.project, nodes={}))
    write_lines(cache, code, (codec.encode(origin), project, *nodes))
    return _build_workspace(root, config, chosen, result.project, analyses.outlines)


def _compile_and_cache(
    root: Path, cache: Path, stamps: Mapping[str, files.Stamp], target: str | None, variables: Mapping[str, Any]
) -> Workspace:
    from sqb.sql.analysis.cache import AnalysisCache  # an unchanged project is served without the parser

    written = time.time_ns()
    hashes = {path: _hash_content(root, path) for path in stamps}
    config, chosen = _load_settings(root, target, errors := Errors())
    # Taken before anything is compiled: a dbt project that is read meanwhile is one that this has not seen.
    dbt = _build_cache_key(read_names_text(root)) if config.dbt is not None else None
    code = compute_code_stamp()
    analyses = AnalysisCache(cache.with_name("queries.json"), code)
    result, workspace = _compile(root, stamps, config, chosen, variables, analyses, errors)
    analyses.save()
    connection = workspace.connection
    origin = _Origin(
        environment={**result.environment, **_read_python_environment(stamps)},
        outside={p: (content, _read_stamp(root, p)) for p, content in result.outside.items()},
        stamps=stamps,
        hashes=hashes,
        written=written,
        connection_name=connection.name,
        connection=None if connection.private else connection,
        virtual=None if has_password(config.virtual.state) else config.virtual,
        concurrency=config.concurrency,
        engine=config.engine,
        gate=config.gate,
        retention=config.retention,
        loads=chosen.loads,
        openlineage=config.openlineage,
        packages=result.packages,
        dbt=dbt,
    )
    project = codec.encode(replace(result.project, nodes={}))
    write_lines(cache, code, (codec.encode(origin), project, *map(codec.encode, result.project)))
    return workspace


def compile_workspace(
    root: Path, target: str | None, analyses: AnalysisCache, variables: Mapping[str, Any] | None = None
) -> Workspace:
    """Compile the project in `root` as its files say now, unsaved texts among them; nothing is cached on disk."""
    stamps = files.read_stamps(root)
    config, chosen = _load_settings(root, target, errors := Errors())
    _, workspace = _compile(root, stamps, config, chosen, variables or {}, analyses, errors)
    return workspace


def _compile(
    root: Path,
    stamps: Mapping[str, files.Stamp],
    config: Config,
    chosen: Target,
    variables: Mapping[str, Any],
    analyses: AnalysisCache,
    errors: Errors,
) -> tuple[Compilation, Workspace]:
    from sqb.compile.project import compile_project  # an unchanged project is served without the parser

    try:
        result = compile_project(root, stamps, config, chosen, variables, analyses)
    except SqbError as error:
        errors.add(error)
    errors.raise_any()
    return result, _build_workspace(root, config, chosen, result.project, analyses.outlines)


def _build_workspace(
    root: Path, config: Config, target: Target, project: Project, outlines: Mapping[str, Query]
) -> Workspace:
    connection = config.get_connection(target)
    return Workspace(
        root,
        connection,
        config.concurrency,
        replace(project, session=compute_session_settings(connection), loads=target.loads),
        config.gate,
        config.retention,
        virtual=apply_state_variable(config.virtual),
        engine=config.engine,
        openlineage=config.openlineage,
        outlines=outlines,
    )


def _reload_config(root: Path) -> Config:
    """The settings from the files that the cache was made of, when the cache must not hold them."""
    from sqb.project.config.config import load_config

    config = load_config(root, Errors())
    if config is None:
        raise ValueError("the project file could not be read")
    return config


def _read_python_environment(stamps: Mapping[str, files.Stamp]) -> dict[str, str | None]:
    """What decides, besides files, which modules Python nodes import."""
    has_nodes = any(path.startswith("python/") for path in stamps)
    return {"PYTHONPATH": os.environ.get("PYTHONPATH")} if has_nodes else {}
