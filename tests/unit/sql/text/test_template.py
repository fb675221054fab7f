"""Queries with slots: views in their places, or shared where they would stand too often."""

from __future__ import annotations

from sqb.sql.analysis.parse import read_query
from sqb.sql.text.template import Part, Template, build_template

SLOT = "__sqb_slot_{}".format
FIRST = "__sqb_shared_0 AS (SELECT k, n FROM __sqb_slot_0 AS t WHERE n > 0\n)"


def part(sql: str) -> Part:
    references = read_query(sql, {}).references
    return Part(sql, references, [r.name for r in references])


def build(sql: str, views: dict[str, str]) -> Template:
    def refuse(*_: object) -> object:
        raise AssertionError("nothing is pinned")

    return build_template(part(sql), {name: part(text) for name, text in views.items()}, refuse)  # type: ignore[arg-type]


def chain(depth: int) -> dict[str, str]:
    """Views of which each reads the one before it twice."""
    views = {"v.v0": "SELECT k, n FROM raw.t AS t WHERE n > 0"}
    for i in range(depth):
        views[f"v.v{i + 1}"] = f"SELECT a.k, b.n FROM v.v{i} AS a JOIN v.v{i} AS b ON a.k = b.k"
    return views


def test_few_reads_of_a_view_stand_where_they_are_written() -> None:
    template = build("SELECT a.k FROM v.v0 AS a JOIN v.v0 AS b ON a.k = b.k", chain(0))
    inner = "(SELECT k, n FROM {} AS t WHERE n > 0\n)"
    assert template.render(SLOT) == (
        f"SELECT a.k FROM {inner.format(SLOT(0))} AS a JOIN {inner.format(SLOT(1))} AS b ON a.k = b.k"
    )


def test_a_chain_of_views_does_not_grow_with_every_way_through_it() -> None:
    template = build("SELECT k, n FROM v.v40", chain(40))
    assert template.names == ("raw.t",)
    assert len(template.render(SLOT)) < 5000
    assert template.render(SLOT).startswith(f"WITH {FIRST}, ")


def test_shared_views_stand_before_the_ctes_of_a_query() -> None:
    sql = "-- first\nWITH c AS (SELECT k FROM raw.u) SELECT c.k FROM c JOIN v.v5 ON c.k = v5.k"
    template = build(sql, chain(5))
    text = template.render(SLOT)
    assert text.startswith(f"-- first\nWITH {FIRST}, __sqb_shared_1 AS (")
    assert template.names == ("raw.t", "raw.u")
    assert text.count("c AS (SELECT k FROM") == 1


def test_an_offset_leads_back_to_what_the_author_wrote() -> None:
    for sql, views in (
        ("SELECT k, n AS wanted FROM v.v5", chain(5)),
        ("SELECT a.k FROM v.v0 AS a JOIN raw.u AS wanted ON a.k = wanted.k", chain(0)),
        ("WITH c AS (SELECT k FROM raw.u) SELECT c.k FROM c JOIN v.v5 ON c.k = v5.k WHERE wanted", chain(5)),
    ):
        template = build(sql, views)
        origin = template.find_origin(template.render(SLOT).rindex("wanted"), SLOT)
        assert origin == sql.rindex("wanted"), sql


def test_what_is_inside_of_a_view_leads_to_where_it_is_read() -> None:
    sql = "SELECT a.k FROM v.v0 AS a"
    template = build(sql, chain(0))
    assert template.find_origin(template.render(SLOT).index("n > 0"), SLOT) == sql.index("v.v0")
