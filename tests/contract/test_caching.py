"""The embedded lake with its caches: right, whoever wrote in between, and without pyiceberg when nothing changed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from contract.lakes import ID_AND_NAME, ORDERS, SUMMARY, SqliteProbe, open_lake, write
from contract.test_state import fingerprint, result
from sqb.lake.iceberg import IcebergLake
from sqb.lake.metadata import files


class CachedProbe(SqliteProbe):
    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.lake = open_lake(root, root / "cache")

    def reopened(self) -> IcebergLake:
        return open_lake(self.root, self.root / "cache")


@pytest.fixture
def probe(tmp_path: Path) -> CachedProbe:
    return CachedProbe(tmp_path / "lake")


def test_metadata_is_read_once(probe: CachedProbe, monkeypatch: pytest.MonkeyPatch) -> None:
    first = write(probe, [[1], ["a"]])
    assert probe.reopened().read_tables(probe.lake.list_pointers().values())[ORDERS] == first.state
    monkeypatch.setattr(files, "parse_metadata", lambda raw: pytest.fail("read again"))
    assert probe.reopened().read_tables(probe.lake.list_pointers().values())[ORDERS] == first.state


def test_a_build_leaves_what_it_published_in_the_cache(probe: CachedProbe, monkeypatch: pytest.MonkeyPatch) -> None:
    first = write(probe, [[1], ["a"]])
    touched = probe.lake.touch(ORDERS, first.state.base, SUMMARY)
    probe.lake.state.append_fingerprints([fingerprint("a")])
    monkeypatch.setattr(files, "parse_metadata", lambda raw: pytest.fail("read"))
    lake = probe.reopened()
    assert lake.read_tables([lake.list_pointers()[ORDERS]])[ORDERS] == touched.state


def test_what_others_do_is_seen(probe: CachedProbe) -> None:
    write(probe, [[1], ["a"]])
    probe.lake.read_tables(probe.lake.list_pointers().values())
    SqliteProbe(probe.root).append_as_stranger(ORDERS, [[2], ["b"]])
    assert probe.lake.read_tables(probe.lake.list_pointers().values())[ORDERS].drifted
    assert probe.reopened().read_tables(probe.lake.list_pointers().values())[ORDERS].drifted


def test_the_cache_does_not_grow_for_ever(probe: CachedProbe) -> None:
    base = write(probe, [[1], ["a"]]).state.base
    sizes = []
    for number in range(6):
        base = write(probe, [[number], ["a"]], base=base, run_id=f"r{number + 2}").state.base
        lake = probe.reopened()
        lake.read_tables([lake.list_pointers()[ORDERS]])
        sizes.append((probe.root / "cache" / "tables").stat().st_size)
    assert sizes[-1] - sizes[1] < sizes[1] / 3


def test_fingerprints_need_no_pyiceberg_after_a_build(probe: CachedProbe) -> None:
    probe.lake.state.append_fingerprints([fingerprint("a"), fingerprint("b", "prod")])
    probe.lake.state.append_fingerprints([fingerprint("a", run="r2", minutes=1), fingerprint("c", minutes=1)])
    expected = open_lake(probe.root).state.read_fingerprints(["dev", "prod"])
    assert len(expected) == 3
    lake = probe.reopened()
    lake.open_for_writing = lambda: pytest.fail("loads pyiceberg")  # type: ignore[method-assign]
    lake.open_journal = lambda: pytest.fail("loads pyiceberg")  # type: ignore[method-assign]
    assert lake.state.read_fingerprints(["dev", "prod", "nowhere"]) == expected


def test_fingerprints_of_others_are_seen(probe: CachedProbe) -> None:
    probe.lake.state.append_fingerprints([fingerprint("a")])
    open_lake(probe.root).state.append_fingerprints([fingerprint("a", run="r2", minutes=1)])
    assert next(iter(probe.lake.state.read_fingerprints(["dev"]).values())).run_id == "r2"
    open_lake(probe.root).state.append_fingerprints([fingerprint("b")])
    probe.lake.state.append_fingerprints([fingerprint("c")])
    assert len(probe.reopened().state.read_fingerprints(["dev"])) == 3


def test_a_deleted_cache_is_made_again(probe: CachedProbe) -> None:
    first = write(probe, [[1], ["a"]])
    probe.lake.state.append_fingerprints([fingerprint("a")])
    shutil.rmtree(probe.root / "cache")
    lake = probe.reopened()
    assert lake.read_tables([lake.list_pointers()[ORDERS]])[ORDERS] == first.state
    assert len(lake.state.read_fingerprints(["dev"])) == 1
    assert sorted(p.name for p in (probe.root / "cache").iterdir()) == ["fingerprints", "tables"]


def test_planning_imports_no_pyiceberg(probe: CachedProbe) -> None:
    write(probe, [[1], ["a"]])
    probe.lake.state.append_fingerprints([fingerprint("a")])
    code = f"""
