"""Markup is escaped by construction; SQL, diffs and charts as markup."""

from __future__ import annotations

import pytest

from sqb.docs_site.charts import Mark, draw_bars, draw_line
from sqb.docs_site.markup import EMPTY, Markup, join, tag
from sqb.docs_site.pages.frame import Page, Site, show_table
from sqb.docs_site.pages.sql import show_diff, show_python, show_sql
from sqb.docs_site.words import format_count, format_duration

SITE = Site({"nodes": {}, "runs": [], "environments": None}, {"a.b": "a.b.html", "<x>": "x.html"})
PAGE = Page(SITE, "t", "index.html", "../")


def test_texts_are_escaped_and_markup_is_not() -> None:
    assert tag("p", "<b>", Markup("<i>x</i>"), 3, None, ["&", ("'",)]) == "<p>&lt;b&gt;<i>x</i>3&amp;&#x27;</p>"
    assert tag("a", "x", href='"><script>', class_="y", hidden=True, title=None) == (
        '<a href="&quot;&gt;&lt;script&gt;" class="y" hidden>x</a>'
    )
    assert tag("input", aria_label="n", disabled=False) == '<input aria-label="n"/>'
    assert join(x for x in ("<", ">")) == "&lt;&gt;" and join(None) == EMPTY


def test_sql_has_links_and_coloured_words() -> None:
    text = "SELECT '<x>' AS a -- from x\nFROM b WHERE a < 1"
    start = text.index("b WHERE")
    markup = show_sql(PAGE, {"text": text, "links": [[start, start + 1, "a.b"]]}, "SQL")
    assert '<a href="../nodes/a.b.html" class="name" title="a.b">b</a>' in markup
    assert '<span class="t-word">SELECT</span> <span class="t-string">&#x27;&lt;x&gt;&#x27;</span>' in markup
    assert '<span class="t-comment">-- from x</span>' in markup and "a &lt; <" in markup


def test_a_very_long_text_has_links_and_no_colours() -> None:
    text = "SELECT '</script>' AS a, " * 10_000 + "b FROM b"
    markup = show_sql(PAGE, {"text": text, "links": [[len(text) - 1, len(text), "a.b"]]}, "SQL")
    assert "<span" not in markup and "</script>" not in markup and len(markup) < 2 * len(text)
    assert '<a href="../nodes/a.b.html" class="name" title="a.b">b</a>' in markup


def test_python_is_escaped() -> None:
    assert "&lt;script&gt;" in show_python("x = '<script>'  # y", "code")


def test_a_diff_is_shown_side_by_side() -> None:
    markup = show_diff("@@ -1,3 +1,3 @@\n SELECT a\n-FROM <x>\n-WHERE 1\n+FROM y\n-- comment kept\n+z")
    rows = markup.split("<tr>")[2:]
    assert '<td class="removed">FROM &lt;x&gt;</td><td class="added">FROM y</td>' in markup
    assert '<td class="removed">WHERE 1</td><td></td>' in markup
    assert "<td>SELECT a</td><td>SELECT a</td>" in markup and "colspan" in rows[0]


def test_charts_have_names_and_words() -> None:
    bars = draw_bars("Seconds", [Mark(1.0, "<one>", "good", "runs/x.html"), Mark(0.0, "two")])
    assert 'aria-label="Seconds"' in bars and "<title>&lt;one&gt;</title>" in bars and 'href="runs/x.html"' in bars
    # Links cannot be reached inside of an image.
    assert 'role="group"' in bars and 'role="img"' in draw_bars("Seconds", [Mark(1.0, "one")])
    assert draw_bars("x", []) == EMPTY and draw_line("x", []) == EMPTY
    assert draw_line("x", [Mark(3.0, "a"), Mark(3.0, "b")]).count("<circle") == 2


def test_a_table_leaves_columns_out_that_say_nothing() -> None:
    markup = show_table(("A", "B", ""), [["x", "", "l"], ["y", None, "l"]])
    assert "A</th>" in markup and "B</th>" not in markup
    assert show_table(("A",), []) == EMPTY


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"),
        (0.25, "250 ms"),
        (3.21, "3.2 s"),
        (59.97, "1 min"),
        (103.6, "1 min 44 s"),
        (7300, "2 h 1 min"),
        (43200, "12 h"),
        (172800, "2 d"),
        (200000, "2 d 7 h"),
        (3600 * 24 + 5, "1 d"),
    ],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert format_duration(seconds) == text


def test_counts() -> None:
    assert format_count(1234567) == "1,234,567" and format_count(None) == "–"
