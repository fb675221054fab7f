"""HTML and SVG as values: whatever is not markup already is escaped when it becomes part of some."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

_VOID = frozenset({"input", "link", "meta", "br", "line", "rect", "circle", "path", "polyline", "use", "img"})


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


Child = str | int | float | None | Iterable["Child"]
EMPTY = Markup("")


# Most texts have none of these.
_SPECIAL = re.compile("[&<>\"']")


def escape(text: object) -> str:
    """A text as it stands in HTML, in attributes too."""
    plain = str(text)
    return html.escape(plain) if _SPECIAL.search(plain) else plain


@lru_cache(maxsize=1024)
def _name_attribute(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def tag(_name: str, *children: Child, **attributes: Any) -> Markup:
    """An element. `class_`, `for_` lose their `_`, other `_` become `-`; None and False leave an attribute out."""
    opening = f"<{_name}"
    for key, value in attributes.items():
        if value is True:
            opening += f" {_name_attribute(key)}"
        elif value is not None and value is not False:
            opening += f' {_name_attribute(key)}="{escape(value)}"'
    if _name in _VOID:
        return Markup(f"{opening}/>")
    return Markup(f"{opening}>{join(children)}</{_name}>")


def join(children: Child) -> Markup:
    """Children one after the other."""
    # There are half a million in a large project: the types are asked for in the order of how many there are.
    kind = type(children)
    if kind is Markup:
        return children  # type: ignore[return-value]
    if kind is str:
        return Markup(html.escape(children) if _SPECIAL.search(children) else children)  # type: ignore[arg-type]
    if kind is tuple or kind is list:
        return Markup("".join([join(child) for child in children]))  # type: ignore[union-attr]
    if children is None:
        return EMPTY
    if isinstance(children, str | int | float):
        return Markup(escape(children))
    return Markup("".join([join(child) for child in children]))
