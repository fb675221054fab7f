"""`sqlbuild_project.toml`, with `sqlbuild_local.toml` laid over it, as one checked `Config`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from sqb.errors.base import Errors
from sqb.errors.project import BadToml, BadValue, MissingKey, Unreadable
from sqb.names import At, parse_duration
from sqb.project.config.connections.read import read_connections
from sqb.project.config.dbt import read_dbt
from sqb.project.config.located import Entry, Section, describe, to_plain_value
from sqb.project.config.openlineage_section import read_openlineage
from sqb.project.config.packages_section import read_packages
from sqb.project.config.settings import ENGINE_MODES, CostGate, EngineMode, Retention
from sqb.project.config.targets import read_known_name, read_targets
from sqb.project.config.toml import parse_toml
from sqb.project.config.virtual_section import read_virtual
from sqb.project.files import LOCAL_FILE, PROJECT_FILE, read_bytes
from sqb.project.models.keys import read_settings
from sqb.project.values import Config, PathDefaults, Setting, Target, Value

TOP_KEYS = (
    "name",
    "default_target",
    "concurrency",
    "engine",
    "incremental",
    "janitor",
    "virtual",
    "dbt",
    "format",
    "lint",
    "openlineage",
    "packages",
    "targets",
    "connections",
    "defaults",
    "path_defaults",
    "vars",
)
GATE_KEYS = ("min_rows", "max_share", "small_rows")
AGE_KEYS = ("stage_retention", "file_retention", "history_retention", "snapshot_retention", "clone_retention")


def load_config(root: Path, errors: Errors) -> Config | None:
    """The project's configuration; None when a file does not parse, and what is usable of it when values are wrong."""
    entries = read_settings_file(root, errors)
    if entries is None:
        return None
    top = Section(entries, "the project's settings", At(PROJECT_FILE, 1, 1), errors)
    top.refuse_unknown(TOP_KEYS)
    connections = read_connections(top, PROJECT_FILE)
    virtual = read_virtual(top, PROJECT_FILE)
    targets = read_targets(top, connections, virtual.enabled)
    return Config(
        name=_read_name(top) or root.name,
        default_target=_read_default_target(top, targets),
        targets=targets,
        connections=connections,
        defaults=read_settings(top.read_table("defaults", "[defaults]").entries, "[defaults]", errors),
        path_defaults=_read_path_defaults(top),
        vars=_read_vars(top),
        concurrency=_read_concurrency(top),
        engine=_read_engine(top),
        gate=_read_cost_gate(top),
        retention=_read_retention(top),
        virtual=virtual,
        dbt=read_dbt(top),
        openlineage=read_openlineage(top),
        packages=read_packages(top),
    )


def read_settings_file(root: Path, errors: Errors) -> dict[str, Entry] | None:
    """The entries of the project file with those of the local file laid over them; None when one does not parse."""
    project = _read_toml(root, PROJECT_FILE, errors)
    local = _read_toml(root, LOCAL_FILE, errors) if (root / LOCAL_FILE).exists() else {}
    return None if project is None or local is None else _overlay(project, local)


def _read_toml(root: Path, name: str, errors: Errors) -> dict[str, Entry] | None:
    try:
        return parse_toml(read_bytes(root / name).decode("utf-8-sig"), name)
    except OSError as error:
        errors.add(Unreadable(f"the file cannot be read: {error.strerror}", at=At(name)))
    except UnicodeDecodeError:
        errors.add(Unreadable("the file is not UTF-8", at=At(name), hint="save it as UTF-8"))
    except BadToml as error:
        errors.add(error)
    return None


def _overlay(base: Mapping[str, Entry], over: Mapping[str, Entry]) -> dict[str, Entry]:
    merged = dict(base)
    for key, entry in over.items():
        below = merged.get(key)
        if below is not None and isinstance(below.value, dict) and isinstance(entry.value, dict):
            merged[key] = Entry(_overlay(below.value, entry.value), below.at, below.key_at)
        else:
            merged[key] = entry
    return merged


