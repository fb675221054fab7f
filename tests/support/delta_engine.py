"""The rules of following changes on DuckDB: thousands of queries in the time that Spark takes for a few.

Texts are written for Spark; sqlglot writes them for DuckDB. A frame is the name of a view.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import duckdb
import sqlglot
from sqlglot import exp

from sqb.names import quote
from sqb.sql.delta.aggregates.state_design import ROWS, SAMPLE, StateDesign, design_state
from sqb.sql.delta.evaluate import Evaluation
from sqb.sql.delta.operators.model import OperatorTree
from sqb.sql.delta.proposal import Proposal
from sqb.sql.delta.rules.add_up import SIGN, render_all_figures, render_group_figures, render_types
from sqb.sql.delta.rules.base import MULTIPLICITY
from sqb.sql.delta.rules.places import Version
from sqb.sql.delta.skeleton.model import SLOT
from sqb.sql.text.template import Template

Rows = Counter[tuple[object, ...]]
Data = Mapping[str, Sequence[tuple[object, ...]]]
_LIKE_AN_ALIAS = re.compile(r"` WHERE \(\w+\)|(old|new)_\w+ WHERE \(\w+\)")
# Of the last ones there are only NULLs.
_TYPES = {"string": "VARCHAR", "array": "VARCHAR", "map": "VARCHAR", "struct": "VARCHAR"}


class NotRun(Exception):
    """DuckDB cannot run a text: nothing is said about the rules."""


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _count_like_spark(node: exp.Expr) -> exp.Expr:
    """Over no rows, count_if is 0 in Spark and NULL in DuckDB."""
    if not isinstance(node, exp.CountIf):
        return node
    return exp.Count(this=exp.Case(ifs=[exp.If(this=node.this, true=exp.Literal.number(1))]))


def _compare_like_spark(node: exp.In) -> None:
    """Where one of several values differs, IN does not hold for Spark; for DuckDB a NULL beside it leaves that open."""
    query = node.args.get("query")
    if query is None or not isinstance(node.this, exp.Tuple):
        return
    tested = {f"__duck_u{i}": value for i, value in enumerate(node.this.expressions)}
    same = exp.paren(exp.and_(*(exp.EQ(this=v.copy(), expression=exp.column(name)) for name, v in tested.items())))
    rows = exp.Subquery(
        this=query.unnest(), alias=exp.TableAlias(this="__duck_t", columns=[*map(exp.to_identifier, tested)])
    )

    def ask(condition: exp.Expr) -> exp.Expr:
        return exp.Exists(this=exp.select("1").from_(rows.copy()).where(condition))

    unknown = exp.Is(this=same.copy(), expression=exp.Null())
    answers = [exp.If(this=ask(same), true=exp.true()), exp.If(this=ask(unknown), true=exp.null())]
    node.replace(exp.Case(ifs=answers, default=exp.false()))


@lru_cache(maxsize=4096)
def translate(text: str) -> str:
    """A text of Spark's as DuckDB has it."""
    try:
        tree = sqlglot.parse_one(text, read="spark").transform(_count_like_spark, copy=False)
        # The innermost first: what is around it is copied.
        for node in reversed(list(tree.find_all(exp.In))):
            _compare_like_spark(node)
        return tree.sql("duckdb", copy=False)
    except sqlglot.errors.SqlglotError as error:
        raise NotRun(f"{error}\n{text}") from error


@lru_cache(maxsize=1)
def _connect() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(":memory:")
    connection.execute("SET threads = 1")
    return connection


@contextmanager
def open_engine() -> Iterator[DuckEngine]:
    """An engine without tables; what is made with it is gone afterwards. All share one connection."""
    connection = _connect()
    connection.begin()
    try:
        yield DuckEngine(connection)
    finally:
        try:
            connection.rollback()
        except duckdb.Error:
            # A defect of DuckDB's own leaves a database that answers nothing any more.
            _connect.cache_clear()