import sys; sys.path[:0] = {sys.path!r}
from pathlib import Path
from sqb.lake.iceberg import IcebergLake
root = Path({str(probe.root)!r})
from sqb.project.config.connections.lake_location import LakeLocation
lake = IcebergLake(LakeLocation.embedded(root / "catalog.db", root / "data"), cache=root / "cache")
assert len(lake.read_tables(lake.list_pointers().values())) == 2 and len(lake.state.read_fingerprints(["dev"])) == 1
heavy = {{"pyiceberg", "pyarrow", "sqlalchemy", "pydantic", "sqlglot", "pyspark"}} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_state_tables_stay_small(sqlite: SqliteProbe) -> None:
    for number in range(60):
        sqlite.lake.state.append_node_results([result(f"m{number}", f"r{number}", number)])
    table = sqlite.catalog.load_table("dev._sqlbuild_node_results")
    assert len(table.metadata.snapshots) <= 10 and len(table.current_snapshot().manifests(table.io)) < 41
    assert sqlite.garbage() == set()
    assert table.current_snapshot().summary["total-records"] == "60"
    assert table.scan().to_arrow().num_rows == 60
    assert [r.node_name for r in sqlite.lake.state.read_node_results(["dev"])] == [f"m{n}" for n in reversed(range(60))]


def test_history_opens_no_more_files_than_it_needs(sqlite: SqliteProbe, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(6):
        sqlite.lake.state.append_node_results([result("a", f"r{number}", number), result("b", f"r{number}", number)])
    opened: list[str] = []
    storage = sqlite.lake.storage
    real = storage.read
    monkeypatch.setattr(storage, "read", lambda location: opened.append(location) or real(location))
    assert [r.run_id for r in sqlite.lake.state.read_node_results(["dev"], limit=3)] == ["r5", "r5", "r4"]
    assert len([location for location in opened if location.endswith(".parquet")]) == 2


def test_history_is_read_without_pyiceberg(sqlite: SqliteProbe) -> None:
    sqlite.lake.state.append_node_results([result("a", "r1", 1)])
    code = f"""
import sys
from pathlib import Path
root = Path({str(sqlite.root)!r})
from sqb.lake.iceberg import IcebergLake
from sqb.project.config.connections.lake_location import LakeLocation
lake = IcebergLake(LakeLocation.embedded(root / "catalog.db", root / "data"))
assert [r.node_name for r in lake.state.read_node_results(["dev"])] == ["a"]
heavy = {{"pyiceberg", "sqlalchemy", "pydantic", "pandas", "sqlglot", "pyspark"}} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_history_is_the_same_with_and_without_pyiceberg(sqlite: SqliteProbe, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(45):
        sqlite.lake.state.append_node_results(
            [result(f"m{number}", f"r{number}", number % 7, error="x" * (number % 2))]
        )
    quick = {limit: sqlite.lake.state.read_node_results(["dev"], limit=limit) for limit in (None, 1, 9, 44)}
    monkeypatch.setattr("sqb.lake.state.newest.read_newest", lambda *arguments: None)
    assert quick == {limit: sqlite.lake.state.read_node_results(["dev"], limit=limit) for limit in quick}
    assert len(quick[None]) == 45


def test_a_stage_is_not_in_the_way_of_the_cache(probe: CachedProbe) -> None:
    probe.lake.ensure_schemas(["shop"])
    stage = probe.lake.stage(ORDERS, ID_AND_NAME, None, "r1")
    assert len(probe.lake.read_tables(probe.lake.list_pointers().values())) == 1
    probe.lake.discard(stage)
    assert probe.lake.read_tables(probe.lake.list_pointers().values()) == {}
