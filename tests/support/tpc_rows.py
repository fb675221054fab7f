"""TPC-H and TPC-DS with rows: queries as models in a lake of their own, tables that change, and exact results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from sqb.names import quote
from support.sandbox import PROJECT_FILE, Sandbox
from support.tpc import BENCHMARKS, TpcQuery, read_queries, read_schemas

# Changes are followed however small the tables are and whatever it costs.
_PROJECT = 'name = "tpc"\n[incremental]\nmin_rows = 0\nmax_share = 100.0\n'
# Files are rewritten one by one, and figures group by group; or both as a whole, as those of small tables are.
_SMALL_ROWS = {"copy-on-write": "small_rows = 0\n", "merge-on-read": ""}


class NotExact(AssertionError):
    """A model is not what its query gives."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What to run: queries of a benchmark, all when none is named, and a table, all that they read when none is."""

    benchmark: str
    query: str | None = None
    table: str | None = None

    @classmethod
    def parse(cls, text: str) -> Choice:
        """Parse `[tpch:|tpcds:][q03][:lineitem]`."""
        parts = text.strip().split(":")
        benchmark = parts.pop(0) if parts[0] in BENCHMARKS else BENCHMARKS[0]
        return cls(benchmark, *(part or None for part in parts))

    def list_queries(self) -> tuple[TpcQuery, ...]:
        """The queries that are chosen."""
        queries = [q for q in read_queries(self.benchmark) if self.query in (None, q.name)]
        chosen = tuple(q for q in queries if self.table is None or self.table in q.tables)
        assert chosen, f"no query of {self.benchmark} fits {self}"
        return chosen

    def list_read_tables(self) -> tuple[str, ...]:
        """The tables that the queries read."""
        return tuple(sorted({table for query in self.list_queries() for table in query.tables}))

    def list_tables(self) -> tuple[str, ...]:
        """The tables to change alone."""
        return self.list_read_tables() if self.table is None else (self.table,)


@dataclass(slots=True)
class TpcWorld:
    """A project with some queries as models, over tables that are written one way."""

    sandbox: Sandbox
    queries: Sequence[TpcQuery]
    write_mode: str
    random: Random
    story: list[str] = field(default_factory=list)
    run_types: Counter[str] = field(default_factory=Counter)

    def create(self, rows: Path) -> None:
        """Fill the tables from Parquet files, and write the models."""
        self.sandbox.write(PROJECT_FILE, _PROJECT + _SMALL_ROWS[self.write_mode])
        self.sandbox.sql("CREATE NAMESPACE raw")
        benchmark = self.queries[0].benchmark
        modes = ", ".join(f"'write.{what}.mode' = '{self.write_mode}'" for what in ("delete", "update", "merge"))
        for table in sorted({t for q in self.queries for t in q.tables}):
            columns = ", ".join(f"{c} {kind}" for c, kind in read_schemas(benchmark)[table].items())
            self.sandbox.sql(f"CREATE TABLE raw.{table} ({columns}) TBLPROPERTIES ('format-version' = '2', {modes})")
            self.sandbox.sql(f"INSERT INTO raw.{table} SELECT * FROM parquet.`{rows / table}.parquet`")
        for query in self.queries:
            self.sandbox.write(
                f"models/m/{query.name}.sql", f"-- @kind: table\n-- @refresh: incremental\n{query.sql}\n"
            )

    def change(self, table: str, how: str) -> None:
        """Insert, update or delete some rows of a table."""
        schema = read_schemas(self.queries[0].benchmark)[table]
        count = self.sandbox.sql(f"SELECT count(*) FROM raw.{table}")[0][0]
        parts = max(1, min(50, count // 2))
        where = f"pmod(xxhash64({', '.join(schema)}), {parts}) = {self.random.randrange(parts)}"
        match how:
            case "inserts":
                values = ", ".join(self._vary(c, kind, "0.1") for c, kind in schema.items())
                statement = f"INSERT INTO raw.{table} SELECT {values} FROM raw.{table} WHERE {where}"
            case "updates":
                column = self.random.choice(self._list_read_columns(table, schema))
                statement = f"UPDATE raw.{table} SET {column} = {self._vary(column, schema[column], '1')} WHERE {where}"
            case _:
                statement = f"DELETE FROM raw.{table} WHERE {where}"
        self.story.append(statement)
        self.sandbox.sql(statement)

    def _list_read_columns(self, table: str, schema: Iterable[str]) -> list[str]:
        """The columns that some query names: an update of another changes nothing."""
        named = [c for c in schema if any(table in q.tables and c in q.sql.lower() for q in self.queries)]
        return named or list(schema)

    def _vary(self, column: str, kind: str, share: str) -> str:
        """An expression for another value of a column, in a share of the rows; sometimes NULL."""
        other = {"string": f"reverse({column})", "date": f"date_add({column}, 30)"}.get(kind, f"{column} - 1")
        other = "NULL" if self.random.random() < 0.1 else other
        is_varied = f"pmod(hash({column}), 10) < 10 * {share}"
        return f"CAST(IF({is_varied}, {other}, {column}) AS {kind})"

    def build(self) -> None:
        """Build, and compare every model with its query."""
        result = self.sandbox.build()
        self.story.append("-- build")
        results = {query.name: self._compute(query) for query in self.queries}
        failing = {name: result for name, result in results.items() if isinstance(result, str)}
        for node in result.nodes:
            name = node.planned.name.removeprefix("m.")
            if (node.status in ("failed", "blocked")) != (name in failing):
                why = f"{node.status}: {node.error} {node.detail}; the query itself: {failing.get(name, 'runs')}"
                raise NotExact(self._tell(node.planned.name, why))
            how = node.run_type if node.status == "ok" else node.status
            self.run_types[how] += 1
            print(f"  {node.planned.name}: {how} {node.seconds:.1f} s {node.detail}", flush=True)
        for name, computed in results.items():
            if isinstance(computed, str):
                continue
            stored = make_multiset(self.sandbox.sql(f"SELECT * FROM m.{quote(name)}"))
            # A result without rows proves little: some queries have none over so few rows.
            print(f"  m.{name}: {computed.total()} rows", flush=True)
            if stored != computed:
                extra, missing = list((stored - computed).items())[:4], list((computed - stored).items())[:4]
                raise NotExact(self._tell(name, f"too many: {extra}\n  missing: {missing}"))

    def _compute(self, query: TpcQuery) -> Counter[str] | str:
        """The rows of a query over the tables as they are, or why it fails: a scalar subquery may find several rows."""
        try:
            return make_multiset(self.sandbox.sql(query.sql))
        except (PySparkException, Py4JJavaError) as error:
            return str(error)[:200]

    def _tell(self, name: str, what: str) -> str:
        story = ";\n".join(self.story)
        return f"{name} ({self.write_mode}): {what}\n== what was done\n{story}"


def make_multiset(rows: Sequence[Sequence[Any]]) -> Counter[str]:
    """Rows by their text; of doubles 9 digits, as Spark adds them up in any order."""
    return Counter(repr(tuple(f"{v:.9g}" if isinstance(v, float) else v for v in row)) for row in rows)
