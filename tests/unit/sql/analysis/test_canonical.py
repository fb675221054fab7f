"""The canonical form: equal for texts that mean the same by their spelling alone, different for all others."""

from __future__ import annotations

import string

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sqb.identity import compute_query_hash
from sqb.sql.analysis.canonical import compute_canonical_stamp, recompute_canonical
from sqb.sql.analysis.parse import read_query
from sqb.sql.text.lexer import Token, tokenize_code


def identity(sql: str) -> str:
    """What the hash of a model's query rests on: the canonical text and the names of what it reads."""
    query = read_query(sql, {})
    return compute_query_hash(query.canonical, [r.name.lower() for r in query.references])


EQUAL = [
    # white space and comments
    ("SELECT a FROM t", "SELECT   a\n\tFROM\n t\n"),
    ("SELECT a FROM t", "SELECT a -- all of them\nFROM t"),
    ("SELECT a FROM t", "/* head */ SELECT /* a */ a FROM t /* tail */"),
    ("SELECT a FROM t", "SELECT a /* /* nested */ */ FROM t"),
    ("SELECT a FROM t", "SELECT a FROM t;"),
    ("SELECT a FROM t", "SELECT a FROM t ; ;"),
    ("SELECT a, b FROM t", "SELECT a,b FROM t"),
    ("SELECT f(a) FROM t", "SELECT f ( a ) FROM t"),
    ("SELECT a+b FROM t", "SELECT a + b FROM t"),
    ("SELECT t.a FROM t", "SELECT t . a FROM t"),
    ("SELECT a::INT FROM t", "SELECT a :: INT FROM t"),
    # the case of keywords, functions, types and literals that are words
    ("SELECT a FROM t WHERE b AND NOT c", "select a from t where b and not c"),
    ("SELECT COUNT(*) FROM t GROUP BY ALL", "SELECT count(*) FROM t group by all"),
    ("SELECT CAST(a AS DECIMAL(10, 2)) FROM t", "SELECT cast(a as decimal(10,2)) FROM t"),
    ("SELECT TRUE, NULL FROM t", "SELECT true, null FROM t"),
    ("SELECT INTERVAL 1 DAY FROM t", "SELECT interval 1 day FROM t"),
    ("SELECT DATE '2024-01-01' FROM t", "SELECT date '2024-01-01' FROM t"),
    ("SELECT EXTRACT(YEAR FROM d) FROM t", "SELECT extract(year from d) FROM t"),
    ("SELECT a FROM t ORDER BY a DESC NULLS LAST", "SELECT a FROM t order by a desc nulls last"),
    ("SELECT 1e5, 2L, 1.5BD FROM t", "SELECT 1E5, 2l, 1.5bd FROM t"),
    ("SELECT CURRENT_DATE FROM t", "SELECT current_date FROM t"),
    ("SELECT a FROM t WHERE b RLIKE 'x'", "SELECT a FROM t WHERE b rlike 'x'"),
    ("WITH x AS (SELECT 1 AS a) SELECT a FROM x", "with x as (select 1 as a) select a from x"),
    ("SELECT * FROM t LATERAL VIEW EXPLODE(a) e AS b", "SELECT * FROM t lateral view explode(a) e AS b"),
    # redundant quotes
    ("SELECT `a` FROM t", "SELECT a FROM t"),
    ("SELECT a AS `b` FROM t", "SELECT a AS b FROM t"),
    ("SELECT t.`a` FROM t", "SELECT t.a FROM t"),
    ("SELECT a FROM `t`", "SELECT a FROM t"),
    ("SELECT a FROM `s`.`t`", "SELECT a FROM s.t"),
    # two spellings of one operator
    ("SELECT a FROM t WHERE a != b", "SELECT a FROM t WHERE a <> b"),
    ("SELECT a FROM t WHERE a == b", "SELECT a FROM t WHERE a = b"),
    # hints: white space and case
    ("SELECT /*+ BROADCAST(u) */ a FROM t JOIN u", "SELECT /*+  broadcast(u)\n*/ a FROM t JOIN u"),
    # a reference may be written in any case: it means the same model
    ("SELECT a FROM Staging.Orders", "SELECT a FROM staging.orders"),
]

