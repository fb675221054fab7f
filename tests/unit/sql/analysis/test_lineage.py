"""Where the columns of a result come from."""

from __future__ import annotations

import pytest

from sqb.sql.analysis.lineage import Lineage, trace_lineage
from sqb.sql.analysis.parse import read_query

TABLES = {"t": ("id", "a", "b"), "u": ("id", "c", "d"), "s.t": ("id", "x")}


def followed(text: str) -> tuple[Lineage, list[str]]:
    query = read_query(text, {})
    names = [slot.name for slot in query.slots]
    return trace_lineage(query.runnable, query.slots, [TABLES.get(name) for name in names]), names


def shown(text: str) -> tuple[dict[str, str], str]:
    """The columns with their origins, and the columns that decide about rows."""
    lineage, names = followed(text)
    assert not lineage.unknown_reason, lineage.unknown_reason

    def words(origins: frozenset[tuple[int, str]]) -> str:
        return " ".join(sorted({f"{names[slot]}.{column}" for slot, column in origins}))

    return {o.name: words(o.origins) for o in lineage.outputs}, words(lineage.indirect)


CASES = [
    ("SELECT a, b + id AS n, 1 AS one, count(*) AS k FROM t", {"a": "t.a", "n": "t.b t.id", "one": "", "k": ""}, ""),
    ("SELECT * FROM t", {"id": "t.id", "a": "t.a", "b": "t.b"}, ""),
    ("SELECT * EXCEPT (b) FROM t", {"id": "t.id", "a": "t.a"}, ""),
    ("SELECT t.*, u.c FROM t JOIN u ON t.id = u.id", {"id": "t.id", "a": "t.a", "b": "t.b", "c": "u.c"}, "t.id u.id"),
    ("SELECT a FROM t WHERE b > 1 ORDER BY id", {"a": "t.a"}, "t.b t.id"),
    ("SELECT a, sum(b) AS s FROM t GROUP BY a HAVING max(id) > 1", {"a": "t.a", "s": "t.b"}, "t.a t.id"),
    ("SELECT a, c FROM t JOIN u USING (id)", {"a": "t.a", "c": "u.c"}, "t.id u.id"),
    ("SELECT x.a AS y FROM t x", {"y": "t.a"}, ""),
    ("SELECT s.t.x, t.id FROM s.t", {"x": "s.t.x", "id": "s.t.id"}, ""),
    ("SELECT upper(t.a) AS a, a AS again FROM t", {"a": "t.a", "again": "t.a"}, ""),
    ("SELECT a AS z, z || '!' AS zz FROM t", {"z": "t.a", "zz": "t.a"}, ""),
    ("WITH x AS (SELECT id, a AS y FROM t WHERE b = 1) SELECT y, id FROM x", {"y": "t.a", "id": "t.id"}, "t.b"),
    ("WITH x AS (SELECT * FROM t), z AS (SELECT *, a || b AS ab FROM x) SELECT ab FROM z", {"ab": "t.a t.b"}, ""),
    ("WITH x(p, q) AS (SELECT id, a FROM t) SELECT q FROM x", {"q": "t.a"}, ""),
    ("SELECT q.n FROM (SELECT max(a) AS n FROM t GROUP BY b) q", {"n": "t.a"}, "t.b"),
    ("SELECT q.n FROM (SELECT a, b FROM t) q(m, n)", {"n": "t.b"}, ""),
    ("SELECT a FROM t UNION ALL SELECT c FROM u", {"a": "t.a u.c"}, ""),
    ("SELECT a, b FROM t UNION BY NAME SELECT d AS b, c AS a FROM u", {"a": "t.a u.c", "b": "t.b u.d"}, ""),
    ("SELECT a FROM t EXCEPT SELECT c FROM u", {"a": "t.a"}, "u.c"),
    ("SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.id = t.id)", {"a": "t.a"}, "t.id u.id"),
    ("SELECT a FROM t WHERE b IN (SELECT c FROM u)", {"a": "t.a"}, "t.b u.c"),
    ("SELECT (SELECT max(c) FROM u WHERE u.id = t.id) AS m FROM t", {"m": "u.c"}, "t.id u.id"),
    ("SELECT l.e FROM t LATERAL VIEW explode(a) l AS e", {"e": "t.a"}, ""),
    ("SELECT e.y FROM t, LATERAL explode(t.a) AS e(y)", {"y": "t.a"}, ""),
    ("SELECT q.n FROM t, LATERAL (SELECT c + t.a AS n FROM u WHERE u.id = t.id) q", {"n": "t.a u.c"}, "t.id u.id"),
    ("SELECT row_number() OVER (PARTITION BY a ORDER BY b) AS n FROM t", {"n": "t.a t.b"}, ""),
    ("SELECT a FROM t QUALIFY row_number() OVER (PARTITION BY b ORDER BY id) = 1", {"a": "t.a"}, "t.b t.id"),
    ("SELECT transform(a, x -> x + b) AS y FROM t", {"y": "t.a t.b"}, ""),
    ("SELECT t.a.f AS g FROM t", {"g": "t.a"}, ""),
    ("SELECT a.f AS g FROM t", {"g": "t.a"}, ""),
    ("SELECT struct(*) AS everything FROM t", {"everything": "t.a t.b t.id"}, ""),
    (
        "WITH RECURSIVE r AS (SELECT id, a FROM t UNION ALL SELECT r.id, c FROM r JOIN u ON u.id = r.id) "
        "SELECT a FROM r",
        {"a": "t.a u.c"},
        "t.id u.id",
    ),
    # Tables whose columns are not known.
    ("SELECT w.a, z FROM w", {"a": "w.a", "z": "w.z"}, ""),
    ("SELECT t.a, z FROM t JOIN w ON t.id = w.id", {"a": "t.a", "z": "w.z"}, "t.id w.id"),
]


@pytest.mark.parametrize(("text", "columns", "rows"), CASES, ids=[text for text, _, _ in CASES])
def test_origins_of_columns(text: str, columns: dict[str, str], rows: str) -> None:
    assert shown(text) == (columns, rows)


def test_a_star_over_columns_that_are_not_known_is_open() -> None:
    lineage, names = followed("SELECT *, 1 AS one FROM w")
    assert [o.name for o in lineage.outputs] == ["one"] and [names[i] for i in lineage.open_slots] == ["w"]


def test_an_expression_without_a_name_is_called_by_its_text() -> None:
    lineage, _ = followed("SELECT max(a), b FROM t")
    assert [(o.name, o.is_unnamed) for o in lineage.outputs] == [("MAX(a)", True), ("b", False)]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("SELECT * FROM t PIVOT (sum(a) FOR b IN (1))", "PIVOT is not followed"),
        ("SELECT a.* FROM t", "the fields in a.* are not followed"),
        ("SELECT x FROM w AS v(x)", "a column list over columns that are not known"),
    ],
)
def test_what_is_not_followed_is_said(text: str, why: str) -> None:
    assert followed(text)[0].unknown_reason == why
