"""The Spark of a build: one that was handed in, a server, or one that is started."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from sqb.errors.base import SqbError
from sqb.project.config.connections.lake_location import LakeLocation
from sqb.project.config.connections.model import Connection, resolve_spark
from sqb.project.config.secrets import hide
from sqb.spark.session.compatibility import ReadCurrentTables
from sqb.spark.session.conf import build_shared_conf
from sqb.spark.session.java_options import Compiler


def open_engine(
    connection: Connection,
    place: LakeLocation,
    log_path: Path,
    progress: Callable[[str], None],
    concurrency: int,
    given_session: Any = None,
    read_current_tables: ReadCurrentTables | None = None,
    compiler: Compiler = "full",
) -> Engine:
    """Open the Spark that a connection names, or the one that was handed in.

    `read_current_tables` lists what the lake holds: an external Spark must see the same. The compiler is that of a
    Spark that is started.
    """
    connection = replace(connection, spark=resolve_spark(connection))

    def build_settings(has_catalog: bool) -> Mapping[str, str]:
        return build_shared_conf(connection, place, concurrency, has_catalog)

    with _hide_secrets(connection, place):
        if given_session is not None:
            from sqb.spark.session.external import use_session  # each kind of Spark is loaded where it is used

            return use_session(given_session, place.name, build_settings, read_current_tables)
        if connection.spark.remote:
            from sqb.spark.connect.client import connect_engine

            return connect_engine(
                connection.name, connection.spark.remote, place.name, build_settings, read_current_tables
            )
        from sqb.spark.session.local import start_engine

        return start_engine(
            connection=connection,
            place=place,
            log_path=log_path,
            progress=progress,
            concurrency=concurrency,
            compiler=compiler,
        )


@contextmanager
def _hide_secrets(connection: Connection, place: LakeLocation) -> Iterator[None]:
    """Let no error repeat a secret: drivers and servers quote what they were given."""
    secrets = connection.spark.list_secrets()
    try:
        yield
    except SqbError as error:
        error.message = hide(place.hide(error.message), secrets)
        error.hint = hide(place.hide(error.hint), secrets) if error.hint else None
        error.args = (error.message,)
        raise


class Engine(Protocol):
    """A Spark that runs. Sessions are classic ones or Spark Connect's; both have the same methods."""

    def worker_session(self) -> Any:
        """A session of its own for one worker: settings and temporary views are not shared."""

    def alive(self) -> bool:
        """Whether Spark is there."""

    def loss(self) -> SqbError | None:
        """The message when Spark went away in the middle of the work; None where nothing is known beyond that."""

    def cancel_all(self) -> None:
        """Cancel whatever this build runs; safe in a signal handler, even while a thread waits for Spark."""

    def stop(self) -> None:
        """End what was started for this build, and nothing else; a second call does nothing."""


def is_connect_session(session: Any) -> bool:
    """Whether a session is one of Spark Connect; asked of its class, so that nothing has to be loaded."""
    return any(kind.__module__.startswith("pyspark.sql.connect") for kind in type(session).__mro__)
