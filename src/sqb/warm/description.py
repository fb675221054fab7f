"""What is known of a warm engine: one file in the project's `.sqb`, for its owner's eyes only: it holds the token.

The file is the engine as far as others are concerned: whoever removes it takes the engine out of use, and the process
behind it ends when nobody works with it any more. While somebody does, they hold the file locked.
"""

from __future__ import annotations

import json
import os
import secrets
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from sqb.lake.runs import this_machine

FILE = "engine.json"
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Description:
    """A warm engine: what it was started with, and where it is reached."""

    connection: str
    # What a build must be about to start Spark with, to be served by this engine.
    settings: str
    sqb: str
    pyspark: str
    # The machine, and the process that looks after the server there; when a process began tells it from a later one
    # that has its number.
    host: str
    pid: int
    born: str
    server_pid: int
    server_born: str
    port: int
    token: str = field(repr=False)
    since: float
    # How many seconds without work it stays.
    idle: float
    log: str
    target: str | None = None

    @property
    def is_here(self) -> bool:
        """Whether it runs on this machine, if anywhere."""
        return self.host == this_machine()

    @property
    def machine(self) -> str:
        """The name of its machine."""
        return self.host.partition(" ")[0]

    @property
    def address(self) -> str:
        """Where a client of Spark Connect finds the server; the token is no part of it."""
        return f"sc://127.0.0.1:{self.port}"


def path_in(folder: Path) -> Path:
    """Where the description of a project's engine is."""
    return folder / FILE


def read(path: Path) -> Description | None:
    """The description at `path`; None when there is none, or what is there is not one of this version."""
    try:
        return _from_data(json.loads(path.read_text()))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write(path: Path, description: Description) -> None:
    """Put a description in its place, all of it at once, readable by nobody else; raises OSError."""
    hidden = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(descriptor, "w") as file:
            json.dump({"format": _FORMAT, **asdict(description)}, file, indent=2)
        os.replace(hidden, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(hidden)
        raise


def _from_data(data: Any) -> Description | None:
    if data["format"] != _FORMAT:
        return None
    found = {one.name: data[one.name] for one in fields(Description)}
    if not isinstance(found["port"], int) or not isinstance(found["token"], str):
        return None
    return Description(**found)
