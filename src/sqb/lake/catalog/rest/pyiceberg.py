"""pyiceberg's client of REST catalogs, with timeouts, and with an error of its own for commits of unknown outcome."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.rest.auth import AuthManager
from pyiceberg.exceptions import CommitStateUnknownException, ServerError
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.update import TableRequirement, TableUpdate
from pyiceberg.typedef import EMPTY_DICT, Identifier, Properties
from requests import PreparedRequest, Response, Session
from requests.adapters import HTTPAdapter
from requests.exceptions import ChunkedEncodingError, ConnectionError, ReadTimeout
from urllib3.exceptions import NewConnectionError

from sqb.lake.catalog.rest.client import RestClient


class PatientCatalog(RestCatalog):
    """A REST catalog whose requests end within a time, and whose tables are where sqb wants them."""

    def __init__(self, name: str, client: RestClient, root: str) -> None:
        self._client, self._root = client, root
        super().__init__(name, **client.get_settings().properties)

    def _create_session(self) -> Session:
        session = super()._create_session()
        adapter = _TimedAdapter(self._client.timeouts)
        session.mount("http://", adapter)
        session.mount("https://", adapter)
        return session

    def _create_legacy_oauth2_auth_manager(self, session: Session) -> AuthManager:
        return _Tokens(self._client)

    def _refresh_token(self) -> None:
        self._client.renew_token()

    def create_namespace(self, namespace: str | Identifier, properties: Properties = EMPTY_DICT) -> None:
        """Make a schema, without properties: that it exists is a matter of the server here."""
        super().create_namespace(namespace, {k: v for k, v in properties.items() if k != "exists"})

    def create_table(self, identifier: str | Identifier, *args: Any, **options: Any) -> Table:
        """Make a table in the folder that it would have in any other catalog."""
        *schema, name = self.identifier_to_tuple(identifier)
        location = f"{self._root}/{'.'.join(schema)}/{name}"
        table: Table = super().create_table(identifier, *args, **{"location": location, **options})
        return table

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        with _detect_unknown_commits():
            response: CommitTableResponse = super().commit_table(table, requirements, updates)
            return response

    def register_table(self, identifier: str | Identifier, metadata_location: str, overwrite: bool = False) -> Table:
        with _detect_unknown_commits():
            table: Table = super().register_table(identifier, metadata_location, overwrite)
            return table


@contextmanager
def _detect_unknown_commits() -> Iterator[None]:
    """Tell a change that did not happen from one that may have: the request was sent, and no answer came."""
    try:
        yield
    except (ServerError, ReadTimeout, ChunkedEncodingError) as error:
        raise CommitStateUnknownException(str(error)) from error
    except ConnectionError as error:
        if _was_never_sent(error):
            raise
        raise CommitStateUnknownException(str(error)) from error


def _was_never_sent(error: BaseException | None) -> bool:
    """Whether there was no connection at all."""
    cause: Any = error.args[0] if error is not None and error.args else None
    return isinstance(getattr(cause, "reason", cause), NewConnectionError)


class _Tokens(AuthManager):
    """The tokens that planning uses too."""

    def __init__(self, client: RestClient) -> None:
        self._client = client

    def auth_header(self) -> str | None:
        token = self._client.get_token()
        return f"Bearer {token}" if token else None


class _TimedAdapter(HTTPAdapter):
    def __init__(self, timeouts: tuple[float, float]) -> None:
        self._timeouts = timeouts
        super().__init__(pool_maxsize=16)

    def send(self, request: PreparedRequest, *args: Any, **options: Any) -> Response:
        options["timeout"] = options.get("timeout") or self._timeouts
        return super().send(request, *args, **options)
