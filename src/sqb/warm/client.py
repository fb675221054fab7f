"""The warm engine as a build's Spark: a Spark Connect server that was started for the lake already."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqb.errors import SqbError
from sqb.errors_connections import SparkDisconnected
from sqb.project.place import Place
from sqb.project.secrets import note_secrets
from sqb.spark.catalogs import catalog_conf
from sqb.spark.masters import ask_masters, is_standalone, lost_cluster
from sqb.spark.remote import RemoteEngine, connect_engine
from sqb.spark.settings import master_of
from sqb.spark.watch import Watch
from sqb.warm.processes import is_alive
from sqb.warm.using import Held, hold_engine
from sqb.workspace import Workspace

_SECONDS_WITHOUT_CLUSTER = 15.0


class WarmEngine:
    """A server that somebody else ends, and not while this build works with it."""

    def __init__(self, server: RemoteEngine, held: Held, connection: str, master: str) -> None:
        self._server, self._held, self._connection, self._master = server, held, connection, master
        self._cluster_lost = False
        # A process of this machine is known to be gone long before a client gives up on its answers.
        self._watches = [Watch(self._see_process, server.give_up, between=0.5)]
        if is_standalone(master):
            # Given up before the engine itself does it, which cancels all queries and says nothing of the reason.
            patience = _SECONDS_WITHOUT_CLUSTER
            self._watches.append(Watch(lambda: ask_masters(master), self._lose_cluster, patience=patience, final=False))

    def _lose_cluster(self) -> None:
        self._cluster_lost = True
        self._server.give_up()

    def _see_process(self) -> None:
        engine = self._held.description
        if not is_alive(engine.server_pid, engine.server_born):
            raise ProcessLookupError

    def worker_session(self) -> Any:
        """A session of its own for one worker."""
        return self._server.worker_session()

    def alive(self) -> bool:
        """Whether the server answers."""
        return self._server.alive()

    def loss(self) -> SqbError | None:
        """What is said when the connection broke."""
        if self._cluster_lost:
            return lost_cluster(self._connection, self._master)
        return SparkDisconnected(
            f"the engine of the connection {self._connection} was lost in the middle of the work: it was stopped or"
            " killed, or has crashed",
            hint="build again: a new one is started where one was lost, and only what is missing runs;"
            f" the log of the lost one is {self._held.description.log}",
        )

    def cancel_all(self) -> None:
        """Interrupt what runs in the sessions of this build."""
        self._server.cancel_all()

    def stop(self) -> None:
        """Give the sessions back and let the engine go; it may end now."""
        try:
            for watch in self._watches:
                watch.end()
            self._server.stop()
        finally:
            self._held.claim.release()


def warm_engine(workspace: Workspace, place: Place, tell: Callable[[str], None]) -> WarmEngine | None:
    """The engine of the project, held until it is stopped; None when a build is to start a Spark of its own.

    `place` is the lake as its sessions are told of it.
    """
    try:
        held = hold_engine(workspace, tell)
    except OSError as error:
        tell(f"the engine cannot be looked at ({error.strerror}); starting Spark for this command")
        return None
    if held is None:
        return None
    found, connection = held.description, workspace.connection
    note_secrets((found.token,))
    try:
        address = f"{found.address}/;token={found.token}"
        own = {k: v for k, v in catalog_conf(place, 1).items() if k.endswith(".uri")} if place.is_postgres else {}
        server = connect_engine(connection.name, address, connection.catalog.name, None, None, own)
        return WarmEngine(server, held, connection.name, master_of(connection))
    except SqbError as error:
        held.claim.release()
        tell(f"the engine cannot be used ({error.message}); starting Spark for this command")
        return None