class DuckEngine:
    """Runs the texts of rules."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self.connection = connection
        self._count = 0

    def execute(self, text: str) -> Any:
        try:
            return self.connection.execute(text)
        except duckdb.Error as error:
            raise NotRun(f"{error}\n{text}") from error

    def keep(self, text: str, is_table: bool = True) -> str:
        """The result of a text of DuckDB's, under a name."""
        self._count += 1
        name = f"frame_{self._count}"
        self.execute(f"CREATE {'TABLE' if is_table else 'VIEW'} {name} AS {text}")
        return name

    def run(self, text: str) -> str:
        # Behind a table's name, Spark takes this for an alias with the name of a column.
        assert not _LIKE_AN_ALIAS.search(text), text
        return self.keep(translate(text))

    def list_columns(self, frame: str) -> list[str]:
        return [row[0] for row in self.execute(f"DESCRIBE {frame}").fetchall()]

    def rename(self, frame: str, columns: Sequence[str]) -> str:
        names = ", ".join(_quote(c) for c in columns)
        return self.keep(f"SELECT * FROM {frame} AS t({names})")

    def persist(self, frame: str) -> str:
        return frame

    def derive(self, frame: str, *sources: str) -> str:
        return frame

    def create_view(self, frame: str) -> str:
        return quote(frame)

    def weigh(self, frame: str, columns: Sequence[str]) -> str:
        shown = [c for c in self.list_columns(frame) if c != MULTIPLICITY]
        assert len(shown) == len(columns) + 1, (shown, columns)
        remaining = ", ".join(_quote(c) for c in shown)
        return self.rename(self.keep(f"SELECT {remaining} FROM {frame}"), [*columns, MULTIPLICITY])

    def sum_changes(self, frames: Sequence[str], like: str) -> str:
        types = self.execute(f"DESCRIBE {like}").fetchall()
        columns = [row[0] for row in types]
        parts = []
        for frame in frames:
            old = self.list_columns(frame)[:-1]
            listed = "".join(
                f"CAST({_quote(o)} AS {t[1]}) AS {_quote(t[0])}, " for o, t in zip(old, types, strict=True)
            )
            parts.append(f"SELECT {listed}{MULTIPLICITY} FROM {frame}")
        names = ", ".join(_quote(c) for c in columns)
        return self.keep(
            f"SELECT {names}, CAST(sum({MULTIPLICITY}) AS BIGINT) AS {MULTIPLICITY}"
            f" FROM ({' UNION ALL '.join(parts)}) GROUP BY {names} HAVING sum({MULTIPLICITY}) <> 0"
        )

    def expand(self, change: str) -> str:
        names = ", ".join(_quote(c) for c in self.list_columns(change)[:-1])
        return self.keep(
            f"SELECT {names}, sign({MULTIPLICITY})::BIGINT AS {MULTIPLICITY}"
            f" FROM {change}, range(abs({MULTIPLICITY})) AS r(i)"
        )

    def list_rows(self, frames: Sequence[str], like: str) -> str:
        types = self.execute(f"DESCRIBE {like}").fetchall()
        names = ", ".join(_quote(t[0]) for t in types)
        parts = []
        for frame in frames:
            old = self.list_columns(frame)[:-1]
            parts.append(
                "SELECT "
                + ", ".join(f"CAST({_quote(o)} AS {t[1]}) AS {_quote(t[0])}" for o, t in zip(old, types, strict=True))
                + f" FROM {frame}"
            )
        return self.keep(f"SELECT DISTINCT {names} FROM ({' UNION ALL '.join(parts)})")

    def restrict(self, frame: str, rows: str, like: str) -> str:
        types = [row[1] for row in self.execute(f"DESCRIBE {like}").fetchall()]
        own, wanted = self.list_columns(frame), self.list_columns(rows)
        same = " AND ".join(
            f"CAST(a.{_quote(a)} AS {t}) IS NOT DISTINCT FROM b.{_quote(b)}"
            for a, b, t in zip(own, wanted, types, strict=True)
        )
        return self.keep(f"SELECT a.* FROM {frame} a SEMI JOIN {rows} b ON {same}")

    def fetch(self, frame: str) -> Rows:
        return Counter(map(tuple, self.execute(f"SELECT * FROM {frame}").fetchall()))


class DuckTables:
    """Two versions of some tables: `old_<name>` and `new_<name>`."""

    def __init__(self, engine: DuckEngine, names: Sequence[str], changed: frozenset[int]) -> None:
        self.engine, self.names, self.changed = engine, names, changed

    def get_new(self, slot: int) -> str:
        return f"new_{self.names[slot]}" if slot in self.changed else self.get_old(slot)

    def get_old(self, slot: int) -> str:
        return f"old_{self.names[slot]}"

    def find_ranges(self, slot: int, column: str) -> list[tuple[str, str]]:
        name, change = _quote(column), DuckTables.compute_delta(self, slot)
        values = self.engine.execute(f"SELECT DISTINCT {name} FROM {change} WHERE {name} IS NOT NULL").fetchall()
        # Nothing but these values: what leaves out one row too many is noticed.
        return [(f"'{value}'", f"'{value}'") for (value,) in sorted(values)]

    def compute_delta(self, slot: int) -> str:
        new, old = self.get_new(slot), self.get_old(slot)
        weighed = [
            self.engine.keep(f"SELECT *, {weight}::BIGINT AS {MULTIPLICITY} FROM {table}")
            for table, weight in ((new, 1), (old, -1))
        ]
        return self.engine.sum_changes(weighed, new)

    def read_changes(self, slot: int) -> str:
        """All rows of both versions: most of them came and went unchanged."""
        parts = ((self.get_new(slot), 1), (self.get_old(slot), -1))
        return self.engine.keep(
            " UNION ALL ".join(f"SELECT *, {sign}::BIGINT AS {MULTIPLICITY} FROM {table}" for table, sign in parts)
        )


