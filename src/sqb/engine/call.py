"""One call of `sqb` as it is handed to a worker of the engine: what the process was that was called.

The thin client loads this module and little else: whatever is imported here is waited for by every warm command.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, NamedTuple

from sqb import __file__ as _PACKAGE_FILE

SOCKET = "engine.sock"
# Both sides are of one installation; a change of the format is a change of the code all the same.
PROTOCOL = 2
# A line that says how long the call is, and then the call.
HEADER_LENGTH = 16
MAX_CALL = 16 * 1024 * 1024
# What Python, the loader of the system and libraries read when they start. It cannot be changed afterwards, so it must
# be the same in both processes. All other variables are those of the call.
_START_VARIABLES = (
    "PYTHON",
    "LD_",
    "DYLD_",
    "MALLOC_",
    "GLIBC_",
    "ARROW_",
    "PYARROW_",
    "OMP_",
    "OPENBLAS_",
    "MKL_",
    "NUMEXPR_",
    "GRPC_",
    "PYICEBERG_",
    "SPARK_",
    "PYSPARK_",
    "SQLGLOT",
    "DUCKDB_",
    "PG",
    "SSL_",
    "OPENSSL_",
    "VIRTUAL_ENV",
)
# What PySpark and sqb set by themselves in a process.
_IGNORED_VARIABLES = ("SPARK_CONNECT_AUTHENTICATE_TOKEN", "SPARK_CONNECT_MODE_ENABLED", "GRPC_VERBOSITY")
_FLAGS = (
    "optimize",
    "dev_mode",
    "utf8_mode",
    "isolated",
    "no_user_site",
    "no_site",
    "bytes_warning",
    "debug",
    "verbose",
)


class Stream(NamedTuple):
    """How a standard stream of the caller writes texts."""

    encoding: str
    errors: str
    line_buffering: bool


class Call(NamedTuple):
    """A call: what was asked for, where, and how its output is written."""

    arguments: list[str]
    program: str
    root: str
    folder: str
    environment: dict[str, str]
    umask: int
    niceness: int
    # Soft and hard, by the names of the module `resource`.
    limits: dict[str, tuple[int, int]]
    streams: list[Stream]
    identity: dict[str, Any]


# What this process was started with; empty where it was not started as a command.
_started_with: dict[str, str] = {}


def remember_environment() -> None:
    """Remember the environment before libraries add to it: PySpark does when it starts Java."""
    _started_with.update(os.environ)


def list_start_environment() -> dict[str, str]:
    """The environment for an engine: what libraries have set for themselves in this process is not handed down."""
    return dict(_started_with or os.environ)


def describe_process(environment: dict[str, str]) -> dict[str, Any]:
    """What two processes must have in common, for one to do the other's work."""
    import _locale

    return {
        "protocol": PROTOCOL,
        "sqb": os.path.realpath(_PACKAGE_FILE),
        "python": [sys.executable, sys.version, sys.prefix],
        "flags": [getattr(sys.flags, name) for name in _FLAGS],
        "options": [sorted(map(str, sys._xoptions)), sys.warnoptions],
        "encodings": [sys.getfilesystemencoding(), _locale.getencoding()],
        "user": [os.geteuid(), os.getegid(), sorted(os.getgroups())],
        "environment": {
            name: value
            for name, value in sorted(environment.items())
            if name.startswith(_START_VARIABLES) and name not in _IGNORED_VARIABLES
        },
    }


def read_limits() -> dict[str, tuple[int, int]]:
    """What this process may use of open files, memory, processor time and the like (`ulimit`)."""
    import resource

    names = (name for name in dir(resource) if name.startswith("RLIMIT_"))
    return {name: resource.getrlimit(getattr(resource, name)) for name in names}


def encode_call(call: Call) -> bytes:
    """A call as bytes, its length first."""
    data = json.dumps(call).encode()
    return f"{len(data):<{HEADER_LENGTH}}".encode() + data


def decode_call(data: bytes) -> Call:
    """The call in what follows the header; raises ValueError or TypeError when it is none."""
    values = json.loads(data)
    call = Call(*values)
    return call._replace(streams=[Stream(*stream) for stream in call.streams])
