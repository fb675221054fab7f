"""The project of the crash soak: a model of every kind, random changes of rows, columns and texts, and what must hold.

What is never lost is known without asking sqb: a story writes down all that it ever put into a source.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from support.sandbox import Sandbox

PROJECT_FILE = """
name = "soak"

[janitor]
file_retention = "0s"
snapshot_retention = "1h"
keep_snapshots = 3

[connections.local.spark]
master = "local[2]"

[connections.local.spark.conf]
"spark.driver.memory" = "1g"
"spark.sql.shuffle.partitions" = "1"
# Thousands of tiny queries: compiling one takes longer than running it.
"spark.sql.codegen.wholeStage" = "false"
"spark.sql.codegen.factoryMode" = "NO_CODEGEN"
"spark.ui.enabled" = "false"
"""
MATERIALIZATIONS = '''
from sqb import materialization


@materialization("kept_log")
def kept_log(ctx):
    """A table that is made once, and added to whenever what it reads has changed."""
    if ctx.first_run or ctx.full_refresh:
        ctx.execute(f"CREATE OR REPLACE TABLE {ctx.relation_name} USING iceberg AS {ctx.sql}")
        return ctx.written()
    ctx.execute(
        f"INSERT INTO {ctx.relation_name} SELECT * FROM ({ctx.sql}) EXCEPT SELECT * FROM {ctx.relation_name}"
    )
    return ctx.written()


@materialization("frame")
def frame(ctx):
    """Rows that sqb publishes."""
    return ctx.query(ctx.sql)
'''
# What is made from the sources alone, and so can be made anew and compared.
FUNCTIONS = (
    "seeds.words",
    "s.t_table",
    "s.t_joined",
    "s.t_merge",
    "s.t_tracked",
    "s.t_view",
    "s.t_below",
    "s.t_frame",
)
# What remembers rows that the sources may have forgotten, and in which nothing is ever there twice.
LOGS = ("s.t_append", "s.t_custom", "s.t_window", "s.t_window_merge", "s.t_window_log")
TABLES = (*(name for name in FUNCTIONS if name != "s.t_view"), *LOGS, "s.t_kept", "s.t_scd2")
SOURCES = ("raw.x", "raw.events", "raw.ticks", "raw.notes")
_SOURCE_OF_LOG = {"s.t_append": "events", "s.t_custom": "notes"}
MOST_COLUMNS = 3


class Story:
    """One project and everything that happens to its sources and texts, each as little as it can be."""

    def __init__(self, sandbox: Sandbox, chance: random.Random) -> None:
        self.sandbox, self.random = sandbox, chance
        self.next_id = 100
        # How many columns sources have got, and how many of them each model reads.
        self.columns = {"x": 0, "events": 0, "ticks": 0, "notes": 0}
        self.read = {"table": 0, "x": 0, "scd2": 0, "events": 0, "ticks": 0}
        self.constant = 0
        self.temporary = False
        # Every row that was ever put into a log's source, and how many new columns its log had then at least.
        self.inserted: dict[str, dict[int, tuple[tuple[Any, ...], int]]] = {"events": {}, "ticks": {}, "notes": {}}
        # Every key that was ever in the source of a table that keeps what left.
        self.keys: set[int] = set(range(20))

    # --- the project ----------------------------------------------------------------------------------------------

    def begin(self) -> None:
        write, sql = self.sandbox.write, self.sandbox.sql
        write("sqlbuild_project.toml", PROJECT_FILE)
        write("materializations/own.py", MATERIALIZATIONS)
        write("seeds/words.csv", "g,word\ng0,zero\ng1,one\ng2,two\ng3,three\n")
        sql("CREATE NAMESPACE IF NOT EXISTS raw")
        sql("CREATE TABLE raw.x AS SELECT id, concat('g', id % 4) AS g, CAST(id * 7 % 13 AS INT) AS n FROM range(20)")
        sql("CREATE TABLE raw.events (id BIGINT, n INT)")
        sql("CREATE TABLE raw.ticks (seq BIGINT, v INT)")
        sql("CREATE TABLE raw.notes (id BIGINT, n INT)")
        for source in self.inserted:
            self._insert_log_rows(source)
        self.write_models()

    def write_models(self) -> None:
        for name, text in self.texts().items():
            path = self.sandbox.folder / f"models/s/{name}.sql"
            if not path.exists() or path.read_text() != text:
                self.sandbox.write(f"models/s/{name}.sql", text)

    def texts(self) -> Mapping[str, str]:
        """The models as they are at the moment."""
        x, table, scd2 = self._listed("x", "x."), self._listed("table", "", "max"), self._listed("scd2")
        events, ticks = self._listed("events"), self._listed("ticks")
        window = "-- @incremental: seq\n-- @cursor_type: integer\n"
        return {
            "t_table": f"SELECT g, count(*) AS c, sum(n) + {self.constant} AS n{table} FROM raw.x GROUP BY g",
            "t_joined": "-- @refresh: incremental\n"
            f"SELECT x.id, x.n{x}, s.word FROM raw.x AS x JOIN seeds.words AS s ON x.g = s.g",
            "t_merge": f"-- @kind: merge\n-- @unique_key: id\n-- @refresh: incremental\n"
            f"SELECT x.id, x.g, x.n{x} FROM raw.x AS x",
            "t_kept": "-- @kind: merge\n-- @unique_key: id\n-- @on_source_delete: keep\nSELECT id, n FROM raw.x",
            "t_tracked": f"-- @kind: tracked\n-- @group_key: g\nSELECT x.g, x.id, x.n{x} FROM raw.x AS x",
            "t_scd2": f"-- @kind: scd2\n-- @unique_key: id\nSELECT id, n{scd2} FROM raw.x",
            "t_append": f"-- @kind: append\nSELECT id, n{events} FROM raw.events",
            "t_custom": "-- @kind: custom\n-- @materialization: kept_log\nSELECT id, n FROM raw.notes",
            "t_frame": "-- @kind: custom\n-- @materialization: frame\n"
            "SELECT word, count(*) AS c FROM seeds.words GROUP BY word",
            "t_window": f"{window}SELECT seq, v{ticks} FROM raw.ticks",
            # An edit of what stands above does not make it read anew what its source has forgotten.
            "t_ticks": f"-- @kind: view\nSELECT seq, v + {self.constant} * 0 AS v{ticks} FROM raw.ticks",
            "t_window_merge": f"{window}-- @unique_key: seq\nSELECT seq, v{ticks} FROM s.t_ticks",
            "t_window_log": f"{window}-- @incremental_strategy: append\nSELECT seq, v{ticks} FROM raw.ticks",
            "t_view": f"-- @kind: view\nSELECT g, c + {self.constant % 3} AS c FROM s.t_table",
            "t_below": "-- @post_hook: ALTER TABLE @@this SET TBLPROPERTIES ('hooked' = 'yes')\n"
            "SELECT sum(c) AS c FROM s.t_view",
        }

    def _listed(self, what: str, prefix: str = "", function: str = "") -> str:
        names = [f"e{i}" for i in range(self.read[what])]
        return "".join(f", {function}({n}) AS {n}" if function else f", {prefix}{n}" for n in names)

    # --- what changes ---------------------------------------------------------------------------------------------

    def change(self) -> str:
        """Rows change in most sources, and sometimes columns or texts do; what, for people."""
        # A function that writes a table is called in a process of its own, which takes longest.
        for source, share in (("events", 0.6), ("ticks", 0.6), ("notes", 0.3)):
            if self.random.random() < share:
                self._insert_log_rows(source)
        if self.random.random() < 0.7:
            self._change_rows()
        pick = self.random.random()
        if pick < 0.15:
            return self._add_column()
        if pick < 0.35:
            return self._edit_models()
        if pick < 0.45:
            words = "".join(f"g{i},w{self.random.randrange(5)}\n" for i in range(4))
            self.sandbox.write("seeds/words.csv", f"g,word\n{words}")
            return "a seed"
        if pick < 0.55:
            return self._add_or_drop_temporary()
        return "rows"

    def forget(self) -> None:
        """The sources lose rows that incremental models have taken in and will not look at again."""
        tables = [name for name in LOGS if "window" in name]
        if not set(tables) <= set(self.sandbox.relations()):
            return
        most = [self.sandbox.sql(f"SELECT max(seq) AS m FROM {name}")[0]["m"] for name in tables]
        if None not in most:
            self.sandbox.sql(f"DELETE FROM raw.ticks WHERE seq < {min(most) - self.random.randrange(3)}")

    def _insert_log_rows(self, source: str) -> None:
        values = []
        for _ in range(self.random.randrange(1, 3)):
            self.next_id += 1
            row = (self.next_id, *(self.random.randrange(100) for _ in range(1 + self.columns[source])))
            self.inserted[source][self.next_id] = (row, self.read.get(source, 0))
            values.append(str(row))
        self.sandbox.sql(f"INSERT INTO raw.{source} VALUES {', '.join(values)}")

    def _change_rows(self) -> None:
        pick, n, sql = self.random.random(), self.random.randrange(100), self.sandbox.sql
        if pick < 0.4:
            self.next_id += 1
            names = ", ".join(["id", "g", "n", *(f"e{i}" for i in range(self.columns["x"]))])
            values = ", ".join([str(self.next_id), f"'g{n % 4}'", *([str(n)] * (1 + self.columns["x"]))])
            sql(f"INSERT INTO raw.x ({names}) VALUES ({values})")
            self.keys.add(self.next_id)
        elif pick < 0.75:
            column = self.random.choice(["n", *(f"e{i}" for i in range(self.columns["x"]))])
            sql(f"UPDATE raw.x SET {column} = coalesce({column}, 0) + {n} WHERE id % 3 = {n % 3}")
        else:
            sql(f"DELETE FROM raw.x WHERE id = (SELECT max(id) FROM raw.x WHERE id % 5 = {n % 5})")

    def _add_column(self) -> str:
        source = self.random.choice(("x", "events", "ticks"))
        if self.columns[source] == MOST_COLUMNS:
            return "rows"
        self.sandbox.sql(f"ALTER TABLE raw.{source} ADD COLUMN e{self.columns[source]} INT")
        self.columns[source] += 1
        return f"a column of raw.{source}"

    def _add_or_drop_temporary(self) -> str:
        """A column that no model reads."""
        self.sandbox.sql(
            f"ALTER TABLE raw.x {'DROP COLUMN temporary' if self.temporary else 'ADD COLUMN temporary INT'}"
        )
        self.temporary = not self.temporary
        return "a column that is not read"

    def _edit_models(self) -> str:
        """Models read more columns than before; those that follow their query sometimes fewer."""
        what = self.random.choice(["constant", *self.read])
        if what == "constant":
            self.constant = self.random.randrange(10)
        elif what in ("events", "ticks"):
            self.read[what] = self.random.randint(self.read[what], self.columns[what])
        elif what == "scd2":
            self.read[what] = self.random.randint(self.read[what], self.columns["x"])
        else:
            self.read[what] = self.random.randint(0, self.columns["x"])
        self.write_models()
        return f"models: {what}"


class Memory:
    """What was in the tables that remember, after each build: it must be there after every later one."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.logs: dict[str, Counter[tuple[Any, ...]]] = {}
        self.kept: set[int] = set()
        self.history: set[tuple[Any, ...]] = set()

    def look(self) -> None:
        there = set(self.sandbox.relations())
        for name in LOGS:
            if name in there:
                now = Counter(row[:2] for row in self.sandbox.rows(name))
                lost = self.logs.get(name, Counter()) - now
                assert not lost, f"{name} has lost {lost}"
                self.logs[name] = now
        if "s.t_kept" in there:
            keys = {row[0] for row in self.sandbox.rows("s.t_kept")}
            assert self.kept <= keys, f"s.t_kept has lost {self.kept - keys}"
            self.kept = keys
        if "s.t_scd2" in there:
            self._look_at_history()

    def _look_at_history(self) -> None:
        rows = self.sandbox.sql("SELECT id, n, valid_from, valid_to FROM s.t_scd2")
        now = {tuple(row) for row in rows}
        assert len(now) == len(rows), "a version of s.t_scd2 is there twice"
        begun = {row[:3] for row in now}
        lost = {row for row in self.history if (row not in now if row[3] is not None else row[:3] not in begun)}
        assert not lost, f"s.t_scd2 has lost {lost}"
        self.history = now


