from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from contract.lakes import MemoryProbe, Probe, SqliteProbe
from contract.rest_probe import RestProbe
from contract.stores import StoreMaker, duckdb_stores, memory_stores, postgres_stores
from support.postgres import Server


@pytest.fixture(params=["sqlite", "memory", "rest"])
def probe(request: pytest.FixtureRequest, tmp_path: Path) -> Probe:
    """Every lake there is; the embedded one in a folder with a space, which is the harder case."""
    match request.param:
        case "memory":
            return MemoryProbe()
        case "rest":
            return RestProbe(tmp_path / "the lake", request.getfixturevalue("rest_server"))
        case _:
            return SqliteProbe(tmp_path / "the lake")


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
