"""A project folder opened for one target: the compiled project, from the cache when no file has changed."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqb import __version__, compiled
from sqb.compiled import Project
from sqb.errors import Errors, SqbError, UnknownTarget
from sqb.names import did_you_mean
from sqb.project import files
from sqb.project.connections import Connection
from sqb.project.dbt_names import names_text
from sqb.project.gate import CostGate
from sqb.project.place import Place, place_of
from sqb.project.retention import Retention
from sqb.project.session_settings import session_settings
from sqb.project.virtual import VirtualSettings, with_variable

if TYPE_CHECKING:
    from sqb.project.values import Config, Target

_FORMAT = 9
# A file changed this recently may change again within the clock's grain, so its stamp alone proves nothing.
_RACY_NS = 2_000_000_000


@dataclass(frozen=True, slots=True)
class Home:
    """Where a project is, and how to reach its lake and Spark; nothing of its models."""

    root: Path
    connection: Connection
    concurrency: int | None

    @property
    def folder(self) -> Path:
        """Where caches and logs are kept."""
        return self.root / ".sqb"

    @property
    def place(self) -> Place:
        """Where its lake is, with secrets as the environment has them now."""
        return place_of(self.connection, self.root)


@dataclass(frozen=True, slots=True)
class Workspace(Home):
    """An opened project: where it is, how to reach its lake and Spark, and what it says."""

    project: Project
    gate: CostGate = CostGate()
    retention: Retention = Retention()
    from_cache: bool = False
    virtual: VirtualSettings = VirtualSettings()


def open_workspace(start: Path, target: str | None = None, variables: Mapping[str, Any] | None = None) -> Workspace:
    """Open the project at or above `start`; raises every error of its files at once."""
    root = files.find_root(start)
    given = dict(variables or {})
    stamps = files.stamps(root)
    cache = (
        root / ".sqb" / "cache" / f"project-{_key(target or '', json.dumps(given, sort_keys=True, default=str))}.json"
    )
    return _cached(root, cache, stamps) or _compiled(root, cache, stamps, target, given)


def open_home(start: Path, target: str | None = None) -> Home:
    """The home of the project at or above `start`: its settings are read, and nothing is compiled.

    For what is to work whatever the models are like, and whichever variables they need.
    """
    root, errors = files.find_root(start), Errors()
    config, chosen = _settings(root, target, errors)
    errors.raise_any()
    return Home(root, config.connection_of(chosen), config.concurrency)


def _settings(root: Path, target: str | None, errors: Errors) -> tuple[Config, Target]:
    from sqb.project.config import load_config  # an unchanged project is served without reading its settings

    config = load_config(root, errors)
    if config is None:
        errors.raise_any()
        raise SqbError("the project file could not be read")
    name = target or config.default_target
    if name not in config.targets:
        raise UnknownTarget(
            f'there is no target "{name}"',
            hint=did_you_mean(name, config.targets) or f"targets: {', '.join(config.targets)}",
        )
    return config, config.targets[name]


def _key(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _code_stamp() -> str:
    """What changes when sqb's own code or sqlglot changes, found without importing either."""
    here = Path(__file__).parent
    spec = importlib.util.find_spec("sqlglot")
    watched = [p for folder in ("sql", "project", "checks") for p in sorted((here / folder).glob("*.py"))]
    watched += [
        here / "compile.py",
        here / "compile_checks.py",
        here / "compile_cursor.py",
        here / "compile_functions.py",
        here / "compile_calls.py",
        here / "compile_hooks.py",
        here / "compile_python.py",
        here / "compile_problems.py",
        here / "compile_materializations.py",
        here / "compile_sources.py",
        here / "compile_tables.py",
        here / "resolve.py",
        here / "dbt_references.py",
        here / "compiled.py",
        here / "compiled_python.py",
        here / "compiled_sources.py",
        here / "identity.py",
        here / "graph.py",
        here / "compile_tests.py",
        here / "decorators.py",
        here / "python_nodes" / "discovery.py",
    ]
    if spec and spec.origin:
        watched.append(Path(spec.origin).with_name("_version.py"))
    marks = []
    for path in watched:
        with suppress(OSError):
            status = os.stat(path)
            marks.append(f"{path.name}:{status.st_mtime_ns}:{status.st_size}")
    return _key(__version__, *marks)