def assert_logs_are_whole(story: Story) -> None:
    """Every row that was ever in a log's source is there once, with the columns that its log had then."""
    for name in LOGS:
        inserted = story.inserted[_SOURCE_OF_LOG.get(name, "ticks")]
        rows = {row[0]: row for row in story.sandbox.rows(name)}
        assert len(rows) == len(story.sandbox.rows(name)), f"{name} has a row twice"
        assert rows.keys() == inserted.keys(), f"{name}: {rows.keys() ^ inserted.keys()}"
        for key, (expected, columns) in inserted.items():
            # A column that its log has got since then has its value, or none.
            assert rows[key][: 2 + columns] == expected[: 2 + columns], f"{name}: {rows[key]} is not {expected}"


def assert_is_a_history(story: Story) -> None:
    """Each key has versions one after the other, and those that are current are the query's rows."""
    columns = ", ".join(["id", "n", *(f"e{i}" for i in range(story.read["scd2"]))])
    rows = story.sandbox.sql(f"SELECT id, n, valid_from, valid_to, is_current, {columns} FROM s.t_scd2")
    current = sorted_rows(row[5:] for row in rows if row[4])
    assert current == sorted_rows(story.sandbox.sql(f"SELECT {columns} FROM raw.x"))
    by_key: dict[Any, list[Any]] = {}
    for row in sorted(rows, key=lambda row: (row[0], row[2])):
        by_key.setdefault(row[0], []).append(row)
    for versions in by_key.values():
        for earlier, later in pairwise(versions):
            assert earlier[3] is not None and earlier[3] <= later[2], versions
        assert all((row[3] is None) == row[4] and (row[3] is None or row[2] <= row[3]) for row in versions)


