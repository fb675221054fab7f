"""How queries are laid out; and every query of the corpora stays the same query, formatted once or twice."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from random import Random

import pytest

from sqb.errors.base import Errors
from sqb.project.models.header import parse_header
from sqb.sql.analysis.parse import read_query_with_outline
from sqb.sql.analysis.query import QueryProblem
from sqb.sql.formatting.query import format_query
from sqb.sql.formatting.settings import FormatSettings
from sqb.sql.text.lexer import tokenize_code
from support.plain_queries import PLAIN
from support.random_queries import QueryMaker
from support.tpc import BENCHMARKS, read_queries

ROOT = Path(__file__).resolve().parents[4]
LAYOUTS = Path(__file__).with_name("layouts.sql").read_text(encoding="utf-8")
LEGAL = (ROOT / "tests/unit/sql/columns/legal_queries.txt").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("pair", LAYOUTS.split("-- ======\n")[1:], ids=lambda p: p.partition("\n")[0])
def test_layouts(pair: str) -> None:
    written, wanted = pair.split("-- ------\n")
    written = written.partition("\n")[2]
    assert format_query(written) == wanted
    assert format_query(wanted) == wanted


def list_models() -> list[str]:
    paths = chain((ROOT / "tests/cases").rglob("models/**/*.sql"), (ROOT / "src/sqb").glob("example*/**/*.sql"))
    texts = [(str(p), p.read_text(encoding="utf-8-sig")) for p in sorted(paths)]
    return [text[parse_header(text, name, Errors()).body_start :] for name, text in texts]


def check(sql: str, settings: FormatSettings = FormatSettings()) -> None:
    """The formatted query has the same identity, the same tokens but for the case of words, and stays as it is."""
    formatted = format_query(sql, settings)
    assert format_query(formatted, settings) == formatted
    assert [t.text.upper() for t in tokenize_code(sql)] == [t.text.upper() for t in tokenize_code(formatted)]
    try:
        before = read_query_with_outline(sql, {})[0]
    except QueryProblem:
        return
    after = read_query_with_outline(formatted, {})[0]
    assert before.canonical == after.canonical
    assert [r.parts for r in before.references] == [r.parts for r in after.references]


def test_models_of_the_cases_stay_what_they_are() -> None:
    for sql in list_models():
        check(sql)


def test_random_and_plain_queries_stay_what_they_are() -> None:
    for sql in chain((QueryMaker(Random(seed)).make().sql for seed in range(60)), *PLAIN.values()):
        check(sql)


@pytest.mark.parametrize(
    "settings",
    [
        FormatSettings(),
        FormatSettings(line_length=40, keyword_case="lower", indent=4),
        FormatSettings(line_length=60, keyword_case="preserve", commas="leading"),
    ],
)
def test_legal_forms_stay_what_they_are(settings: FormatSettings) -> None:
    for sql in LEGAL:
        check(sql, settings)


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_queries_of_the_tpc_stay_what_they_are(benchmark: str) -> None:
    for query in read_queries(benchmark)[::3]:
        check(query.sql)


def test_lower_case_and_leading_commas() -> None:
    settings = FormatSettings(keyword_case="lower", commas="leading", indent=4)
    assert format_query("SELECT\n a, b FROM t", settings) == "select\n    a\n    , b\nfrom t\n"


def test_names_keep_their_case() -> None:
    assert format_query("select Date as From_, `select` from Values_ as Limit") == (
        "SELECT Date AS From_, `select` FROM Values_ AS Limit\n"
    )


@pytest.mark.parametrize("sql", ["select 'abc", "select /* a", "select `a from t"])
def test_what_is_not_whole_stays_as_it_is(sql: str) -> None:
    assert format_query(sql) == sql


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1 - -1, - -x, a--b\n FROM t",
        "SELECT a.b.c, 1.5 .x, t.* FROM stg_@@suffix AS t, @@a.b, @m(x)(y)",
        "SELECT a:b.c, x::int, m['k'][0], array<int>[1] FROM t |> WHERE x > 1",
        "SELECT 'a\nb' AS x, /* c\n  d */ 2 FROM t -- e",
        "SELECT * EXCEPT (a) FROM t EXCEPT SELECT 1",
        "SELECT CAST(x AS MAP<STRING, ARRAY<STRUCT<a: INT>>>) < 3 AND b > c >> 2 FROM t",
    ],
)
def test_awkward_tokens_stay_what_they_are(sql: str) -> None:
    check(sql)
