"""The build's side of one Spark for several processes: sessions that the child of a node connects to (see `child`)."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Protocol
from urllib.parse import quote as percent_encoded

from sqb.errors.connections import SparkUnfit
from sqb.spark.engine import is_connect_session
from sqb.spark.private_api import (
    attach_copy,
    clone_java_session,
    describe_java_session,
    get_address_parameters,
    get_channel_builder,
    get_user_id,
)


class SharedSession(Protocol):
    """A session that a child may use: a copy of one of the build's, with its settings, functions and catalog."""

    def address(self) -> dict[str, Any]:
        """Where a child finds it."""

    def end(self, view: str = "") -> None:
        """Stop what a child may have left running, and forget what it offered."""


def share_session(session: Any, settings: Mapping[str, str] | None = None) -> SharedSession:
    """A copy of a session for a child, with further settings."""
    shared_type = _SharedConnectSession if is_connect_session(session) else _SharedJavaSession
    return shared_type(session, settings or {})


class _SharedJavaSession:
    """A session in the build's own Java process."""

    def __init__(self, session: Any, settings: Mapping[str, str]) -> None:
        self._owner = session
        # Held here, or the JVM would forget it.
        self._copy: Any = clone_java_session(session)
        for key, value in settings.items():
            self._copy.conf().set(key, value)

    def address(self) -> dict[str, Any]:
        return describe_java_session(self._owner, self._copy)

    def end(self, view: str = "") -> None:
        with suppress(Exception):
            self._copy.interruptAll()
        if view:
            with suppress(Exception):
                self._owner.catalog.dropGlobalTempView(view)


class _SharedConnectSession:
    """A session of Spark Connect, which the child joins by its id."""

    def __init__(self, session: Any, settings: Mapping[str, str]) -> None:
        from sqb.spark.connect.sessions import set_retry_policy  # the session has loaded what this needs

        self._owner = session
        self._copy: Any = set_retry_policy(session.cloneSession())
        attach_copy(session, self._copy)
        for key, value in settings.items():
            self._copy.conf.set(key, value)

    def address(self) -> dict[str, Any]:
        from sqb.spark.connect.client import LoopbackChannelBuilder  # the session has loaded what this needs

        builder: Any = get_channel_builder(self._copy.client)
        if not hasattr(builder, "endpoint"):
            raise SparkUnfit(
                "Python nodes cannot use a Spark session that was made with a custom channel builder",
                hint='make the session with an address, SparkSession.builder.remote("sc://…")',
            )
        # The token may come from the environment, and the child is to have the same.
        parameters_by_name = {**get_address_parameters(builder), **({"token": builder.token} if builder.token else {})}
        parameters_by_name["session_id"] = self._copy.session_id
        parameters = "".join(
            f";{key}={percent_encoded(str(value), safe='')}" for key, value in parameters_by_name.items()
        )
        return {
            "remote": f"sc://{builder.endpoint}/{parameters}",
            "user": get_user_id(self._copy.client),
            "is_engine": isinstance(builder, LoopbackChannelBuilder),
        }

    def end(self, view: str = "") -> None:
        with suppress(Exception):
            self._copy.interruptAll()
        if view:
            with suppress(Exception):
                self._owner.catalog.dropGlobalTempView(view)
        # Its client is not closed, for the same reason.
        with suppress(Exception):
            self._copy.client.release_session()
