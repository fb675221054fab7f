"""A Spark Connect server: reached within seconds or not at all, looked at, and used through sessions of one's own."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from pyspark.errors import PySparkException, PySparkImportError

from sqb.errors import SqbError
from sqb.errors_connections import SparkDenied, SparkDisconnected, SparkUnfit, SparkUnreachable
from sqb.spark.catalogs import is_secret
from sqb.spark.connect_mode import enter_connect_mode, leave_connect_mode
from sqb.spark.failures import explain
from sqb.spark.fitting import (
    Standing,
    fitted,
    has_catalog,
    refuse_other_lake,
    refuse_other_version,
    refuse_without_iceberg,
)
from sqb.spark.quiet import silence
from sqb.spark.reaching import problem_of

_THIS_MACHINE = ("localhost", "127.0.0.1", "[::1]")
_PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")
_SECONDS_TO_REACH = 10.0
SECONDS_TO_ANSWER = 25.0
# Connections that cannot be made are given up quickly, and tried again by whoever wants them.
_CHANNEL_OPTIONS = (
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.min_reconnect_backoff_ms", 3000),
    ("grpc.max_reconnect_backoff_ms", 3000),
)
T = TypeVar("T")

# What is set in the sessions of a server; asked with whether the server has a catalog of its own.
Settings = Callable[[bool], Mapping[str, str]]


class RemoteEngine:
    """A Spark Connect server that somebody else runs."""

    def __init__(self, sessions: Any) -> None:
        self._sessions = sessions
        self._lock = threading.Lock()
        self._stopped = False

    def worker_session(self) -> Any:
        """A session of its own for one worker, cloned from one that is set up."""
        return self._sessions.new()

    def alive(self) -> bool:
        """Whether the server answers."""
        return bool(self._sessions.alive())

    def loss(self) -> SqbError | None:
        """What is said when the connection broke."""
        return self._sessions.words()  # type: ignore[no-any-return]

    def cancel_all(self) -> None:
        """Interrupt what runs in the sessions of this build; the server's other work goes on."""
        self._sessions.interrupt()

    def give_up(self) -> None:
        """End every call that waits for an answer: the server is known to be gone."""
        self._sessions.give_up()

    def stop(self) -> None:
        """Give the sessions back; the server goes on. A second call does nothing."""
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
        self._sessions.end()
        leave_connect_mode()


def connect_engine(
    connection: str,
    address: str,
    name: str,
    settings: Settings | None,
    standing: Standing | None,
    own: Mapping[str, str] = MappingProxyType({}),
) -> RemoteEngine:
    """Connect to the server at `address` (`sc://host:port/;token=…`), and see that builds can work there.

    Without `settings` it is an engine of this machine, on 127.0.0.1, that was started with all of them for this very
    lake, but for what is this build's `own`.
    """
    silence()
    _import_client()
    from sqb.spark.connect_sessions import ConnectSessions, patient  # needs what was just found to be there

    server = _Server(connection, address, is_engine=settings is None)
    enter_connect_mode()
    base: Any = None
    sessions: ConnectSessions | None = None
    try:
        from pyspark.sql.connect.session import SparkSession

        base = patient(SparkSession(connection=server.builder))
        server.reach(base.client._channel)

        def set_up() -> set[str]:
            found = _set_up(base, server, name, settings)
            for key, value in own.items():
                base.conf.set(key, value)
            return found

        found = within(SECONDS_TO_ANSWER, server.unreachable, set_up)
        # From here on the server is watched, and may take the time that it needs.
        sessions = ConnectSessions(base, server.lost)
        if standing is not None:
            refuse_other_lake(base, server.called, name, found, standing())
        return RemoteEngine(sessions)
    except BaseException as error:
        gone = sessions is not None and not sessions.alive()
        if sessions is not None:
            sessions.end()
        elif base is not None:
            with contextlib.suppress(Exception):
                base.client._channel.close()
                base.client.close()
        leave_connect_mode()
        if gone:
            raise server.unreachable() from error
        if isinstance(error, PySparkException):
            raise server.explained(error) from error
        raise


def _set_up(base: Any, server: _Server, name: str, settings: Settings | None) -> set[str]:
    if settings is None:
        # Sessions are made when they are first used, and only one that is there can be cloned.
        _ = base.version
        return set()
    refuse_other_version(base, server.called, exact=True)
    refuse_without_iceberg(base, server.called)
    wanted = settings(has_catalog(base, name))
    server.refuse_to_tell(wanted)
    return fitted(base, server.called, name, wanted)


