"""What may go, and what must stay."""

from __future__ import annotations

import pytest

from sqb.lake.janitor.retention import (
    FileFact,
    SnapshotFact,
    StageFact,
    find_expired_snapshots,
    find_oldest_reader_start,
    find_rows_to_keep,
    judge_file,
    judge_stage,
    parse_path_run,
    parse_stage_run,
)
from sqb.lake.port import Run
from sqb.project.config.settings import Retention

DAY = 86400.0
NOW = 1000 * DAY
KEEP = Retention()
RUN = "20260301_120000_abcdef"
STAGE = f"shop__orders__{RUN}"


def run(alive: bool | None, days: float = 0.1) -> dict[str, Run]:
    return {RUN: Run(RUN, alive, "shop dev", NOW - days * DAY)}


@pytest.mark.parametrize(
    ("runs", "days", "goes", "why"),
    [
        (run(True), 100, False, "its build is running"),
        (run(False), 0, True, "its build was killed"),
        (run(None), 1, False, "on another machine"),
        (run(None, days=8), 6.9, False, "on another machine"),
        (run(None, days=8), 7.1, True, "on another machine"),
        ({}, 6.9, False, "unknown"),
        ({}, 7.1, True, "unknown"),
    ],
)
def test_stages(runs: dict[str, Run], days: float, goes: bool, why: str) -> None:
    verdict = judge_stage(StageFact(STAGE, NOW - days * DAY), runs, NOW, KEEP)
    assert verdict.may_go is goes and why in verdict.why


def test_a_stage_whose_name_says_no_run_is_judged_by_its_age() -> None:
    assert not judge_stage(StageFact("by_hand", NOW - DAY), run(False), NOW, KEEP).may_go
    assert judge_stage(StageFact("by_hand", NOW - 8 * DAY), run(False), NOW, KEEP).may_go


IN_RUN = f"/lake/shop/orders/data/{RUN}/day=1/a.parquet"
LOOSE = "/lake/shop/orders/metadata/a-m0.avro"


@pytest.mark.parametrize(
    ("path", "runs", "days", "kind"),
    [
        (IN_RUN, run(False), 0, "run"),
        (IN_RUN, {}, 2.9, None),
        (IN_RUN, {}, 3.1, "loose"),
        (IN_RUN, run(True), 100, None),
        (IN_RUN, run(None), 1, None),
        (IN_RUN, run(None), 8, "run"),
        (LOOSE, run(False), 2.9, None),
        (LOOSE, {}, 3.1, "loose"),
        ("/lake/shop/orders/data/part-0.parquet", {}, 1, None),
        ("/lake/shop/orders/data/part-0.parquet", {}, 4, "loose"),
        ("/lake/shop/orders/data/20260301_x/part-0.parquet", run(False), 1, None),
    ],
)
def test_files(path: str, runs: dict[str, Run], days: float, kind: str | None) -> None:
    assert judge_file(FileFact(path, 1, NOW - days * DAY), (), runs, NOW, KEEP) == kind


def test_files_of_a_stage_that_stands_are_judged_with_it() -> None:
    file = FileFact(IN_RUN, 1, 0.0)
    assert judge_file(file, [f"/lake/shop/orders/data/{RUN}"], run(False), NOW, KEEP) is None
    assert judge_file(file, [f"/lake/shop/orders/data/{RUN}x"], run(False), NOW, KEEP) == "run"


def test_names_of_folders() -> None:
    assert parse_stage_run(STAGE) == RUN and parse_stage_run("orders") is None and parse_stage_run(f"{STAGE}x") is None
    assert parse_path_run(f"/s/t/data/{RUN}") == parse_path_run(f"/s/t/data/{RUN}/d=1") == RUN
    assert parse_path_run(f"/_sqlbuild_stage/{STAGE}/metadata") == RUN
    assert parse_path_run("/s/t/data") is None and parse_path_run(f"/s/{RUN}") is None


def line(*days: float) -> list[SnapshotFact]:
    """Snapshots 1, 2, … one after the other, made so many days ago."""
    return [SnapshotFact(i + 1, i or None, NOW - d * DAY) for i, d in enumerate(days)]