class DuckShown:
    """The rows of the result of before, as the table of a model holds them."""

    def __init__(self, engine: DuckEngine, template: Template) -> None:
        self.engine = engine
        self.result = engine.run(template.render(DuckTables(engine, template.names, frozenset()).get_old))

    def read_rows(self, columns: Mapping[int, str], keys: str) -> str:
        names = self.engine.list_columns(self.result)
        same = " AND ".join(f"t.{_quote(names[i])} IS NOT DISTINCT FROM k.{key}" for i, key in columns.items())
        return self.engine.keep(
            f"SELECT t.*, -1::BIGINT AS {MULTIPLICITY} FROM {self.result} t SEMI JOIN {keys.strip('`')} k ON {same}"
        )


class DuckStates:
    """Figures of groups, kept by adding up what changes give to what the old rows gave."""

    def __init__(self, engine: DuckEngine, text: str, tree: OperatorTree) -> None:
        self.engine, self.text, self.tree = engine, text, tree
        self.evaluation: Evaluation | None = None
        self._designs: dict[int, StateDesign] = {}
        self._states: dict[tuple[int, Version], str] = {}

    def is_updated(self, operator: int) -> bool:
        return (operator, "new") in self._states

    def get_design(self, operator: int) -> StateDesign:
        if operator not in self._designs:
            self._designs[operator] = self._design(operator)
        return self._designs[operator]

    def _design(self, index: int) -> StateDesign:
        assert self.evaluation is not None
        described = self.engine.execute(f"DESCRIBE {self.engine.run(render_types(self.evaluation, index))}").fetchall()
        names = {"HUGEINT": "bigint", "INTEGER": "bigint", "BIGINT": "bigint", "DOUBLE": "double"}
        types = {row[0]: names.get(row[1], row[1].lower()) for row in described}
        for name, kind in list(types.items()):
            # DuckDB adds up decimals in 38 digits, Spark in ten more than they have.
            if name.startswith("u") and kind.startswith("decimal(38"):
                types[name] = kind.replace("decimal(38", "decimal(22")
        return design_state(self.evaluation.get_aggregation(index), types)

    def _get_state(self, index: int, version: Version) -> str:
        if (index, version) not in self._states:
            assert self.evaluation is not None
            text = render_all_figures(self.evaluation, index, self.get_design(index), version)
            self._states[index, version] = self.engine.run(text)
        return self._states[index, version]

    def get_result(self, operator: int, version: Version, queries: Mapping[int, str]) -> str:
        return self._read(operator, self._get_state(operator, version), queries)

    def _read(self, operator: int, state: str, queries: Mapping[int, str]) -> str:
        frame = self.engine.run(self.get_design(operator).render_result(quote(state), queries))
        assert self.evaluation is not None
        return self.engine.rename(frame, self.evaluation.list_plain_columns(operator))

    def add_changes(self, operator: int, texts: Sequence[str]) -> None:
        design = self.get_design(operator)
        old = self._get_state(operator, "old")
        extremes = any(f.merge != "sum" for f in design.figures)
        if extremes:
            # What leaves an extreme is Spark's part: here the figures of all groups are taken from their rows.
            merged = self._redo_groups(operator)
        else:
            listed = ", ".join([*design.columns, SIGN])
            parts = [f"SELECT {listed} FROM {frame}" for frame in (old, *map(self.engine.run, texts))]
            sums = ", ".join(
                f"CAST(sum(CASE WHEN {SIGN} < 0 THEN -{f.name} ELSE {f.name} END) AS {f.type or 'BIGINT'}) AS {f.name}"
                for f in design.figures
            )
            keys = "".join(f"{k}, " for k in design.keys)
            sample = f"max({SAMPLE}) AS {SAMPLE}, " if design.samples else ""
            by = f" GROUP BY {keys[:-2]}" if design.keys else ""
            having = f" HAVING sum({SIGN} * {ROWS}) <> 0" if design.keys else ""
            merged = self.engine.keep(f"SELECT {keys}{sample}{sums} FROM ({' UNION ALL '.join(parts)}){by}{having}")
        self._states[operator, "new"] = merged

    def _redo_groups(self, operator: int) -> str:
        assert self.evaluation is not None
        design, groups = self.get_design(operator), self._get_state(operator, "new")
        keys = self.engine.keep(f"SELECT {', '.join(design.keys)} FROM {groups}") if design.keys else groups
        return self.engine.run(render_group_figures(self.evaluation, operator, design, quote(keys)))

    def compute_change(
        self, operator: int, queries: Mapping[Version, Mapping[int, str]], are_values_changed: bool
    ) -> str:
        new = self._read(operator, self._get_state(operator, "new"), queries["new"])
        then = self._read(operator, self._get_state(operator, "old"), queries["old"])
        columns = self.engine.list_columns(new)
        frames = [
            self.engine.rename(
                self.engine.keep(f"SELECT *, {w}::BIGINT AS {MULTIPLICITY} FROM {f}"), [*columns, MULTIPLICITY]
            )
            for f, w in ((new, 1), (then, -1))
        ]
        return self.engine.sum_changes(frames, new)