DIFFERENT = [
    # inside literals everything counts
    ("SELECT 'a b' FROM t", "SELECT 'a  b' FROM t"),
    ("SELECT 'a' FROM t", "SELECT 'A' FROM t"),
    ("SELECT 'a' FROM t", "SELECT 'a ' FROM t"),
    ("SELECT 'a -- b' FROM t", "SELECT 'a' FROM t"),
    ("SELECT 'a\nb' FROM t", "SELECT 'a b' FROM t"),
    ("SELECT date_format(d, 'YYYY') FROM t", "SELECT date_format(d, 'yyyy') FROM t"),
    ("SELECT date_format(d, 'MM') FROM t", "SELECT date_format(d, 'mm') FROM t"),
    ("SELECT regexp_replace(a, '\\\\s', '') FROM t", "SELECT regexp_replace(a, '\\\\S', '') FROM t"),
    ("SELECT r'\\n' FROM t", "SELECT '\\n' FROM t"),
    ("SELECT 1 FROM t", "SELECT 2 FROM t"),
    ("SELECT 1 FROM t", "SELECT 1L FROM t"),
    ("SELECT 1.0 FROM t", "SELECT 1.00 FROM t"),
    ("SELECT 1 FROM t", "SELECT '1' FROM t"),
    ("SELECT -1 FROM t", "SELECT 1 FROM t"),
    ("SELECT X'1F' FROM t", "SELECT '1F' FROM t"),
    ("SELECT 'a' 'b' FROM t", "SELECT 'a''b' FROM t"),
    ("SELECT named_struct('A', 1) FROM t", "SELECT named_struct('a', 1) FROM t"),
    ("SELECT from_json(a, 'B INT') FROM t", "SELECT from_json(a, 'b INT') FROM t"),
    # names: the case of one is the case of a column in the result
    ("SELECT a AS Total FROM t", "SELECT a AS total FROM t"),
    ("SELECT Total FROM t", "SELECT total FROM t"),
    ("SELECT t.Total FROM t", "SELECT t.total FROM t"),
    ("SELECT t.s.Total FROM t", "SELECT t.s.total FROM t"),
    ("SELECT f(a).Total FROM t", "SELECT f(a).total FROM t"),
    ("SELECT a[0].Total FROM t", "SELECT a[0].total FROM t"),
    ("SELECT a AS Date FROM t", "SELECT a AS date FROM t"),
    ("SELECT Date FROM t", "SELECT date FROM t"),
    ("SELECT a AS Year FROM t", "SELECT a AS year FROM t"),
    ("SELECT struct(1 AS A) FROM t", "SELECT struct(1 AS a) FROM t"),
    ("SELECT CAST(a AS STRUCT<B: INT>) FROM t", "SELECT CAST(a AS STRUCT<b: INT>) FROM t"),
    ("SELECT * FROM t LATERAL VIEW explode(a) e AS B", "SELECT * FROM t LATERAL VIEW explode(a) e AS b"),
    ("SELECT * FROM t PIVOT (sum(a) FOR b IN (1 AS X))", "SELECT * FROM t PIVOT (sum(a) FOR b IN (1 AS x))"),
    ("SELECT * FROM t UNPIVOT (v FOR K IN (a))", "SELECT * FROM t UNPIVOT (v FOR k IN (a))"),
    ("SELECT * FROM VALUES (1) AS v(A)", "SELECT * FROM VALUES (1) AS v(a)"),
    ("SELECT `a b` FROM t", "SELECT `a  b` FROM t"),
    ("SELECT `a``b` FROM t", "SELECT `ab` FROM t"),
    ("SELECT 'a' FROM t", "SELECT `a` FROM t"),
    ("SELECT a b FROM t", "SELECT a, b FROM t"),
    ("SELECT a AS b FROM t", "SELECT a AS c FROM t"),
    # order and shape
    ("SELECT a, b FROM t", "SELECT b, a FROM t"),
    ("SELECT a FROM t", "SELECT DISTINCT a FROM t"),
    ("SELECT (a + b) * c FROM t", "SELECT a + b * c FROM t"),
    ("SELECT a FROM t UNION SELECT a FROM u", "SELECT a FROM t UNION ALL SELECT a FROM u"),
    ("SELECT a FROM t JOIN u USING (a)", "SELECT a FROM t LEFT JOIN u USING (a)"),
    ("SELECT a FROM t WHERE a < b", "SELECT a FROM t WHERE a <= b"),
    ("SELECT a FROM t WHERE a = b", "SELECT a FROM t WHERE a <=> b"),
    ("SELECT a FROM t LIMIT 1", "SELECT a FROM t"),
    ("SELECT a FROM t ORDER BY a", "SELECT a FROM t ORDER BY a DESC"),
    ("SELECT a - -1 FROM t", "SELECT a -1 FROM t"),
    ("SELECT a.b FROM t a", "SELECT ab FROM t a"),
    # what is read
    ("SELECT a FROM t", "SELECT a FROM u"),
    ("SELECT a FROM t", "SELECT a FROM s.t"),
    ("SELECT t.a FROM t JOIN u", "SELECT t.a FROM u JOIN t"),
    ("SELECT a FROM t VERSION AS OF 1", "SELECT a FROM t VERSION AS OF 2"),
    ("SELECT a FROM t", "SELECT a FROM t TABLESAMPLE (10 PERCENT)"),
    ("WITH x AS (SELECT 1 AS a) SELECT a FROM x", "WITH y AS (SELECT 1 AS a) SELECT a FROM y"),
    # hints can change how a result is laid out
    ("SELECT /*+ REPARTITION(2) */ a FROM t", "SELECT /*+ REPARTITION(3) */ a FROM t"),
    ("SELECT /*+ REPARTITION(2) */ a FROM t", "SELECT a FROM t"),
    ("SELECT /*+ REPARTITION(2) */ a FROM t", "SELECT /* REPARTITION(2) */ a FROM t"),
]


