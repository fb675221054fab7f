"""What a model's own past says of a refresh and of a rebuild."""

from __future__ import annotations

from sqb.plan.recorded.timings import Timing, parse_timings, predict_times, record_timing

MANY = 20_000_000


def test_the_last_runs_of_each_sort_are_kept() -> None:
    text = record_timing("", "full", 12.3456, MANY)
    text = record_timing(text, "incremental", 2.5, 5_000)
    assert parse_timings(text) == {"full": Timing(12.346, MANY, 1), "incremental": Timing(2.5, 5_000)}
    for seconds in (3, 4, 5):
        text = record_timing(text, "incremental", seconds, 6_000)
    assert parse_timings(text)["incremental"] == Timing(5.0, 6_000, 0, ((4.0, 6_000), (3.0, 6_000)))


def test_the_quickest_of_the_last_runs_counts() -> None:
    """The first build of a session, and one on a machine that did other work, took longer than they had to."""
    text = record_timing(record_timing("", "full", 30, MANY), "full", 10, MANY)
    text = record_timing(record_timing(text, "incremental", 2, 5_000), "incremental", 9, 5_000)
    expected = predict_times(text, 5_000, MANY)
    assert expected is not None and (expected.refresh, expected.rebuild) == (2.0, 10.0)


def test_a_past_of_one_run_of_each_sort_is_read() -> None:
    """As it was recorded before."""
    text = '{"full": [10.0, 20000000, 1], "incremental": [2.5, 5000, 0]}'
    expected = predict_times(text, 5_000, MANY)
    assert expected is not None and (expected.refresh, expected.rebuild) == (2.5, 10.0)


def test_more_rows_are_expected_to_take_longer_and_fewer_not_to_take_less() -> None:
    text = record_timing(record_timing("", "full", 10, MANY), "incremental", 2, 5_000)
    expected = predict_times(text, 5_000 + MANY // 10, 2 * MANY)
    assert expected is not None and (expected.refresh, expected.rebuild) == (3.0, 20.0)
    expected = predict_times(text, 10, 1_000_000)
    assert expected is not None and (expected.refresh, expected.rebuild) == (2.0, 10.0)


def test_a_refresh_that_was_slower_than_a_rebuild_gives_way_to_it() -> None:
    text = record_timing(record_timing("", "full", 10, MANY), "incremental", 12, 5_000)
    expected = predict_times(text, 5_000, MANY)
    assert expected is not None and expected.is_rebuild_faster
    nearly = predict_times(record_timing(record_timing("", "full", 10, MANY), "incremental", 11, 5_000), 5_000, MANY)
    assert nearly is not None and not nearly.is_rebuild_faster


def test_a_refresh_that_lost_is_tried_again_after_some_rebuilds() -> None:
    text = record_timing(record_timing("", "full", 10, MANY), "incremental", 12, 5_000)
    for _ in range(5):
        text = record_timing(text, "full", 10, MANY)
        assert predict_times(text, 5_000, MANY) is not None
    assert predict_times(record_timing(text, "full", 10, MANY), 5_000, MANY) is None


def test_a_refresh_that_took_far_longer_is_tried_again_much_later() -> None:
    text = record_timing(record_timing("", "full", 10, MANY), "incremental", 30, 5_000)
    for _ in range(50):
        text = record_timing(text, "full", 10, MANY)
        assert predict_times(text, 5_000, MANY) is not None
    assert predict_times(record_timing(text, "full", 10, MANY), 5_000, MANY) is None


def test_what_a_rebuild_took_is_never_forgotten() -> None:
    text = record_timing("", "full", 10, MANY)
    for _ in range(60):
        text = record_timing(text, "incremental", 2, 5_000)
    expected = predict_times(text, 5_000, MANY)
    assert expected is not None and (expected.refresh, expected.rebuild) == (2.0, 10.0)


def test_a_first_build_alone_does_not_tell_what_a_rebuild_takes() -> None:
    first = record_timing("", "full", 10, MANY)
    slow = predict_times(record_timing(first, "incremental", 5, 5_000), 5_000, MANY)
    assert slow is not None and slow.may_rebuild_be_faster(False) and not slow.is_rebuild_faster
    quick = predict_times(record_timing(first, "incremental", 3, 5_000), 5_000, MANY)
    assert quick is not None and not quick.may_rebuild_be_faster(False)
    assert not slow.may_rebuild_be_faster(True)
    slower = predict_times(record_timing(first, "incremental", 7, 5_000), 5_000, MANY)
    assert slower is not None and slower.may_rebuild_be_faster(True) and not slower.is_rebuild_faster
    again = record_timing(record_timing(first, "incremental", 5, 5_000), "full", 9, MANY)
    known = predict_times(again, 5_000, MANY)
    assert known is not None and not known.may_rebuild_be_faster(False) and not known.is_rebuild_faster


def test_times_of_few_rows_are_noise_and_so_are_short_differences() -> None:
    text = record_timing(record_timing("", "full", 0.3, MANY), "incremental", 0.38, 5_000)
    assert predict_times(text, 5_000, 999_999) is None
    expected = predict_times(text, 5_000, MANY)
    assert expected is not None and not expected.is_rebuild_faster


def test_what_is_not_understood_counts_as_no_past() -> None:
    for text in ("", "{", "[]", '{"full": 3}', '{"full": ["a", 1, 0]}', '{"other": [1, 2, 0]}', "null"):
        assert parse_timings(text) == {}
        assert predict_times(text, 1, MANY) is None
