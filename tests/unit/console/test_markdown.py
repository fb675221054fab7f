"""Texts of tables in Markdown: whatever they hold, readers see it and nothing of it is markup."""

from __future__ import annotations

import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from sqb.console.inspect.diff import format_cell
from sqb.console.markdown import format_code, format_fence, format_grid, format_html_code

HOSTILE = [
    "a|b",
    "a\\|b",
    "`",
    "``a``",
    "a`|`b",
    "<script>alert(1)</script>",
    "</details>",
    "&amp;",
    "&#124;",
    "*a* _b_ ~~c~~",
    "[x](https://example.com)",
    "![x](y)",
    "@someone",
    "#12",
    "https://example.com",
    "$x$",
    "a\nb\r\nc",
    "-->",
    "\\",
    "a\\",
    "|",
    " ",
    "",
    "'",
    "日本",
    "line\u2028separator",
]


def render_cells(*cells: str) -> list[str]:
    """What a reader sees in a row of a table."""
    lines = format_grid(["x"] * len(cells), [cells], frozenset({0}))
    page = MarkdownIt("commonmark").enable("table").render("\n".join(lines))
    body = page.partition("<tbody>")[2]
    shown = re.findall(r"<td[^>]*>(.*?)</td>", body, re.DOTALL)
    assert all(re.fullmatch(r"<code>[^<]*</code>", cell) for cell in shown), page
    return [html.unescape(cell.removeprefix("<code>").removesuffix("</code>")) for cell in shown]


@pytest.mark.parametrize("value", HOSTILE)
def test_a_reader_sees_the_value(value: str) -> None:
    text = format_cell(value)
    assert render_cells(format_code(text), format_code("next")) == [text, "next"]


@given(st.lists(st.text(alphabet=st.sampled_from("ab`|\\<>&*_[]()#@!$:'\"~ -\n;124"), max_size=20), min_size=1))
def test_any_values(values: list[str]) -> None:
    texts = [format_cell(value) for value in values]
    assert render_cells(*map(format_code, texts)) == texts


def test_names_that_are_not_printable_have_one_line() -> None:
    assert format_code("a\nb") == "`a b`"


def test_in_html() -> None:
    assert format_html_code("</summary> & <b>") == "<code>&lt;/summary&gt; &amp; &lt;b&gt;</code>"


@pytest.mark.parametrize(("text", "fence"), [("SELECT 1", "```"), ("a ```` b", "`````"), ("`", "```")])
def test_a_block_ends_where_it_should(text: str, fence: str) -> None:
    assert list(format_fence(f"{text}\nx", "diff")) == [f"{fence}diff", text, "x", fence]


def test_a_table() -> None:
    assert list(format_grid(["a", "b"], [("1", "2")], frozenset({1}))) == ["| a | b |", "|---|---:|", "| 1 | 2 |"]
