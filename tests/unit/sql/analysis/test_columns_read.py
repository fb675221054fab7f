"""What a query reads of each of its tables: names, `*` for what is asked of its own result, `**` for everything."""

from __future__ import annotations

import pytest

from sqb.sql.analysis.parse import read_query
from sqb.sql.text.columns_read import resolve_columns_read


def reads(text: str, keywords: bool = False) -> dict[str, str]:
    """The names read of each table, in the order of the text; words that are no names only where asked for."""
    query = read_query(text, {})
    words = {w.lower() for w in text.replace("(", " ").replace(")", " ").replace(",", " ").split() if w.isupper()}
    by_name: dict[str, str] = {}
    for slot, names in zip(query.slots, query.reading, strict=True):
        shown = [n for n in names if keywords or n not in words]
        by_name[slot.name] = " ".join(sorted({*by_name.get(slot.name, "").split(), *shown}))
    return by_name


CASES = [
    # One table: what is named, wherever it stands.
    ("SELECT a, b + c AS d FROM t WHERE e > 1 GROUP BY f HAVING max(g) > 1 ORDER BY h", {"t": "a b c e f g h"}),
    ("SELECT x.a FROM t x WHERE x.b = 1", {"t": "a b x"}),
    ("SELECT t.a FROM t", {"t": "a t"}),
    ("SELECT s.t.a, t.b FROM s.t", {"s.t": "a b s t"}),
    ("SELECT Aa, `B_c` FROM t", {"t": "aa b_c"}),
    ("SELECT count(*) FROM t", {"t": ""}),
    ("SELECT 1 FROM t", {"t": ""}),
    ("SELECT sum(a) OVER w AS s FROM t WINDOW w AS (PARTITION BY b)", {"t": "a b"}),
    ("SELECT sum(a) OVER (PARTITION BY b ORDER BY c) FROM t", {"t": "a b c"}),
    ("SELECT transform(a, x -> x + b) AS y FROM t", {"t": "a b"}),
    ("SELECT e FROM t LATERAL VIEW explode(a) l AS e", {"t": "a e"}),
    ("SELECT e.y FROM t, LATERAL explode(t.a) AS e(y)", {"t": "a e t"}),
    # A column with fields: the column is read, whichever part of the name it is.
    ("SELECT address.city FROM t", {"t": "address"}),
    ("SELECT address.city FROM people address", {"people": "address city"}),
    ("SELECT (address).city, a[0].b FROM t", {"t": "a address"}),
    ("SELECT address.* FROM t", {"t": "address"}),
    # Stars.
    ("SELECT * FROM t", {"t": "*"}),
    ("SELECT t.*, u.a FROM t JOIN u ON t.id = u.id", {"t": "* id t u", "u": "a id t u"}),
    ("SELECT DISTINCT * FROM t", {"t": "**"}),
    ("SELECT *, count(*) FROM t GROUP BY ALL", {"t": "**"}),
    ("SELECT * EXCEPT (a) FROM t", {"t": "* a"}),
    ("SELECT struct(*) FROM t", {"t": "**"}),
    ("SELECT count(DISTINCT *) FROM t", {"t": "**"}),
    ("SELECT count(t.*) FROM t", {"t": "**"}),
    ("SELECT * FROM t UNION ALL SELECT * FROM u", {"t": "**", "u": "**"}),
    ("SELECT a FROM t UNION ALL SELECT b FROM u", {"t": "a", "u": "b"}),
    ("SELECT * FROM t PIVOT (sum(a) FOR b IN (1, 2))", {"t": "**"}),
    ("SELECT a FROM t AS x(a, b)", {"t": "**"}),
    ("SELECT a FROM t TABLESAMPLE (5 ROWS)", {"t": "**"}),
    # Stars that somebody else looks through.
    ("WITH x AS (SELECT * FROM t) SELECT a, x.b FROM x", {"t": "a b x"}),
    ("WITH x AS (SELECT * FROM t), y AS (SELECT *, 1 AS n FROM x) SELECT y.a FROM y", {"t": "a y"}),
    ("WITH x AS (SELECT * FROM t) SELECT * FROM x", {"t": "*"}),
    ("WITH x AS (SELECT * FROM t) SELECT x.a FROM x UNION SELECT x.b FROM x", {"t": "a b x"}),
    ("WITH x AS (SELECT * FROM t) (SELECT * FROM x)", {"t": "*"}),
    ("WITH x AS (SELECT DISTINCT * FROM t) SELECT a FROM x", {"t": "**"}),
    ("WITH x AS (SELECT * FROM t UNION ALL SELECT * FROM u) SELECT a FROM x", {"t": "**", "u": "**"}),
    ("WITH x(a, b) AS (SELECT * FROM t) SELECT a FROM x", {"t": "**"}),
    ("SELECT q.a FROM (SELECT * FROM t) q", {"t": "a q"}),
    ("SELECT q.a FROM (SELECT * FROM t) q(a)", {"t": "**"}),
    ("SELECT q.a FROM (SELECT t.*, u.n FROM t JOIN u ON t.id = u.id) q", {"t": "a id q t u", "u": "id n t u"}),
    # Two tables: a qualifier ties a name to one of them, and without one it counts for both.
    ("SELECT o.a, c.b FROM o JOIN c ON o.id = c.id", {"o": "a c id o", "c": "b c id o"}),
    ("SELECT a, c.b FROM o JOIN c ON o.id = c.id", {"o": "a c id o", "c": "a b c id o"}),
    ("SELECT o.a FROM o JOIN c USING (id)", {"o": "a id o", "c": "id o"}),
    ("SELECT o.a FROM o NATURAL JOIN c", {"o": "**", "c": "**"}),
    ("SELECT a.x FROM t a JOIN t b ON a.id = b.up", {"t": "a b id up x"}),
    ("SELECT t.a FROM (t JOIN u ON t.id = u.id)", {"t": "a id t u", "u": "id t u"}),
    ("SELECT a.x, y FROM s.a LEFT JOIN r.a ON s.a.id = r.a.id", {"s.a": "a id r s x y", "r.a": "a id r s x y"}),
    # Subqueries: an inner name may be of the inner table one day, so it counts for both.
    ("SELECT a FROM t WHERE EXISTS (SELECT * FROM u WHERE u.id = t.id)", {"t": "a id t u", "u": "id t u"}),
    ("SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.id = b)", {"t": "a b u", "u": "b id u"}),
    ("SELECT a FROM t WHERE b IN (SELECT c FROM u)", {"t": "a b c", "u": "c"}),
    ("SELECT a FROM t WHERE b IN (SELECT * FROM u)", {"t": "a b", "u": "**"}),
    ("SELECT (SELECT max(u.n) FROM u WHERE u.id = t.id) AS m FROM t", {"t": "id t u", "u": "id n t u"}),
    ("SELECT q.n FROM t, LATERAL (SELECT u.n FROM u WHERE u.id = t.id) q", {"t": "id q t u", "u": "id n t u"}),
    # A name of the list is the column's, if one of that name comes.
    ("SELECT a AS x, x + 1 AS y FROM t", {"t": "a x"}),
    ("SELECT a AS x FROM t GROUP BY x", {"t": "a x"}),
    # QUALIFY is read as what it is run as.
    ("SELECT a FROM t QUALIFY row_number() OVER (PARTITION BY b ORDER BY c) = 1", {"t": "a as b c where"}),
    # A CTE hides the table of its name, and two places of one table count together.
    ("WITH t AS (SELECT a FROM u) SELECT t.a, t.z FROM t", {"u": "a"}),
    ("SELECT t.a FROM t UNION ALL SELECT x.b FROM t x", {"t": "a b t x"}),
    # Nothing is known of what is not understood.
    ("SELECT `a|b` FROM t", {"t": "**"}),
    ("FROM t |> SELECT a", {}),
]


