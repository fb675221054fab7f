"""The state tables: appended to by anyone at any time, the latest row of an identity wins."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

from contract.lakes import Probe
from sqb.lake.state.rows import FailedRow, Fingerprint, FreshnessRow, NodeResult
from sqb.names import Relation

NOON = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)


def fingerprint(name: str, schema: str = "dev", run: str = "r1", minutes: int = 0) -> Fingerprint:
    return Fingerprint(
        "model",
        name,
        schema,
        name,
        run,
        f"l-{run}",
        "v",
        "s",
        "SELECT 'é\n\t'",
        '{"a":1}',
        NOON + timedelta(minutes=minutes),
    )


def result(name: str, run: str, minutes: int, schema: str = "dev", error: str | None = None) -> NodeResult:
    status = "failed" if error else "ok"
    return NodeResult("model", name, schema, run, status, "{}", "{}", error, NOON + timedelta(minutes=minutes))


def test_no_state_yet(probe: Probe) -> None:
    assert probe.lake.state.read_fingerprints(["dev"]) == {}
    assert probe.lake.state.read_freshness(["dev"]) == {}
    assert probe.lake.state.read_node_results(["dev"]) == []


def test_rows_come_back_as_they_went(probe: Probe) -> None:
    rows = [fingerprint("a"), fingerprint("b", "prod"), fingerprint("b")]
    probe.lake.state.append_fingerprints(rows)
    assert probe.lake.state.read_fingerprints(["dev", "prod"]) == {r.key: r for r in rows}
    assert probe.lake.state.read_fingerprints(["prod"]) == {rows[1].key: rows[1]}
    assert {Relation("dev", "_sqlbuild_fingerprints"), Relation("prod", "_sqlbuild_fingerprints")} == set(
        probe.lake.list_pointers()
    )


def test_the_latest_fingerprint_wins(probe: Probe) -> None:
    probe.lake.state.append_fingerprints([fingerprint("a", run="r1"), fingerprint("b", run="r1")])
    probe.lake.state.append_fingerprints([fingerprint("a", run="r3", minutes=3)])
    probe.lake.state.append_fingerprints([fingerprint("a", run="r2", minutes=2)])
    probe.lake.state.append_fingerprints([fingerprint("b", run="r4")])
    fingerprints = probe.lake.state.read_fingerprints(["dev"])
    assert {key[1]: row.run_id for key, row in fingerprints.items()} == {"a": "r3", "b": "r4"}


def test_nothing_to_append(probe: Probe) -> None:
    probe.lake.state.append_fingerprints([])
    probe.lake.state.append_node_results([])
    probe.lake.state.append_freshness([])
    probe.lake.state.append_failures([])
    assert probe.lake.list_pointers() == {}


def test_history_is_newest_first(probe: Probe) -> None:
    probe.lake.state.append_node_results([result("a", "r1", 0), result("b", "r1", 1)])
    probe.lake.state.append_node_results([result("a", "r3", 9), result("b", "r3", 8, error="it broke")])
    probe.lake.state.append_node_results([result("a", "r2", 5), result("c", "r2", 4, schema="prod")])

    def seen(**which: object) -> list[tuple[str, str]]:
        return [(r.node_name, r.run_id) for r in probe.lake.state.read_node_results(["dev"], **which)]

    assert seen() == [("a", "r3"), ("b", "r3"), ("a", "r2"), ("b", "r1"), ("a", "r1")]
    assert seen(limit=3) == [("a", "r3"), ("b", "r3"), ("a", "r2")]
    assert seen(node_name="b") == [("b", "r3"), ("b", "r1")]
    assert seen(node_name="b", limit=1) == [("b", "r3")]
    assert seen(run_id="r1") == [("b", "r1"), ("a", "r1")]
    both = probe.lake.state.read_node_results(["dev", "prod"], limit=4)
    assert [r.node_name for r in both] == ["a", "b", "a", "c"]
    assert both[1].error_message == "it broke" and both[0].error_message is None


def test_freshness(probe: Probe) -> None:
    first = FreshnessRow("raw.orders", "dev", "r1", "snapshot", "snapshot_id", "1", NOON)
    second = FreshnessRow("raw.orders", "dev", "r2", "snapshot", "snapshot_id", "2", NOON + timedelta(minutes=1))
    probe.lake.state.append_freshness([first])
    probe.lake.state.append_freshness([second])
    assert probe.lake.state.read_freshness(["dev"]) == {("raw.orders", "dev"): second}


def failed_row(number: int, row: str | None = None, minutes: float = 0) -> FailedRow:
    at = NOON + timedelta(minutes=minutes)
    return FailedRow("s.a", "dev", f"r{number}", "constraint: not_null(id)", "error", row, at)


def test_rows_that_violate_checks(probe: Probe) -> None:
    assert list(probe.lake.state.read_failures(["dev"])) == []
    first, second, third = failed_row(1, '{"id":null}'), failed_row(1), failed_row(2, minutes=1)
    probe.lake.state.append_failures([first, second])
    probe.lake.state.append_failures([third])
    assert list(probe.lake.state.read_failures(["dev", "prod"])) == [first, second, third]


def test_threads_append_at_once(probe: Probe) -> None:
    def append(number: int) -> None:
        probe.lake.state.append_fingerprints([fingerprint(f"m{number}")])
        probe.lake.state.append_node_results([result(f"m{number}", "r1", number)])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(append, range(12)))
    assert len(probe.lake.state.read_fingerprints(["dev"])) == 12
    assert [r.node_name for r in probe.lake.state.read_node_results(["dev"])] == [f"m{n}" for n in reversed(range(12))]
