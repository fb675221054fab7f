"""Catalogs that only pyiceberg can open: how it is told when it cannot."""

from __future__ import annotations

from pathlib import Path

import pyiceberg.catalog
import pytest

from sqb.errors.lake import CatalogUnreachable
from sqb.lake.iceberg import IcebergLake
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
