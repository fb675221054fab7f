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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from sqb.errors import SqbError
from sqb.errors_dbt import DbtNotFound, DbtRefused, NoDbtProfile
from sqb.names import At
from sqb.project.dbt import DbtSettings

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
_LONGEST = 40


@dataclass(frozen=True, slots=True)
class Given:
    """What the user gave that decides what the dbt project means: dbt's own target, profile and variables."""

    target: str | None = None
    profile: str | None = None
    variables: str | None = None

    @property
    def arguments(self) -> tuple[str, ...]:
        pairs = (("--target", self.target), ("--profile", self.profile), ("--vars", self.variables))
        return tuple(word for option, value in pairs if value is not None for word in (option, value))


@dataclass(frozen=True, slots=True)
class Dbt:
    """A dbt command and the project that it works on."""

    # The sqb project, from where places in files are told.
    root: Path
    command: tuple[str, ...]
    project_dir: Path
    # None where dbt is left to look for it.
    profiles_dir: Path | None
    target_path: Path
    given: Given = field(default_factory=Given)
    # The catalog of the connection, which dbt may name before its schemas.
    catalog: str = ""

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
        """Where dbt finds profiles, as far as that can be told."""
        folder = self.profiles_dir or Path(os.environ.get("DBT_PROFILES_DIR") or Path.home() / ".dbt")
        return folder / "profiles.yml"

    def line(self, verb: str, *more: str) -> list[str]:
        """The whole command line of one dbt command."""
        places = ["--project-dir", str(self.project_dir), "--target-path", str(self.target_path)]
        places += ["--log-path", str(self.log_path)]
        if self.profiles_dir is not None:
            places += ["--profiles-dir", str(self.profiles_dir)]
        return [*self.executable(), verb, *places, *self.given.arguments, *more]

    def executable(self) -> tuple[str, ...]:
        """The command with its program found."""
        program, *rest = self.command
        found = str(self.root / program) if "/" in program else shutil.which(program)
        if found is None or not os.access(found, os.X_OK) or os.path.isdir(found):
            raise _not_found(self.command)
        return (found, *rest)


def dbt_of(root: Path, settings: DbtSettings, given: Given = Given(), catalog: str = "") -> Dbt:
    """The dbt that a project's settings name; raises when there is no dbt project, or no folder of profiles."""
    project_dir, profiles_dir = settings.project_folder(root), settings.profiles_folder(root)
    if profiles_dir is not None and not (profiles_dir / "profiles.yml").is_file():
        raise NoDbtProfile(
            f"there is no profiles.yml in {settings.profiles_dir}",
            at=settings.at,
            hint="`profiles_dir` under [dbt] names its folder, relative to the sqb project",
        )
    return Dbt(root, settings.command, project_dir, profiles_dir, settings.target_folder(root), given, catalog)


def _not_found(command: Sequence[str]) -> DbtNotFound:
    return DbtNotFound(
        f'the dbt command "{shlex.join(command)}" was not found',
        hint="install dbt, for instance `pip install dbt-core dbt-spark` in an environment of its own, and name its "
        'command under [dbt] in sqlbuild_project.toml: command = "../dbt-env/bin/dbt"',
    )


def asked(dbt: Dbt, verb: str, *more: str) -> str:
    """What a dbt command that only looks prints; its failure is an error in dbt's words."""
    try:
        done = subprocess.run(
            dbt.line(verb, *_PLAIN, *more),
            cwd=dbt.project_dir,
            env={**os.environ, **_ENVIRONMENT},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise _not_found(dbt.command) from error
    if done.returncode:
        raise refusal(dbt, verb, done.stdout + done.stderr)
    return done.stdout


def refusal(dbt: Dbt, verb: str, output: str) -> SqbError:
    """The error that dbt's words tell of, with the place in its project where they name one."""
    said = _words(output)
    text = "\n".join(said)
    if _PROFILE.search(text):
        return NoDbtProfile(
            f"dbt finds no profile for its project: {said[-1].strip() if said else ''}",
            hint=f"{_seen_profiles(dbt)}; `profiles_dir` under [dbt] names the folder of profiles.yml",
        )
    file, line = _FILE.search(text), _LINE.search(text)
    at = None
    if file is not None and (dbt.project_dir / file[1]).is_file():
        at = At(os.path.relpath(dbt.project_dir / file[1], dbt.root), int(line[1]) if line else 0, 1 if line else 0)
    first, *rest = said[:_LONGEST] or ["it said nothing"]
    return DbtRefused(
        "\n".join([f"dbt {verb} failed: {first}", *rest]), at=at, hint=f"run `dbt {verb}` by itself to try"
    )


def _seen_profiles(dbt: Dbt) -> str:
    there = "is there" if dbt.profiles_file.is_file() else "is not there"
    return f"{dbt.profiles_file} {there}"


def _words(output: str) -> list[str]:
    """What dbt said of an error: without colours, clocks and what it says each time."""
    lines = [_CLOCK.sub("", _COLOUR.sub("", line)).rstrip() for line in output.splitlines()]
    lines = [line for line in lines if line.strip()]
    marks = [i for i, line in enumerate(lines) if line.strip() == "Encountered an error:"]
    return lines[marks[-1] + 1 :] if marks else lines


@dataclass(frozen=True, slots=True)
class Ended:
    """How a dbt command ended: its exit code, and whether somebody asked it to stop."""

    code: int
    interrupted: bool = False


def streamed(dbt: Dbt, verb: str, *more: str, out: TextIO | None = None) -> Ended:
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
            dbt.line(verb, colours, *more),
            cwd=dbt.project_dir,
            env={**os.environ, **_ENVIRONMENT},
            stdin=subprocess.DEVNULL,
            stdout=stream.fileno(),
            stderr=sys.stderr.fileno(),
            start_new_session=True,
        )
    except OSError as error:
        raise _not_found(dbt.command) from error
    with _handing_on(child) as heard:
        code = child.wait()
    return Ended(code, bool(heard))


@contextmanager
def _handing_on(child: subprocess.Popen[bytes]) -> Iterator[list[int]]:
    """Signals go to dbt, which has a session of its own so that a terminal does not send them there as well."""
    heard: list[int] = []

    def handle(number: int, frame: object) -> None:
        heard.append(number)
        with suppress(ProcessLookupError):
            if len(heard) == 1:
                child.send_signal(signal.SIGINT)
            else:
                os.killpg(child.pid, signal.SIGKILL)

    previous: list[tuple[signal.Signals, Any]] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(ValueError):  # not in the main thread, where nobody sends any
            previous.append((number, signal.signal(number, handle)))
    try:
        yield heard
    finally:
        for number, handler in previous:
            signal.signal(number, handler)
