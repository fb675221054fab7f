"""Who looks after a server ends it when nobody wants it any more, and never while somebody works with it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from sqb.engine import server as supervisor
from sqb.engine.client import _reserve
from sqb.engine.descriptor import EngineDescriptor, get_path, read_descriptor, write_descriptor
from sqb.engine.locks import EngineClaim, claim_engine
from sqb.engine.server import Supervisor

FOREVER = 3600.0


@dataclass
class Server:
    pid: int = 0
    port: int = 0
    lives: bool = True
    stopped: int = 0
    tidied: int = 0
    worn: bool = False

    def alive(self) -> bool:
        return self.lives

    def stop(self) -> None:
        self.stopped += 1

    def tidy(self) -> bool:
        self.tidied += 1
        return not self.worn


@dataclass
class Watched:
    """A supervisor at work in a thread."""

    folder: Path
    idle: float = FOREVER
    server: Server = field(default_factory=Server)
    asked: bool = False
    let_go: int = 0
    ended: list[str] = field(default_factory=list)

    def begin(self) -> Watched:
        made = Supervisor(self.folder, self.server, described(self.idle), self._let_go, lambda: self.asked, 0.005, 0.1)
        self.thread = threading.Thread(target=lambda: self.ended.append(made.watch().reason), daemon=True)
        self.thread.start()
        return self

    def _let_go(self) -> None:
        self.let_go += 1

    def end(self) -> str:
        self.thread.join(5)
        assert not self.thread.is_alive()
        assert (self.server.stopped, self.let_go) == (1, 1)
        return self.ended[0]


def described(idle: float = FOREVER) -> EngineDescriptor:
    return EngineDescriptor("local", "abc", "1", "4", "here", 1, "1", 2, "2", 15002, "secret", 0.0, idle, "log")


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Callable[..., Watched]]:
    made: list[Watched] = []

    def begin(idle: float = FOREVER) -> Watched:
        made.append(Watched(tmp_path, idle).begin())
        return made[-1]

    yield begin
    for one in made:
        one.asked = True
        one.thread.join(5)


def test_nobody_else_may_read_the_token(watched: Callable[..., Watched], tmp_path: Path) -> None:
    watched()
    assert get_path(tmp_path).stat().st_mode & 0o777 == 0o600
    assert "secret" not in repr(read_descriptor(get_path(tmp_path)))


def test_an_idle_server_ends(watched: Callable[..., Watched], tmp_path: Path) -> None:
    assert watched(0.05).end() == "idle"
    assert not get_path(tmp_path).exists()


def test_work_keeps_it_and_idleness_counts_from_its_end(watched: Callable[..., Watched], tmp_path: Path) -> None:
    one = watched(1.0)
    held = claim_engine(get_path(tmp_path))
    assert held is not None
    time.sleep(1.3)
    assert not one.ended
    held.release()
    held.release()
    time.sleep(0.1)
    assert not one.ended
    assert one.end() == "idle"


def test_a_short_use_between_two_looks_counts(watched: Callable[..., Watched], tmp_path: Path) -> None:
    one = watched(1.0)
    for _ in range(4):
        time.sleep(0.3)
        os.utime(get_path(tmp_path))
    assert not one.ended
    assert one.end() == "idle"


def test_without_its_description_it_ends_when_those_have_finished_who_began(
    watched: Callable[..., Watched], tmp_path: Path
) -> None:
    one = watched()
    held = claim_engine(get_path(tmp_path))
    assert held is not None
    get_path(tmp_path).unlink()
    time.sleep(0.1)
    # Its place is free for another already.
    assert (one.let_go, one.server.stopped, one.ended) == (1, 0, [])
    assert claim_engine(get_path(tmp_path)) is None
    held.release()
    assert one.end() == "removed"


def test_asked_to_end_it_waits_for_nobody(watched: Callable[..., Watched], tmp_path: Path) -> None:
    one = watched()
    held = claim_engine(get_path(tmp_path))
    one.asked = True
    assert one.end() == "asked"
    assert held is not None and not get_path(tmp_path).exists()
    held.release()


def test_the_description_of_a_lost_server_stays(watched: Callable[..., Watched], tmp_path: Path) -> None:
    one = watched()
    one.server.lives = False
    assert one.end() == "lost"
    assert read_descriptor(get_path(tmp_path)) == described()


def test_a_project_that_is_gone_ends_it(watched: Callable[..., Watched], tmp_path: Path) -> None:
    (tmp_path / "moved").mkdir()
    inner = tmp_path / "project"
    inner.mkdir()
    one = Watched(inner).begin()
    inner.rename(tmp_path / "moved" / "project")
    assert one.end() == "removed"
    # What was moved along with the folder is not found from where the engine was started.
    assert get_path(tmp_path / "moved" / "project").exists()


def test_what_another_engine_wrote_there_is_left_alone(watched: Callable[..., Watched], tmp_path: Path) -> None:
    one = watched()
    other = get_path(tmp_path).with_name("other")
    other.write_text("{}")
    os.replace(other, get_path(tmp_path))
    assert one.end() == "removed"
    assert get_path(tmp_path).read_text() == "{}"


def test_it_is_tidied_once_after_each_use(watched: Callable[..., Watched], tmp_path: Path) -> None:
    one = watched()
    time.sleep(0.3)
    assert one.server.tidied == 0
    for times in (1, 2):
        held = claim_engine(get_path(tmp_path))
        assert held is not None
        time.sleep(0.3)
        assert one.server.tidied == times - 1
        held.release()
        time.sleep(0.4)
        assert one.server.tidied == times


def test_a_worn_server_ends_and_is_replaced_by_the_next_build(watched: Callable[..., Watched], tmp_path: Path) -> None:
    one = watched()
    one.server.worn = True
    os.utime(get_path(tmp_path))
    assert one.end() == "worn"
    assert read_descriptor(get_path(tmp_path)) == replace(described(), port=0)


def test_a_worn_server_that_somebody_has_begun_to_use_stays_for_them(
    watched: Callable[..., Watched], tmp_path: Path
) -> None:
    one = watched()
    held: list[EngineClaim | None] = []

    def tidy() -> bool:
        if not held:
            held.append(claim_engine(get_path(tmp_path)))
        return False

    one.server.tidy = tidy  # type: ignore[method-assign]
    os.utime(get_path(tmp_path))
    time.sleep(0.4)
    assert held[0] is not None and (one.let_go, one.ended) == (0, [])
    assert read_descriptor(get_path(tmp_path)) == described()
    held[0].release()
    assert one.end() == "worn"


def test_nobody_begins_to_use_a_worn_server_that_was_found_before(
    watched: Callable[..., Watched], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[EngineClaim | None] = []
    late: list[threading.Thread] = []

    def begin_late(path: Path, description: EngineDescriptor) -> None:
        # Has opened the file of the server, and waits for it.
        late.append(threading.Thread(target=lambda: opened.append(claim_engine(path))))
        late[0].start()
        time.sleep(0.1)
        write_descriptor(path, description)

    one = watched()
    monkeypatch.setattr(supervisor, "write_descriptor", begin_late)
    one.server.worn = True
    os.utime(get_path(tmp_path))
    assert one.end() == "worn"
    late[0].join(5)
    assert opened == [None]
    # And who comes later finds something else than what was found before.
    assert _reserve(SimpleNamespace(folder=tmp_path), described()) is None  # type: ignore[arg-type]
