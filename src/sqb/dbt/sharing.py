"""One Spark for dbt and sqb: dbt works on the Spark Connect server that builds of sqb use, where it can.

dbt gets the address and the token in its environment, which is where PySpark looks for them; a profile with another
method than `session` takes no notice of them. Does not load Spark.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from urllib.parse import unquote

from sqb.dbt.command import Dbt
from sqb.engine.client import reserve_engine
from sqb.project.config.connections.model import resolve_spark
from sqb.project.config.secrets import remember_secrets
from sqb.workspace import Workspace

Report = Callable[[str], None]

_CLIENT_CHECK = "import pyspark, pyspark.sql.connect.session; print(pyspark.__version__)"
_TIMEOUT = 60.0
_TOKEN = re.compile(r";token=([^;]*)")
# Hosts that gRPC speaks to without a proxy; the first variable that is set counts.
_NO_PROXY_VARIABLES = ("no_grpc_proxy", "no_proxy")
# A line of a profile with which PySpark refuses a server.
_MASTER = re.compile(r"^\s*[\"']?spark\.master[\"']?\s*:", re.MULTILINE)


@contextmanager
def share_spark(dbt: Dbt, workspace: Workspace, report: Report) -> Iterator[Dbt]:
    """`dbt` as it works on the Spark of sqb's builds; as it is, with a line that says why, where it cannot."""
    with ExitStack() as stack:
        obstacle = _find_master_obstacle(dbt) or _find_client_obstacle(dbt)
        server = obstacle or _hold_server(workspace, report, stack)
        if isinstance(server, str):
            report(f"dbt starts a Spark of its own: {server}")
            yield dbt
        else:
            yield replace(dbt, environment={**dbt.environment, **server})


def _hold_server(workspace: Workspace, report: Report, stack: ExitStack) -> Mapping[str, str] | str:
    """What tells PySpark of the server that builds use, held until the stack is closed; or why there is none."""
    remote = resolve_spark(workspace.connection).remote
    if remote is not None:
        return build_environment(*split_token(remote))
    try:
        held_engine = reserve_engine(workspace, report)
    except OSError as error:
        return f"the engine cannot be looked at ({error.strerror})"
    if held_engine is None:
        return "no engine runs, which `sqb engine start` would start, and the connection has no `remote`"
    stack.callback(held_engine.claim.release)
    engine = held_engine.descriptor
    remember_secrets((engine.token,))
    # PySpark speaks without TLS to the name `localhost` only, and that is the address ::1 as well.
    guard = reserve_port("::1", engine.port)
    if guard is None:
        return f"another program of this machine has the engine's port, {engine.port}, at the address ::1"
    stack.callback(guard.close)
    return build_environment(f"sc://localhost:{engine.port}", engine.token)


def build_environment(address: str, token: str | None) -> dict[str, str]:
    """The variables with which PySpark uses a Spark Connect server; the token is apart, as errors quote addresses."""
    environment = {"SPARK_REMOTE": address}
    if token is not None:
        environment["SPARK_CONNECT_AUTHENTICATE_TOKEN"] = token
    if address.startswith("sc://localhost:"):
        direct = next((os.environ[name] for name in _NO_PROXY_VARIABLES if name in os.environ), "")
        environment[_NO_PROXY_VARIABLES[0]] = ",".join(filter(None, (direct, "localhost")))
    return environment


def split_token(address: str) -> tuple[str, str | None]:
    """An address of Spark Connect without its token, and the token."""
    token = _TOKEN.search(address)
    return (_TOKEN.sub("", address), unquote(token[1])) if token else (address, None)


def reserve_port(host: str, port: int) -> socket.socket | None:
    """Keep others from listening at an address while this is open; None where another process does already."""
    guard = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
    try:
        guard.bind((host, port))
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            guard.close()
            return None
        # A machine without this address: no process listens there.
    return guard


def _find_master_obstacle(dbt: Dbt) -> str:
    """Why PySpark would refuse a server: it takes a master or a server, never both."""
    if "MASTER" in os.environ:
        return "the environment variable MASTER is set, and PySpark takes that or a server"
    try:
        text = dbt.profiles_file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    if _MASTER.search(text):
        return f"{dbt.profiles_file.name} sets spark.master, and PySpark takes that or a server"
    return ""


def _find_client_obstacle(dbt: Dbt) -> str:
    """Why PySpark as dbt has it cannot use the server of sqb's builds; empty where it can, or where that is unknown."""
    python = find_python(dbt.find_executable())
    if python is None:
        return ""
    try:
        process = subprocess.run(
            [python, "-c", _CLIENT_CHECK],
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return f"{python} does not answer"
    if process.returncode:
        return "its Python environment lacks what PySpark needs to use a Spark server; install `pyspark[connect]` there"
    version, ours = process.stdout.strip(), metadata.version("pyspark")
    return "" if version == ours else f"it has PySpark {version}, and sqb has {ours}"


def find_python(command: tuple[str, ...]) -> str | None:
    """The Python that a command runs in, by its name or the first line of its script; None where that is unknown."""
    program = Path(command[0])
    if program.name.startswith("python"):
        return str(program)
    try:
        with open(program, "rb") as file:
            first = file.readline(1000).decode("utf-8", "replace")
    except OSError:
        return None
    words = first[2:].split() if first.startswith("#!") else []
    if words and Path(words[0]).name == "env":
        words = words[1:]
    return shutil.which(words[0]) if words and Path(words[0]).name.startswith("python") else None
