"""Engines as processes, with a server that is no Spark: started, found, held, replaced and stopped."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from sqb.engine import settings_hash as wanting
from sqb.engine.automatic import VARIABLE
from sqb.engine.client import Reservation, reserve_engine
from sqb.engine.descriptor import EngineDescriptor, get_path, read_descriptor
from sqb.engine.locks import acquire_supervision
from sqb.engine.process_identity import is_alive, read_start_time, wait_for_end
from sqb.engine.settings_hash import compute_requirements
from sqb.engine.start import DEFAULT_IDLE_SECONDS, StartedEngine, start_engine
from sqb.engine.status import inspect_engine, read_usage
from sqb.engine.stop import WAITING_MESSAGE, stop_engine
from sqb.errors.spark import EngineElsewhere, EngineUnneeded, EngineUnwritable, JarsUnavailable, SparkDidNotStart
from sqb.spark.session.java import Java
from sqb.workspace import Workspace, open_workspace
from support.fake_engine import COMMAND
from unit.folders import write as write_files

TOML = 'name = "shop"\n[connections.local]\nspark = { master = "local[1]", conf = { "spark.x" = "%s" } }\n'


class Project:
    """A project folder, and what is done with its engine."""

    def __init__(self, root: Path) -> None:
        self.root, self.told = root, list[str]()
        self.edit("1")

    def edit(self, value: str) -> None:
        write_files(self.root, {"sqlbuild_project.toml": TOML % value})

    @property
    def workspace(self) -> Workspace:
        return open_workspace(self.root)

    @property
    def folder(self) -> Path:
        return self.root / ".sqb"

    @property
    def status(self) -> tuple[str, str]:
        engine = inspect_engine(self.folder, compute_requirements(self.workspace))
        return engine.status, engine.reason

    def start(self, idle: float = DEFAULT_IDLE_SECONDS) -> StartedEngine:
        return start_engine(self.workspace, None, idle, self.told.append, COMMAND)

    def hold(self) -> Reservation | None:
        return reserve_engine(self.workspace, self.told.append, COMMAND)

    def stop(self, now: bool = False) -> Any:
        return stop_engine(self.folder, now, self.told.append)

    @property
    def described(self) -> EngineDescriptor:
        descriptor = read_descriptor(get_path(self.folder))
        assert descriptor is not None
        return descriptor


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    monkeypatch.delenv("FAKE_ENGINE", raising=False)
    monkeypatch.delenv(VARIABLE, raising=False)
    made = Project(tmp_path / "shop")
    yield made
    if made.root.exists():
        os.chmod(made.folder, 0o755)
        made.stop(now=True)
    for process in psutil.process_iter(["cmdline"]):
        assert str(made.root) not in " ".join(process.info["cmdline"] or []), process


def wait_until(true: Callable[[], bool], seconds: float = 10) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_a_day_with_an_engine(project: Project) -> None:
    assert (project.status, project.hold()) == (("stopped", ""), None)
    started = project.start()
    assert started.is_new and project.status == ("running", "")
    engine = started.description
    # In a session of its own, and nothing secret among its arguments or in its log.
    assert os.getsid(engine.pid) == engine.pid
    assert engine.token not in " ".join(psutil.Process(engine.pid).cmdline())
    assert engine.token not in Path(engine.log).read_text()
    assert Path(engine.log).stat().st_mode & 0o777 == 0o600
    assert not project.start().is_new
    held, other = project.hold(), project.hold()
    assert held is not None and other is not None and held.descriptor == engine
    usage = read_usage(project.folder, inspect_engine(project.folder, compute_requirements(project.workspace)))
    assert usage is not None and usage.in_use
    held.claim.release()
    stopping = threading.Thread(target=project.stop)
    stopping.start()
    wait_until(lambda: WAITING_MESSAGE in project.told)
    assert is_alive(engine.server_pid, engine.server_born) and project.hold() is None
    other.claim.release()
    stopping.join(10)
    assert not is_alive(engine.pid, engine.born) and not is_alive(engine.server_pid, engine.server_born)
    assert project.status == ("stopped", "") and not project.stop().was_there


def test_stopped_at_once_under_somebody_who_works(project: Project) -> None:
    engine = project.start().description
    held = project.hold()
    assert project.stop(now=True).was_alive and held is not None
    assert not is_alive(engine.pid, engine.born) and not is_alive(engine.server_pid, engine.server_born)
    held.claim.release()


def test_two_starts_at_once_make_one_engine(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_ENGINE", "slow")
    started: list[StartedEngine] = []
    threads = [threading.Thread(target=lambda: started.append(project.start())) for _ in range(3)]
    for thread in threads:
        thread.start()
    wait_until(lambda: project.status == ("starting", ""))
    for thread in threads:
        thread.join(20)
    assert sorted(one.is_new for one in started) == [False, False, True]
    assert len({one.description.pid for one in started}) == 1
    assert "waiting for another start that is under way" in project.told and "taking its time" in project.told


def test_a_start_can_be_stopped(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_ENGINE", "slow")
    errors: list[BaseException] = []

    def begin() -> None:
        try:
            project.start()
        except SparkDidNotStart as error:
            errors.append(error)

    thread = threading.Thread(target=begin)
    thread.start()
    wait_until(lambda: "taking its time" in project.told)
    assert project.stop().was_there
    thread.join(10)
    assert len(errors) == 1 and project.status == ("stopped", "")


def test_a_start_that_has_the_place_only_is_not_taken_for_the_one_before(project: Project) -> None:
    engine = project.start().description
    project.stop()
    place = acquire_supervision(project.folder)
    assert place is not None and project.status == ("starting", "")
    # There is nobody to be asked yet; the process of before is gone.
    assert not is_alive(engine.pid, engine.born) and not project.stop().was_there
    os.close(place)


def test_a_killed_server_is_replaced_with_one_line(project: Project) -> None:
    engine = project.start().description
    os.kill(engine.server_pid, signal.SIGKILL)
    assert wait_for_end(engine.pid, engine.born, 30)
    assert project.status == ("dead", "its process is gone")
    held = project.hold()
    assert held is not None and held.descriptor.pid != engine.pid
    assert project.told == ["replacing the engine: its process is gone"]
    held.claim.release()


def test_a_port_that_somebody_else_has_taken_is_not_spoken_to(project: Project) -> None:
    """Calls have a token with them, and the rows of queries: nobody else is to get them."""
    engine = project.start().description
    os.kill(engine.server_pid, signal.SIGKILL)
    assert wait_for_end(engine.pid, engine.born, 30)
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", engine.port))
        other.listen()
        other.setblocking(False)
        assert project.status == ("dead", "its process is gone")
        held = project.hold()
        assert held is not None and held.descriptor.port != engine.port
        held.claim.release()
        with pytest.raises(BlockingIOError):
            other.accept()


def test_a_killed_supervisor_takes_its_server_along(project: Project) -> None:
    engine = project.start().description
    os.kill(engine.pid, signal.SIGKILL)
    assert wait_for_end(engine.server_pid, engine.server_born, 30)
    assert project.status == ("dead", "its process is gone")
    assert not project.stop().was_alive
    assert project.status == ("stopped", "")


def test_what_died_long_ago_is_forgotten(project: Project) -> None:
    engine = project.start(idle=100).description
    os.kill(engine.server_pid, signal.SIGKILL)
    assert wait_for_end(engine.pid, engine.born, 30)
    os.utime(get_path(project.folder), (time.time() - 101, time.time() - 101))
    assert project.hold() is None and project.told == []
    assert project.status == ("stopped", "")


def test_other_settings_replace_it_and_let_others_finish(project: Project) -> None:
    engine = project.start().description
    held = project.hold()
    project.edit("2")
    assert project.status == ("stale", "it was started with other settings")
    mine = project.hold()
    assert mine is not None and held is not None and mine.descriptor.pid != engine.pid
    assert project.told == ["replacing the engine: it was started with other settings"]
    assert is_alive(engine.server_pid, engine.server_born)
    held.claim.release()
    assert wait_for_end(engine.pid, engine.born, 30)
    assert not is_alive(engine.server_pid, engine.server_born)
    assert project.status == ("running", "")
    mine.claim.release()


@pytest.mark.parametrize(("name", "why"), [("sqb", "sqb"), ("pyspark", "PySpark")])
def test_another_version_replaces_it(project: Project, monkeypatch: pytest.MonkeyPatch, name: str, why: str) -> None:
    engine = project.start().description
    get_path(project.folder).write_text(get_path(project.folder).read_text().replace(f'"{name}": "', f'"{name}": "0.'))
    assert project.status == ("stale", f"it is of {why} 0.{getattr(engine, name)}, and this is {getattr(engine, name)}")
    assert project.start().is_new


def test_environment_and_jars_are_part_of_the_settings_but_terminals_are_not(
    project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = compute_requirements(project.workspace)
    monkeypatch.setenv("WINDOWID", "7")
    monkeypatch.setenv("SPARK_CONNECT_AUTHENTICATE_TOKEN", "x")
    # Set by PySpark in a process that has had a Spark, as one that uses the API.
    for name in ("SPARK_AUTH_SOCKET_TIMEOUT", "SPARK_BUFFER_SIZE", "SPARK_LOCAL_REMOTE", "SPARK_CONNECT_MODE_ENABLED"):
        monkeypatch.setenv(name, "1")
    assert compute_requirements(project.workspace) == before
    monkeypatch.setattr(wanting, "list_packages", lambda place: ("a:b:1",))
    assert compute_requirements(project.workspace) != before
    monkeypatch.undo()
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert compute_requirements(project.workspace) != before


def test_other_connections_and_machines_are_none_of_a_builds_business(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = project.start().description
    path, text = get_path(project.folder), get_path(project.folder).read_text()
    path.write_text(text.replace('"connection": "local"', '"connection": "cluster"'))
    assert project.status == ("other", "it is of the connection cluster")
    assert project.hold() is None and project.told == []
    path.write_text(text.replace('"host": "', '"host": "far-'))
    assert project.status[0] == "other" and project.hold() is None
    with pytest.raises(EngineElsewhere, match="runs on another machine, far-") as refused:
        project.stop()
    assert refused.value.hint is not None and str(path) in refused.value.hint
    with pytest.raises(EngineElsewhere):
        project.start()
    path.write_text(text)
    assert project.described == engine


def test_switched_off_by_a_variable(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.start()
    monkeypatch.setenv(VARIABLE, "off")
    assert project.hold() is None


def test_a_java_that_was_upgraded_in_its_place_is_another(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    binary = tmp_path / "java"
    binary.write_text("")
    monkeypatch.setattr(wanting, "find_java", lambda: Java(binary, 17))
    before = compute_requirements(project.workspace)
    assert compute_requirements(project.workspace) == before
    os.utime(binary, (1, 1))
    assert compute_requirements(project.workspace) != before


def test_switched_off_in_the_project(project: Project) -> None:
    project.start()
    assert reserve_engine(replace(project.workspace, engine="off"), project.told.append, COMMAND) is None


def test_an_idle_engine_ends_by_itself(project: Project) -> None:
    engine = project.start(idle=0.5).description
    assert wait_for_end(engine.pid, engine.born, 10)
    assert not is_alive(engine.server_pid, engine.server_born) and not get_path(project.folder).exists()


def test_it_ends_when_the_project_is_removed(project: Project, tmp_path: Path) -> None:
    engine = project.start().description
    project.root.rename(tmp_path / "gone")
    assert wait_for_end(engine.pid, engine.born, 10)
    assert not is_alive(engine.server_pid, engine.server_born)


def test_what_keeps_it_from_starting_is_told_as_it_was_met(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_ENGINE", "refuses")
    with pytest.raises(JarsUnavailable, match="no jars today") as refused:
        project.start()
    assert refused.value.hint == "come back tomorrow" and project.status == ("stopped", "")
    monkeypatch.setenv("FAKE_ENGINE", "dies")
    with pytest.raises(SparkDidNotStart, match="ended while it was starting") as died:
        project.start()
    assert died.value.hint is not None
    assert "out of order" in Path(died.value.hint.removeprefix("its log is ")).read_text()


def test_a_replacement_that_fails_leaves_the_build_its_own_spark(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = project.start().description
    project.edit("2")
    monkeypatch.setenv("FAKE_ENGINE", "refuses")
    assert project.hold() is None
    assert project.told[-1] == ("the engine could not be replaced (no jars today); starting Spark for this command")
    assert wait_for_end(engine.pid, engine.born, 30)


def test_a_folder_that_cannot_be_written_to(project: Project) -> None:
    if os.geteuid() == 0:
        # Where not even root makes files.
        project.folder.symlink_to("/sys/kernel")
    else:
        project.folder.mkdir(exist_ok=True)
        os.chmod(project.folder, stat.S_IRUSR | stat.S_IXUSR)
    with pytest.raises(EngineUnwritable, match="cannot be written to"):
        project.start()


def test_a_full_disk_ends_what_was_started(project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # A folder in the place of the description: it cannot be put there, as on a disk that is full.
    get_path(project.folder).mkdir(parents=True)
    with pytest.raises(EngineUnwritable, match="the files of the engine cannot be written"):
        project.start()
    get_path(project.folder).rmdir()


def test_a_connection_to_a_server_needs_none(project: Project) -> None:
    text = 'name = "shop"\n[connections.local]\nspark = { remote = "sc://x:15002" }\n'
    write_files(project.root, {"sqlbuild_project.toml": text})
    with pytest.raises(EngineUnneeded, match="the connection local works on a Spark Connect server") as refused:
        project.start()
    assert refused.value.at is not None and refused.value.at.file == "sqlbuild_project.toml"


def test_scribbling_in_the_place_of_a_description_is_no_engine(project: Project) -> None:
    for text in ("", "{", "[]", '{"format": 99}', '{"format": 1}'):
        get_path(project.folder).parent.mkdir(exist_ok=True)
        get_path(project.folder).write_text(text)
        assert project.status == ("stopped", "") and project.hold() is None
    assert project.start().is_new


def test_a_process_is_known_by_when_it_began() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        born = read_start_time(process.pid)
        assert is_alive(process.pid, born) and not is_alive(process.pid, born + "1") and not is_alive(process.pid, "")
        process.kill()
        # It has ended, though nobody has asked about it yet.
        wait_until(lambda: not is_alive(process.pid, born))
