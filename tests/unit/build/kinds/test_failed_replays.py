"""The windows of bounded replays that did not end well: of runs that failed, and of runs that were killed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from sqb.build.kinds.failed_replays import list_earlier_attempts, stage_attempt
from sqb.errors.base import SqbError
from sqb.lake.port import TableState
from sqb.names import Relation
from sqb.plan.recorded.commit_identity import CommitIdentity
from sqb.plan.replay import Replay
from support.memory_lake import MemoryLake

WINDOW = ("2024-01-09 00:00:00Z", "2024-01-11 00:00:00Z")


def run(lake: Any, run_id: str, made_by: str, policy: str | None = "bounded-2d") -> Any:
    """A run of a model whose rows are of another run."""
    settings = {"replay_on_change": policy} if policy else {}
    node = SimpleNamespace(name="m.a", type="model", kind="incremental", settings=settings, relation=Relation("m", "a"))
    current = TableState("1", snapshot_id=1, identity=CommitIdentity(run_id=made_by))
    return SimpleNamespace(
        node=node,
        lake=lake,
        run_id=run_id,
        current=current,
        replay=Replay("bounded", "m.a", "2d"),
        window=None,
        planned=SimpleNamespace(prior=None),
    )


def test_what_a_killed_run_was_about_to_replay_is_known_until_the_rows_are_others() -> None:
    lake = MemoryLake()
    assert list_earlier_attempts(run(lake, "r2", "r1")) == []
    stage_attempt(run(lake, "r2", "r1"), WINDOW)
    assert list_earlier_attempts(run(lake, "r3", "r1")) == [WINDOW]
    # A run is not its own predecessor, and the rows of another run have been replayed.
    assert list_earlier_attempts(run(lake, "r2", "r1")) == []
    assert list_earlier_attempts(run(lake, "r4", "r3")) == []


def test_what_was_replayed_above_is_recorded_there() -> None:
    lake = MemoryLake()
    stage_attempt(run(lake, "r2", "r1", policy=None), WINDOW)
    assert list_earlier_attempts(run(lake, "r3", "r1")) == []


def test_a_run_goes_on_where_it_cannot_be_written_down() -> None:
    def refuse(rows: object) -> None:
        raise SqbError("the state tables cannot be written")

    broken = SimpleNamespace(state=SimpleNamespace(append_node_results=refuse))
    stage_attempt(run(broken, "r2", "r1"), WINDOW)
