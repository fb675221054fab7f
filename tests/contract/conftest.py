from __future__ import annotations

from pathlib import Path

import pytest

from contract.lakes import MemoryProbe, Probe, SqliteProbe
from contract.stores import StoreMaker, duckdb_stores, memory_stores


@pytest.fixture(params=["sqlite", "memory"])
def probe(request: pytest.FixtureRequest, tmp_path: Path) -> Probe:
    """Every lake there is; the embedded one in a folder with a space, which is the harder case."""
    return MemoryProbe() if request.param == "memory" else SqliteProbe(tmp_path / "the lake")


@pytest.fixture
def sqlite(tmp_path: Path) -> SqliteProbe:
    """The embedded lake, for what only storage can show."""
    return SqliteProbe(tmp_path / "lake")


@pytest.fixture(params=["memory", "duckdb"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> StoreMaker:
    """Every store of environments there is; each call opens one anew."""
    return memory_stores() if request.param == "memory" else duckdb_stores(tmp_path)
