"""Where the ends of a window stand in a query."""

from __future__ import annotations

import pytest

from sqb.sql.text.cursor_calls import iter_cursor_calls


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("SELECT 1", []),
        ("SELECT __cursor_start(), __cursor_end()", ["__cursor_start", "__cursor_end"]),
        ("SELECT __CURSOR_START ( /* x */ )", ["__cursor_start"]),
        ("SELECT '__cursor_start()' -- __cursor_end()", []),
        ("SELECT `__cursor_start`", []),
        ("SELECT __cursor_start(1), __cursor_end", ["__cursor_start!", "__cursor_end!"]),
    ],
)
def test_calls(text: str, result: list[str]) -> None:
    calls = list(iter_cursor_calls(text))
    assert [c.name + ("" if c.is_complete else "!") for c in calls] == result
    for call in calls:
        assert text[call.start : call.end].lower().startswith(call.name)
        assert not call.is_complete or text[call.start : call.end].endswith(")")
