"""Commands that a worker of the engine runs for the process that was called: nobody can tell the difference.

No Spark: the project has seeds and a loader, and the process that workers are forked from is started alone.
"""

from __future__ import annotations

import os
import pty
import re
import resource
import select
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from cli.conftest import SQB, Done, Folder, new_project
from sqb.engine.call import SOCKET

# The thin client alone: 99 when the process that was called would have had to do the work.
NOT_HANDED_OVER = 99
CLIENT = (
    sys.executable,
    "-c",
    "import os, sys; from sqb.engine.hand_over import hand_over; code = hand_over(sys.argv[1:]);"
    f" os._exit({NOT_HANDED_OVER} if code is None else code)",
)
# The installed command, whichever of its versions is installed.
COMMAND = (sys.executable, "-c", "from sqb.cli.entry import main; main()")
ZYGOTE = (sys.executable, "-P", "-m", "sqb.cli.zygote")
FILES = {
    "sqlbuild_project.toml": 'name = "shop"\n',
    "seeds/people.csv": "id,name\n1,Ada\n2,Grace\n",
    "python/slow.py": (
        "import os, resource, time\n"
        "from sqb import loader\n"
        "@loader(source='raw.slow')\n"
        "def fetch_slow(ctx):\n"
        "    open('started', 'w').close()\n"
        "    time.sleep(float(os.environ.get('SLOW', '0')))\n"
        "    if 'LIMITS' in os.environ:\n"
        "        return [{'id': 7, 'who': str(resource.getrlimit(resource.RLIMIT_NOFILE))}]\n"
        "    return [{'id': 7, 'who': os.environ.get('WHO', 'nobody')}]\n"
    ),
    "sources/raw.yml": "sources:\n- name: raw.slow\n",
}
BUILD = ("build", "-s", "people", "--force")
_TIMES = re.compile(
    r"\"snapshot_id\": \d+|\d+(\.\d+)?(ms|s)\b|\d{8}_\d{6}_[0-9a-f]{6}|\"seconds\": [\d.]+|\"\w+_at\": \"[^\"]*\""
)


@contextmanager
def zygote(folder: Folder, env: Mapping[str, str] = {}) -> Iterator[subprocess.Popen[bytes]]:
    """Workers that wait for calls of a project; none of them is left behind."""
    (folder.root / ".sqb").mkdir(exist_ok=True)
    process = subprocess.Popen([*ZYGOTE, str(folder.root)], stdin=subprocess.PIPE, env={**os.environ, **env})
    assert process.stdin is not None
    try:
        wait_for(lambda: (folder.root / ".sqb" / SOCKET).exists() or process.poll() is not None)
        yield process
    finally:
        process.stdin.close()
        process.wait(150)
        wait_for(lambda: not workers_of(folder))


def workers_of(folder: Folder) -> list[psutil.Process]:
    items = []
    for process in psutil.process_iter(["cmdline", "status"]):
        if process.info["status"] != psutil.STATUS_ZOMBIE and (process.info["cmdline"] or [])[-2:] == [
            "sqb.cli.zygote",
            str(folder.root),
        ]:
            items.append(process)
    return items


def wait_for(condition: object, seconds: float = 150) -> None:
    assert callable(condition)
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Folder]:
    folder = new_project(tmp_path_factory.mktemp("shop").resolve(), FILES)
    with zygote(folder):
        folder.sqb(*BUILD, env={"SQB_ENGINE": "off"})
        yield folder


def call(folder: Folder, *arguments: str, env: Mapping[str, str] = {}, cwd: Path | None = None) -> Done:
    """A call that only a worker answers."""
    done = subprocess.run(
        [*CLIENT, *arguments],
        cwd=cwd or folder.root,
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def mask(text: str) -> str:
    return _TIMES.sub("T", text)


@pytest.mark.parametrize(
    "arguments",
    [
        ("plan",),
        ("plan", "--json"),
        BUILD,
        (*BUILD, "--json"),
        ("build", "-s", "nobody"),
        ("build", "--nope"),
        ("build", "--help"),
        ("validate",),
        ("compile", "--json"),
        ("query",),
        ("build", "--target", "nope", "--debug"),
    ],
    ids=" ".join,
)
def test_output_and_exit_code_are_the_same(shop: Folder, arguments: tuple[str, ...]) -> None:
    own = shop.sqb(*arguments, env={"SQB_ENGINE": "off"})
    handed = call(shop, *arguments)
    assert handed.code == own.code != NOT_HANDED_OVER
    assert (mask(handed.out), mask(handed.err)) == (mask(own.out), mask(own.err))


@pytest.mark.parametrize("columns", [60, 200])
def test_a_terminal_is_a_terminal(shop: Folder, columns: int) -> None:
    own = at_terminal(shop, columns, str(SQB), *BUILD, env={"SQB_ENGINE": "off"})
    handed = at_terminal(shop, columns, *CLIENT, *BUILD)
    assert "\x1b[" in own
    assert last_lines(handed) == last_lines(own)


def last_lines(text: str) -> list[str]:
    """What stays on a terminal: what was drawn over depends on how quickly it went."""
    return [mask(line.rpartition("\r")[2]) for line in text.split("\n") if "[OK]" in line or "Done:" in line]


def at_terminal(folder: Folder, columns: int, *command: str, env: Mapping[str, str] = {}) -> str:
    import fcntl
    import struct
    import termios

    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environment = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "CI")}
    process = subprocess.Popen(
        command,
        cwd=folder.root,
        env={**environment, "TERM": "xterm-256color", **env},
        stdin=follower,
        stdout=follower,
        stderr=follower,
        start_new_session=True,
    )
    os.close(follower)
    text = b""
    while True:
        ready, _, _ = select.select([leader], [], [], 120)
        assert ready, text
        try:
            part = os.read(leader, 65536)
        except OSError:
            break
        if not part:
            break
        text += part
    os.close(leader)
    assert process.wait(30) == 0, text
    return text.decode()


