from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from contract.lakes import IcebergProbe, MemoryProbe, PostgresProbe, Probe, SqliteProbe
from contract.rest_probe import RestProbe
from contract.stores import StoreMaker, duckdb_stores, memory_stores, postgres_stores
from support.object_store import Store
from support.postgres import Server


@pytest.fixture(params=["sqlite", "memory", "postgresql", "s3", "rest"])
def probe(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Probe]:
    """Every lake there is; the embedded one in a folder with a space, which is the harder case."""
    if request.param == "memory":
        yield MemoryProbe()
        return
    yield from _iceberg(request, tmp_path / "the lake")


@pytest.fixture(params=["sqlite", "s3"])
def iceberg(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[IcebergProbe]:
    """Lakes of real tables, on the two kinds of storage."""
    yield from _iceberg(request, tmp_path / "lake")


def _iceberg(request: pytest.FixtureRequest, folder: Path) -> Iterator[IcebergProbe]:
    if request.param == "sqlite":
        yield SqliteProbe(folder)
        return
    if request.param == "rest":
        yield RestProbe(folder, request.getfixturevalue("rest_server"))
        return
    server: Server = request.getfixturevalue("postgres")
    if request.param == "s3":
        store: Store = request.getfixturevalue("object_store")
        made = PostgresProbe(server, f"s3://{store.new_bucket()}/the lake", store.options)
    else:
        made = PostgresProbe(server, str(folder / "data"))
    yield made
    made.close()


@pytest.fixture
def sqlite(tmp_path: Path) -> SqliteProbe:
    """The embedded lake, for what only storage can show."""
    return SqliteProbe(tmp_path / "lake")


@pytest.fixture(params=["memory", "duckdb", "postgresql"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreMaker]:
    """Every store of environments there is; each call opens one anew."""
    match request.param:
        case "memory":
            yield memory_stores()
        case "duckdb":
            yield duckdb_stores(tmp_path)
        case _:
            server: Server = request.getfixturevalue("postgres")
            with postgres_stores(server.url(server.new_database())) as stores:
                yield stores
