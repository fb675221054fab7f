"""The queries of TPC-H and TPC-DS as models of sqb, and which of their tables' changes they follow.

The texts come from DuckDB's extensions (`scripts/tpc_env.py`); here they become Spark SQL over the schema `raw`, each
without its final ORDER BY and LIMIT, which a table does not have.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sqb.plan.refresh.states import list_additive_operators
from sqb.sql.analysis.parse import read_query
from sqb.sql.delta.classify import classify_query
from sqb.sql.delta.facts import Facts
from sqb.sql.delta.proposal import propose
from sqb.sql.text.lexer import Token, tokenize_code
from sqb.sql.text.spans import fill_references
from sqb.sql.text.template import Part, Template, build_template
from support.required import missing

TEXTS = Path(__file__).resolve().parent.parent.parent / ".venv-tpc" / "texts.json"
BENCHMARKS = ("tpch", "tpcds")
FOLLOWED = "followed"
# Not the name of a table: every table that the query reads has changed.
ALL_TABLES = "all at once"
# What the refresh of each benchmark changes: its facts.
REFRESHED = {
    "tpch": ("orders", "lineitem"),
    "tpcds": (
        "catalog_returns",
        "catalog_sales",
        "inventory",
        "store_returns",
        "store_sales",
        "web_returns",
        "web_sales",
    ),
}
_SCHEMA = "raw"


@dataclass(frozen=True, slots=True)
class TpcQuery:
    """A query as the text of a model, and the tables that it reads."""

    benchmark: str
    name: str
    sql: str
    template: Template

    @property
    def tables(self) -> tuple[str, ...]:
        return tuple(sorted(set(self.template.names)))


@cache
def _read_texts() -> dict[str, dict[str, dict[str, object]]]:
    if not TEXTS.is_file():
        missing("the texts of TPC-H and TPC-DS are not there: scripts/tpc_env.py writes them")
    texts: dict[str, dict[str, dict[str, object]]] = json.loads(TEXTS.read_text())
    return texts


@cache
def read_schemas(benchmark: str) -> Mapping[str, Mapping[str, str]]:
    """The columns of each table, with Spark's types."""
    tables: dict[str, dict[str, str]] = _read_texts()[benchmark]["tables"]  # type: ignore[assignment]
    names = {"VARCHAR": "string", "INTEGER": "int"}
    return {table: {c: names.get(kind, kind.lower()) for c, kind in cs.items()} for table, cs in tables.items()}


@cache
def read_queries(benchmark: str) -> tuple[TpcQuery, ...]:
    """The queries of a benchmark, in order."""
    texts: dict[str, str] = _read_texts()[benchmark]["queries"]  # type: ignore[assignment]
    return tuple(_build_query(benchmark, name, text) for name, text in texts.items())


def _build_query(benchmark: str, name: str, text: str) -> TpcQuery:
    spark_sql = _quote_names(_cut_final_order(text))
    query = read_query(spark_sql, {})
    relations = {i: f"{_SCHEMA}.{reference.name}" for i, reference in enumerate(query.references)}
    sql = fill_references(spark_sql, query.references, relations)[0]
    references = read_query(sql, {}).references
    template = build_template(Part(sql, references, [r.parts[-1] for r in references]), {}, _refuse_pinned)
    return TpcQuery(benchmark, name, sql, template)


def _refuse_pinned(*_: object) -> object:
    raise AssertionError("no query of TPC reads a version")


def _cut_final_order(text: str) -> str:
    """The query without the ORDER BY and LIMIT that stand outside of all brackets."""
    tokens = tokenize_code(text)
    depth = 0
    for index, token in enumerate(tokens):
        depth += (token.text == "(") - (token.text == ")")
        is_order = token.text.upper() == "ORDER" and tokens[index + 1].text.upper() == "BY"
        if depth == 0 and token.kind == "word" and (is_order or token.text.upper() == "LIMIT"):
            return text[: token.start].rstrip()
    return text.rstrip().rstrip(";")


def _quote_names(text: str) -> str:
    """Names in Spark's quotes: in DuckDB's texts nothing between double quotes is a string."""

    def quote(token: Token) -> str:
        return f"`{token.text[1:-1]}`" if token.text.startswith('"') else token.text

    parts, end = [], 0
    for token in tokenize_code(text):
        parts += [text[end : token.start], quote(token)]
        end = token.end
    return "".join([*parts, text[end:]])


def classify_pairs(query: TpcQuery) -> Iterator[tuple[str, str]]:
    """What becomes of a change of each table that a query reads, and of all at once: followed, or why not."""
    schemas = read_schemas(query.benchmark)
    facts = classify_query(query.template, [schemas[name] for name in query.template.names])
    for table in query.tables:
        yield table, classify_change(query.template, facts, frozenset({table}))
    if len(query.tables) > 1:
        yield ALL_TABLES, classify_change(query.template, facts, frozenset(query.tables))


def classify_change(template: Template, facts: Facts, changed: frozenset[str]) -> str:
    """Whether changes of these tables are followed, or why not; decided as `plan.refresh.choose_way` decides it."""
    slots = frozenset(index for index, name in enumerate(template.names) if name in changed)
    if slots <= set(facts.linear_slots) or any(slots <= {slot for slot, _ in key.slots} for key in facts.keys):
        return FOLLOWED
    if facts.tree is None:
        return f"opaque: {facts.why}"
    proposal = propose(facts.tree, slots, list_additive_operators(facts), by_target=True)
    return FOLLOWED if proposal.obstacle is None else f"opaque: {proposal.obstacle.why}"
