"""A project folder opened for one target: the compiled project, from the cache when no file has changed."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqb.code import stamp_code
from sqb.compile import model
from sqb.compile.model import Project
from sqb.errors.base import Errors, SqbError
from sqb.errors.call import UnknownTarget
from sqb.names import suggest_nearest
from sqb.project import files
from sqb.project.config.connections import Connection
from sqb.project.config.dbt_names import read_names_text
from sqb.project.config.lake_location import LakeLocation, locate_lake
from sqb.project.config.session_settings import compute_session_settings
from sqb.project.config.settings import CostGate, Retention
from sqb.project.config.virtual import VirtualSettings, apply_state_variable

if TYPE_CHECKING:
    from sqb.project.values import Config, Target

_FORMAT = 9
# The packages that decide what a compiled project is.
_COMPILING = ("checks", "compile", "project", "python_runtime", "sql", "types")
# A file changed this recently may change again within the clock's grain, so its stamp alone proves nothing.
_RACY_NS = 2_000_000_000


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


def open_workspace(start: Path, target: str | None = None, variables: Mapping[str, Any] | None = None) -> Workspace:
    """Open the project at or above `start`; raises every error of its files at once."""
    root = files.find_root(start)
    overrides = dict(variables or {})
    stamps = files.read_stamps(root)
    cache = (
        root
        / ".sqb"
        / "cache"
        / f"project-{_build_cache_key(target or '', json.dumps(overrides, sort_keys=True, default=str))}.json"
    )
    workspace = _read_cached(root, cache, stamps) or _compile_and_cache(root, cache, stamps, target, overrides)
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


def _compute_code_stamp() -> str:
    """What changes when sqb's own code or sqlglot changes, found without importing either."""
    spec = importlib.util.find_spec("sqlglot")
    sqlglot = (Path(spec.origin).with_name("_version.py"),) if spec and spec.origin else ()
    return stamp_code("decorators.py", "graph.py", "identity.py", *_COMPILING, also=sqlglot)


def _read_cached(root: Path, cache: Path, stamps: Mapping[str, files.Stamp]) -> Workspace | None:
    try:
        head, _, body = cache.read_text().partition("\n")
        cached_data = json.loads(head)
        if cached_data["format"] != _FORMAT or cached_data["code"] != _compute_code_stamp():
            return None
        if any(os.environ.get(k) != v for k, v in cached_data["environment"].items()):
            return None
        if not has_same_files(root, stamps, cached_data["stamps"], cached_data["hashes"], cached_data["written"]):
            return None
        if not _has_same_outside(root, cached_data["outside"], cached_data["written"]):
            return None
        if cached_data["dbt"] is not None and cached_data["dbt"] != _build_cache_key(read_names_text(root)):
            return None
        connection = _restore_connection(root, cached_data["connection"])
        gate = CostGate(*cached_data["gate"])
        retention = Retention(*cached_data["retention"])
        project = replace(
            model.load_project(body), session=compute_session_settings(connection), loads=cached_data["loads"]
        )
        virtual = apply_state_variable(
            VirtualSettings.from_cache(cached_data["virtual"]) or _reload_config(root).virtual
        )
        return Workspace(root, connection, cached_data["concurrency"], project, gate, retention, True, virtual)
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return None


def has_same_files(
    root: Path, now: Mapping[str, files.Stamp], then: Mapping[str, Any], hashes: Mapping[str, str], written: int
) -> bool:
    """Whether files are what they were: by their stamps where these prove it, else by their hashes."""
    if now.keys() != then.keys():
        return False
    for path, stamp in now.items():
        if list(stamp) == then[path] and stamp[0] < written - _RACY_NS:
            continue
        if _hash_content(root, path) != hashes[path]:
            return False
    return True


def _has_same_outside(root: Path, then: Mapping[str, Any], written: int) -> bool:
    """Whether Python modules outside of the project's folders are what they were, and none came that was missing."""
    for path, (content, stamp) in then.items():
        now = _read_stamp(root, path)
        if now is not None and now == stamp and now[0] < written - _RACY_NS:
            continue
        if (now is not None or content) and _hash_content(root, path) != content:
            return False
    return True


def _read_stamp(root: Path, path: str) -> list[int] | None:
    with suppress(OSError):
        status = os.stat(root / path)
        return [status.st_mtime_ns, status.st_size]
    return None


def _hash_content(root: Path, path: str) -> str:
    with suppress(OSError):
        return hashlib.sha256((root / path).read_bytes()).hexdigest()[:32]
    return ""


def _compile_and_cache(
    root: Path, cache: Path, stamps: Mapping[str, files.Stamp], target: str | None, variables: Mapping[str, Any]
) -> Workspace:
    from sqb.compile.project import compile_project  # an unchanged project is served without the parser
    from sqb.sql.analysis.cache import AnalysisCache

    written = time.time_ns()
    hashes = {path: _hash_content(root, path) for path in stamps}
    errors = Errors()
    config, chosen = _load_settings(root, target, errors)
    # Taken before anything is compiled: a dbt project that is read meanwhile is one that this has not seen.
    dbt = _build_cache_key(read_names_text(root)) if config.dbt is not None else None
    code = _compute_code_stamp()
    analyses = AnalysisCache(cache.with_name("queries.json"), code)
    try:
        result = compile_project(root, stamps, config, chosen, variables, analyses)
    except SqbError as error:
        errors.add(error)
    errors.raise_any()
    analyses.save()
    connection = config.get_connection(chosen)
    head = {
        "format": _FORMAT,
        "code": code,
        "environment": {**result.environment, **_read_python_environment(stamps)},
        "outside": {p: [content, _read_stamp(root, p)] for p, content in result.outside.items()},
        "stamps": {p: list(s) for p, s in stamps.items()},
        "hashes": hashes,
        "written": written,
        "connection": connection.to_cache() or connection.name,
        "concurrency": config.concurrency,
        "gate": [config.gate.min_rows, config.gate.max_share, config.gate.small_rows],
        "retention": list(astuple(config.retention)),
        "virtual": config.virtual.to_cache(),
        "dbt": dbt,
        "loads": chosen.loads,
    }
    write_atomically(cache, json.dumps(head) + "\n" + model.dump_project(result.project))
    virtual = apply_state_variable(config.virtual)
    project = replace(result.project, session=compute_session_settings(connection), loads=chosen.loads)
    return Workspace(root, connection, config.concurrency, project, config.gate, config.retention, virtual=virtual)


def _restore_connection(root: Path, cached: Any) -> Connection:
    """The connection as it was kept, or read anew where only its name was."""
    return _reload_config(root).connections[cached] if isinstance(cached, str) else Connection.from_cache(cached)


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


def write_atomically(path: Path, text: str) -> None:
    """Write a cache file so that a reader sees all of it or none; a cache that cannot be written is not an error."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        temporary.write_text(text)
        os.replace(temporary, path)
