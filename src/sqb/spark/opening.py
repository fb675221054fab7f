"""The Spark of a build: one that was handed in, a server, or one that is started."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqb.errors import SqbError
from sqb.project.connections import Connection, resolved_spark
from sqb.project.place import Place
from sqb.project.secrets import hide
from sqb.spark.engine import Engine
from sqb.spark.fitting import Standing
from sqb.spark.settings import shared_conf


def open_engine(
    connection: Connection,
    place: Place,
    log_path: Path,
    progress: Callable[[str], None],
    concurrency: int,
    given: Any = None,
    standing: Standing | None = None,
) -> Engine:
    """Open the Spark that a connection names, or the one that was handed in.

    `standing` tells what the lake holds: a Spark that somebody else set up must see the same.
    """
    connection = replace(connection, spark=resolved_spark(connection))

    def settings(has_catalog: bool) -> Mapping[str, str]:
        return shared_conf(connection, place, concurrency, has_catalog)

    with _hiding_secrets(connection, place):
        if given is not None:
            from sqb.spark.given import use_session  # each kind of Spark is loaded where it is used

            return use_session(given, place.name, settings, standing)
        if connection.spark.remote:
            from sqb.spark.remote import connect_engine

            return connect_engine(connection.name, connection.spark.remote, place.name, settings, standing)
        from sqb.spark.session import start_engine

        return start_engine(
            connection=connection, place=place, log_path=log_path, progress=progress, concurrency=concurrency
        )


@contextmanager
def _hiding_secrets(connection: Connection, place: Place) -> Iterator[None]:
    """Let no error repeat a secret: drivers and servers quote what they were given."""
    secrets = connection.spark.secrets()
    try:
        yield
    except SqbError as error:
        error.message = hide(place.hide(error.message), secrets)
        error.hint = hide(place.hide(error.hint), secrets) if error.hint else None
        error.args = (error.message,)
        raise
