"""What the colours and outlines of the graph mean. `assets/shapes.js` draws the same outlines."""

from __future__ import annotations

from sqb.docs_site.markup import Child, Markup, tag
from sqb.docs_site.pages.frame import STATE_WORDS

# Outlines within 24 by 14.
_SHEET = "M1 1H19L23 5V13H1Z"
_DRUM = "M1 3Q12 -1 23 3V11Q12 15 1 11Z"
_HEXAGON = "M5 1H19L23 7L19 13H5L1 7Z"
_OCTAGON = "M5 1H19L23 4.5V9.5L19 13H5L1 9.5V4.5Z"


def show_legend() -> Markup:
    """The legend below the graph."""
    states = [
        tag("span", tag("i", class_=f"swatch state-{state}"), word, class_="key")
        for state, word in STATE_WORDS.items()
        if state != "unknown"
    ]
    card = tag("rect", x=1, y=1, width=22, height=12, rx=3)
    shapes: list[tuple[Child, str]] = [
        (card, "table"),
        (tag("rect", x=1, y=1, width=22, height=12, rx=3, stroke_dasharray="3 2"), "view"),
        ([card, tag("rect", x=3.5, y=3.5, width=17, height=7, rx=1.5)], "merge, append, …"),
        (tag("path", d=_SHEET), "seed"),
        (tag("path", d=_DRUM), "source"),
        (tag("path", d=_HEXAGON), "dbt model"),
        (tag("path", d=_OCTAGON), "Python node"),
        (tag("rect", x=1, y=1, width=22, height=12, rx=6), "exposure"),
    ]
    drawn = [
        tag("span", tag("svg", outline, viewBox="0 0 24 14", class_="shape", aria_hidden="true"), word, class_="key")
        for outline, word in shapes
    ]
    return tag("p", *states, tag("span", class_="gap"), *drawn, class_="legend", aria_label="Legend")
