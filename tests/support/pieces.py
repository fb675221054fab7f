"""What `classify` claims, tried without Spark: thousands of queries in the time that Spark takes for a few.

A query must give the same change by the rules of its operators as by subtraction; that is tried on DuckDB. A key
must cut the query's result in two whichever values are taken, and the columns that are said to show the key must show
it; SQLite, which compares texts with numbers without complaint, is asked that.
"""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from random import Random

import sqlglot

from sqb.sql.delta.classify import classify_query
from sqb.sql.delta.errors import NotProven
from sqb.sql.delta.facts import Facts, Key, list_key_columns, render_key_expression
from sqb.sql.delta.operators.model import OperatorTree
from sqb.sql.delta.proposal import propose
from sqb.sql.text.template import Template
from support.delta_engine import (
    NotRun,
    compare_results,
    fill_tables,
    follow_change,
    list_state_operators,
    open_engine,
)

Schema = Mapping[str, str]
Rows = Counter[tuple[object, ...]]
Data = Mapping[str, Sequence[tuple[object, ...]]]

_TABLE = re.compile(r"\braw\.(\w+)")
_VALUES: dict[str, tuple[object, ...]] = {
    "int": (None, 0, 1, 2),
    "bigint": (None, 0, 1, 2),
    "string": (None, "", "1", "01", "2"),
    "double": (None, 0.25, 1.0, 2.0),
    "date": (None, "2024-02-29", "2024-03-01"),
}


class NotThere(Exception):
    """SQLite cannot run the query."""


def template_of(sql: str) -> Template:
    """A query over tables `raw.…`, each of them a hole."""
    pieces = _TABLE.split(sql)
    return Template(tuple(pieces[::2]), tuple(pieces[1::2]))


def facts_of(sql: str, tables: Mapping[str, Schema]) -> tuple[Template, Facts]:
    template = template_of(sql)
    return template, classify_query(template, [tables[name] for name in template.names])


def refute(sql: str, tables: Mapping[str, Schema], random: Random, rounds: int = 3) -> tuple[Facts, str | None]:
    """What is claimed of a query, and data that shows the claim to be wrong; None when none was found."""
    template, facts = facts_of(sql, tables)
    for number in range(rounds):
        if facts.kind == "opaque" and number > 0:
            break
        old, new = _data(tables, random), _data(tables, random)
        base = Database(template, tables, old, new)
        # Rules take longer than keys.
        if number == 0 and facts.tree is not None and (wrong := _wrong_change(base, facts.tree, random)):
            return facts, wrong
        for key in facts.keys[:6]:
            if wrong := _wrong_key(base, key, facts, random):
                return facts, wrong
    return facts, None


def _data(tables: Mapping[str, Schema], random: Random) -> Data:
    return {
        name: [
            tuple(random.choice(_VALUES.get(k, (None,))) for k in schema.values()) for _ in range(random.randint(0, 5))
        ]
        for name, schema in tables.items()
    }


