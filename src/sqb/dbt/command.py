"""Driving dbt: finding its command, and running it with folders of our own, so that its project stays as it is.

Only the documented command line is used. What dbt says of a failure becomes an error in words; nothing here knows
what a manifest holds.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from sqb.errors.base import SqbError
from sqb.errors.dbt import DbtNotFound, DbtRefused, NoDbtProfile
from sqb.names import At
from sqb.project.config.dbt import DbtSettings

# Without this dbt writes a file beside the profile, and asks the network.
_ENVIRONMENT = {"DBT_SEND_ANONYMOUS_USAGE_STATS": "False", "DO_NOT_TRACK": "1"}
_PLAIN = ("--no-use-colors", "--log-format", "text")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_CLOCK = re.compile(r"^\d\d:\d\d:\d\d(\.\d+)?\s+")
# Where dbt says that it is: "in model y (models/y.sql)", and a line below.
_FILE = re.compile(r"\(([^()\s]+\.(?:sql|yml|yaml|py|md|csv))\)")
_LINE = re.compile(r"^\s+line (\d+)\s*$", re.MULTILINE)
# What dbt says of profiles that it does not find, in its own words and in those of its command line.
_PROFILE = re.compile(
    r"Could not find profile named|[Nn]o profile|Could not run dbt.*profile|profiles\.yml|'--profiles-dir': Path"
)
_MAX_LINES = 40


@dataclass(frozen=True, slots=True)
class DbtArguments:
    """The arguments of the user that select dbt's target, profile and variables."""

    target: str | None = None
    profile: str | None = None
    variables: str | None = None

    @property
    def command_line(self) -> tuple[str, ...]:
        pairs = (("--target", self.target), ("--profile", self.profile), ("--vars", self.variables))
        return tuple(word for option, value in pairs if value is not None for word in (option, value))


@dataclass(frozen=True, slots=True)
class Dbt:
    """A dbt command and the project that it works on."""

    # The sqb project; places in files are relative to it.
    root: Path
    command: tuple[str, ...]
    project_dir: Path
    # None where dbt is left to look for it.
    profiles_dir: Path | None
    target_path: Path
    arguments: DbtArguments = field(default_factory=DbtArguments)
    # The catalog of the connection, which dbt may name before its schemas.
    catalog: str = ""
    # Variables that dbt gets beside those of this process.
    environment: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)

    @property
    def log_path(self) -> Path:
        return self.root / ".sqb" / "dbt" / "logs"

    @property
    def manifest(self) -> Path:
        return self.target_path / "manifest.json"

    @property
    def run_results(self) -> Path:
        return self.target_path / "run_results.json"

    @property
    def profiles_file(self) -> Path:
        """Where dbt finds profiles, as far as that is known."""
        folder = self.profiles_dir or Path(os.environ.get("DBT_PROFILES_DIR") or Path.home() / ".dbt")
        return folder / "profiles.yml"

    def build_command(self, verb: str, *more: str) -> list[str]:
        """The whole command line of one dbt command."""
        places = ["--project-dir", str(self.project_dir), "--target-path", str(self.target_path)]
        places += ["--log-path", str(self.log_path)]
        if self.profiles_dir is not None:
            places += ["--profiles-dir", str(self.profiles_dir)]
        return [*self.find_executable(), verb, *places, *self.arguments.command_line, *more]

    def find_executable(self) -> tuple[str, ...]:
        """The command with its program found."""
        program, *rest = self.command
        path = str(self.root / program) if "/" in program else shutil.which(program)
        if path is None or not os.access(path, os.X_OK) or os.path.isdir(path):
            raise _build_not_found(self.command)
        return (path, *rest)


def build_dbt(root: Path, settings: DbtSettings, arguments: DbtArguments = DbtArguments(), catalog: str = "") -> Dbt:
    """The dbt that a project's settings name; raises when there is no dbt project, or no folder of profiles."""
    project_dir, profiles_dir = settings.find_project_folder(root), settings.find_profiles_folder(root)
    if profiles_dir is not None and not (profiles_dir / "profiles.yml").is_file():
        raise NoDbtProfile(
            f"there is no profiles.yml in {settings.profiles_dir}",
            at=settings.at,
            hint="`profiles_dir` under [dbt] names its folder, relative to the sqb project",
        )
    return Dbt(root, settings.command, project_dir, profiles_dir, settings.get_target_folder(root), arguments, catalog)


