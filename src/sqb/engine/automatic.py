"""Leaving an engine for the next command: at a terminal, after a command that had to start a Spark of its own.

The engine starts when the command has ended, so that it never waits for it. What goes wrong is written down and not
tried again for a while; the next command starts its own Spark as this one did.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from sqb.engine.failures import read_failure
from sqb.engine.start import COMMAND, launch_engine
from sqb.errors.base import SqbError
from sqb.errors.connections import SparkUnfit
from sqb.names import format_age
from sqb.project.config.settings import ENGINE_MODES, EngineMode
from sqb.workspace import Workspace

VARIABLE = "SQB_ENGINE"
IDLE_SECONDS = 10 * 60.0
_SWITCH = '`engine = "off"` in sqlbuild_project.toml, or SQB_ENGINE=off, switches that off'
# What has been shown in this project, one word a line.
_SHOWN_FILE = "engine.told"
# Variables by which systems for continuous integration and schedulers make themselves known.
_UNATTENDED = (
    "CI",
    "CONTINUOUS_INTEGRATION",
    "GITHUB_ACTIONS",
    "GITLAB_CI",
    "JENKINS_URL",
    "TEAMCITY_VERSION",
    "TF_BUILD",
    "BUILDKITE",
    "CODEBUILD_BUILD_ID",
    "AIRFLOW_CTX_DAG_ID",
    "DAGSTER_RUN_JOB_NAME",
)
_IN_CONTAINER = ("/.dockerenv", "/run/.containerenv")
# An engine that the machine has no room for would make everything else slow.
_MIN_FREE_BYTES = 2 * 2**30


def read_mode(workspace: Workspace, environment: Mapping[str, str] = os.environ) -> EngineMode:
    """When commands leave an engine: as the environment says, else as the project does."""
    chosen = environment.get(VARIABLE, "").lower()
    return next((mode for mode in ENGINE_MODES if mode == chosen), workspace.engine)


def wants_engine(workspace: Workspace, is_terminal: bool, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether a command that has started a Spark of its own leaves an engine for the next one."""
    if workspace.connection.spark.remote:
        return False
    match read_mode(workspace, environment):
        case "off":
            return False
        case "on":
            return True
        case "auto":
            return is_terminal and not _is_unattended(environment) and not _is_root_in_container(environment)


def _is_unattended(environment: Mapping[str, str]) -> bool:
    return any(environment.get(name, "").lower() not in ("", "0", "false") for name in _UNATTENDED)


def _is_root_in_container(environment: Mapping[str, str]) -> bool:
    if os.geteuid() != 0:
        return False
    return "KUBERNETES_SERVICE_HOST" in environment or any(os.path.exists(path) for path in _IN_CONTAINER)


def leave_engine(workspace: Workspace, is_terminal: bool, command: Sequence[str] = COMMAND) -> str:
    """Start an engine that no command waits for; returns the message about it, which a project prints once."""
    if not wants_engine(workspace, is_terminal) or read_failure(workspace.folder) is not None or not _has_memory():
        return ""
    try:
        if not launch_engine(workspace, workspace.project.target, IDLE_SECONDS, command):
            return ""
    except SparkUnfit as error:
        text = f"Spark cannot stay ready for the next command: {error.message} ({error.hint}; {_SWITCH})"
        return _show_once(workspace.folder, "unfit", text)
    except (SqbError, OSError):
        # It is a help for the next command, and this one has succeeded or failed without it.
        return ""
    text = (
        f"Spark stays ready for {format_age(IDLE_SECONDS)}, so that the next command need not wait for it"
        f" ({_SWITCH}; `sqb engine stop` ends it)"
    )
    return _show_once(workspace.folder, "left", text)


def _show_once(folder: Path, word: str, text: str) -> str:
    path = folder / _SHOWN_FILE
    try:
        shown = path.read_text().split() if path.exists() else []
        if word in shown:
            return ""
        path.write_text("".join(f"{w}\n" for w in (*shown, word)))
    except (OSError, ValueError):
        return ""
    return text


def _has_memory() -> bool:
    """Whether the machine has memory to spare; true where it does not say."""
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(line for line in lines if line.startswith("MemAvailable:"))
        return int(free.split()[1]) * 1024 >= _MIN_FREE_BYTES
    return True
