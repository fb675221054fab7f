"""The installed command, run as people run it, on projects in folders of their own.

A lake cannot be moved, so a project is built where it stands and looked at from many sides.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.commands import run_here

if TYPE_CHECKING:
    from sqb.project.config.connections.lake_location import LakeLocation
    from sqb.spark.engine import Engine
    from support.engine import EngineOfLake

SQB = Path(sys.executable).with_name("sqb")
# What Spark, its logging and its package manager would say if they were let.
CHATTER = ("WARN", "log4j", "SLF4J", "ivy", "Ivy", "JVM", "Picked up", "Setting default log level", "Traceback", ":: ")


@dataclass(frozen=True)
class Done:
    """What a command said and how it ended."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def document(self) -> dict[str, Any]:
        """The one JSON document on standard output."""
        result = json.loads(self.out)
        assert isinstance(result, dict)
        return result


def run_sqb(
    *arguments: str,
    cwd: Path,
    env: Mapping[str, str | None] = {},
    before: tuple[str, ...] = (),
    timeout: float = 280,
) -> Done:
    """Run `sqb`; variables that are None are taken out of the environment."""
    done = subprocess.run(
        [*before, str(SQB), *arguments],
        cwd=cwd,
        env=_whole(env),
        capture_output=True,
        encoding="utf-8",
        stdin=subprocess.DEVNULL,
        timeout=timeout,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def _whole(env: Mapping[str, str | None]) -> dict[str, str]:
    whole = {"NO_COLOR": "", "FORCE_COLOR": "", **os.environ, **env}
    return {k: v for k, v in whole.items() if v is not None}


@dataclass(frozen=True)
class Folder:
    """A project folder and what can be done with it."""

    root: Path

    def sqb(self, *arguments: str, **more: Any) -> Done:
        return run_sqb(*arguments, cwd=more.pop("cwd", self.root), **more)

    def here(self, *arguments: str, cwd: Path | None = None, env: Mapping[str, str | None] = {}) -> Done:
        """The same without a process of its own, for what needs no Spark and asks for nothing of the process."""
        return Done(*run_here(arguments, cwd or self.root, _whole(env)))

    def write(self, files: Mapping[str, str | bytes]) -> None:
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode() if isinstance(text, str) else text)

    def lake(self) -> dict[str, Any]:
        """All that stands in the lake: its files by content, and the catalog's rows."""
        by_name: dict[str, Any] = {}
        for path in sorted((self.root / "lake").rglob("*")):
            if path.is_file() and not path.name.startswith("catalog.db"):
                by_name[str(path.relative_to(self.root))] = path.read_bytes()
        database = self.root / "lake" / "catalog.db"
        if database.is_file():
            with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
                for table in ("iceberg_tables", "iceberg_namespace_properties"):
                    by_name[table] = sorted(map(str, connection.execute(f"SELECT * FROM {table}")))
        return by_name

    @contextmanager
    def with_files(self, files: Mapping[str, str | bytes]) -> Iterator[None]:
        """The project with other files for a while."""
        before = {name: (self.root / name).read_bytes() for name in files if (self.root / name).is_file()}
        folders = [p for name in files for p in (self.root / name).parents if not p.exists()]
        self.write(files)
        try:
            yield
        finally:
            for name in files:
                (self.root / name).unlink(missing_ok=True)
            self.write(before)
            for folder in folders:
                shutil.rmtree(folder, ignore_errors=True)


SEEDS = {
    "sqlbuild_project.toml": 'name = "shop"\n',
    "seeds/people.csv": "id,name\n1,Ada\n2,Grace\n",
    "seeds/places.csv": "id,place\n1,London\n",
}


def new_project(root: Path, files: Mapping[str, str | bytes] = SEEDS) -> Folder:
    root.mkdir(parents=True, exist_ok=True)
    folder = Folder(root)
    folder.write(files)
    return folder


def build_all(folder: Folder) -> Folder:
    done = folder.here("build")
    assert done.code == 0, done.out + done.err
    return folder


def quiet(done: Done) -> bool:
    """Whether nothing of the machinery below reached the terminal."""
    return not any(word in done.out + done.err for word in CHATTER)


def can(*command: str) -> bool:
    """Whether a command works here; mounting and namespaces need rights that not every machine gives."""
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """A project of seeds only, built once: no Java is needed to build it."""
    return build_all(new_project(tmp_path_factory.mktemp("seeds")))


@pytest.fixture
def sqb_here(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Done]:
    """Runs `sqb` on the Spark of the test run: for what a command says, where how Spark starts is not the question."""
    from sqb.cli import main  # tests without a lake do not wait for it
    from support.engine import EngineOfLake, LakeSessions

    def start(*, place: LakeLocation, **_: Any) -> EngineOfLake:
        assert place.database is not None and place.folder is not None
        return EngineOfLake(LakeSessions(engine, place))

    monkeypatch.setattr("sqb.spark.session.local.start_engine", start)

    def run(folder: Folder, *arguments: str) -> Done:
        monkeypatch.chdir(folder.root)
        capsys.readouterr()
        code = main.run(list(arguments))
        output = capsys.readouterr()
        return Done(code, output.out, output.err)

    return run