def _cached(root: Path, cache: Path, stamps: Mapping[str, files.Stamp]) -> Workspace | None:
    try:
        head, _, body = cache.read_text().partition("\n")
        kept = json.loads(head)
        if kept["format"] != _FORMAT or kept["code"] != _code_stamp():
            return None
        if any(os.environ.get(k) != v for k, v in kept["environment"].items()):
            return None
        if not same_files(root, stamps, kept["stamps"], kept["hashes"], kept["written"]):
            return None
        if not _same_outside(root, kept["outside"], kept["written"]):
            return None
        if kept["dbt"] is not None and kept["dbt"] != _key(names_text(root)):
            return None
        connection = _kept_connection(root, kept["connection"])
        gate = CostGate(*kept["gate"])
        retention = Retention(*kept["retention"])
        project = replace(compiled.load(body), session=session_settings(connection), loads=kept["loads"])
        virtual = with_variable(VirtualSettings.from_cache(kept["virtual"]) or _read_again(root).virtual)
        return Workspace(root, connection, kept["concurrency"], project, gate, retention, True, virtual)
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return None


def same_files(
    root: Path, now: Mapping[str, files.Stamp], then: Mapping[str, Any], hashes: Mapping[str, str], written: int
) -> bool:
    """Whether files are what they were: by their stamps where these prove it, else by their hashes."""
    if now.keys() != then.keys():
        return False
    for path, stamp in now.items():
        if list(stamp) == then[path] and stamp[0] < written - _RACY_NS:
            continue
        if _content(root, path) != hashes[path]:
            return False
    return True


def _same_outside(root: Path, then: Mapping[str, Any], written: int) -> bool:
    """Whether Python modules outside of the project's folders are what they were, and none came that was missing."""
    for path, (content, stamp) in then.items():
        now = _stamp(root, path)
        if now is not None and now == stamp and now[0] < written - _RACY_NS:
            continue
        if (now is not None or content) and _content(root, path) != content:
            return False
    return True


def _stamp(root: Path, path: str) -> list[int] | None:
    with suppress(OSError):
        status = os.stat(root / path)
        return [status.st_mtime_ns, status.st_size]
    return None


def _content(root: Path, path: str) -> str:
    with suppress(OSError):
        return hashlib.sha256((root / path).read_bytes()).hexdigest()[:32]
    return ""


def _compiled(
    root: Path, cache: Path, stamps: Mapping[str, files.Stamp], target: str | None, variables: Mapping[str, Any]
) -> Workspace:
    from sqb.compile import compile_project  # an unchanged project is served without the parser
    from sqb.sql.analyses import Analyses

    written = time.time_ns()
    hashes = {path: _content(root, path) for path in stamps}
    errors = Errors()
    config, chosen = _settings(root, target, errors)
    # Taken before anything is compiled: a dbt project that is read meanwhile is one that this has not seen.
    dbt = _key(names_text(root)) if config.dbt is not None else None
    analyses = Analyses(cache.with_name("queries.json"), _code_stamp())
    try:
        result = compile_project(root, stamps, config, chosen, variables, analyses)
    except SqbError as error:
        errors.add(error)
    errors.raise_any()
    analyses.save()
    connection = config.connection_of(chosen)
    head = {
        "format": _FORMAT,
        "code": _code_stamp(),
        "environment": {**result.environment, **_python_environment(stamps)},
        "outside": {p: [content, _stamp(root, p)] for p, content in result.outside.items()},
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
    write_atomically(cache, json.dumps(head) + "\n" + compiled.dump(result.project))
    virtual = with_variable(config.virtual)
    project = replace(result.project, session=session_settings(connection), loads=chosen.loads)
    return Workspace(root, connection, config.concurrency, project, config.gate, config.retention, virtual=virtual)


def _kept_connection(root: Path, kept: Any) -> Connection:
    """The connection as it was kept, or read anew where only its name was."""
    return _read_again(root).connections[kept] if isinstance(kept, str) else Connection.from_cache(kept)


def _read_again(root: Path) -> Config:
    """The settings from the files that the cache was made of, when the cache is no place for them."""
    from sqb.project.config import load_config

    config = load_config(root, Errors())
    if config is None:
        raise ValueError("the project file could not be read")
    return config


def _python_environment(stamps: Mapping[str, files.Stamp]) -> dict[str, str | None]:
    """What decides, besides files, which modules Python nodes import."""
    has_nodes = any(path.startswith("python/") for path in stamps)
    return {"PYTHONPATH": os.environ.get("PYTHONPATH")} if has_nodes else {}


def write_atomically(path: Path, text: str) -> None:
    """Write a cache file so that a reader sees all of it or none; a cache that cannot be written is no error."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        temporary.write_text(text)
        os.replace(temporary, path)
