"""A query as text with numbered table slots: one slot for every table that is read, through views too.

An incremental refresh fills the slots differently: with a table's changes, with its old or new version, or with the
part of it that matters. The text around the slots is always the author's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqb.sql.text.spans import Reference, fill_references

_SLOT = re.compile("\0(\\d+)\0")


# A query's text, a reference in it that asks for a version itself, and its name: what is replaced, and by what.
PinnedReference = Callable[[str, Reference, str], tuple[Reference, str]]


@dataclass(frozen=True, slots=True)
class Template:
    """`texts[0] slot0 texts[1] slot1 … texts[n]`; `names[i]` is the table of slot i."""

    texts: tuple[str, ...]
    names: tuple[str, ...]

    def render(self, fill_slot: Callable[[int], str]) -> str:
        """The query with each slot filled."""
        parts = [self.texts[0]]
        for index, text in enumerate(self.texts[1:]):
            parts += [fill_slot(index), text]
        return "".join(parts)


@dataclass(frozen=True, slots=True)
class Part:
    """A query to be made into a template: its text, its references, what each means, and which of those are views."""

    text: str
    slots: Sequence[Reference]
    reads: Sequence[str]


def build_template(part: Part, views: Mapping[str, Part], render_pinned: PinnedReference) -> Template:
    """The template of a query; `render_pinned` writes a reference that the author pinned."""
    names: list[str] = []

    def render_part(current: Part) -> str:
        relations: dict[int, str] = {}
        slots = list(current.slots)
        for index, (slot, name) in enumerate(zip(current.slots, current.reads, strict=True)):
            if name in views:
                relations[index] = f"({render_part(views[name])}\n)"
            elif slot.is_pinned:
                slots[index], relations[index] = render_pinned(current.text, slot, name)
            else:
                relations[index] = f"\0{len(names)}\0"
                names.append(name)
        return fill_references(current.text.rstrip().rstrip(";"), slots, relations)[0]

    pieces = _SLOT.split(render_part(part))
    # Slots are numbered in the order in which they were met, which is the order of the text.
    assert [int(n) for n in pieces[1::2]] == list(range(len(names)))
    return Template(tuple(pieces[::2]), tuple(names))