@pytest.mark.parametrize(("text", "expected"), CASES, ids=[text for text, _ in CASES])
def test_columns_that_a_query_reads(text: str, expected: dict[str, str]) -> None:
    if not expected:
        assert read_query(text, {}).reading == ()
    else:
        assert reads(text) == {k: " ".join(sorted(v.split())) for k, v in expected.items()}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("SELECT a FROM t WHERE b < current_date", "current_date"),
        ("SELECT a FROM t WHERE b < current_timestamp", "current_timestamp"),
        ("SELECT dateadd(DAY, 1, a) AS n FROM t", "day"),
        ("SELECT user AS n FROM t", "user"),
    ],
)
def test_words_that_a_column_could_take_the_place_of_count(text: str, name: str) -> None:
    assert name in reads(text, keywords=True)["t"].split()


def test_aliases_and_functions_are_no_columns() -> None:
    assert reads("SELECT sum(a) AS total, upper(b) AS name FROM t AS shown", keywords=True)["t"].split() == [
        *("a", "as", "b", "from", "select")
    ]


def test_what_is_read_through_a_view() -> None:
    assert resolve_columns_read(frozenset({"a"}), frozenset({"x"})) == {"a"}
    assert resolve_columns_read(frozenset({"a", "*"}), frozenset({"x", "y"})) == {"a", "x", "y"}
    assert resolve_columns_read(frozenset({"*"}), frozenset({"*"})) == {"*"}
    assert resolve_columns_read(frozenset({"**"}), frozenset({"x"})) == {"**"}