def expired(
    snapshots: list[SnapshotFact],
    current: int | None = None,
    refs: tuple[int, ...] = (),
    needed: tuple[int, ...] = (),
    newest: int = 1,
) -> tuple[int, ...]:
    at = len(snapshots) if current is None else current
    return find_expired_snapshots(snapshots, at, refs, needed, NOW - 30 * DAY, newest)


def test_old_snapshots_expire() -> None:
    assert expired(line(90, 80, 70, 60)) == (1, 2, 3)
    assert expired(line(90)) == ()
    assert expired([]) == ()


def test_what_was_current_within_the_retention_stays() -> None:
    # 2 is old, but it was what readers saw until 10 days ago.
    assert expired(line(90, 80, 10)) == (1,)
    assert expired(line(90, 80, 31)) == (1, 2)


def test_the_newest_stay_however_old() -> None:
    assert expired(line(90, 80, 70, 60), newest=3) == (1,)
    assert expired(line(90, 80, 70, 60), newest=9) == ()
    assert expired(line(90, 80, 70, 60), newest=0) == (1, 2, 3)


def test_what_a_reader_has_not_followed_yet_stays() -> None:
    assert expired(line(90, 80, 70, 60, 50), needed=(3,)) == (1, 2)
    assert expired(line(90, 80, 70, 60, 50), needed=(5,)) == (1, 2, 3, 4)
    assert expired(line(90, 80, 70, 60, 50), needed=(2, 4, 77)) == (1,)


def test_branches_and_tags_stay() -> None:
    side = [SnapshotFact(10, 2, NOW - 75 * DAY), SnapshotFact(11, 10, NOW - 74 * DAY)]
    main = line(90, 80, 70, 60)
    assert expired([*main, *side], 4, refs=(11,)) == (1, 2, 3)
    assert expired([*main, *side], 4, refs=(11, 1)) == (2, 3)
    assert expired([*main, *side], 4) == (1, 2, 10, 11, 3)


def test_snapshots_beside_the_line_stay_while_they_are_young() -> None:
    staged = SnapshotFact(10, 4, NOW - DAY)
    assert expired([*line(90, 80, 70, 60), staged], 4) == (1, 2, 3)


def test_a_broken_line_and_a_circle_do_no_harm() -> None:
    broken = [SnapshotFact(2, 1, NOW - 80 * DAY), SnapshotFact(3, 2, NOW - 70 * DAY)]
    assert expired(broken, 3) == (2,)
    circle = [SnapshotFact(1, 2, NOW - 80 * DAY), SnapshotFact(2, 1, NOW - 70 * DAY)]
    assert expired(circle, 2) == (1,)


@pytest.mark.parametrize(
    ("rows", "remaining"),
    [
        ([], []),
        ([("a", 1)], [0]),
        ([("a", 1), ("a", 2)], [1]),
        ([("a", 2), ("a", 1)], [0]),
        ([("a", 1), ("a", 1)], [1]),
        ([("a", 1), ("b", 1), ("a", 5), ("a", 6), ("b", 4)], [2, 3, 4]),
        ([("a", 5), ("a", 6)], [0, 1]),
    ],
)
def test_rows_of_history(rows: list[tuple[str, int]], remaining: list[int]) -> None:
    assert find_rows_to_keep([k for k, _ in rows], [t for _, t in rows], 5) == remaining


def test_since_when_somebody_may_be_reading() -> None:
    assert find_oldest_reader_start([], NOW, KEEP) == NOW
    runs = [
        Run("a", True, "", NOW - 9 * DAY),
        Run("b", False, "", NOW - 50 * DAY),
        Run("c", None, "", NOW - 20 * DAY),
        Run("d", None, "", NOW - DAY),
    ]
    assert find_oldest_reader_start(runs, NOW, KEEP) == NOW - 9 * DAY
    assert find_oldest_reader_start(runs[1:], NOW, KEEP) == NOW - DAY