def _build_not_found(command: Sequence[str]) -> DbtNotFound:
    return DbtNotFound(
        f'the dbt command "{shlex.join(command)}" was not found',
        hint="install dbt, for instance `pip install dbt-core dbt-spark` in an environment of its own, and name its "
        'command under [dbt] in sqlbuild_project.toml: command = "../dbt-env/bin/dbt"',
    )


def query_dbt(dbt: Dbt, verb: str, *more: str) -> str:
    """Run a read-only dbt command and return its output; its failure is an error in dbt's words."""
    try:
        process = subprocess.run(
            dbt.build_command(verb, *_PLAIN, *more),
            cwd=dbt.project_dir,
            env={**os.environ, **_ENVIRONMENT},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise _build_not_found(dbt.command) from error
    if process.returncode:
        raise build_error(dbt, verb, process.stdout + process.stderr)
    return process.stdout


def build_error(dbt: Dbt, verb: str, output: str) -> SqbError:
    """The error that dbt's words tell of, with the place in its project where they name one."""
    lines = _extract_error(output)
    text = "\n".join(lines)
    if _PROFILE.search(text):
        return NoDbtProfile(
            f"dbt finds no profile for its project: {lines[-1].strip() if lines else ''}",
            hint=f"{_describe_profiles(dbt)}; `profiles_dir` under [dbt] names the folder of profiles.yml",
        )
    file, line = _FILE.search(text), _LINE.search(text)
    at = None
    if file is not None and (dbt.project_dir / file[1]).is_file():
        at = At(os.path.relpath(dbt.project_dir / file[1], dbt.root), int(line[1]) if line else 0, 1 if line else 0)
    first, *rest = lines[:_MAX_LINES] or ["it printed nothing"]
    return DbtRefused(
        "\n".join([f"dbt {verb} failed: {first}", *rest]), at=at, hint=f"run `dbt {verb}` by itself to try"
    )


def _describe_profiles(dbt: Dbt) -> str:
    there = "is there" if dbt.profiles_file.is_file() else "is not there"
    return f"{dbt.profiles_file} {there}"


def _extract_error(output: str) -> list[str]:
    """dbt's output about an error: without colours, clocks and what it says each time."""
    lines = [_CLOCK.sub("", _COLOUR.sub("", line)).rstrip() for line in output.splitlines()]
    lines = [line for line in lines if line.strip()]
    marks = [i for i, line in enumerate(lines) if line.strip() == "Encountered an error:"]
    return lines[marks[-1] + 1 :] if marks else lines


@dataclass(frozen=True, slots=True)
class DbtExit:
    """How a dbt command ended: its exit code, and whether the user interrupted it."""

    code: int
    interrupted: bool = False


def stream_dbt(dbt: Dbt, verb: str, *more: str, out: TextIO | None = None) -> DbtExit:
    """Run a dbt command whose output goes where ours goes, or to `out`.

    Ctrl-C and SIGTERM are handed on once, so that dbt cancels its queries and says what became of them; a second one
    ends it at once.
    """
    stream = out or sys.stdout
    colours = "--use-colors" if stream.isatty() and not os.environ.get("NO_COLOR") else "--no-use-colors"
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        child = subprocess.Popen(
            dbt.build_command(verb, colours, *more),
            cwd=dbt.project_dir,
            env={**os.environ, **_ENVIRONMENT, **dbt.environment},
            stdin=subprocess.DEVNULL,
            stdout=stream.fileno(),
            stderr=(out or sys.stderr).fileno(),
            start_new_session=True,
        )
    except OSError as error:
        raise _build_not_found(dbt.command) from error
    with _forward_signals(child) as signals:
        code = child.wait()
    return DbtExit(code, bool(signals))


@contextmanager
def _forward_signals(child: subprocess.Popen[bytes]) -> Iterator[list[int]]:
    """Signals go to dbt, which has a session of its own so that a terminal does not send them there as well."""
    signals: list[int] = []

    def handle(number: int, frame: object) -> None:
        signals.append(number)
        with suppress(ProcessLookupError):
            if len(signals) == 1:
                child.send_signal(signal.SIGINT)
            else:
                os.killpg(child.pid, signal.SIGKILL)

    previous: list[tuple[signal.Signals, Any]] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(ValueError):  # only the main thread receives signals
            previous.append((number, signal.signal(number, handle)))
    try:
        yield signals
    finally:
        for number, handler in previous:
            signal.signal(number, handler)
