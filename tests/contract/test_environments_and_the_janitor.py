"""A janitor's round through a lake that virtual environments use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from contract.lakes import IcebergProbe, SqliteProbe, write
from sqb.environments.janitor import EnvironmentsJanitor, NoEnvironments, RetentionRules
from sqb.environments.model import Binding, Environment, Journal, Ref, Status, Version
from sqb.environments.naming import build_physical_relation
from sqb.environments.state.pairing import MARK_SCHEMA, build_mark_relation, pair_lake, repair_pairing
from sqb.environments.views import build_checkpoint, swap_views
from sqb.errors.environments import StateUnreachable
from sqb.lake.janitor.report import JanitorAction
from sqb.lake.janitor.run import Janitor
from sqb.lake.port import PublishedCommit
from sqb.names import Relation, quote
from sqb.project.config.settings import Retention
from support.memory_store import MemoryStore

DAY = 86400.0
NOW = datetime.now(UTC)
RULES = RetentionRules(frozenset(["dev"]), grace=7 * DAY, keep_checkpoints=2, owner="janitor")
RUN = "20260101_000000_abcdef"


class World:
    """A lake, a store, and what a build does to both."""

    def __init__(self, probe: IcebergProbe) -> None:
        self.probe, self.lake, self.store = probe, probe.lake, MemoryStore("shop/dev")
        self.later = 0.0

    def build(self, name: str, version: str, rows: int = 2) -> Binding:
        """A version of a model with so many rows."""
        relation = build_physical_relation(Relation("dev", name), version)
        there = self.lake.list_pointers().get(relation)
        base = self.lake.read_tables([there])[relation].base if there is not None else None
        published = write(self.probe, [list(range(rows)), ["x"] * rows], target=relation, base=base)
        return self.bound(name, version, published)

    def bound(self, name: str, version: str, published: PublishedCommit) -> Binding:
        relation = build_physical_relation(Relation("dev", name), version)
        self.store.add_versions([Version(name, version, "", "", "", "", "", relation=relation, created_at=NOW)])
        return Binding(
            name,
            "model",
            "table",
            version,
            version,
            relation,
            published.snapshot_id,
            f"SELECT * FROM {quote('lake', relation.schema, relation.name)} VERSION AS OF {published.snapshot_id}",
            self.lake.read_view_columns([relation])[relation],
            reads=((str(relation), published.snapshot_id),),
            logical=Relation("dev", name),
        )

    def show(self, name: str, *bindings: Binding, ttl: float | None = None) -> None:
        """Make an environment show these, and a checkpoint of it."""
        there = self.store.read_environments().get(name)
        moment = NOW + timedelta(seconds=self.later)
        shown = there or Environment(name, Status.FINALIZED, moment, moment, ttl=ttl)
        refs = {b.name: Ref(b) for b in bindings}
        checkpoint = build_checkpoint(shown, refs, "build", "", RUN)
        shown = replace(shown, updated_at=moment, checkpoint=checkpoint.id)
        with self.store.lock(name, "builder") as token:
            swap_views(self.store, self.lake, shown, self.store.read_refs(name), refs, token, None, checkpoint)

    def clean(self, days: float, dry_run: bool = False, **more: Any) -> list[JanitorAction]:
        """A round, so many days from now."""
        self.later = days * DAY
        tenants = EnvironmentsJanitor(self.store, self.lake, replace(RULES, **more))
        keep = Retention(snapshots=DAY, keep_snapshots=1)
        return list(Janitor(self.lake, keep, dry_run, NOW.timestamp() + self.later, tenants).clean())

    def tables(self) -> set[str]:
        return {str(r) for r in self.lake.list_pointers() if r.schema != MARK_SCHEMA}

    def files(self, binding: Binding) -> set[str]:
        assert binding.relation is not None
        return {
            f for f in self.probe.files() if f.startswith(f"data/{binding.relation.schema}/{binding.relation.name}/")
        }


@pytest.fixture
def world(sqlite: SqliteProbe) -> Iterator[World]:
    yield World(sqlite)


def list_actions(swept: list[JanitorAction], *what: str) -> list[tuple[str, str]]:
    return [(s.what, s.name) for s in swept if s.what in (what or ("environment", "checkpoint", "version", "kept"))]


A1, A2 = "dev__sqb_physical.a__v_1", "dev__sqb_physical.a__v_2"


def test_a_version_that_nothing_refers_to_goes_after_the_time_of_grace(world: World) -> None:
    first, second = world.build("a", "1"), world.build("a", "2")
    world.show("dev", first)
    world.show("dev", second)
    world.show("dev", second)
    world.show("dev", second)
    assert list_actions(world.clean(0.1), "checkpoint", "version") == [("checkpoint", "dev")]
    assert world.store.read_unused().keys() == {A1}
    assert list_actions(world.clean(6), "version") == []
    messages = world.clean(8, dry_run=True)
    assert list_actions(messages, "version") == [("version", A1)]
    assert world.tables() == {A1, A2, "dev__dev.a"}
    gone = [s for s in world.clean(8) if s.what == "version"]
    assert gone == [s for s in messages if s.what == "version"]
    assert gone[0].files > 3 and gone[0].bytes > 0
    assert world.tables() == {A2, "dev__dev.a"}
    assert world.files(first) == set()
    assert world.probe.rows(second.relation) == [(0, "x"), (1, "x")]  # type: ignore[arg-type]
    assert world.store.read_versions().keys() == {("a", "2")}
    assert world.store.read_unused() == {}


def test_what_a_kept_checkpoint_refers_to_stays(world: World) -> None:
    first, second = world.build("a", "1"), world.build("a", "2")
    world.show("dev", first)
    world.show("dev", second)
    world.clean(1)
    assert list_actions(world.clean(100)) == []
    assert world.tables() == {A1, A2, "dev__dev.a"}


def test_a_version_that_comes_back_into_use_stays(world: World) -> None:
    first, second = world.build("a", "1"), world.build("a", "2")
    world.show("dev", second)
    world.clean(1)
    assert world.store.read_unused().keys() == {A1}
    world.show("pr", first)
    assert list_actions(world.clean(30)) == []
    assert world.store.read_unused() == {}


def test_an_expired_environment_goes_with_its_views_and_schema(world: World) -> None:
    first, second = world.build("a", "1"), world.build("a", "2")
    world.show("dev", first)
    world.show("pr", second, ttl=DAY)
    assert list_actions(world.clean(0.5)) == []
    assert list_actions(world.clean(2, dry_run=True), "environment") == [("environment", "pr")]
    assert world.store.read_environments().keys() == {"dev", "pr"}
    swept = world.clean(2)
    assert [(s.what, s.name, s.environments, s.views) for s in swept if s.what == "environment"] == [
        ("environment", "pr", 1, 1)
    ]
    assert world.store.read_environments().keys() == {"dev"}
    assert world.tables() == {A1, A2, "dev__dev.a"}
    assert ("dev__pr",) not in world.probe.catalog.list_namespaces()
    assert ("dev__dev",) in world.probe.catalog.list_namespaces()
    world.clean(10)
    assert world.tables() == {A1, "dev__dev.a"}


def test_nothing_waits_for_a_time_of_grace_of_nothing(world: World) -> None:
    world.show("dev", world.build("a", "1"))
    world.show("pr", world.build("a", "2"), ttl=DAY)
    messages = world.clean(2, dry_run=True, grace=0.0)
    assert list_actions(messages, "environment", "version") == [("environment", "pr"), ("version", A2)]
    assert list_actions(world.clean(2, grace=0.0), "environment", "version") == list_actions(
        messages, "environment", "version"
    )
    assert world.tables() == {A1, "dev__dev.a"}


def test_the_baseline_never_expires(world: World) -> None:
    world.show("dev", world.build("a", "1"), ttl=1.0)
    assert list_actions(world.clean(100)) == []


def test_an_environment_that_somebody_works_on_stays(world: World) -> None:
    world.show("pr", world.build("a", "1"), ttl=DAY)
    with world.store.lock("pr", "anna"):
        swept = world.clean(2)
    assert list_actions(swept) == [("kept", "pr")]
    assert "anna" in swept[0].why
    assert world.tables() == {A1, "dev__pr.a"}


def test_nothing_is_dropped_while_somebody_builds(world: World) -> None:
    world.show("dev", world.build("a", "1"))
    world.build("a", "2")
    world.clean(0)
    with world.store.lock("pr", "anna"):
        assert [s.why for s in world.clean(30)] == ["nothing refers to them, but another process works on pr"]
    with world.lake.hold_run(RUN, "anna"):
        assert [s.why for s in world.clean(30)] == [
            "nothing refers to them, but a build is running that may be about to use them"
        ]
    assert A2 in world.tables()
    assert list_actions(world.clean(30)) == [("version", A2)]


def test_views_of_an_environment_that_the_state_does_not_know_go_after_the_time_of_grace(world: World) -> None:
    binding = world.build("a", "1")
    world.show("dev", binding)
    world.show("pr", binding)
    with world.store.lock("pr", "anna") as token:
        world.store.remove_environment("pr", token)
        assert list_actions(world.clean(0)) == []
    assert list_actions(world.clean(0)) == list_actions(world.clean(6)) == [("kept", "pr")]
    assert list_actions(world.clean(8, dry_run=True)) == [("environment", "pr")]
    assert "dev__pr.a" in world.tables()
    assert list_actions(world.clean(8)) == [("environment", "pr")]
    assert world.tables() == {A1, "dev__dev.a"}
    assert world.store.read_unused() == {}


def as_older_sqb_left_it(world: World) -> None:
    """Take away all that says which state and which lake belong together."""
    mark = world.lake.list_pointers()[build_mark_relation(world.store.scope)]
    assert world.lake.drop_if_current(mark)
    world.store.set_lake_id("")


@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize("environments", [0, 1])
def test_with_an_empty_or_another_state_nothing_of_environments_is_touched(
    world: World, older: bool, environments: int
) -> None:
    binding, spare = world.build("a", "1"), world.build("a", "2")
    world.show("dev", binding)
    world.show("pr", spare, ttl=DAY)
    there, mine = world.tables(), world.store
    if older:
        as_older_sqb_left_it(world)
    world.store = MemoryStore("shop/dev")
    for name in ("dev", "pr")[:environments]:
        about = Environment(name, Status.FINALIZED, NOW, NOW, ttl=1.0)
        other = replace(binding, snapshot_id=1, reads=(("dev__sqb_physical.a__v_1", 1),))
        journal = Journal("x", about, {"a": Ref(other, location="elsewhere")}, ())
        with world.store.lock(name, "anna") as token:
            world.store.begin_journal(journal, token)
            world.store.finish_journal(journal, {})
    for grace in (0.0, 7 * DAY):
        swept = world.clean(100, grace=grace)
        assert list_actions(swept) == [("kept", "virtual environments")]
        result, expected = world.store.read_state_id()[:8], mine.read_state_id()[:8]
        assert f"found the state {result} in memory" in swept[0].why
        assert ("expected the one that made the views of dev, pr" if older else f"expected the state {expected}") in (
            swept[0].why
        )
        assert "`sqb state pair`" in swept[0].why
    assert world.tables() == there and world.lake.has_snapshot(*_at(binding)) and world.lake.has_snapshot(*_at(spare))
    world.store = mine
    assert ("environment", "pr") in list_actions(world.clean(2))


def _at(binding: Binding) -> tuple[Relation, int]:
    assert binding.relation is not None and binding.snapshot_id is not None
    return binding.relation, binding.snapshot_id


def test_an_older_state_and_an_older_lake_become_a_pair(world: World) -> None:
    world.show("dev", world.build("a", "1"))
    as_older_sqb_left_it(world)
    assert list_actions(world.clean(1, dry_run=True)) == [] and world.store.read_lake_id() == ""
    assert list_actions(world.clean(1)) == []
    assert world.store.read_lake_id() and build_mark_relation("shop/dev") in world.lake.list_pointers()


def test_views_of_a_state_that_is_lost_stay_when_the_lake_is_given_to_another(world: World) -> None:
    world.show("dev", world.build("a", "1"))
    world.store = MemoryStore("shop/dev")
    repair_pairing(world.store, world.lake)
    pair_lake(world.store, world.lake)
    for days in (1, 100):
        swept = world.clean(days, grace=0.0)
        assert list_actions(swept) == [("kept", "dev")] and "made with another state" in swept[0].why
    assert world.tables() == {A1, "dev__dev.a"}


def test_views_of_other_projects_and_targets_are_not_touched(world: World) -> None:
    binding = world.build("a", "1")
    world.show("pr", binding)
    world.store = MemoryStore("shop/prod")
    assert list_actions(world.clean(100)) == []
    assert world.tables() == {A1, "dev__pr.a"}


def test_an_environment_that_is_being_made_keeps_its_views(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    binding = world.build("a", "1")
    monkeypatch.setattr(world.store, "finish_journal", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        world.show("pr", binding)
    assert list_actions(world.clean(100)) == []
    assert world.tables() == {A1, "dev__pr.a"}


def test_snapshots_that_are_shown_stay_and_others_expire(world: World) -> None:
    shown = world.build("a", "1")
    for rows in (3, 4, 5):
        world.build("a", "1", rows)
    world.show("dev", shown)
    swept = world.clean(30)
    assert [(s.name, s.snapshots) for s in swept if s.what == "snapshots"] == [(A1, 2)]
    relation = shown.relation
    assert relation is not None and shown.snapshot_id is not None
    assert world.probe.rows(relation, shown.snapshot_id) == [(0, "x"), (1, "x")]
    assert len(world.probe.rows(relation)) == 5


def test_tables_of_others_keep_all_their_snapshots(world: World) -> None:
    shown = world.build("a", "1")
    world.build("a", "1", 3)
    world.build("a", "1", 4)
    mine, other = world.store, MemoryStore("other/dev")
    world.store = other
    assert world.clean(30) == []
    keep = Retention(snapshots=DAY, keep_snapshots=1)
    later = NOW.timestamp() + 30 * DAY
    assert list(Janitor(world.lake, keep, False, later, NoEnvironments()).clean()) == []
    world.store = MemoryStore("shop/dev", {"shop/dev": mine, "shop/prod": other})
    world.store.add_versions(mine.read_versions().values())
    move_to(other, world, shown)
    assert list_actions(world.clean(30)) == []


def move_to(store: MemoryStore, world: World, binding: Binding) -> None:
    mine, world.store = world.store, store
    world.show("other", binding)
    world.store = mine


def test_nothing_is_touched_when_the_store_does_not_answer(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.build("a", "1")
    world.build("a", "1", 3)
    world.build("a", "1", 4)
    world.clean(0)

    def unreachable() -> Mapping[str, Environment]:
        raise StateUnreachable("cannot reach it")

    monkeypatch.setattr(world.store, "read_environments", unreachable)
    swept = world.clean(100)
    assert [(s.what, s.why) for s in swept] == [("kept", "cannot reach it; nothing of them was touched")]


def test_a_version_whose_files_a_clone_shares_stays_until_the_clone_has_its_own(world: World) -> None:
    first = world.build("a", "1")
    assert first.relation is not None and first.snapshot_id is not None
    target = build_physical_relation(Relation("dev", "a"), "2")
    cloned = world.lake.clone(first.relation, first.snapshot_id, target, {"sqb.model": "a"}, None, RUN)
    second = world.bound("a", "2", cloned)
    world.show("dev", second)
    world.clean(1)
    swept = world.clean(10)
    assert list_actions(swept) == [("kept", A1)]
    assert swept[0].why == f"no environment refers to it, but {A2} shares its files"
    assert list_actions(world.clean(31), "clone", "version") == [("clone", A2)]
    assert list_actions(world.clean(32), "version") == [("version", A1)]
    assert world.probe.rows(target) == [(0, "x"), (1, "x")]


def test_a_version_goes_when_its_clone_has_been_written_anew(world: World) -> None:
    first = world.build("a", "1")
    assert first.relation is not None and first.snapshot_id is not None
    target = build_physical_relation(Relation("dev", "a"), "2")
    world.bound("a", "2", world.lake.clone(first.relation, first.snapshot_id, target, {"sqb.model": "a"}, None, RUN))
    world.show("dev", world.build("a", "2", 3))
    world.clean(1)
    messages = world.clean(10, dry_run=True)
    assert list_actions(messages) == [("version", A1)]
    assert world.tables() == {A1, A2, "dev__dev.a"}
    assert world.clean(10) == messages
    assert world.files(first) == set()
    assert len(world.probe.rows(target)) == 3
    assert "gc.enabled" not in world.probe.properties(target)


def test_a_version_stays_when_a_checkpoint_shows_what_its_clone_began_as(world: World) -> None:
    first = world.build("a", "1")
    assert first.relation is not None and first.snapshot_id is not None
    target = build_physical_relation(Relation("dev", "a"), "2")
    cloned = world.lake.clone(first.relation, first.snapshot_id, target, {"sqb.model": "a"}, None, RUN)
    world.show("dev", world.bound("a", "2", cloned))
    world.show("dev", world.build("a", "2", 3))
    world.clean(1)
    assert list_actions(world.clean(10)) == [("kept", A1)]
    assert world.probe.rows(target, first.snapshot_id) == [(0, "x"), (1, "x")]


def test_a_clone_that_nothing_refers_to_gives_its_tag_back(world: World) -> None:
    first = world.build("a", "1")
    assert first.relation is not None and first.snapshot_id is not None
    target = build_physical_relation(Relation("dev", "a"), "2")
    world.bound("a", "2", world.lake.clone(first.relation, first.snapshot_id, target, {"sqb.model": "a"}, None, RUN))
    world.show("dev", first)
    world.clean(1)
    assert list_actions(world.clean(10, dry_run=True), "version", "tag") == [("version", A2), ("tag", A1)]
    assert list_actions(world.clean(10), "version", "tag") == [("version", A2), ("tag", A1)]
    assert world.probe.tags(first.relation) == {}
    assert world.probe.rows(first.relation) == [(0, "x"), (1, "x")]


def test_a_clone_and_its_source_can_go_together(world: World) -> None:
    first = world.build("a", "1")
    assert first.relation is not None and first.snapshot_id is not None
    target = build_physical_relation(Relation("dev", "a"), "2")
    second = world.bound(
        "a", "2", world.lake.clone(first.relation, first.snapshot_id, target, {"sqb.model": "a"}, None, RUN)
    )
    world.clean(1)
    assert list_actions(world.clean(10)) == [("version", A2), ("version", A1)]
    assert world.files(first) | world.files(second) == set()


def test_a_source_stays_when_its_clone_cannot_go(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    first = world.build("a", "1")
    assert first.relation is not None and first.snapshot_id is not None
    target = build_physical_relation(Relation("dev", "a"), "2")
    world.bound("a", "2", world.lake.clone(first.relation, first.snapshot_id, target, {"sqb.model": "a"}, None, RUN))
    world.clean(1)
    forget = world.lake.drop_if_current
    monkeypatch.setattr(world.lake, "drop_if_current", lambda p: p.relation != target and forget(p))
    assert list_actions(world.clean(10)) == [("kept", A2), ("kept", A1)]
    assert world.probe.rows(target) == [(0, "x"), (1, "x")]
    monkeypatch.undo()
    assert list_actions(world.clean(10)) == [("version", A2), ("version", A1)]


def test_a_version_that_a_view_of_somebody_names_stays(world: World) -> None:
    world.build("a", "1")
    world.probe.put_view(Relation("x", "mine"), f"SELECT * FROM lake.{A1}", {})
    world.clean(1)
    swept = world.clean(10)
    assert [(s.name, s.why) for s in swept] == [(A1, "no environment refers to it, but x.mine names it")]


def test_views_that_models_are_go_too(world: World) -> None:
    relation = build_physical_relation(Relation("dev", "v"), "1")
    world.lake.ensure_schemas([relation.schema])
    world.probe.put_view(relation, "SELECT 1 AS id", {"sqb.model": "v"})
    world.store.add_versions([Version("v", "1", "", "", "", "", "", relation=relation, created_at=NOW)])
    world.clean(1)
    assert list_actions(world.clean(10)) == [("version", str(relation))]
    assert world.tables() == set()


def test_checkpoints_of_a_locked_environment_stay(world: World) -> None:
    for version in "123":
        world.show("dev", world.build("a", version))
    with world.store.lock("dev", "anna"):
        assert list_actions(world.clean(1)) == [("kept", "dev")]
    assert len(world.store.read_checkpoints()) == 3
    assert list_actions(world.clean(1), "checkpoint") == [("checkpoint", "dev")]
    assert [c.number for c in world.store.read_checkpoints()] == [3, 2]
