from __future__ import annotations

from pathlib import Path

import pytest

from contract.lakes import MemoryProbe, Probe, SqliteProbe


@pytest.fixture(params=["sqlite", "sqlite, a space in the path", "memory"])
def probe(request: pytest.FixtureRequest, tmp_path: Path) -> Probe:
    """Every lake there is."""
    match request.param:
        case "memory":
            return MemoryProbe()
        case "sqlite":
            return SqliteProbe(tmp_path / "lake")
        case _:
            return SqliteProbe(tmp_path / "the lake")


@pytest.fixture
def sqlite(tmp_path: Path) -> SqliteProbe:
    """The embedded lake, for what only storage can show."""
    return SqliteProbe(tmp_path / "lake")
