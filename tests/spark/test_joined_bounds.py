"""Tables that are joined to a change are read between its bounds: what statistics tell, and that no row is lost."""

from __future__ import annotations

from collections import Counter

import pytest

from sqb.build.incremental import refresh as refresh_module
from sqb.build.incremental.refresh import IncrementalRefresh
from sqb.build.observe.matching import count_matching_rows
from sqb.lake.port import ColumnRanges, Lake
from sqb.names import Relation
from sqb.plan.refresh import matching
from sqb.plan.refresh.choose import RefreshCase
from sqb.sql.delta.operators.model import Origin
from support.sandbox import Sandbox

QUERIES = {
    "by_day": "SELECT o.day, count(*) AS c, sum(l.n) AS s FROM raw.orders AS o JOIN raw.lines AS l ON l.order_id = o.id"
    " GROUP BY o.day",
    "wide": "WITH o AS (SELECT * FROM raw.orders), l AS (SELECT order_id AS id, n FROM raw.lines WHERE n > 0)"
    " SELECT o.id, l.n, o.day FROM o LEFT JOIN l ON l.id = o.id",
    "missing": "SELECT o.id FROM raw.orders AS o LEFT ANTI JOIN raw.lines AS l ON l.order_id = o.id",
    "days": "SELECT o.id, d.name FROM raw.orders AS o, raw.days AS d WHERE d.day = o.day",
    "asked": "SELECT o.id, l.n FROM raw.orders AS o JOIN raw.lines AS l ON l.order_id = o.id"
    " WHERE NOT EXISTS (SELECT 1 FROM raw.lines AS x WHERE x.order_id = o.id AND x.n > l.n)",
    "moments": "SELECT l.n, e.name FROM raw.lines AS l JOIN raw.events AS e ON e.at = l.at",
}
# Every table has four files, of keys that follow each other.
STARTS = (-2000, 0, 1000, 9_000_000_000_000_000_000)


def fill(sandbox: Sandbox, mode: str) -> None:
    delete = f"TBLPROPERTIES ('write.delete.mode' = '{mode}', 'write.update.mode' = '{mode}')"
    sandbox.sql(f"CREATE TABLE raw.orders (id BIGINT, day DATE) {delete}")
    sandbox.sql(f"CREATE TABLE raw.lines (order_id BIGINT, n INT, at TIMESTAMP) {delete}")
    sandbox.sql("CREATE TABLE raw.days (day DATE, name STRING)")
    sandbox.sql("CREATE TABLE raw.events (at TIMESTAMP, name STRING)")
    for number, start in enumerate(STARTS):
        ids = f"FROM (SELECT id + {start}L AS id FROM range(20))"
        day, at = f"date_from_unix_date({number} * 100 - 150 + id % 5)", f"timestamp_micros(({number} - 1) * 1000 + id)"
        day, at = (
            text.replace("id %", f"(id - {start}L) %").replace("+ id)", f"+ id - {start}L)") for text in (day, at)
        )
        sandbox.sql(f"INSERT INTO raw.orders SELECT /*+ COALESCE(1) */ id, CAST({day} AS DATE) {ids}")
        sandbox.sql(
            f"INSERT INTO raw.lines SELECT /*+ COALESCE(1) */ id, CAST(id % 7 AS INT), {at} {ids} WHERE id % 3 <> 0"
        )
        sandbox.sql(f"INSERT INTO raw.days SELECT /*+ COALESCE(1) */ DISTINCT CAST({day} AS DATE), 'd{number}' {ids}")
        sandbox.sql(f"INSERT INTO raw.events SELECT /*+ COALESCE(1) */ {at}, 'e{number}' {ids}")


def find_differences(sandbox: Sandbox) -> dict[str, Counter[tuple[object, ...]]]:
    differences = {}
    for name, query in QUERIES.items():
        wanted, shown = (
            Counter(map(tuple, sandbox.sql(query))),
            Counter(map(tuple, sandbox.sql(f"SELECT * FROM s.{name}"))),
        )
        if wanted != shown:
            differences[name] = wanted
            differences[name].subtract(shown)
    return differences


