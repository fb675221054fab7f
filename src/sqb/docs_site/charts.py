"""Small charts as SVG, readable without JavaScript: each has a name, and every mark its own words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqb.docs_site.markup import EMPTY, Markup, tag

_WIDTH, _HEIGHT, _GAP = 260, 56, 2


@dataclass(frozen=True, slots=True)
class Mark:
    """One value of a chart: what it says when one points at it, the class that colours it, and where it leads."""

    value: float
    text: str
    style: str = ""
    link: str = ""


def draw_bars(name: str, marks: Sequence[Mark], top: float | None = None) -> Markup:
    """Bars, oldest first; a value of zero still has a line that one can point at."""
    if not marks:
        return EMPTY
    top = top or max((m.value for m in marks), default=0.0) or 1.0
    width = min(18.0, (_WIDTH - _GAP * (len(marks) - 1)) / len(marks))
    bars = [
        _draw_bar(mark, i * (width + _GAP), width, max(2.0, min(1.0, mark.value / top) * (_HEIGHT - 4)))
        for i, mark in enumerate(marks)
    ]
    # What is in an image cannot be followed: bars that lead somewhere are a group of links.
    role = "group" if any(mark.link for mark in marks) else "img"
    return tag("svg", bars, viewBox=f"0 0 {_WIDTH} {_HEIGHT}", class_="chart", role=role, aria_label=name)


def draw_strip(name: str, marks: Sequence[Mark]) -> Markup:
    """One cell for each result, oldest first: its colour says how it ended."""
    if not marks:
        return EMPTY
    cells = [
        tag(
            "g",
            tag("title", mark.text),
            tag("rect", x=i * 8, y=0, width=6, height=14, rx=1.5, class_=f"bar {mark.style}"),
        )
        for i, mark in enumerate(marks)
    ]
    width = len(marks) * 8 - 2
    sizes = {"viewBox": f"0 0 {width} 14", "width": width, "height": 14}
    return tag("svg", cells, **sizes, class_="strip", role="img", aria_label=name)


def caption(title: str, last: str) -> Markup:
    """The words above a chart: what it shows, and its newest value."""
    return tag("figcaption", title, " ", tag("span", last, class_="last", title="the last one"))


def _draw_bar(mark: Mark, x: float, width: float, height: float) -> Markup:
    bar = tag(
        "g",
        tag("title", mark.text),
        tag("rect", x=f"{x:.1f}", y=0, width=f"{width:.1f}", height=_HEIGHT, class_="hit"),
        tag(
            "rect",
            x=f"{x:.1f}",
            y=f"{_HEIGHT - height:.1f}",
            width=f"{width:.1f}",
            height=f"{height:.1f}",
            rx=1.5,
            class_=f"bar {mark.style}",
        ),
    )
    return tag("a", bar, href=mark.link) if mark.link else bar


def draw_line(name: str, marks: Sequence[Mark]) -> Markup:
    """A line through values over time, oldest first, each with a point."""
    if not marks:
        return EMPTY
    values = [m.value for m in marks]
    low, high = min(values), max(values)
    span = (high - low) or 1.0
    step = (_WIDTH - 12) / max(1, len(marks) - 1)
    points = [
        (6 + i * step, _HEIGHT - 8 - (v - low) / span * (_HEIGHT - 16) if high > low else _HEIGHT / 2)
        for i, v in enumerate(values)
    ]
    line = tag("polyline", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in points), class_="line")
    dots = [
        tag("g", tag("title", m.text), tag("circle", cx=f"{x:.1f}", cy=f"{y:.1f}", r=3, class_=f"dot {m.style}"))
        for m, (x, y) in zip(marks, points, strict=True)
    ]
    return tag("svg", line, dots, viewBox=f"0 0 {_WIDTH} {_HEIGHT}", class_="chart", role="img", aria_label=name)