def test_the_call_has_its_own_folder_environment_and_file_mode(shop: Folder) -> None:
    with subprocess.Popen(
        [*CLIENT, "load", "--project-dir", ".."],
        cwd=shop.root / "seeds",
        env={**os.environ, "WHO": "Ada"},
        stdout=subprocess.PIPE,
        text=True,
        umask=0o077,
    ) as process:
        out = process.communicate(timeout=120)[0]
    assert process.returncode == 0, out
    newest, who = read_newest(shop)
    assert who == "Ada"
    assert newest.stat().st_mode & 0o077 == 0
    # The next one has nothing of it.
    assert call(shop, "load").code == 0
    assert read_newest(shop)[1] == "nobody"


def test_the_call_has_its_own_limits(shop: Folder) -> None:
    command = 'ulimit -S -n 321 && ulimit -H -n 654 && exec "$@"'
    with subprocess.Popen(
        ["sh", "-c", command, "sh", *CLIENT, "load"],
        cwd=shop.root,
        env={**os.environ, "LIMITS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        out = process.communicate(timeout=120)[0]
    assert process.returncode == 0, out
    assert read_newest(shop)[1] == "(321, 654)"
    # The next one has nothing of it.
    assert call(shop, "load", env={"LIMITS": "1"}).code == 0
    assert read_newest(shop)[1] == str(resource.getrlimit(resource.RLIMIT_NOFILE))


def read_newest(folder: Folder) -> tuple[Path, str]:
    """The newest file of the loader's table, and who ran it."""
    import pyarrow.parquet as parquet

    files = [p for p in (folder.root / "lake").rglob("*.parquet") if "who" in parquet.read_schema(p).names]
    newest = max(files, key=lambda path: path.stat().st_mtime_ns)
    return newest, parquet.ParquetFile(newest).read().to_pylist()[0]["who"]


@contextmanager
def slow_call(folder: Folder, *command: str, env: Mapping[str, str] = {}) -> Iterator[subprocess.Popen[str]]:
    """A load that takes a minute, when it has begun."""
    (folder.root / "started").unlink(missing_ok=True)
    with subprocess.Popen(
        [*command, "load"],
        cwd=folder.root,
        env={**os.environ, "SLOW": "60", **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            wait_for((folder.root / "started").exists)
            yield process
        finally:
            process.kill()


def busy_workers(folder: Folder) -> list[psutil.Process]:
    return [p for p in workers_of(folder) if p.children() and p.parent() in workers_of(folder)]


def test_ctrl_c_reaches_the_work(shop: Folder) -> None:
    message = []
    for command, env in (((str(SQB),), {"SQB_ENGINE": "off"}), (CLIENT, {})):
        with slow_call(shop, *command, env=env) as process:
            os.killpg(process.pid, signal.SIGINT)
            message.append((mask(process.communicate(timeout=60)[0]), process.returncode))
    assert message[0] == message[1]
    assert message[1][1] == 1
    wait_for(lambda: not busy_workers(shop))


def test_a_second_ctrl_c_does_not_wait(shop: Folder) -> None:
    with slow_call(shop, *CLIENT) as process:
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(0.3)
        with_two = time.monotonic()
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 1 and time.monotonic() - with_two < 30
    wait_for(lambda: not busy_workers(shop))


def test_who_kills_the_call_ends_the_work(shop: Folder) -> None:
    with slow_call(shop, *CLIENT) as process:
        wait_for(lambda: busy_workers(shop))
        process.kill()
    wait_for(lambda: not busy_workers(shop))
    assert call(shop, "plan").code == 0


def test_a_worker_that_is_killed_is_told(shop: Folder) -> None:
    with slow_call(shop, *COMMAND) as process:
        wait_for(lambda: busy_workers(shop))
        for worker in busy_workers(shop):
            worker.kill()
        out = process.communicate(timeout=60)[0]
    assert process.returncode == 1
    assert "error[SQB-E005]: the engine's process that ran this command" in out and "Traceback" not in out
    assert call(shop, "load").code == 0


def test_calls_at_once(shop: Folder) -> None:
    with slow_call(shop, *CLIENT):
        assert [call(shop, "plan").code for _ in range(3)] == [0, 0, 0]


def test_only_its_owner_may_connect(shop: Folder) -> None:
    path = shop.root / ".sqb" / SOCKET
    assert stat.S_ISSOCK(path.stat().st_mode) and path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "env",
    [{"PYTHONPATH": "/elsewhere"}, {"SQB_ENGINE": "off"}, {"SPARK_HOME": "/other"}, {"LD_LIBRARY_PATH": "/lib"}],
    ids=lambda env: next(iter(env)),
)
def test_another_environment_is_not_served(shop: Folder, env: Mapping[str, str]) -> None:
    assert call(shop, "plan", env=env).code == NOT_HANDED_OVER
    assert call(shop, "plan").code == 0


@pytest.mark.parametrize("arguments", [("engine", "status"), ("version",), ("--help",), (), ("janitor",)])
def test_other_commands_are_not_handed_over(shop: Folder, arguments: tuple[str, ...]) -> None:
    assert call(shop, *arguments).code == NOT_HANDED_OVER


def test_a_closed_stream_is_not_handed_over(shop: Folder) -> None:
    done = subprocess.run(["sh", "-c", 'exec "$@" <&-', "sh", *CLIENT, "plan"], cwd=shop.root, check=False)
    assert done.returncode == NOT_HANDED_OVER


def test_nonsense_at_the_socket_harms_nobody(shop: Folder) -> None:
    for words in (b"", b"nonsense", b"9" * 16, b"5               hello"):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(shop.root / ".sqb" / SOCKET))
            connection.sendall(words)
    assert call(shop, "plan").code == 0


def test_a_project_that_was_moved_is_not_served(tmp_path: Path) -> None:
    folder = new_project(tmp_path / "one", FILES)
    with zygote(folder):
        assert call(folder, "plan").code == 0
        folder.root.rename(tmp_path / "two")
        moved = Folder(tmp_path / "two")
        assert call(moved, "plan").code == NOT_HANDED_OVER
        assert moved.sqb("plan").code == 0


def test_one_that_was_killed_is_done_without(tmp_path: Path) -> None:
    folder = new_project(
        tmp_path / ("x" * 60) / "a folder whose socket has a path that is longer than most may be", FILES
    )
    with zygote(folder) as process:
        assert call(folder, "plan").code == 0
        process.kill()
        process.wait()
        wait_for(lambda: not workers_of(folder))
        assert (folder.root / ".sqb" / SOCKET).exists()
        assert call(folder, "plan").code == NOT_HANDED_OVER
        assert folder.sqb("plan").code == 0
    # Another one takes the place of what is left.
    with zygote(folder):
        wait_for(lambda: call(folder, "plan").code == 0)


def test_code_that_has_changed_is_loaded_anew(tmp_path: Path) -> None:
    folder = new_project(tmp_path / "shop", FILES)
    packages = tmp_path / "packages"
    packages.mkdir()
    env = {"PYTHONPATH": str(packages)}
    with zygote(folder, env) as process:
        assert call(folder, "plan", env=env).code == 0
        (packages / "installed.py").write_text("")
        assert call(folder, "plan", env=env).code == NOT_HANDED_OVER
        wait_for(lambda: call(folder, "plan", env=env).code == 0)
        assert process.poll() is None


def test_an_edit_of_the_project_is_that_of_the_next_call(shop: Folder) -> None:
    """Workers wait in advance, and none of them has anything of the project in its memory."""
    macro = "def {0}():\n    return '{1} AS x'\n"
    files: dict[str, str | bytes] = {"models/m.sql": "SELECT @one()", "macros/m.py": macro.format("one", "1")}
    with shop.with_files(files):
        assert "SELECT 1 AS x" in call(shop, "compile", "-s", "m").out
        shop.write({"macros/m.py": macro.format("one", "2") + macro.format("two", "3")})
        assert "SELECT 2 AS x" in call(shop, "compile", "-s", "m").out
        shop.write({"models/m.sql": "SELECT @two()"})
        assert "SELECT 3 AS x" in call(shop, "compile", "-s", "m").out
    assert call(shop, "compile", "-s", "m").code == shop.sqb("compile", "-s", "m", env={"SQB_ENGINE": "off"}).code == 2


def test_two_projects_have_their_own(shop: Folder, tmp_path: Path) -> None:
    other = new_project(tmp_path / "other", FILES)
    assert call(other, "plan").code == NOT_HANDED_OVER
    with zygote(other):
        assert call(other, *BUILD).code == 0
        assert (other.root / "lake").exists()
    assert call(shop, "plan").code == 0