@pytest.fixture
def ranges(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[tuple[str, str]] | None]:
    """The ranges that were read for each column of a changed table."""
    known: dict[str, list[tuple[str, str]] | None] = {}
    find = IncrementalRefresh.find_ranges

    def record(refresh: IncrementalRefresh, index: int, column: str) -> list[tuple[str, str]] | None:
        known[f"{refresh.slots[index].relation.name}.{column}"] = answer = find(refresh, index, column)
        return answer

    monkeypatch.setattr(IncrementalRefresh, "find_ranges", record)
    return known


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, int]]:
    """The rows that may match a change, by the columns of both tables, as builds counted them."""
    counts: list[tuple[str, str, int]] = []

    def record(lake: Lake, case: RefreshCase) -> dict[tuple[Origin, Origin], int]:
        answer = count_matching_rows(lake, case)
        counts.extend((one[1], other[1], rows) for (one, other), rows in answer.items())
        return answer

    monkeypatch.setattr(refresh_module, "count_matching_rows", record)
    monkeypatch.setattr(matching, "_LARGE", 1)
    return counts


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_changes_of_joined_tables(
    sandbox: Sandbox,
    mode: str,
    ranges: dict[str, list[tuple[str, str]] | None],
    counted: list[tuple[str, str, int]],
) -> None:
    sandbox.write("sqlbuild_project.toml", 'name = "sandbox"\n[incremental]\nmin_rows = 0\n')
    for name, query in QUERIES.items():
        sandbox.write(f"models/s/{name}.sql", f"-- @refresh: incremental\n{query}")
    fill(sandbox, mode)
    assert sandbox.build().ok and find_differences(sandbox) == {}

    new = "VALUES (1000, 5, timestamp_micros(1000)), (1003, 6, timestamp_micros(1003))"
    sandbox.sql(f"INSERT INTO raw.lines SELECT /*+ COALESCE(1) */ * FROM {new}")
    result = sandbox.build()
    joined, own = {("id", "order_id", 20), ("at", "at", 20)}, {("order_id", "order_id", 16), ("at", "at", 16)}
    assert set(counted) == joined | own, "one of four files of orders and of events, and two of five of lines"
    types = {n.planned.name: n.run_type for n in result.nodes}
    assert types == {**dict.fromkeys(types, "incremental"), "s.days": "skip"}, [n.detail for n in result.nodes]
    assert find_differences(sandbox) == {}
    assert ranges == {
        "lines.order_id": [("1000L", "1003L")],
        "lines.at": [("timestamp_micros(1000L)", "timestamp_micros(1003L)")],
    }

    ranges.clear()
    sandbox.sql("DELETE FROM raw.orders WHERE id IN (-2000, 9000000000000000001)")
    for table, values in (("orders", "(0, DATE'1969-08-05'), (NULL, NULL)"), ("days", "(DATE'1969-08-05', 'again')")):
        sandbox.sql(f"INSERT INTO raw.{table} SELECT /*+ COALESCE(1) */ * FROM VALUES {values}")
    sandbox.sql("INSERT INTO raw.days VALUES (NULL, 'none')")
    assert sandbox.build().ok and find_differences(sandbox) == {}
    # Of a file some rows of which are gone all values count; what copy-on-write writes anew is in one file here.
    # NULL equals nothing.
    ends = ("-2000L", "-1981L"), ("0L", "0L"), (f"{STARTS[3]}L", f"{STARTS[3] + 19}L")
    assert ranges["orders.id"] == ([*ends] if mode == "merge-on-read" else [("-2000L", f"{STARTS[3] + 19}L")])
    assert ranges["days.day"] == [("date_from_unix_date(-149)", "date_from_unix_date(-149)")]

    ranges.clear()
    sandbox.sql("UPDATE raw.lines SET order_id = -9223372036854775808, n = 1 WHERE order_id = 1000")
    sandbox.sql("INSERT INTO raw.orders VALUES (-9223372036854775808, DATE'1970-01-01')")
    sandbox.sql("DELETE FROM raw.events WHERE name = 'e2'")
    sandbox.sql("INSERT INTO raw.lines SELECT order_id, n + 1, at FROM raw.lines WHERE order_id < 0")
    assert sandbox.build().ok and find_differences(sandbox) == {}
    lowest = ranges["lines.order_id"]
    assert lowest is not None and lowest[0][0] == "(-9223372036854775807L - 1L)"


def test_what_statistics_do_not_tell(sandbox: Sandbox) -> None:
    lake, table = sandbox.lake(), Relation("raw", "t")
    sandbox.sql(
        "CREATE TABLE raw.t (id INT, s STRING, day DATE, plain BIGINT)"
        " TBLPROPERTIES ('write.metadata.metrics.column.plain' = 'none')"
    )
    snapshots = []
    for values in ("(1, 'a', DATE'2020-01-01', 1)", "(5, 'b', NULL, 2)", "(NULL, NULL, NULL, NULL)"):
        sandbox.sql(f"INSERT INTO raw.t VALUES {values}")
        state = lake.read_tables([lake.list_pointers()[table]])[table]
        assert state.snapshot_id is not None
        snapshots.append(state.snapshot_id)
    first, _, last = snapshots
    ranges = lake.find_changed_ranges(table, first, last, ["ID", "s", "day", "plain", "other"])
    # Texts and columns without statistics may be anything; of NULLs alone no value is equal to anything.
    assert ranges == {"ID": ColumnRanges("bigint", ((5, 5),)), "day": ColumnRanges("date")}
    assert lake.count_rows_in_ranges(table, last, "id", ranges["ID"]) == 1
    assert lake.count_rows_in_ranges(table, last, "id", ColumnRanges("bigint", ((0, 3), (4, 9)))) == 2
    assert lake.count_rows_in_ranges(table, last, "plain", ranges["ID"]) == 3
    sandbox.sql("ALTER TABLE raw.t ALTER COLUMN id TYPE BIGINT")
    sandbox.sql("INSERT INTO raw.t VALUES (7, 'c', NULL, 3)")
    state = lake.read_tables([lake.list_pointers()[table]])[table]
    assert state.snapshot_id is not None
    widened = lake.find_changed_ranges(table, first, state.snapshot_id, ["id"])
    assert widened == {"id": ColumnRanges("bigint", ((5, 5), (7, 7)))}
    assert lake.find_changed_ranges(table, 17, last, ["id"]) == {}
    assert lake.find_changed_ranges(Relation("raw", "nothing"), 1, 2, ["id"]) == {}
