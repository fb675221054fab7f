"""Catalogs that only pyiceberg can open: how it is told when it cannot."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyiceberg.catalog
import pytest

from sqb.errors.lake import CatalogUnreachable, LakeError
from sqb.lake.iceberg import IcebergLake
from sqb.lake.private_api import open_client_for_each_call
from sqb.project.config.connections.lake_location import LakeLocation


def test_a_catalog_that_cannot_be_opened_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str, **given: str) -> None:
        raise ImportError("thrift is not there")

    monkeypatch.setattr(pyiceberg.catalog, "load_catalog", refuse)
    lake = IcebergLake(LakeLocation("old", "hive", uri="thrift://h:1", warehouse=str(tmp_path)))
    for use in (lake.list_pointers, lambda: lake.ensure_schemas(["shop"])):
        with pytest.raises(CatalogUnreachable) as caught:
            use()
        assert caught.value.message == (
            "the catalog of the connection old, of the type hive, cannot be used: thrift is not there"
        )


class _MetaError(Exception):
    """As the classes of a Hive Metastore are: nothing of an instance can be set, its traceback neither."""

    __module__ = "hive_metastore.ttypes"

    def __init__(self, message: str) -> None:
        super().__setattr__("message", message)

    def __setattr__(self, *_: Any) -> None:
        raise TypeError("can't modify immutable instance")


class _TransportError(Exception):
    __module__ = "thrift.transport.TTransport"


@pytest.mark.parametrize(("error", "kind", "message"), [
    (_MetaError("type expected\nat java.lang"), LakeError,
     "the Hive Metastore of the connection old refused a change: type expected"),
    (_TransportError("Could not connect to any of [('h', 1)]"), CatalogUnreachable,
     "the catalog of the connection old, of the type hive, cannot be used: Could not connect to any of [('h', 1)]"),
])  # fmt: skip
def test_answers_of_a_metastore_are_told_in_words(
    tmp_path: Path, error: Exception, kind: type[LakeError], message: str
) -> None:
    lake = IcebergLake(LakeLocation("old", "hive", uri="thrift://h:1", warehouse=str(tmp_path)))
    with pytest.raises(LakeError) as caught, lake.translate_errors():
        raise error
    assert type(caught.value) is kind and caught.value.message == message and caught.value.hint


def test_each_call_on_a_metastore_has_a_connection_of_its_own() -> None:
    """pyiceberg has one for all threads: the first that is done would close it for the others."""
    opened: list[str] = []

    class Client:
        def __enter__(self) -> str:
            opened.append("open")
            return f"client {len(opened)}"

        def __exit__(self, *_: Any) -> None:
            opened.append("closed")

    catalog: Any = SimpleNamespace(_client=None, _create_hive_client=lambda properties: Client(), properties={})
    open_client_for_each_call(catalog)
    with catalog._client as first:
        thread = threading.Thread(target=lambda: catalog._client.__enter__())
        thread.start()
        thread.join()
        with catalog._client as second:
            assert len({first, second}) == 2
        assert opened == ["open", "open", "open", "closed"]
    assert opened[-1] == "closed" and opened.count("closed") == 2
