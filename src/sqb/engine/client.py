"""The warm engine as a build's Spark: a Spark Connect server that was started for the lake already."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqb.engine.automatic import read_mode
from sqb.engine.descriptor import EngineDescriptor, get_path, read_descriptor
from sqb.engine.locks import EngineClaim, claim_engine
from sqb.engine.process_identity import is_alive
from sqb.engine.settings_hash import compute_requirements
from sqb.engine.start import COMMAND, refuse_unneeded, start_engine
from sqb.engine.status import inspect_engine, read_usage
from sqb.engine.stop import withdraw_engine
from sqb.errors.base import SqbError
from sqb.errors.connections import SparkDisconnected
from sqb.project.config.connections.lake_location import LakeLocation
from sqb.project.config.secrets import remember_secrets
from sqb.spark.connect.client import RemoteEngine, connect_engine
from sqb.spark.session.catalog_conf import build_catalog_conf
from sqb.spark.session.conf import get_master
from sqb.spark.session.heartbeat import Heartbeat
from sqb.spark.session.reachability import build_lost_cluster_error, check_masters, is_standalone
from sqb.workspace import Workspace

_SECONDS_WITHOUT_CLUSTER = 15.0


class WarmEngine:
    """A server that its supervisor ends, and not while this build uses it."""

    def __init__(self, server: RemoteEngine, reservation: Reservation, connection: str, master: str) -> None:
        self._server, self._reservation, self._connection, self._master = server, reservation, connection, master
        self._cluster_lost = False
        # A process of this machine is known to be gone long before a client gives up on its answers.
        self._watches = [Heartbeat(self._check_process, server.give_up, interval=0.5)]
        if is_standalone(master):
            # Given up before the engine itself does it, which cancels all queries and says nothing of the reason.
            patience = _SECONDS_WITHOUT_CLUSTER
            self._watches.append(
                Heartbeat(lambda: check_masters(master), self._lose_cluster, timeout=patience, is_error_final=False)
            )

    def _lose_cluster(self) -> None:
        self._cluster_lost = True
        self._server.give_up()

    def _check_process(self) -> None:
        engine = self._reservation.descriptor
        if not is_alive(engine.server_pid, engine.server_born):
            raise ProcessLookupError

    def worker_session(self) -> Any:
        """A session of its own for one worker."""
        return self._server.worker_session()

    def alive(self) -> bool:
        """Whether the server answers."""
        return self._server.alive()

    def loss(self) -> SqbError | None:
        """The error for a broken connection."""
        if self._cluster_lost:
            return build_lost_cluster_error(self._connection, self._master)
        return SparkDisconnected(
            f"the engine of the connection {self._connection} was lost in the middle of the work: it was stopped or"
            " killed, or has crashed",
            hint="build again: a new one is started where one was lost, and only what is missing runs;"
            f" the log of the lost one is {self._reservation.descriptor.log}",
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
            self._reservation.claim.release()


def connect_warm_engine(workspace: Workspace, place: LakeLocation, report: Callable[[str], None]) -> WarmEngine | None:
    """The engine of the project, held until it is stopped; None when a build is to start a Spark of its own.

    `place` is the lake as the settings of its sessions have it.
    """
    try:
        reservation = reserve_engine(workspace, report)
    except OSError as error:
        report(f"the engine cannot be looked at ({error.strerror}); starting Spark for this command")
        return None
    if reservation is None:
        return None
    descriptor, connection = reservation.descriptor, workspace.connection
    remember_secrets((descriptor.token,))
    try:
        address = f"{descriptor.address}/;token={descriptor.token}"
        session_conf = (
            {k: v for k, v in build_catalog_conf(place, 1).items() if k.endswith(".uri")} if place.is_postgres else {}
        )
        server = connect_engine(connection.name, address, connection.catalog.name, None, None, session_conf)
        return WarmEngine(server, reservation, connection.name, get_master(connection))
    except SqbError as error:
        reservation.claim.release()
        report(f"the engine cannot be used ({error.message}); starting Spark for this command")
        return None


@dataclass(frozen=True, slots=True)
class Reservation:
    """An engine that does not end while it is held."""

    descriptor: EngineDescriptor
    claim: EngineClaim


def reserve_engine(
    workspace: Workspace, report: Callable[[str], None], command: Sequence[str] = COMMAND
) -> Reservation | None:
    """The engine that serves builds of the project; None when a build is to start a Spark of its own."""
    folder = workspace.folder
    if read_mode(workspace) == "off" or not get_path(folder).exists():
        return None
    state = inspect_engine(folder, compute_requirements(workspace))
    descriptor = state.description
    if descriptor is None or state.status == "other":
        return None
    used = read_usage(folder, state)
    if state.status == "dead" and used is not None and used.idle > descriptor.idle:
        # It would have ended by itself long ago; a replacement is not needed.
        _withdraw(workspace, descriptor)
        return None
    if state.status == "running":
        return _reserve(workspace, descriptor)
    report(f"replacing the engine: {state.reason}")
    try:
        refuse_unneeded(workspace)
        started = start_engine(workspace, workspace.project.target, descriptor.idle, report, command)
    except SqbError as error:
        report(f"the engine could not be replaced ({error.message}); starting Spark for this command")
        _withdraw(workspace, descriptor)
        return None
    return _reserve(workspace, started.description)


def _reserve(workspace: Workspace, descriptor: EngineDescriptor) -> Reservation | None:
    path = get_path(workspace.folder)
    claim_held = claim_engine(path)
    if claim_held is None:
        return None
    if read_descriptor(path) != descriptor:
        claim_held.release()
        return None
    return Reservation(descriptor, claim_held)


def _withdraw(workspace: Workspace, descriptor: EngineDescriptor) -> None:
    try:
        withdraw_engine(workspace.folder, descriptor)
    except SqbError:
        # The next command meets it again; this one has another way.
        return
