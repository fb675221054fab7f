"""How two environments differ, and why."""

from __future__ import annotations

from dataclasses import replace

from sqb.console.environments.diff import format_environment_diff
from sqb.console.style import Paint
from sqb.environments.diff import Comparison, Difference, find_differences
from sqb.environments.model import Binding, NodeType, Ref, Version
from sqb.names import Relation
from sqb.operations.inspect.diff import EnvironmentDiff
from sqb.plan.model import Reason

ID = '{"id":1,"name":"id","required":false,"type":"long"}'
NAME = '{"id":2,"name":"name","required":false,"type":"string"}'


def ref(name: str, version: str, local: str = "", type: NodeType = "model", columns: str = ID, **upstream: str) -> Ref:
    relation = Relation("shop", f"{name}_{version}") if type != "function" else None
    bound = Binding(name, type, "table", local or version, version, relation, 7, columns=f"[{columns}]")
    return Ref(replace(bound, upstream=upstream))


def refs(*found: Ref) -> dict[str, Ref]:
    return {r.binding.name: r for r in found}


def version(name: str, hash: str, query: str = "q", config: str = "c", **functions: str) -> Version:
    return Version(name, hash, hash, query, config, "", f'{{"sql": "SELECT {query}"}}', functions)


PROD = refs(ref("stg", "s1"), ref("fct", "f1", "f", stg="s1"), ref("old", "o1"), ref("same", "x"))
OURS = refs(
    ref("stg", "s2", columns=f"{ID},{NAME}"),
    ref("fct", "f2", "f", stg="s2"),
    ref("new", "n1", stg="s2"),
    ref("same", "x"),
)


def compare(versions: dict[tuple[str, str], Version] | None = None) -> dict[str, Difference]:
    return {d.name: d for d in find_differences(PROD, OURS, versions or {})}


def test_what_differs_and_in_which_order() -> None:
    all_of_it = find_differences(PROD, OURS, {})
    assert [(d.name, d.change) for d in all_of_it] == [
        ("stg", "changed"),
        ("fct", "changed"),
        ("new", "added"),
        ("old", "removed"),
    ]
    assert find_differences(PROD, PROD, {}) == ()


def test_why() -> None:
    assert compare()["fct"].reason is Reason.UPSTREAM_CHANGED and compare()["fct"].through == ("stg",)
    key_then, key_now = ("stg", "s1"), ("stg", "s2")
    cases = [
        (version("stg", "s2", query="other"), Reason.QUERY_CHANGED),
        (version("stg", "s2", config="other"), Reason.CONFIG_CHANGED),
        (version("stg", "s2", f="2"), Reason.FUNCTION_CHANGED),
    ]
    for now, reason in cases:
        assert compare({key_then: version("stg", "s1"), key_now: now})["stg"].reason is reason
    assert compare()["stg"].reason is Reason.QUERY_CHANGED, "nothing is known of the versions"
    functions = find_differences(refs(ref("f()", "1", type="function")), refs(ref("f()", "2", type="function")), {})
    assert functions[0].reason is Reason.FUNCTION_CHANGED
    other_source = find_differences(refs(ref("a", "1", "l")), refs(ref("a", "2", "l")), {})
    assert other_source[0].reason is Reason.SOURCE_CHANGED


def test_columns_and_other_rows() -> None:
    assert [str(c) for c in compare()["stg"].columns] == ["name string added"]
    moved = {"same": replace(PROD["same"], binding=replace(PROD["same"].binding, snapshot_id=8))}
    [one] = find_differences({"same": PROD["same"]}, moved, {})
    assert (one.change, one.reason, one.columns) == ("data", None, ())


def compared() -> Comparison:
    versions = {("stg", "s1"): version("stg", "s1"), ("stg", "s2"): version("stg", "s2", query="other")}
    rows = {("shop.stg_s1", 7): 10, ("shop.stg_s2", 7): 12, ("shop.new_n1", 7): 1, ("shop.old_o1", 7): None}
    return Comparison("pr", "prod", find_differences(PROD, OURS, versions), 1, rows, versions)


def plain() -> Paint:
    paint = Paint()
    paint.enabled = False
    return paint


def test_as_lines() -> None:
    assert list(format_environment_diff(compared(), False, plain())) == [
        "pr compared with prod",
        "~ stg  Query changed; s1 → s2; 10 → 12 rows",
        "    + name string",
        "~ fct  Upstream changed: stg; f1 → f2",
        "+ new  only in pr; n1; 1 row",
        "- old  only in prod; o1",
        "4 nodes differ, 1 the same.",
    ]
    verbose = list(format_environment_diff(compared(), True, plain()))
    assert verbose[2:5] == ["    @@ -1 +1 @@", "    -SELECT q", "    +SELECT other"]
    same = Comparison("pr", "prod", (), 4, {}, {})
    assert list(format_environment_diff(same, False, plain()))[-1] == "No differences: 4 nodes the same in both."


def test_as_data() -> None:
    data = EnvironmentDiff(compared()).to_data()
    assert (data["from"], data["to"], data["same"]) == ("pr", "prod", False)
    assert data["summary"] == {"added": 1, "removed": 1, "changed": 2, "data": 0, "same": 1}
    assert data["nodes"][0] == {
        "name": "stg",
        "type": "model",
        "kind": "table",
        "change": "changed",
        "reason": "Query changed",
        "through": [],
        "before": {"version": "s1", "relation": "shop.stg_s1", "snapshot_id": 7, "rows": 10},
        "after": {"version": "s2", "relation": "shop.stg_s2", "snapshot_id": 7, "rows": 12},
        "columns": {"added": [{"name": "name", "type": "string"}], "removed": [], "retyped": []},
    }
