"""A Spark Connect server: reached within seconds or not at all, checked, and used through sessions of this build."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

import grpc  # type: ignore[import-untyped]
from pyspark.errors import PySparkException, PySparkImportError
from pyspark.sql.connect.client.core import DefaultChannelBuilder

from sqb.errors.base import SqbError
from sqb.errors.connections import SparkDenied, SparkDisconnected, SparkUnfit, SparkUnreachable
from sqb.spark.connect.mode import enter_connect_mode, leave_connect_mode
from sqb.spark.errors import explain_failure, get_grpc_status
from sqb.spark.private_api import close_once, get_channel, open_secure_channel
from sqb.spark.session.catalog_conf import is_secret
from sqb.spark.session.compatibility import (
    ReadCurrentTables,
    has_catalog,
    prepare_session,
    refuse_other_lake,
    refuse_other_version,
    refuse_without_iceberg,
)
from sqb.spark.session.logging import silence_loggers
from sqb.spark.session.reachability import find_connection_problem

_THIS_MACHINE = ("localhost", "127.0.0.1", "[::1]")
_PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")
_SECONDS_TO_REACH = 10.0
# A server that was reached and is busy, or whose first question of the day loads a catalog, takes its time.
SECONDS_TO_ANSWER = 60.0
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
    """A Spark Connect server that another process runs."""

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
        """The error for a broken connection."""
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
    read_current_tables: ReadCurrentTables | None,
    session_conf: Mapping[str, str] = MappingProxyType({}),
) -> RemoteEngine:
    """Connect to the server at `address` (`sc://host:port/;token=…`), and see that builds can work there.

    Without `settings` it is an engine of this machine, on 127.0.0.1, that was started with all of them for this very
    lake, but for what is this build's `own`.
    """
    silence_loggers()
    _import_client()
    from sqb.spark.connect.sessions import ConnectSessions, set_retry_policy  # needs what was just found to be there

    server = _Server(connection, address, is_engine=settings is None)
    enter_connect_mode()
    base: Any = None
    sessions: ConnectSessions | None = None
    try:
        from pyspark.sql.connect.session import SparkSession

        base = set_retry_policy(SparkSession(connection=server.builder))
        server.reach(get_channel(base.client))

        def prepare() -> set[str]:
            catalog_schemas = _prepare_session(base, server, name, settings)
            for key, value in session_conf.items():
                base.conf.set(key, value)
            return catalog_schemas

        schemas = run_within(SECONDS_TO_ANSWER, server.build_unreachable_error, prepare)
        # From here on the server is watched, and may take the time that it needs.
        sessions = ConnectSessions(base, server.build_lost_error)
        if read_current_tables is not None:
            refuse_other_lake(base, server.description, name, schemas, read_current_tables())
        return RemoteEngine(sessions)
    except BaseException as error:
        is_server_gone = sessions is not None and not sessions.alive()
        if sessions is not None:
            sessions.end()
        elif base is not None:
            with contextlib.suppress(Exception):
                get_channel(base.client).close()
                close_once(base.client)
        leave_connect_mode()
        if is_server_gone:
            raise server.build_unreachable_error() from error
        if isinstance(error, PySparkException):
            raise server.explain_error(error) from error
        raise


def _prepare_session(base: Any, server: _Server, name: str, settings: Settings | None) -> set[str]:
    if settings is None:
        # Sessions are made when they are first used, and only one that is there can be cloned.
        _ = base.version
        return set()
    refuse_other_version(base, server.description, exact=True)
    refuse_without_iceberg(base, server.description)
    session_settings = settings(has_catalog(base, name))
    server.refuse_to_send_secrets(session_settings)
    return prepare_session(base, server.description, name, session_settings)


def _import_client() -> None:
    try:
        import pyspark.sql.connect.session  # noqa: F401 - only whether it can be loaded
    except (PySparkImportError, ImportError) as error:
        raise SparkUnfit(
            "what PySpark needs to use a Spark server is not installed",
            hint="it comes with sqb: install it again, `pip install --upgrade sqb-spark`",
        ) from error


class _Server:
    """Where a server is, and what is said of it."""

    def __init__(self, connection: str, address: str, is_engine: bool = False) -> None:
        from pyspark.sql.connect.client.core import DefaultChannelBuilder

        self._connection = connection
        try:
            self.builder: Any = (LoopbackChannelBuilder if is_engine else DefaultChannelBuilder)(
                address, list(_CHANNEL_OPTIONS)
            )
        except (PySparkException, ValueError) as error:
            # What they say may repeat the address, and with it a token.
            raise SparkUnreachable(
                f"`remote` of the connection {connection} is not an address of a Spark server",
                hint="write sc://host:15002, with further settings as in sc://host:15002/;use_ssl=true;token=…",
            ) from error.with_traceback(None)
        self.address_shown = f"sc://{self.builder.endpoint}"
        self.description = f"the Spark server {self.address_shown} of the connection {connection}"

    def reach(self, channel: Any) -> None:
        """Wait until the server can be spoken to."""
        host, _, port = self.builder.endpoint.rpartition(":")
        # A proxy may know hosts that this machine does not.
        problem = (
            "" if any(name in os.environ for name in _PROXIES) else find_connection_problem(host.strip("[]"), int(port))
        )
        if problem:
            raise self.build_unreachable_error(problem)
        import grpc

        try:
            grpc.channel_ready_future(channel).result(timeout=_SECONDS_TO_REACH)
        except grpc.FutureTimeoutError as error:
            raise self.build_unreachable_error() from error

    def refuse_to_send_secrets(self, settings: Mapping[str, str]) -> None:
        """Refuse to send secrets where others could read them on the way."""
        if self.builder.use_ssl or self.builder.host in _THIS_MACHINE:
            return
        secret = next((key for key, value in settings.items() if is_secret(key, value)), None)
        if secret is not None:
            raise SparkUnfit(
                f"`{secret}` is a secret, and the connection to {self.description} is not encrypted",
                hint=f"set up the catalog where the server is started, `{secret}` with it, or let it speak TLS and"
                " write `use_ssl=true` into the address",
            )

    def build_unreachable_error(self, problem: str = "") -> SparkUnreachable:
        hint = "check that it runs, that host and port are right, and that the network lets them through"
        if self.builder.secure and not problem:
            hint += "; also `use_ssl=true` in the address, and the server's certificate"
        return SparkUnreachable(f"{self.description} does not answer{f': {problem}' if problem else ''}", hint=hint)

    def build_lost_error(self) -> SparkDisconnected:
        return SparkDisconnected(
            f"the connection {self._connection} to Spark at {self.address_shown} broke in the middle of the work",
            hint="check that the server still runs and can be reached; then build again: only what is missing runs",
        )

    def explain_error(self, error: PySparkException) -> SqbError:
        match get_grpc_status(error):
            case "UNAUTHENTICATED" | "PERMISSION_DENIED":
                return SparkDenied(
                    f"{self.description} refuses the token"
                    if self.builder.token
                    else f"{self.description} wants a token",
                    hint="give it in the address, `;token=@@ENV:NAME`, or in SPARK_CONNECT_AUTHENTICATE_TOKEN",
                )
            case "UNAVAILABLE" | "DEADLINE_EXCEEDED" | "CANCELLED":
                return self.build_unreachable_error()
            case "UNIMPLEMENTED":
                return SparkUnfit(
                    f"what answers at {self.address_shown}, the Spark server of the connection {self._connection},"
                    " is not a Spark Connect server, or one of another version",
                    hint="check host and port, and that the server is of the same Spark version as PySpark here",
                )
        return SparkUnfit(self._mask_token(f"{self.description} cannot be used: {explain_failure(error, '').message}"))

    def _mask_token(self, text: str) -> str:
        token = self.builder.token
        return text.replace(token, "***") if token else text


def run_within(seconds: float, build_error: Callable[[], SqbError], work: Callable[[], T]) -> T:
    """What some work gives; a server that takes longer does not answer."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    helper = threading.Thread(target=run, name="sqb-connect", daemon=True)
    helper.start()
    helper.join(seconds)
    if errors:
        raise errors[0]
    if not results:
        raise build_error()
    return results[0]


class LoopbackChannelBuilder(DefaultChannelBuilder):
    """An address `sc://127.0.0.1:port/;token=…`, spoken to without TLS.

    PySpark does so with `localhost` only, which is the address ::1 as well: there any user of this machine may listen.
    """

    def toChannel(self) -> grpc.Channel:
        """A channel to that very address, not through a proxy."""
        self.setChannelOption("grpc.enable_http_proxy", 0)
        token = grpc.access_token_call_credentials(self.token)
        credentials = grpc.composite_channel_credentials(grpc.local_channel_credentials(), token)
        return open_secure_channel(self, f"ipv4:{self.endpoint}", credentials)
