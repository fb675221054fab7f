"""Definitions of nodes, compared with those that were built."""

from __future__ import annotations

import json

from sqb.inspect.definitions import diff_definitions


def test_the_difference_between_two_definitions() -> None:
    stored = json.dumps({"sql": "\nSELECT a\nFROM t\n", "config": {"kind": "table"}})
    now = json.dumps({"sql": "\nSELECT a, b\nFROM t\n", "config": {"kind": "view"}})
    assert diff_definitions(stored, now).splitlines() == [
        "@@ -1,2 +1,2 @@",
        "-SELECT a",
        "+SELECT a, b",
        " FROM t",
        "@@ -1 +1 @@",
        '-kind: "table"',
        '+kind: "view"',
    ]
    assert diff_definitions(stored, stored) == ""
    one, two = ({"sql": "q", "bodies": {"net": [["INT", "True", "x INT "], f"SELECT (x\n + {n})", []]}} for n in (1, 2))
    assert diff_definitions(json.dumps(one), json.dumps(two)).splitlines() == [
        "@@ -1,3 +1,3 @@",
        " net(x INT)",
        " x",
        "- + 1",
        "+ + 2",
    ]
    assert diff_definitions("", now).startswith("@@")
