"""The engine that a build works with, if there is one: found, held, and replaced when it is dead or stale.

Does not load Spark.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqb.errors import SqbError
from sqb.warm.description import Description, path_in, read
from sqb.warm.locks import Claim, claim
from sqb.warm.starting import COMMAND, refuse_unneeded, start
from sqb.warm.state import look, usage
from sqb.warm.stopping import take_out_of_use
from sqb.warm.wanted import wanted_by
from sqb.workspace import Workspace

# `off` lets a command start a Spark of its own although there is an engine.
VARIABLE = "SQB_ENGINE"


@dataclass(frozen=True, slots=True)
class Held:
    """An engine that does not end while it is held."""

    description: Description
    claim: Claim


def hold_engine(workspace: Workspace, tell: Callable[[str], None], command: Sequence[str] = COMMAND) -> Held | None:
    """The engine that serves builds of the project; None when a build is to start a Spark of its own."""
    folder = workspace.folder
    if os.environ.get(VARIABLE, "").lower() == "off" or not path_in(folder).exists():
        return None
    found = look(folder, wanted_by(workspace))
    old = found.description
    if old is None or found.status == "other":
        return None
    used = usage(folder, found)
    if found.status == "dead" and used is not None and used.idle > old.idle:
        # It would have ended by itself long ago; nobody waits for another.
        _forget(workspace, old)
        return None
    if found.status == "running":
        return _held(workspace, old)
    tell(f"replacing the engine: {found.why}")
    try:
        refuse_unneeded(workspace)
        started = start(workspace, workspace.project.target, old.idle, tell, command)
    except SqbError as error:
        tell(f"the engine could not be replaced ({error.message}); starting Spark for this command")
        _forget(workspace, old)
        return None
    return _held(workspace, started.description)


def _held(workspace: Workspace, description: Description) -> Held | None:
    path = path_in(workspace.folder)
    held = claim(path)
    if held is None:
        return None
    if read(path) != description:
        held.release()
        return None
    return Held(description, held)


def _forget(workspace: Workspace, old: Description) -> None:
    try:
        take_out_of_use(workspace.folder, old)
    except SqbError:
        # The next command meets it again; this one has another way.
        return