@pytest.mark.parametrize(("one", "other"), EQUAL)
def test_spelling_alone_is_not_a_change(one: str, other: str) -> None:
    assert identity(one) == identity(other)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_what_could_change_a_result_is_a_change(one: str, other: str) -> None:
    assert identity(one) != identity(other)


QUERIES = [
    "SELECT a, 'x  y' AS b, 1.50 AS c FROM t WHERE d = 'it''s' AND e IN (1, 2L, 3e4) ORDER BY a DESC LIMIT 10",
    "WITH x AS (SELECT Id, max(v) AS m FROM s.t GROUP BY Id) SELECT x.*, `odd name` FROM x JOIN u USING (Id)",
    "SELECT /*+ BROADCAST(u) */ sum(a) OVER (PARTITION BY b ORDER BY c) AS w FROM t LEFT JOIN u ON t.k = u.k",
    "SELECT CASE WHEN a <> 'n' THEN date_format(d, 'YYYY') ELSE NULL END AS y FROM t UNION ALL SELECT '-' FROM u",
    "SELECT CAST(a AS STRUCT<X: INT, y: STRING>).X, m['Key'], arr[0] FROM t LATERAL VIEW explode(arr) e AS Elem",
    "SELECT * FROM (SELECT a, b FROM t) PIVOT (sum(a) FOR b IN ('p' AS P, 'q' AS Q)) WHERE P IS NOT NULL",
]
_GAPS = st.sampled_from([" ", "\n", "\t ", " -- note\n", " /* note */ ", " /* /* deep */ 'x' */\n", "\r\n"])


def _keywords(sql: str) -> set[int]:
    """The words that are neither names nor references, so that their case does not matter."""
    from sqb.sql.analysis.parse import find_identifier_places

    names = find_identifier_places(sql)
    spans = [(r.start, r.end) for r in read_query(sql, {}).references]
    return {
        t.start
        for t in tokenize_code(sql)
        if t.kind == "word" and t.start not in names and not any(a <= t.start < b for a, b in spans)
    }


@given(st.data(), st.sampled_from(QUERIES))
def test_comments_white_space_and_keyword_case_never_matter(data: st.DataObject, sql: str) -> None:
    keywords = _keywords(sql)
    out = []
    for token in tokenize_code(sql):
        text = token.text
        if token.start in keywords:
            text = data.draw(st.sampled_from([text.upper(), text.lower(), text.title()]))
        out.append(data.draw(_GAPS) + text)
    assert identity("".join(out)) == identity(sql)


def _changed(data: st.DataObject, token: Token) -> str:
    """Another literal of the same kind."""
    if token.kind == "number":
        return str(data.draw(st.integers(0, 10**6)))
    body = data.draw(st.text(alphabet=string.ascii_letters + string.digits + " %_-", max_size=8))
    return f"'{body}'"


@given(st.data(), st.sampled_from(QUERIES))
def test_another_literal_always_matters(data: st.DataObject, sql: str) -> None:
    literals = [t for t in tokenize_code(sql) if t.kind in ("string", "number")]
    assume(literals)
    token = data.draw(st.sampled_from(literals))
    text = _changed(data, token)
    assume(text != token.text)
    assert identity(sql[: token.start] + text + sql[token.end :]) != identity(sql)


@pytest.mark.parametrize("sql", [sql for sql, _ in EQUAL] + [sql for _, sql in DIFFERENT])
def test_a_stored_text_is_made_canonical_again_as_it_was(sql: str) -> None:
    query = read_query(sql, {})
    assert recompute_canonical(sql, [(r.start, r.end) for r in query.references]) == query.canonical


def test_a_stored_text_that_is_no_query_any_more_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="not parse"):
        recompute_canonical("SELECT FROM WHERE", [])


def test_the_stamp_names_our_version_and_the_parsers() -> None:
    ours, _, parsers = compute_canonical_stamp().partition("/")
    assert int(ours) >= 1 and parsers.count(".") == 2