def assert_keeps_what_left(story: Story) -> None:
    """Rows of the source are there as they are now, and besides only those that were there once."""
    remaining = dict(story.sandbox.rows("s.t_kept"))
    source = dict(story.sandbox.sql("SELECT id, n FROM raw.x"))  # type: ignore[arg-type]
    assert source.items() <= remaining.items()
    assert remaining.keys() <= story.keys


def sorted_rows(rows: Iterable[Iterable[Any]]) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in rows), key=str)


def copy_of(story: Story, scratch: Sandbox) -> None:
    """The same project and sources, never built."""
    folder = story.sandbox.folder
    for path in ("sqlbuild_project.toml", "materializations/own.py", "seeds/words.csv"):
        scratch.write(path, (folder / path).read_text())
    for path in folder.glob("models/s/*.sql"):
        scratch.write(f"models/s/{path.name}", path.read_text())
    scratch.sql("CREATE NAMESPACE IF NOT EXISTS raw")
    for name in SOURCES:
        scratch.sql(f"CREATE TABLE {name} ({', '.join(story.sandbox.columns(name))})")
        rows = [", ".join("NULL" if v is None else repr(v) for v in row) for row in story.sandbox.rows(name)]
        if rows:
            scratch.sql(f"INSERT INTO {name} VALUES {', '.join(f'({row})' for row in rows)}")
