"""Changes of which the catalog does not say whether they took place: nothing that they may need is removed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.exceptions import CommitStateUnknownException

from contract.lakes import ID_AND_NAME, ORDERS, SUMMARY, SqliteProbe, open_lake, state, write
from contract.test_janitor import FIRST, KEEP, NONE, SECOND, clean, die
from contract.test_state import fingerprint
from sqb.errors.lake import CatalogUnreachable, CommitUnknown, Conflict
from sqb.lake import iceberg
from sqb.names import Relation

COPY = Relation("dev", "orders")


@contextmanager
def unheard(probe: SqliteProbe, landed: bool, what: str = "commit_table") -> Iterator[None]:
    """The answers of a catalog get lost, after it has done what it was asked for or before."""
    real = getattr(type(probe.catalog), what)

    def lose_the_answer(self: Any, *args: Any) -> Any:
        if landed:
            real(self, *args)
        raise CommitStateUnknownException("the connection was lost")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(probe.catalog), what, lose_the_answer)
        yield


@pytest.mark.parametrize("landed", [False, True])
def test_an_append_to_a_state_table_is_looked_for(sqlite: SqliteProbe, tmp_path: Path, landed: bool) -> None:
    sqlite.lake = open_lake(sqlite.root, tmp_path / "cache")
    sqlite.lake.state.append_fingerprints([fingerprint("a")])
    with unheard(sqlite, landed):
        if landed:
            sqlite.lake.state.append_fingerprints([fingerprint("b")])
        else:
            with pytest.raises(CommitUnknown, match="did not say whether a change took place"):
                sqlite.lake.state.append_fingerprints([fingerprint("b")])
    sqlite.lake.state.append_fingerprints([fingerprint("c")])
    names = ["a", "b", "c"] if landed else ["a", "c"]
    for lake in (sqlite.lake, open_lake(sqlite.root, tmp_path / "cache"), open_lake(sqlite.root)):
        assert sorted(key[1] for key in lake.state.read_fingerprints(["dev"])) == names


@pytest.mark.parametrize("landed", [False, True])
def test_a_stage_and_its_rows(sqlite: SqliteProbe, landed: bool) -> None:
    sqlite.lake.ensure_schemas(["shop"])
    with unheard(sqlite, landed, "register_table"), pytest.raises(CommitUnknown):
        sqlite.lake.stage(ORDERS, ID_AND_NAME, None, FIRST)
    assert sqlite.garbage() == set() if landed else len(sqlite.garbage()) == 1
    stage = sqlite.lake.stage(ORDERS, ID_AND_NAME, None, SECOND)
    with unheard(sqlite, landed), pytest.raises(CommitUnknown):
        sqlite.lake.fill(stage, [[1], ["a"]])
    sqlite.lake.discard(stage)
    clean(sqlite, NONE, days=9)
    assert sqlite.files() == {"data/_sqlbuild_stage/_runs/janitor"} and sqlite.entries() == set()


@pytest.mark.parametrize("landed", [False, True])
def test_the_tag_of_a_clone(sqlite: SqliteProbe, landed: bool) -> None:
    made = write(sqlite, [[1], ["a"]])
    with unheard(sqlite, landed), pytest.raises(CommitUnknown):
        sqlite.lake.clone(ORDERS, made.snapshot_id, COPY, SUMMARY, None, "r2")
    assert sqlite.entries() == {"shop.orders"} and len(sqlite.tags(ORDERS)) == landed
    clean(sqlite)
    assert sqlite.tags(ORDERS) == {} and sqlite.rows(ORDERS) == [(1, "a")]


@pytest.mark.parametrize("landed", [False, True])
def test_a_janitor_keeps_what_it_is_not_sure_of(sqlite: SqliteProbe, landed: bool) -> None:
    first = write(sqlite, [[1], ["a"]])
    write(sqlite, [[2], ["b"]], base=first.state.base, run_id="r2")
    for name in "abc":
        sqlite.lake.state.append_fingerprints([fingerprint(name)])
    files = sqlite.files()
    with unheard(sqlite, landed):
        swept = clean(sqlite, replace(KEEP, snapshots=0))
    assert [(s.what, s.name) for s in swept] == [("kept", "dev._sqlbuild_fingerprints"), ("kept", "shop.orders")]
    assert all("did not say" in s.why for s in swept)
    assert files - sqlite.files() == set()
    clean(sqlite, NONE, days=9)
    assert sqlite.rows(ORDERS) == [(2, "b")] and len(sqlite.table().metadata.snapshots) == 1
    assert len(sqlite.lake.state.read_fingerprints(["dev"])) == 3


def test_a_step_that_was_taken_before_somebody_took_the_next(sqlite: SqliteProbe) -> None:
    made = write(sqlite, [[1], ["a"]])
    base = write(sqlite, [[7], ["x"]], target=COPY).state.base
    register: Any = sqlite.lake.catalog
    writing = register.open_write_session

    @contextmanager
    def lost() -> Iterator[Any]:
        with writing() as session:
            yield session
        register.open_write_session = writing
        sqlite.append_as_stranger(COPY, [[2], ["b"]])
        raise CommitUnknown("the server did not say")

    swap = register.swap

    def swapping(*arguments: Any) -> None:
        register.open_write_session = lost
        swap(*arguments)

    register.swap = swapping
    with pytest.raises(CommitUnknown):
        sqlite.lake.clone(ORDERS, made.snapshot_id, COPY, SUMMARY, base, "r2")
    assert sqlite.rows(COPY) == [(1, "a"), (2, "b")]
    assert len(sqlite.tags(ORDERS)) == 1, "whose files it shares"
    log = [entry.metadata_file for entry in sqlite.table(COPY).metadata.metadata_log]
    assert log and all(Path(path).exists() for path in log)


def test_what_is_out_of_reach_is_not_tidied_up(sqlite: SqliteProbe, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits is to hear that it is: every further question would take as long as the first."""
    sqlite.lake.ensure_schemas(["shop"])
    stage = sqlite.lake.stage(ORDERS, ID_AND_NAME, None, FIRST)
    sqlite.lake.fill(stage, [[1], ["a"]])
    asked = []

    def silent(*arguments: Any) -> None:
        asked.append(arguments)
        raise CatalogUnreachable("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(type(sqlite.catalog), "load_table", silent)
        with pytest.raises(CatalogUnreachable):
            sqlite.lake.publish(stage, SUMMARY)
        sqlite.lake.discard(stage)
    assert len(asked) == 1 and sqlite.entries() == {str(stage.relation)}
    monkeypatch.setattr(iceberg, "_SILENT_SECONDS", 0.0)
    sqlite.lake.discard(stage)
    assert sqlite.entries() == set() and sqlite.files() == set()


# --- runs that are taken for dead -----------------------------------------------------------------------------------


def test_a_run_that_lives_all_the_same_publishes_nothing(sqlite: SqliteProbe) -> None:
    base = write(sqlite, [[1], ["a"]]).state.base
    stage = sqlite.lake.stage(ORDERS, ID_AND_NAME, base, FIRST)
    sqlite.lake.fill(stage, [[2], ["b"]])
    clean(sqlite, NONE, days=9)
    for late in (lambda: sqlite.lake.fill(stage, [[3], ["c"]]), lambda: sqlite.lake.publish(stage, SUMMARY)):
        with pytest.raises(Conflict, match="its stage is gone, as a janitor took this build for dead"):
            late()
    sqlite.lake.discard(stage)
    assert sqlite.rows(ORDERS) == [(1, "a")] and state(sqlite).base == base


def test_a_stage_goes_from_the_catalog_before_its_rows_go(sqlite: SqliteProbe, monkeypatch: pytest.MonkeyPatch) -> None:
    base = write(sqlite, [[1], ["a"]]).state.base
    die(sqlite, FIRST, base)
    files, entries = sqlite.files() | {"data/_sqlbuild_stage/_runs/janitor"}, sqlite.entries()
    drop = sqlite.lake.drop_stage

    def cut_off(relation: Relation) -> None:
        assert sqlite.files() == files
        drop(relation)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(sqlite.lake, "drop_stage", cut_off)
        clean(sqlite)
    assert sqlite.files() == files and len(sqlite.entries()) == len(entries) - 1
    clean(sqlite, KEEP)
    assert not any(FIRST in path for path in sqlite.files()) and sqlite.rows(ORDERS) == [(1, "a")]
