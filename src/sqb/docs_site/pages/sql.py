"""SQL and Python code as markup: keywords, texts and comments in their own colours, and links on what is read."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from typing import Any

from sqb.docs_site.markup import Markup, tag
from sqb.docs_site.pages.frame import Page

_SQL_WORDS = (
    "add all and anti any as asc between by case cast create cross cube cursor desc distinct else end except exists "
    "filter first following from full group grouping having if in inner insert intersect interval into is join last "
    "lateral left like limit merge model natural not null nulls offset on or order outer over partition pivot "
    "preceding qualify range rank recursive right rollup row rows select semi sets table tablesample then true false "
    "unbounded union unpivot using values view when where window with"
)
_PYTHON_WORDS = (
    "and as assert async await break class continue def del elif else except False finally for from global if import "
    "in is lambda None nonlocal not or pass raise return True try while with yield"
)


# Each coloured word is an element, and of a longer text there are too many for a browser.
_MOST_COLOURED = 200_000


def _compile(words: str, comment: str, flags: re.RegexFlag) -> re.Pattern[str]:
    strings = r"""'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.)*\""""
    return re.compile(
        rf"(?P<comment>{comment})|(?P<string>{strings})|(?P<number>\b\d+(?:\.\d+)?\b)"
        rf"|(?P<word>\b(?:{'|'.join(words.split())})\b)|(?P<variable>@@?\w+)",
        flags,
    )


_SQL = _compile(_SQL_WORDS, r"--[^\n]*|/\*.*?\*/", re.IGNORECASE | re.DOTALL)
_PYTHON = _compile(_PYTHON_WORDS, r"#[^\n]*", re.DOTALL)


def show_sql(page: Page, sql: Mapping[str, Any], label: str) -> Markup:
    """A query, with links on the relations that it reads."""
    text, parts, at = str(sql["text"]), [], 0
    is_coloured = len(text) <= _MOST_COLOURED
    for start, end, name in sorted(sql["links"]):
        if start < at:
            continue
        parts.append(_colour(text[at:start], _SQL, is_coloured))
        parts.append(page.link_node(name, text[start:end], title=name))
        at = end
    parts.append(_colour(text[at:], _SQL, is_coloured))
    return tag("pre", tag("code", Markup("".join(parts).strip("\n"))), tabindex=0, role="region", aria_label=label)


def show_python(text: str, label: str) -> Markup:
    """Python code."""
    return tag(
        "pre",
        tag("code", Markup(_colour(text.strip("\n"), _PYTHON, len(text) <= _MOST_COLOURED))),
        tabindex=0,
        role="region",
        aria_label=label,
    )


def _colour(text: str, pattern: re.Pattern[str], is_coloured: bool = True) -> str:
    if not is_coloured:
        return html.escape(text)
    parts, at = [], 0
    for item in pattern.finditer(text):
        start, end = item.span()
        parts.append(f'{html.escape(text[at:start])}<span class="t-{item.lastgroup}">{html.escape(item[0])}</span>')
        at = end
    parts.append(html.escape(text[at:]))
    return "".join(parts)


def show_diff(diff: str) -> Markup:
    """A unified diff as two columns: what was built on the left, what is written now on the right."""
    rows: list[Markup] = []
    removed: list[str] = []
    added: list[str] = []

    def flush() -> None:
        for index in range(max(len(removed), len(added))):
            left = removed[index] if index < len(removed) else None
            right = added[index] if index < len(added) else None
            rows.append(
                _show_pair(left, right, "removed" if left is not None else "", "added" if right is not None else "")
            )
        removed.clear()
        added.clear()

    for line in diff.splitlines():
        if line.startswith("-"):
            if added:
                flush()
            removed.append(line[1:])
        elif line.startswith("+"):
            added.append(line[1:])
        else:
            flush()
            is_head = line.startswith("@@") or (line.endswith(":") and not line.startswith(" "))
            rows.append(
                tag("tr", tag("td", line, colspan=2, class_="hunk")) if is_head else _show_pair(line[1:], line[1:])
            )
    flush()
    head = tag("thead", tag("tr", tag("th", "built", scope="col"), tag("th", "now", scope="col")))
    return tag(
        "div",
        tag("table", head, tag("tbody", *rows), class_="diff"),
        class_="scroll",
        tabindex=0,
        role="region",
        aria_label="What changed",
    )


def _show_pair(left: str | None, right: str | None, left_class: str = "", right_class: str = "") -> Markup:
    return tag(
        "tr", tag("td", left or "", class_=left_class or None), tag("td", right or "", class_=right_class or None)
    )
