"""A query as text with numbered holes: one hole for every table that is read, through views too.

Incremental work is done by filling the holes differently: with a table's changes, with its old or new version, or with
the part of it that matters. The text around the holes is always the author's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqb.sql.spans import Reference, fill

_HOLE = re.compile("\0(\\d+)\0")


# A query's text, a reference in it that asks for a version itself, and its name: what is replaced, and by what.
Fixed = Callable[[str, Reference, str], tuple[Reference, str]]


@dataclass(frozen=True, slots=True)
class Template:
    """`texts[0] hole0 texts[1] hole1 … texts[n]`; `names[i]` is the table that belongs in hole i."""

    texts: tuple[str, ...]
    names: tuple[str, ...]

    def render(self, hole: Callable[[int], str]) -> str:
        """The query with each hole filled."""
        parts = [self.texts[0]]
        for index, text in enumerate(self.texts[1:]):
            parts += [hole(index), text]
        return "".join(parts)


@dataclass(frozen=True, slots=True)
class Part:
    """A query to be made into a template: its text, its references, what each means, and which of those are views."""

    text: str
    slots: Sequence[Reference]
    reads: Sequence[str]


def make_template(part: Part, views: Mapping[str, Part], fixed: Fixed) -> Template:
    """The template of a query; a reference that the author pinned himself is written as `fixed` says."""
    names: list[str] = []

    def text_of(one: Part) -> str:
        relations: dict[int, str] = {}
        slots = list(one.slots)
        for index, (slot, name) in enumerate(zip(one.slots, one.reads, strict=True)):
            if name in views:
                relations[index] = f"({text_of(views[name])}\n)"
            elif slot.fixed:
                slots[index], relations[index] = fixed(one.text, slot, name)
            else:
                relations[index] = f"\0{len(names)}\0"
                names.append(name)
        return fill(one.text.rstrip().rstrip(";"), slots, relations)[0]

    pieces = _HOLE.split(text_of(part))
    # Holes are numbered in the order in which they were met, which is the order of the text.
    assert [int(n) for n in pieces[1::2]] == list(range(len(names)))
    return Template(tuple(pieces[::2]), tuple(names))