def fill_tables(engine: DuckEngine, tables: Mapping[str, Mapping[str, str]], old: Data, new: Data) -> None:
    """Two versions of some tables, by their columns and types, as tables of DuckDB."""
    statements = []
    for version, data in (("old", old), ("new", new)):
        for name, schema in tables.items():
            columns = ", ".join(f"{c} {_TYPES.get(t.partition('<')[0], t)}" for c, t in schema.items())
            statements.append(f"CREATE TABLE {version}_{name} ({columns})")
            if data[name]:
                rows = ", ".join(f"({', '.join(map(_render_literal, row))})" for row in data[name])
                statements.append(f"INSERT INTO {version}_{name} VALUES {rows}")
    engine.execute("; ".join(statements))


def _render_literal(value: object) -> str:
    if value is None:
        return "NULL"
    return f"'{value}'" if isinstance(value, str) else str(value)


def follow_change(
    engine: DuckEngine, template: Template, tree: OperatorTree, slots: frozenset[int], proposal: Proposal
) -> Rows:
    """The change of a query by its rules."""
    return _net_change(engine, _evaluate(engine, template, tree, slots, proposal))


def follow_by_target(
    engine: DuckEngine, template: Template, tree: OperatorTree, slots: frozenset[int], proposal: Proposal
) -> Rows:
    """The same, with what the result was read from a table that holds it."""
    evaluation = _evaluate(engine, template, tree, slots, proposal)
    evaluation.shown = DuckShown(engine, template)
    return _net_change(engine, evaluation)


def _net_change(engine: DuckEngine, evaluation: Evaluation) -> Rows:
    change: Rows = Counter()
    for row in engine.fetch(evaluation.compute_change()).elements():
        change[row[:-1]] += int(row[-1])  # type: ignore[call-overload]
    return Counter({row: times for row, times in change.items() if times})


def read_from_figures(
    engine: DuckEngine, template: Template, tree: OperatorTree, slots: frozenset[int], proposal: Proposal
) -> Rows:
    """The change of a query whose new result is read from the figures of its groups at once."""
    rows = engine.fetch(_evaluate(engine, template, tree, slots, proposal).get_frame(tree.root, "new"))
    rows.subtract(engine.fetch(engine.run(template.render(DuckTables(engine, template.names, slots).get_old))))
    return Counter({row: times for row, times in rows.items() if times})


def _evaluate(
    engine: DuckEngine, template: Template, tree: OperatorTree, slots: frozenset[int], proposal: Proposal
) -> Evaluation:
    text = template.render(lambda index: f"{SLOT}{index}")
    states = DuckStates(engine, text, tree)
    states.evaluation = Evaluation(text, tree, proposal, engine, DuckTables(engine, template.names, slots), states)
    return states.evaluation


def compare_results(engine: DuckEngine, template: Template, slots: frozenset[int]) -> Rows:
    """The change of a query by comparing what it gives now with what it gave."""
    tables = DuckTables(engine, template.names, slots)
    compared = engine.fetch(engine.run(template.render(tables.get_new)))
    compared.subtract(engine.fetch(engine.run(template.render(tables.get_old))))
    return Counter({row: times for row, times in compared.items() if times})


def list_state_operators(tree: OperatorTree) -> frozenset[int]:
    """The operators that figures of groups can be kept for."""
    names = set()
    for index, operator in enumerate(tree.operators):
        aggregation = operator.block.aggregation if operator.block is not None else None
        # By the types of the arguments, which Spark has to be asked for, figures for the second are refused.
        if aggregation and not (aggregation.distinct and any(c.function == "avg" for c in aggregation.calls)):
            names.add(index)
    return frozenset(names)
