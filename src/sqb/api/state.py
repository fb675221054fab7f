"""The database of virtual environments as Python programs work with it: `project.state`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqb.api.options import Listen
from sqb.build.events import Notice
from sqb.errors.call import CallError
from sqb.operations.environments.checkpoints import CheckpointOptions, read_checkpoints
from sqb.operations.environments.state import (
    AdoptOptions,
    AttachmentOptions,
    RemoveOptions,
    ShowOptions,
    adopt_into_baseline,
    detach_environment,
    init_state,
    migrate_state,
    pair_state,
    reattach_environment,
    remove_environment,
    show_state,
)
from sqb.workspace import Workspace


class State:
    """The commands of `sqb state`; each returns what it prints with --json. A call is its own confirmation."""

    def __init__(self, open_workspace: Callable[[], Workspace], listen: Listen | None) -> None:
        self._open, self._listen = open_workspace, listen

    def init(self) -> dict[str, Any]:
        """Set the database up; a DuckDB file needs no such thing."""
        return init_state(self._open()).to_data()

    def migrate(self) -> dict[str, Any]:
        """Bring the database of an older sqb to this one's version."""
        return migrate_state(self._open()).to_data()

    def show(self, virtual_env: str | None = None) -> dict[str, Any]:
        """All virtual environments, or one with what it shows."""
        return show_state(self._open(), ShowOptions(virtual_env), self._warn).to_data()

    def checkpoints(self, *ids: str, virtual_env: str | None = None) -> dict[str, Any]:
        """Without an id all checkpoints, with one what it holds, with two what differs between them."""
        if len(ids) > 2:
            raise CallError("at most two checkpoints are compared", hint="give none, one or two")
        return read_checkpoints(self._open(), CheckpointOptions(ids, virtual_env), self._warn).to_data()

    def adopt(self, *, dry_run: bool = False, take_over: bool = False) -> dict[str, Any]:
        """Take tables that were built before there were environments into the baseline, with all their rows."""
        return adopt_into_baseline(self._open(), AdoptOptions(dry_run, take_over), _accept).to_data()

    def pair(self) -> dict[str, Any]:
        """Let this lake and this state belong together, where the state that the lake belonged to is lost."""
        return pair_state(self._open(), _accept).to_data()

    def detach(self, name: str, *, take_over: bool = False) -> dict[str, Any]:
        """Refuse builds, promotions and rollbacks of an environment until it is attached again."""
        return detach_environment(self._open(), AttachmentOptions(name, take_over)).to_data()

    def reattach(self, name: str, *, take_over: bool = False) -> dict[str, Any]:
        """Allow builds, promotions and rollbacks of an environment again."""
        return reattach_environment(self._open(), AttachmentOptions(name, take_over)).to_data()

    def remove(self, name: str, *, force: bool = False, take_over: bool = False) -> dict[str, Any]:
        """Remove an environment with its views and checkpoints; tables that others share stay."""
        return remove_environment(self._open(), RemoveOptions(name, take_over, force), _accept).to_data()

    def _warn(self, text: str) -> None:
        if self._listen is not None:
            self._listen(Notice(text))


def _accept(question: str) -> None:
    """Who calls a method has decided."""
