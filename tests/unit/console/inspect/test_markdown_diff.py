"""Differences as Markdown for a comment on a pull request."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sqb.console.inspect.markdown_diff import MAX_LENGTH, format_markdown_diff
from sqb.environments.diff import Comparison, find_differences
from sqb.environments.model import Binding, Ref, Version
from sqb.inspect.diff import ColumnChange, DiffRequest, DiffResult, Side
from sqb.names import Relation
from sqb.operations.inspect.build_cost import BuildCost, sum_costs
from sqb.operations.inspect.diff import EnvironmentDiff, EnvironmentNodeDiff, NodeDiff
from sqb.spark.data.diff import ChangedRow, RowsDiff
from unit.plan.worlds import node

ID = '{"id":1,"name":"id","required":false,"type":"long"}'
NAME = '{"id":2,"name":"na|me","required":false,"type":"string"}'


def ref(name: str, version: str, local: str = "", snapshot: int = 7, columns: str = ID, **upstream: str) -> Ref:
    relation = Relation("shop", f"{name}_{version}")
    bound = Binding(name, "model", "table", local or version, version, relation, snapshot, columns=f"[{columns}]")
    return Ref(replace(bound, upstream=upstream))


def refs(*some: Ref) -> dict[str, Ref]:
    return {r.binding.name: r for r in some}


def version(name: str, hash: str, query: str) -> Version:
    return Version(name, hash, hash, query, "c", "", f'{{"sql": "SELECT {query}"}}', {})


PROD = refs(
    ref("stg", "s1"),
    ref("fct", "f1", "f", stg="s1"),
    ref("cut", "c1", "c", 9, fct="f1"),
    ref("old", "o1"),
    ref("data", "d1", snapshot=1),
    ref("same", "x"),
)
OURS = refs(
    ref("stg", "s2", snapshot=8, columns=f"{ID},{NAME}"),
    ref("fct", "f2", "f", 8, stg="s2"),
    ref("cut", "c2", "c", 9, fct="f2"),
    ref("new", "n1", stg="s2"),
    ref("data", "d1", snapshot=2),
    ref("same", "x"),
)
VERSIONS = {("stg", "s1"): version("stg", "s1", "q"), ("stg", "s2"): version("stg", "s2", "``` other")}
ROWS = {
    ("shop.stg_s1", 7): 10,
    ("shop.stg_s2", 8): 1200,
    ("shop.new_n1", 7): 1,
    ("shop.old_o1", 7): 3,
    ("shop.cut_c1", 9): 5,
    ("shop.cut_c2", 9): 5,
}
COMPARISON = Comparison("pr_1", "prod", find_differences(PROD, OURS, VERSIONS), 1, ROWS, VERSIONS)
COST = BuildCost("20260301_120000_5ca1ab", 38.04, 39.6, 6.2, 1441, 6, 9, 0, 2, 69.0)


def side(what: str, rows: int | None) -> Side:
    return Side(what, Relation("shop", "m"), lambda session: None, 7, rows, "dev")


def compare(name: str, counts: tuple[int, int], rows: Any, key: tuple[str, ...] = (), **more: Any) -> DiffResult:
    before, now = side("what is built", counts[0]), side("what its query gives now", counts[1])
    question = DiffRequest(node(name), before, now)
    columns, compared = more.pop("columns", ()), more.pop("compared", ("id", "v", "w"))
    return DiffResult(question, before, now, columns, compared, key, rows, **more)


STG = compare(
    "stg",
    (10, 1200),
    RowsDiff(
        1191,
        1,
        2,
        {"w": 1, "v": 2},
        added_rows=({"id": 3, "v": "<b>@all</b>", "w": None},),
        removed_rows=({"id": 4, "v": "a|b", "w": "`"},),
        changed_rows=(
            ChangedRow({"id": 1}, {"v": ("x\ny", "z"), "w": (1, None)}),
            ChangedRow({"id": 2}, {"v": ("a", "b")}),
        ),
    ),
    ("id",),
    columns=(ColumnChange("na|me", None, "string"),),
    notes=("its key is odd",),
)
FCT = compare("fct", (4, 4), RowsDiff(1, 1, added_rows=({"id": 1, "v": 1, "w": 1},)))
DATA = compare("data", (7, 7), RowsDiff(0, 0))


def test_all_of_it() -> None:
    result = EnvironmentDiff(COMPARISON, 1.0, {"stg": STG, "fct": FCT, "data": DATA}, COST)
    assert format_markdown_diff(result, False).splitlines() == [
        "### `pr_1` compared with `prod`",
        "",
        "**6 nodes differ** (3 changed, 1 new, 1 removed, 1 with other rows), 1 the same."
        " Rows: 1,192 added, 2 removed, 2 changed.",
        "",
        "| Model | What differs | Rows | Added | Removed | Changed | Columns |",
        "|---|---|---|---:|---:|---:|---|",
        "| `stg` | Query changed | 10 → 1,200 | 1,191 | 1 | 2 | added <code>na&#124;me string</code> |",
        "| `fct` | Upstream changed: `stg` | 4 | 1 | 1 |  |  |",
        "| `cut` | Upstream changed: `fct` | 5 | 0 | 0 | 0 |  |",
        "| `data` | other rows of the same version | 7 | 0 | 0 |  |  |",
        "| `new` | new: only in `pr_1` | 1 |  |  |  |  |",
        "| `old` | removed: only in `prod` | 3 |  |  |  |  |",
        "",
        "<details><summary><code>stg</code>: 1,191 added, 1 removed, 2 changed by <code>id</code></summary>",
        "",
        "Changed in `v` (2), `w` (1)",
        "",
        "Changed:",
        "",
        "| `id` | `v` | `w` |",
        "|---|---|---|",
        "| `1` | `x\\ny` → `z` | `1` → `NULL` |",
        "| `2` | `a` → `b` |  |",
        "",
        "Added, 1 of 1,191:",
        "",
        "| `id` | `v` | `w` |",
        "|---|---|---|",
        "| `3` | `<b>@all</b>` | `NULL` |",
        "",
        "Removed:",
        "",
        "| `id` | `v` | `w` |",
        "|---|---|---|",
        "| `4` | <code>a&#124;b</code> | <code>&#96;</code> |",
        "",
        "Note: `its key is odd`",
        "",
        "</details>",
        "",
        "<details><summary><code>fct</code>: 1 added, 1 removed, whole rows compared</summary>",
        "",
        "Added:",
        "",
        "| `id` | `v` | `w` |",
        "|---|---|---|",
        "| `1` | `1` | `1` |",
        "",
        "</details>",
        "",
        "Last build `20260301_120000_5ca1ab`: 38.0s (nodes 39.6s, the start of Spark 6.2s);"
        " 15 nodes: 6 ran, 9 skipped; 1,441 rows in what ran. 2 builds so far: 1m 9s.",
    ]


def test_without_rows_and_with_queries() -> None:
    text = format_markdown_diff(EnvironmentDiff(COMPARISON), True)
    assert "**6 nodes differ** (3 changed, 1 new, 1 removed, 1 with other rows), 1 the same.\n" in text
    assert "| `stg` | Query changed | 10 → 1,200 |  |  |  | added" in text
    fenced = "````diff\n@@ -1 +1 @@\n-SELECT q\n+SELECT ``` other\n````\n\n</details>\n"
    assert text.endswith(f"<details><summary><code>stg</code></summary>\n\n{fenced}")


def test_one_node_of_two_environments() -> None:
    one = replace(COMPARISON, differences=COMPARISON.differences[0:1], unchanged=0)
    text = format_markdown_diff(EnvironmentNodeDiff(one, one.differences[0], STG), False)
    assert "**1 node differs** (1 changed), 0 the same. Rows: 1,191 added, 1 removed, 2 changed.\n" in text


def test_two_sides_of_a_node() -> None:
    cost = replace(COST, skipped=None, failed=1, ran=0, rows=0, spark_seconds=None, runs=1)
    assert format_markdown_diff(NodeDiff("dev", FCT, 1.0, cost), False).splitlines()[:7] == [
        "### `fct`: what is built → what its query gives now",
        "",
        "Rows: 1 added, 1 removed.",
        "",
        "| Model | What differs | Rows | Added | Removed | Changed | Columns |",
        "|---|---|---|---:|---:|---:|---|",
        "| `fct` | rows | 4 | 1 | 1 |  |  |",
    ]
    last = format_markdown_diff(NodeDiff("dev", FCT, 1.0, cost), False).splitlines()[-1]
    assert last == (
        "Last build `20260301_120000_5ca1ab`: 38.0s (nodes 39.6s); 1 node: 0 ran, 1 failed; 0 rows in what ran."
    )
    apart = replace(FCT, rows=None, columns=STG.columns)
    assert "| `fct` | columns | 4 |  |  |  | added" in format_markdown_diff(NodeDiff("dev", apart, 1.0), False)


def test_nothing_differs() -> None:
    same = Comparison("pr_1", "prod", (), 4, {}, {})
    sentence = "`pr_1` compared with `prod`: nothing differs (4 nodes the same).\n"
    assert format_markdown_diff(EnvironmentDiff(same, cost=COST), True) == sentence
    alone = EnvironmentNodeDiff(replace(same, unchanged=1), None, None)
    assert format_markdown_diff(alone, True) == "`pr_1` compared with `prod`: nothing differs (1 node the same).\n"
    text = format_markdown_diff(NodeDiff("dev", DATA, 1.0, COST), False)
    assert text == "`data`: what is built → what its query gives now: nothing differs (7 rows).\n"


def test_wide_rows_show_their_first_columns() -> None:
    names = tuple(f"c{i}" for i in range(12))
    rows = RowsDiff(
        1,
        0,
        1,
        added_rows=(dict.fromkeys(names, 1),),
        changed_rows=(ChangedRow({"c0": 1}, dict.fromkeys(names[1:], (1, 2))),),
    )
    wide = compare("m", (1, 2), rows, ("c0",), compared=names)
    lines = format_markdown_diff(NodeDiff("dev", wide, 1.0), False).splitlines()
    assert [line for line in lines if line.startswith(("Added", "Changed"))] == [
        "Changed, without 4 columns:",
        "Added, without 4 columns:",
    ]
    assert all(line.count("|") == 9 for line in lines if line.startswith("| `1`"))


def test_wide_rows_without_a_key_show_what_differs_in_them() -> None:
    names = tuple(f"c{i}" for i in range(12))
    before = dict.fromkeys(names, 1)
    rows = RowsDiff(1, 1, 0, added_rows=({**before, "c10": 2},), removed_rows=(before,))
    wide = compare("m", (1, 1), rows, compared=names)
    lines = format_markdown_diff(NodeDiff("dev", wide, 1.0), False).splitlines()
    header = "| `c0` | `c1` | `c2` | `c3` | `c4` | `c5` | `c6` | `c10` |"
    assert lines.count(header) == 2 and f"{'| `1` ' * 7}| `2` |" in lines


@pytest.mark.parametrize("count", [300, 3000])
def test_a_comment_has_room_for_it(count: int) -> None:
    names = [f"{'a' * 30}_{i}" for i in range(count)]
    differences = find_differences({}, refs(*(ref(name, "v") for name in names)), {})
    rows = {name: replace(STG, question=replace(STG.question, node=node(name))) for name in names}
    result = EnvironmentDiff(Comparison("pr", "prod", differences, 0, {}, {}), 1.0, rows, COST)
    text = format_markdown_diff(result, False)
    assert len(text) <= MAX_LENGTH + 100
    assert "more models are left out.\n\nLast build " in text
    assert ("more nodes: `sqb diff` prints all of them." in text) == (count == 3000)
    assert text.count("<details>") == text.count("</details>") > 0


def test_what_a_build_cost() -> None:
    run = {"began": 100.0, "spark": [100.5, 104.5], "nodes": 5, "skipped": 3}
    first = {"status": "ok", "seconds": 2.0, "rows": 10, "run": run, "span": {"began": 101.0, "ended": 103.0}}
    second = {"status": "failed", "seconds": 3.0, "rows": 5, "run": run, "span": {"began": 101.0, "ended": 110.0}}
    old = {"status": "ok", "seconds": 1.5, "rows": None}
    cost = sum_costs({"new": [first, second], "old": [old]})
    assert cost == BuildCost("new", 10.0, 5.0, 4.0, 10, 1, 3, 1, 2, 11.5)
    assert cost is not None and cost.to_data()["seconds"] == 10.0
    assert sum_costs({"old": [old]}) == BuildCost("old", 1.5, 1.5, None, 0, 1, None, 0, 1, 1.5)
    assert sum_costs({}) is None