class Database:
    """Two versions of some tables, and a query whose holes can be filled with either."""

    def __init__(self, template: Template, tables: Mapping[str, Schema], old: Data, new: Data) -> None:
        self.template, self.tables, self.old, self.new = template, tables, old, new
        self.connection = sqlite3.connect(":memory:")
        for version, data in (("old", old), ("new", new)):
            for name, schema in tables.items():
                self._table(f"{version}_{name}", schema, data[name])

    def _table(self, name: str, schema: Schema, rows: Sequence[tuple[object, ...]]) -> None:
        kinds = {"string": "TEXT", "date": "TEXT", "double": "REAL"}
        columns = ", ".join(f"{c} {kinds.get(t, 'INTEGER')}" for c, t in schema.items())
        self.connection.execute(f"DROP TABLE IF EXISTS {name}")
        self.connection.execute(f"CREATE TABLE {name} ({columns})")
        marks = ", ".join("?" for _ in schema)
        self.connection.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)

    def run(self, fill: Mapping[int, str]) -> tuple[list[str], Rows]:
        return self.run_text(self.template.render(lambda i: fill[i]))

    def run_text(self, text: str) -> tuple[list[str], Rows]:
        try:
            rows = self.connection.execute(_translate(text))
        except (sqlite3.Error, sqlglot.errors.SqlglotError) as error:
            raise NotThere(str(error)) from error
        return [c[0] for c in rows.description], Counter(map(tuple, rows.fetchall()))

    def values(self, key: Key) -> list[object]:
        """What the key is in some row, and NULL."""
        by_name: dict[object, None] = {None: None}
        for hole, term in key.slots:
            text = f"SELECT DISTINCT {_sqlite(term)} FROM new_{self.template.names[hole]}"
            try:
                by_name.update(dict.fromkeys(value for (value,) in self.connection.execute(text)))
            except sqlite3.Error as error:
                raise NotThere(str(error)) from error
        return list(by_name)

    def version(self, which: str) -> dict[int, str]:
        return {i: f"{which}_{n}" for i, n in enumerate(self.template.names)}


def _wrong_change(base: Database, tree: OperatorTree, random: Random) -> str | None:
    """Some of the tables change, the others stay: the change by the rules of the operators, on DuckDB."""
    template = base.template
    slots = frozenset(slot for slot in range(len(template.names)) if random.random() < 0.7) or frozenset({0})
    states = list_state_operators(tree) if random.random() < 0.5 else frozenset()
    proposal = propose(tree, slots, states)
    if proposal.obstacle is not None:
        return None
    with open_engine() as engine:
        fill_tables(engine, {name: base.tables[name] for name in template.names}, base.old, base.new)
        try:
            compared = compare_results(engine, template, slots)
        except NotRun:
            return None
        try:
            followed = follow_change(engine, template, tree, slots, proposal)
        except NotProven:
            # What Spark says of the types of arguments is what figures are refused for.
            return None
        except NotRun as problem:
            # A text that is no number is an error or none, by which rows are compared first.
            return None if "Conversion Error" in str(problem) else str(problem)
    if followed == compared:
        return None
    rules = {index: chosen.rule for index, chosen in proposal.rules.items()}
    return f"{rules} of {set(slots)} give {followed} and the change is {compared}; {base.old} {base.new}"


def _wrong_key(base: Database, key: Key, facts: Facts, random: Random) -> str | None:
    values = [v for v in base.values(key) if random.random() < 0.5]

    def part(inside: bool) -> dict[int, str]:
        fill = base.version("new")
        for hole, term in key.slots:
            condition = " OR ".join(["FALSE", *(f"{render_key_expression(term)} IS {_literal(v)}" for v in values)])
            fill[hole] = f"(SELECT * FROM {fill[hole]} WHERE {'' if inside else 'NOT '}({condition}))"
        return fill

    names, whole = base.run(base.version("new"))
    _, one = base.run(part(True))
    _, other = base.run(part(False))
    if one + other != whole:
        return f"{key} with {values}: {one} and {other} are not {whole}; {base.new}"
    assert len(names) == len(facts.outputs)
    for output in key.outputs:
        place = facts.outputs.index(output)
        if any(row[place] not in values for row in one) or any(row[place] in values for row in other):
            return f"{key} with {values}: {output} does not show the key in {one} and {other}; {base.new}"
    held = [(h, c) for h, term in key.slots for c in list_key_columns(term)]
    unread = [(h, c) for h, c in held if facts.columns[h] is not None and c not in (facts.columns[h] or ())]
    if unread:
        return f"{key} holds columns that are not read: {unread}"
    return None


@lru_cache(maxsize=1024)
def _translate(text: str) -> str:
    return sqlglot.transpile(text, read="spark", write="sqlite")[0]


def _sqlite(term: str) -> str:
    return _translate(f"SELECT {render_key_expression(term)}").removeprefix("SELECT ")


def _literal(value: object) -> str:
    return "NULL" if value is None else repr(value)
