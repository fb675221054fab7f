"""What is known of a warm engine: one file in the project's `.sqb`, for its owner's eyes only: it holds the token.

The file is the engine as far as others are concerned: whoever removes it takes the engine out of use, and the process
behind it ends when the last build has released it. Builds that use the engine hold the file locked.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
from contextlib import suppress
from dataclasses import asdict, field, fields
from pathlib import Path
from typing import Any

from sqb.errors.spark import EngineUnwritable
from sqb.lake.liveness.file import get_machine_name
from sqb.light_dataclass import dataclass

FILE = "engine.json"
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class EngineDescriptor:
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
        return self.host == get_machine_name()

    @property
    def machine(self) -> str:
        """The name of its machine."""
        return self.host.partition(" ")[0]

    @property
    def address(self) -> str:
        """Where a client of Spark Connect finds the server; the token is not part of it."""
        return f"sc://127.0.0.1:{self.port}"


def get_path(folder: Path) -> Path:
    """Where the description of a project's engine is."""
    return folder / FILE


def read_descriptor(path: Path) -> EngineDescriptor | None:
    """The description at `path`; None when there is none, or what is there is not one of this version."""
    try:
        return _load_descriptor(json.loads(path.read_text()))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_descriptor(path: Path, engine: EngineDescriptor) -> None:
    """Write a descriptor atomically, readable by its owner only; raises OSError."""
    temporary_path = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(descriptor, "w") as file:
            json.dump({"format": _FORMAT, **asdict(engine)}, file, indent=2)
        os.replace(temporary_path, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary_path)
        raise


def _load_descriptor(data: Any) -> EngineDescriptor | None:
    if data["format"] != _FORMAT:
        return None
    values = {descriptor_field.name: data[descriptor_field.name] for descriptor_field in fields(EngineDescriptor)}
    if not isinstance(values["port"], int) or not isinstance(values["token"], str):
        return None
    return EngineDescriptor(**values)


def build_unwritable_error(folder: Path, error: OSError) -> EngineUnwritable:
    """Why the files of an engine cannot be written, and what to do about it."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return EngineUnwritable(
        f"the files of the engine cannot be written to {folder}: {error.strerror or error}",
        hint="make room on the disk" if full else f"see whether {folder} can be written to",
    )
