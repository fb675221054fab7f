"""Stores to test, and environments to put into them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqb.environments.model import Binding, Checkpoint, Environment, Journal, Move, Ref, Status, Version
from sqb.environments.state.open import open_store
from sqb.environments.state.store import Store
from sqb.lake.state.rows import Fingerprint, FreshnessRow
from sqb.names import Relation
from support.memory_store import MemoryStore

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
SCOPE = "shop/dev"
StoreMaker = Callable[[str], Store]


def memory_stores() -> StoreMaker:
    """Opens stores that remember each other's doing, one for each scope."""
    made: dict[str, MemoryStore] = {}
    return lambda scope: made.setdefault(scope, MemoryStore(scope, made))


def duckdb_stores(root: Path) -> StoreMaker:
    return lambda scope: open_store("duckdb:///the lake/state.duckdb", scope, root)


@contextmanager
def postgres_stores(url: str) -> Iterator[StoreMaker]:
    """Opens stores of a database that is set up, and closes them in the end."""
    made: list[Store] = []

    def make(scope: str) -> Store:
        made.append(open_store(url, scope, Path("/nowhere")))
        return made[-1]

    make(SCOPE).prepare()
    yield make
    for store in made:
        store.close()


def binding(name: str, version: str = "v1", snapshot: int | None = 7) -> Binding:
    """A binding with everything that one can have, and characters that databases stumble over."""
    return Binding(
        name=name,
        type="model",
        kind="table",
        local_hash=f"l_{version}",
        version_hash=version,
        relation=Relation("dev__sqb_physical", f"{name}__v_{version}"),
        snapshot_id=snapshot,
        text=f"SELECT 'it''s ü ? %s \\' FROM `{name}`",
        columns='[{"id": 1, "name": "id"}]',
        description='of "shops"\nand \\ more',
        upstream={"raw": "v0"},
        reads=((f"dev__sqb_physical.{name}", 2**62),),
        logical=Relation("dev", name),
    )


def environment(name: str = "dev", minutes: int = 0, **given: object) -> Environment:
    values = {"status": Status.FINALIZED, "created_at": NOW, "updated_at": NOW + timedelta(minutes=minutes), **given}
    return Environment(name, **values)  # type: ignore[arg-type]


def checkpoint(id: str, bindings: list[Binding], name: str = "dev", minutes: int = 0, parent: str = "") -> Checkpoint:
    refs = {b.name: b.id for b in bindings}
    return Checkpoint(
        id, name, parent, NOW + timedelta(minutes=minutes), "build", "", f"run_{id}", "abc", refs, promoted_from="pr_9"
    )


def journal(id: str, bindings: list[Binding], name: str = "dev", with_checkpoint: bool = True) -> Journal:
    """A move of an environment to these bindings, and nothing else."""
    return Journal(
        id,
        environment(name, checkpoint=f"c_{id}"),
        {b.name: Ref(b, "v0", f"before/{b.name}") for b in bindings},
        (*(Move(b.logical, b.name, "before") for b in bindings), Move(Relation("dev", "gone"), None, "at")),
        checkpoint(f"c_{id}", bindings, name) if with_checkpoint else None,
    )


def move(store: Store, id: str, bindings: list[Binding], name: str = "dev", with_checkpoint: bool = True) -> Journal:
    """Make an environment show these bindings."""
    made = journal(id, bindings, name, with_checkpoint)
    with store.lock(name, "tester") as token:
        store.begin_journal(made, token)
        assert store.finish_journal(made, {b.name: f"after/{b.name}" for b in bindings})
    return made


def version(name: str, hash: str = "v1", definition: str = "SELECT 1") -> Version:
    relation = Relation("dev__sqb_physical", f"{name}__v_{hash}")
    return Version(name, hash, "l", "q", "c", "1", definition, {"f": "h"}, relation, NOW, "run")


def freshness(source: str, data_version: str, minutes: int = 0, schema: str = "dev") -> FreshnessRow:
    return FreshnessRow(source, schema, "run", "snapshot", "integer", data_version, NOW + timedelta(minutes=minutes))


def fingerprint(node: str, local_hash: str, minutes: int = 0) -> Fingerprint:
    at = NOW + timedelta(minutes=minutes)
    return Fingerprint("task", node, "dev", "dev", "run", local_hash, "v", "s", "def f(): 'x'", "{}", at)
