"""The lookups of logs: which tables drive nothing, and what is said of those that cannot."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from sqb.cache import codec
from sqb.compile.model import Lookup, Project
from unit.compile.test_project import compiled, hint, problems

HEAD = "-- @kind: append\n"
DECLARED = HEAD + "-- @lookups: raw.customers\n"
UNIQUE = {"models/m/c.sql": "-- @constraint: unique(id)\nSELECT id, name, region FROM raw.c"}
ORDERS = "SELECT o.id, o.amount, c.name FROM raw.orders o"


def lookups(tmp_path: Path, text: str, files: Mapping[str, str] = {}) -> dict[str, tuple[bool, tuple[object, ...]]]:
    node = compiled(tmp_path, {"models/m/log.sql": text, **files}).nodes["m.log"]
    return {one.name: (one.adds_late, one.slots) for one in node.lookups}


LEFT = (False, ())


@pytest.mark.parametrize(
    "text",
    [
        HEAD + f"{ORDERS} LEFT JOIN m.c c ON o.customer_id = c.id",
        HEAD + f"{ORDERS} LEFT OUTER JOIN m.c AS c ON (c.id = o.customer_id AND o.amount > 0) WHERE o.amount > 1",
        HEAD + "SELECT orders.id, name FROM raw.orders LEFT JOIN c USING (id) ORDER BY name",
        HEAD + "SELECT orders.id, upper(c.name) FROM raw.orders LEFT JOIN m.c ON c.id = coalesce(orders.c1, orders.c2)",
        HEAD
        + "WITH k AS (SELECT id AS cid, name FROM m.c) SELECT o.*, k.name FROM raw.orders o LEFT JOIN k ON k.cid = o.c",
        HEAD + f"SELECT x.id, x.name || '!' FROM ({ORDERS} LEFT JOIN m.c c ON o.c = c.id) x WHERE x.amount > 3",
        HEAD + f"{ORDERS} LEFT JOIN m.c c ON o.c = c.id UNION ALL {ORDERS} LEFT JOIN m.c c ON o.d = c.id",
        HEAD + f"{ORDERS} LEFT JOIN m.c c ON o.c = c.id LEFT JOIN m.c d ON o.d = d.id",
        HEAD + f"{ORDERS} LEFT JOIN m.c c ON o.c = c.id LEFT JOIN m.c d ON c.region = d.id",
        HEAD + "SELECT o.id, count(*) FROM raw.orders o LEFT JOIN m.c c ON o.c = c.id GROUP BY o.id",
    ],
)
def test_a_table_joined_by_a_unique_key_is_a_lookup(tmp_path: Path, text: str) -> None:
    assert lookups(tmp_path, text, UNIQUE) == {"m.c": LEFT}


@pytest.mark.parametrize(
    "text",
    [
        f"{ORDERS} JOIN m.c c ON o.c = c.id",
        f"{ORDERS} RIGHT JOIN m.c c ON o.c = c.id",
        f"{ORDERS} LEFT JOIN m.c c ON o.c = c.name",
        f"{ORDERS} LEFT JOIN m.c c ON o.c <=> c.id",
        f"{ORDERS} LEFT JOIN m.c c ON o.c = c.id OR o.d = c.id",
        f"{ORDERS} LEFT JOIN m.c c ON o.c = c.id AND c.region = 'x'",
        f"{ORDERS} LEFT JOIN m.c c ON o.c = c.id WHERE c.region = 'x'",
        f"{ORDERS} LEFT JOIN m.c c ON o.c = c.id WHERE region = 'x'",
        f"{ORDERS} LEFT JOIN m.c c ON o.c = c.id LIMIT 3",
        f"{ORDERS} LEFT JOIN m.c c ON o.c = c.id JOIN raw.r r ON r.id = c.region",
        f"{ORDERS} LEFT JOIN m.c c ON o.c = c.id WHERE o.id IN (SELECT d.id FROM m.c d)",
        f"{ORDERS} LEFT JOIN m.c c ON o.c = c.id WHERE EXISTS (SELECT 1 FROM raw.r r WHERE r.id = c.region)",
        f"{ORDERS} LEFT JOIN m.c c ON o.c = c.id UNION SELECT 1, 2, '3'",
        f"SELECT x.id FROM ({ORDERS} LEFT JOIN m.c c ON o.c = c.id) x WHERE x.name = 'a'",
        f"SELECT * FROM ({ORDERS} LEFT JOIN m.c c ON o.c = c.id) x JOIN raw.r r ON r.id = x.name",
        "SELECT c.name, count(*) FROM raw.orders o LEFT JOIN m.c c ON o.c = c.id GROUP BY c.name",
        "SELECT max(c.name) FROM raw.orders o LEFT JOIN m.c c ON o.c = c.id",
        "SELECT DISTINCT o.id, c.name FROM raw.orders o LEFT JOIN m.c c ON o.c = c.id",
        "SELECT o.id, row_number() OVER (ORDER BY c.name) FROM raw.orders o LEFT JOIN m.c c ON o.c = c.id",
        "SELECT o.id, explode(split(c.name, ' ')) FROM raw.orders o LEFT JOIN m.c c ON o.c = c.id",
        "SELECT o.id, c.name FROM m.c o LEFT JOIN m.c c ON o.region = c.id",
        "SELECT c.id FROM m.c c",
    ],
)
def test_what_is_no_lookup(tmp_path: Path, text: str) -> None:
    assert lookups(tmp_path, HEAD + text, UNIQUE) == {}


@pytest.mark.parametrize(
    ("head", "is_lookup"),
    [
        ("-- @constraint: primary_key(id)\n", True),
        ("-- @audit: unique(id)\n", True),
        ("-- @kind: merge\n-- @unique_key: id\n", True),
        ("-- @warning: unique(id)\n", False),
        ("-- @constraint: composite_unique(id, region)\n", False),
        ("-- @constraint: not_null(id)\n", False),
    ],
)
def test_a_key_must_be_declared_unique_and_checked(tmp_path: Path, head: str, is_lookup: bool) -> None:
    files = {"models/m/c.sql": head + "SELECT id, name, region FROM raw.c"}
    text = HEAD + f"{ORDERS} LEFT JOIN m.c c ON o.c = c.id"
    assert lookups(tmp_path, text, files) == ({"m.c": LEFT} if is_lookup else {})


def test_a_model_declares_lookups_itself(tmp_path: Path) -> None:
    left = DECLARED + f"{ORDERS} LEFT JOIN raw.customers c ON o.c = c.id"
    assert lookups(tmp_path / "left", left) == {"raw.customers": LEFT}
    inner = DECLARED + f"{ORDERS} JOIN raw.customers c ON o.c = c.id AND o.r = c.region"
    assert lookups(tmp_path / "inner", inner) == {"raw.customers": (True, ((1, ("id", "region")),))}
    short = HEAD.replace("append", "append\n-- @lookup: customers") + f"{ORDERS} LEFT JOIN raw.customers c USING (id)"
    assert lookups(tmp_path / "short", short) == {"raw.customers": LEFT}
    assert compiled(tmp_path / "left", {}).nodes["m.log"].lookup_columns == ("name",)


def test_the_key_is_no_identity(tmp_path: Path) -> None:
    query = f"{ORDERS} LEFT JOIN raw.customers c ON o.c = c.id"
    one = compiled(tmp_path / "a", {"models/m/log.sql": DECLARED + query}).nodes["m.log"]
    other = compiled(tmp_path / "b", {"models/m/log.sql": HEAD + query}).nodes["m.log"]
    assert one.local_hash == other.local_hash and one.lookups and not other.lookups


def test_views_between(tmp_path: Path) -> None:
    """A view that only chooses columns is its table; any other is a lookup as a whole, where it is LEFT JOINed."""
    plain = {"models/m/v.sql": "-- @kind: view\nSELECT id AS key, upper(name) AS name FROM raw.customers"}
    inner = DECLARED + f"{ORDERS} JOIN m.v c ON o.c = c.key"
    assert lookups(tmp_path / "a", inner, plain) == {"raw.customers": (True, ((1, ("id",)),)), "m.v": (True, ())}
    as_view = inner.replace("raw.customers", "m.v", 1)
    assert lookups(tmp_path / "b", as_view, plain) == {"raw.customers": (True, ((1, ("id",)),)), "m.v": (True, ())}
    joined = {
        "models/m/v.sql": "-- @kind: view\n-- @constraint: unique(key)\n"
        "SELECT c.id AS key, c.name FROM raw.customers c JOIN raw.regions r ON r.id = c.region WHERE r.open"
    }
    left = HEAD + f"{ORDERS} LEFT JOIN m.v c ON o.c = c.key"
    assert lookups(tmp_path / "c", left, joined) == {"raw.customers": LEFT, "raw.regions": LEFT, "m.v": LEFT}
    driver = {"models/m/v.sql": f"-- @kind: view\n{ORDERS} LEFT JOIN raw.customers c ON o.c = c.id"}
    within = DECLARED + "SELECT id, name FROM m.v WHERE amount > 1"
    assert lookups(tmp_path / "d", within, driver) == {"raw.customers": LEFT}
    refused = problems(
        tmp_path / "e",
        {
            "models/m/log.sql": HEAD + "-- @lookups: m.v\n" + left.replace(HEAD, "").replace("LEFT JOIN", "JOIN"),
            **joined,
        },
    )
    assert {kind for kind, _, _ in refused} == {"BadLookup"}


@pytest.mark.parametrize(
    ("query", "at", "message"),
    [
        ("SELECT o.id FROM raw.orders o", "2:14", "`lookups` names raw.customers, which is not a table of the query"),
        (
            f"{ORDERS} JOIN raw.customers c ON o.c = c.id WHERE c.region = 'x'",
            "3:90",
            "raw.customers cannot be a lookup: the column c.region is used in WHERE",
        ),
        (
            f"{ORDERS} RIGHT JOIN raw.customers c ON o.c = c.id",
            "3:60",
            "raw.customers cannot be a lookup: it is read by a RIGHT JOIN",
        ),
        (
            f"{ORDERS} FULL OUTER JOIN raw.customers c ON o.c = c.id",
            "3:65",
            "raw.customers cannot be a lookup: it is read by a FULL JOIN",
        ),
        (
            "SELECT o.name FROM raw.customers o",
            "2:14",
            "raw.customers cannot be a lookup: its rows are those of the query",
        ),
    ],
)
def test_what_cannot_be_a_lookup(tmp_path: Path, query: str, at: str, message: str) -> None:
    messages = problems(tmp_path, {"models/m/log.sql": DECLARED + query})
    assert messages == [("BadLookup", f"models/m/log.sql:{at}", message)]


def test_hints(tmp_path: Path) -> None:
    text = DECLARED.replace("customers", "custmers") + f"{ORDERS} LEFT JOIN raw.customers c ON o.c = c.id"
    assert hint(tmp_path, {"models/m/log.sql": text}) == "did you mean 'raw.customers' or 'raw.orders'?"
    table = "-- @kind: table\n-- @lookups: raw.c\nSELECT 1 AS a"
    assert [kind for kind, _, _ in problems(tmp_path / "b", {"models/m/t.sql": table})] == ["Contradiction"]


def test_lookups_are_kept_with_the_project(tmp_path: Path) -> None:
    text = DECLARED + f"{ORDERS} JOIN raw.customers c ON o.c = c.id"
    project = compiled(tmp_path, {"models/m/log.sql": text})
    again = codec.decode(Project, codec.encode(project)).nodes["m.log"]
    assert again.lookups == (Lookup("raw.customers", True, ((1, ("id",)),)),)
    assert again.lookup_columns == project.nodes["m.log"].lookup_columns == ("name",)