def _read_name(top: Section) -> str | None:
    if "name" not in top.entries:
        top.errors.add(MissingKey("the project has no `name`", at=top.at, hint='add a line such as name = "shop"'))
    name = top.read_text("name")
    if name is not None and not re.fullmatch(r"[A-Za-z0-9_-]+", name):
        top.report("name", "letters, digits, _ and -")
        return None
    return name


def _read_cost_gate(top: Section) -> CostGate:
    section = top.read_table("incremental", "[incremental]")
    section.refuse_unknown(GATE_KEYS)
    rows, share, small = (section.entries.get(key) for key in GATE_KEYS)
    default = CostGate()
    if rows is not None and not (type(rows.value) is int and rows.value >= 0):
        section.report("min_rows", "a whole number, 0 or more")
        rows = None
    if share is not None and not (type(share.value) in (int, float) and share.value >= 0):
        section.report("max_share", "a number, 0 or more", "0.3 means 30 % of the input rows")
        share = None
    if small is not None and not (type(small.value) is int and small.value >= 0):
        section.report("small_rows", "a whole number, 0 or more")
        small = None
    return CostGate(
        rows.value if rows else default.min_rows,
        float(share.value) if share else default.max_share,
        small.value if small else default.small_rows,
    )


def _read_retention(top: Section) -> Retention:
    section = top.read_table("janitor", "[janitor]")
    section.refuse_unknown((*AGE_KEYS, "keep_snapshots"))
    seconds_by_key: dict[str, float] = {}
    for key in AGE_KEYS:
        text = section.read_text(key)
        seconds = parse_duration(text) if text is not None else None
        if text is not None and seconds is None:
            section.report(key, "a duration", 'such as "7d", "12h" or "1d12h"')
        if seconds is not None:
            seconds_by_key[key] = seconds
    keep = section.entries.get("keep_snapshots")
    if keep is not None and not (type(keep.value) is int and keep.value >= 1):
        section.report("keep_snapshots", "a whole number, 1 or more")
        keep = None
    default = Retention()
    return Retention(
        stages=seconds_by_key.get("stage_retention", default.stages),
        files=seconds_by_key.get("file_retention", default.files),
        history=seconds_by_key.get("history_retention", default.history),
        snapshots=seconds_by_key.get("snapshot_retention", default.snapshots),
        keep_snapshots=keep.value if keep else default.keep_snapshots,
        clones=seconds_by_key.get("clone_retention", default.clones),
    )


def _read_concurrency(top: Section) -> int | None:
    entry = top.entries.get("concurrency")
    if entry is None:
        return None
    if type(entry.value) is int and entry.value >= 1:
        return entry.value
    top.report("concurrency", "a whole number, 1 or more")
    return None


def _read_engine(top: Section) -> EngineMode:
    mode = top.read_choice("engine", ENGINE_MODES)
    return next((known for known in ENGINE_MODES if known == mode), "auto")


def _read_default_target(top: Section, targets: Mapping[str, Target]) -> str:
    return read_known_name(top, "default_target", targets) or next(iter(targets))


def _read_path_defaults(top: Section) -> tuple[PathDefaults, ...]:
    section = top.read_table("path_defaults", "[path_defaults]")
    defaults = []
    for glob, entry in section.entries.items():
        where = f'[path_defaults."{glob}"]'
        if not glob.strip("./ "):
            message = "a path that is not empty is needed here"
            top.errors.add(BadValue(message, at=entry.key_at, hint='such as "models/staging/**"'))
        settings: Mapping[str, Setting] = read_settings(section.read_table(glob, where).entries, where, top.errors)
        defaults.append(PathDefaults(glob, settings))
    return tuple(defaults)


def _read_vars(top: Section) -> dict[str, Value]:
    variables = {}
    for name, entry in top.read_table("vars", "[vars]").entries.items():
        value = to_plain_value(entry)
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            message = f'a variable cannot be called "{name}": `@@{name}` is not a name'
            top.errors.add(BadValue(message, at=entry.key_at, hint="use letters, digits and _"))
        elif not isinstance(value, str | int | float):
            message = f"`{name}` must be text, a number or true/false, not {describe(value)}"
            top.errors.add(BadValue(message, at=entry.at))
        else:
            variables[name] = value
    return variables