def _import_client() -> None:
    try:
        import pyspark.sql.connect.session  # noqa: F401 - only whether it can be loaded
    except (PySparkImportError, ImportError) as error:
        raise SparkUnfit(
            "what PySpark needs to use a Spark server is not installed",
            hint='install it with `pip install "sqb-spark[connect]"`',
        ) from error


class _Server:
    """Where a server is, and what is said of it."""

    def __init__(self, connection: str, address: str, is_engine: bool = False) -> None:
        from pyspark.sql.connect.client.core import DefaultChannelBuilder

        from sqb.spark.loopback import Loopback  # needs the same

        self._connection = connection
        try:
            self.builder: Any = (Loopback if is_engine else DefaultChannelBuilder)(address, list(_CHANNEL_OPTIONS))
        except (PySparkException, ValueError) as error:
            # What they say may repeat the address, and with it a token.
            raise SparkUnreachable(
                f"`remote` of the connection {connection} is no address of a Spark server",
                hint="write sc://host:15002, with further settings as in sc://host:15002/;use_ssl=true;token=…",
            ) from error.with_traceback(None)
        self.shown = f"sc://{self.builder.endpoint}"
        self.called = f"the Spark server {self.shown} of the connection {connection}"

    def reach(self, channel: Any) -> None:
        """Wait until the server can be spoken to."""
        host, _, port = self.builder.endpoint.rpartition(":")
        # A proxy may know hosts that this machine does not.
        problem = "" if any(name in os.environ for name in _PROXIES) else problem_of(host.strip("[]"), int(port))
        if problem:
            raise self.unreachable(problem)
        import grpc  # type: ignore[import-untyped]

        try:
            grpc.channel_ready_future(channel).result(timeout=_SECONDS_TO_REACH)
        except grpc.FutureTimeoutError as error:
            raise self.unreachable() from error

    def refuse_to_tell(self, settings: Mapping[str, str]) -> None:
        """Refuse to send secrets where others could read them on the way."""
        if self.builder.use_ssl or self.builder.host in _THIS_MACHINE:
            return
        secret = next((key for key, value in settings.items() if is_secret(key, value)), None)
        if secret is not None:
            raise SparkUnfit(
                f"`{secret}` is a secret, and the connection to {self.called} is not encrypted",
                hint=f"set up the catalog where the server is started, `{secret}` with it, or let it speak TLS and"
                " write `use_ssl=true` into the address",
            )

    def unreachable(self, problem: str = "") -> SparkUnreachable:
        hint = "check that it runs, that host and port are right, and that the network lets them through"
        if self.builder.secure and not problem:
            hint += "; also `use_ssl=true` in the address, and the server's certificate"
        return SparkUnreachable(f"{self.called} does not answer{f': {problem}' if problem else ''}", hint=hint)

    def lost(self) -> SparkDisconnected:
        return SparkDisconnected(
            f"the connection {self._connection} to Spark at {self.shown} broke in the middle of the work",
            hint="check that the server still runs and can be reached; then build again: only what is missing runs",
        )

    def explained(self, error: PySparkException) -> SqbError:
        status = getattr(error, "getGrpcStatusCode", lambda: None)()
        match getattr(status, "name", ""):
            case "UNAUTHENTICATED" | "PERMISSION_DENIED":
                return SparkDenied(
                    f"{self.called} refuses the token" if self.builder.token else f"{self.called} wants a token",
                    hint="give it in the address, `;token=@@ENV:NAME`, or in SPARK_CONNECT_AUTHENTICATE_TOKEN",
                )
            case "UNAVAILABLE" | "DEADLINE_EXCEEDED" | "CANCELLED":
                return self.unreachable()
            case "UNIMPLEMENTED":
                return SparkUnfit(
                    f"what answers at {self.shown}, the Spark server of the connection {self._connection}, is none"
                    " or one of another version",
                    hint="check host and port, and that the server is of the same Spark version as PySpark here",
                )
        return SparkUnfit(self._hidden(f"{self.called} cannot be used: {explain(error, '').message}"))

    def _hidden(self, text: str) -> str:
        token = self.builder.token
        return text.replace(token, "***") if token else text


def within(seconds: float, unreachable: Callable[[], SqbError], work: Callable[[], T]) -> T:
    """What some work gives; a server that takes longer does not answer."""
    given: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            given.append(work())
        except BaseException as error:
            failed.append(error)

    helper = threading.Thread(target=run, name="sqb-connect", daemon=True)
    helper.start()
    helper.join(seconds)
    if failed:
        raise failed[0]
    if not given:
        raise unreachable()
    return given[0]
