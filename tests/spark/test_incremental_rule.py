"""After every build an incremental model is what its strategy's rule says, applied run by run to what was read.

The rule is written down here once more, over lists of rows; a source changes at random, late rows and all.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from support.sandbox import Sandbox, SandboxMaker

# (id, seq, v); for the sums (bucket, sum, count).
Row = tuple[int, ...]
Rows = list[Row]
LOOKBACK = 2

MODELS = {
    "replaced": "-- @lookback: 2\nSELECT id, seq, v FROM raw.events",
    "logged": "-- @lookback: 2\n-- @incremental_strategy: append\nSELECT id, seq, v FROM raw.events",
    "upserted": (
        "-- @unique_key: id\nSELECT id, seq, v FROM raw.events"
        " QUALIFY row_number() OVER (PARTITION BY id ORDER BY seq DESC NULLS LAST, v DESC) = 1"
    ),
    "summed": (
        "SELECT seq DIV 3 AS seq, sum(v) AS total, count(*) AS n FROM raw.events"
        " WHERE seq DIV 3 >= __cursor_start() AND seq DIV 3 < __cursor_end() GROUP BY seq DIV 3"
    ),
}


def latest(source: Rows) -> Rows:
    by_name: dict[int, Row] = {}
    for row in sorted(source, key=lambda r: (r[1] if r[1] is not None else -1, r[2])):
        by_name[row[0]] = row
    return list(by_name.values())


def sums(source: Rows) -> Rows:
    by_name: dict[int, Rows] = {}
    for row in source:
        if row[1] is not None:
            by_name.setdefault(row[1] // 3, []).append(row)
    return [(bucket, sum(r[2] for r in rows), len(rows)) for bucket, rows in by_name.items()]


QUERIES: dict[str, tuple[Callable[[Rows], Rows], int, int]] = {
    "replaced": (lambda s: s, 1, LOOKBACK),
    "logged": (lambda s: s, 1, LOOKBACK),
    "upserted": (latest, 1, 0),
    "summed": (sums, 0, 0),
}


def after(name: str, table: Rows | None, source: Rows) -> Rows:
    """The rule: the table after a run, from the table before and the source."""
    query, cursor, lookback = QUERIES[name]
    result = [r for r in query(source) if r[cursor] is not None]
    if not table:
        return result
    start = max(r[cursor] for r in table) - lookback
    window = [r for r in result if r[cursor] >= start]
    if name == "upserted":
        keys = {r[0] for r in window}
        return [r for r in table if r[0] not in keys] + window
    if name == "logged":
        new = Counter(window) - Counter(r for r in table if r[cursor] >= start)
        return table + list(new.elements())
    return [r for r in table if r[cursor] < start] + window


def shake(dice: random.Random, sandbox: Sandbox, top: int) -> None:
    """Change the source: rows at and after the end, late ones, ones like others, some without a cursor."""
    rows = []
    for _ in range(dice.randint(2, 5)):
        seq = dice.choice([top, top, top + 1, top + 3, top - 1, top - 4, None])
        rows.append(f"({dice.randint(1, 9)}, {'NULL' if seq is None else seq}, {dice.randint(0, 2)})")
    sandbox.sql(f"INSERT INTO raw.events VALUES {', '.join(rows)}")
    if dice.random() < 0.6:
        sandbox.sql(f"UPDATE raw.events SET v = v + 1 WHERE id = {dice.randint(1, 9)}")
    if dice.random() < 0.4:
        sandbox.sql(f"DELETE FROM raw.events WHERE seq >= {top - 1} AND id < {dice.randint(2, 6)}")


@pytest.mark.parametrize("seed", [1])
def test_the_table_is_what_the_rule_says(seed: int, new_sandbox: SandboxMaker, tmp_path: Path) -> None:
    dice = random.Random(seed)
    sandbox = new_sandbox(tmp_path / "project")
    sandbox.sql("CREATE NAMESPACE IF NOT EXISTS raw")
    sandbox.sql("CREATE TABLE raw.events (id INT, seq BIGINT, v INT)")
    for name, text in MODELS.items():
        sandbox.write(f"models/m/{name}.sql", f"-- @incremental: seq\n-- @cursor_type: integer\n{text}\n")
    tables: dict[str, Rows | None] = dict.fromkeys(MODELS)
    for step in range(4):
        shake(dice, sandbox, 5 + 2 * step)
        source = [tuple(row) for row in sandbox.sql("SELECT id, seq, v FROM raw.events")]
        assert sandbox.build().ok
        for name in MODELS:
            expected = after(name, tables[name], source)
            items = [tuple(row) for row in sandbox.sql(f"SELECT * FROM m.{name}")]
            assert Counter(items) == Counter(expected), f"{name} after run {step + 1} of seed {seed}"
            tables[name] = items
        assert sandbox.plan().nothing_to_do
    for relation, identity in sandbox.identities().items():
        assert relation.startswith("raw.") or identity["sqb.content"] == sandbox.content(relation)
