"""A query as text with numbered table slots: one slot for every table that is read, through views too.

An incremental refresh fills the slots differently: with a table's changes, with its old or new version, or with the
part of it that matters. The text around the slots is always the author's own. A view stands in brackets where it is
read; where that would repeat too much, one that is read several times stands once, in a WITH before the query.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from sqb.light_dataclass import dataclass
from sqb.sql.text.lexer import tokenize_code
from sqb.sql.text.spans import Reference, fill_references

_SLOT = re.compile("\0(\\d+)\0")
# With more slots than this, views that are read several times are shared. Below, each place is followed by itself.
_MOST_SLOTS = 16
_SHARED = "__sqb_shared_"

# A query's text, a reference in it that asks for a version itself, and its name: what is replaced, and by what.
PinnedReference = Callable[[str, Reference, str], tuple[Reference, str]]
# (at, origin, length) of what was copied from an author's text.
Copied = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Template:
    """`texts[0] slot0 texts[1] slot1 … texts[n]`; `names[i]` is the table of slot i."""

    texts: tuple[str, ...]
    names: tuple[str, ...]
    # Where the node's own text stands, counted without what is put in the slots.
    copied: Copied = ()

    def render(self, fill_slot: Callable[[int], str]) -> str:
        """The query with each slot filled."""
        parts = [self.texts[0]]
        for index, text in enumerate(self.texts[1:]):
            parts += [fill_slot(index), text]
        return "".join(parts)

    def find_origin(self, offset: int, fill_slot: Callable[[int], str]) -> int:
        """The offset in the node's own text behind an offset of the rendered query; of a view, where it is read."""
        plain = rendered = 0
        for index, text in enumerate(self.texts):
            if offset < rendered + len(text) or index == len(self.names):
                plain += max(offset - rendered, 0)
                break
            plain, rendered = plain + len(text), rendered + len(text) + len(fill_slot(index))
        items = [c for c in self.copied if c[0] <= plain]
        at, origin, length = items[-1] if items else (plain, 0, 0)
        return origin + min(max(plain - at, 0), length)


@dataclass(frozen=True, slots=True)
class Part:
    """A query to be made into a template: its text, its references, what each means, and which of those are views."""

    text: str
    slots: Sequence[Reference]
    reads: Sequence[str]


def build_template(part: Part, views: Mapping[str, Part], render_pinned: PinnedReference) -> Template:
    """The template of a query; `render_pinned` writes a reference that the author pinned."""
    names: list[str] = []
    shared = {name: f"{_SHARED}{i}" for i, name in enumerate(_list_shared_views(part, views))}

    def render_part(current: Part) -> tuple[str, Copied]:
        relations: dict[int, str] = {}
        slots = list(current.slots)
        for index, (slot, name) in enumerate(zip(current.slots, current.reads, strict=True)):
            if name in shared:
                relations[index] = shared[name]
            elif name in views:
                relations[index] = f"({render_part(views[name])[0]}\n)"
            elif slot.is_pinned:
                slots[index], relations[index] = render_pinned(current.text, slot, name)
            else:
                relations[index] = f"\0{len(names)}\0"
                names.append(name)
        text, copied = fill_references(current.text.rstrip().rstrip(";"), slots, relations)
        return text, tuple(copied)

    head = ", ".join(f"{called} AS ({render_part(views[name])[0]}\n)" for name, called in shared.items())
    text, copied = render_part(part)
    if head:
        text, copied = _put_before(part.text, text, copied, head)
    pieces = _SLOT.split(text)
    # Slots are numbered in the order in which they were met, which is the order of the text.
    assert [int(n) for n in pieces[1::2]] == list(range(len(names)))
    return Template(tuple(pieces[::2]), tuple(names), _count_without_slots(text, copied))


def _list_shared_views(part: Part, views: Mapping[str, Part]) -> list[str]:
    """The views that are read several times, those first that others read; none where there are few slots anyway."""
    slots: dict[str, int] = {}
    readers: dict[str, int] = {}

    def count(current: Part) -> int:
        total = 0
        for name in current.reads:
            if name not in views:
                total += 1
                continue
            readers[name] = readers.get(name, 0) + 1
            if name not in slots:
                slots[name] = count(views[name])
            total += slots[name]
        return total

    if count(part) <= _MOST_SLOTS or _begins_with(part.text, "WITH", "RECURSIVE"):
        return []
    return [name for name in slots if readers[name] > 1]


def _begins_with(text: str, *words: str) -> bool:
    return tuple(token.text.upper() for token in tokenize_code(text)[: len(words)]) == words


def _put_before(own: str, text: str, copied: Copied, head: str) -> tuple[str, Copied]:
    """A query with more CTEs before it, or before those that it has."""
    # Nothing stands in the place of anything before the first word.
    tokens = tokenize_code(own)
    has_ctes = bool(tokens) and tokens[0].text.upper() == "WITH"
    at = tokens[0].end if has_ctes else tokens[0].start
    added = f" {head}," if has_ctes else f"WITH {head} "
    moved = []
    for start, origin, length in copied:
        if start <= at < start + length:
            moved += [(start, origin, at - start), (at + len(added), origin + at - start, length - (at - start))]
        else:
            moved.append((start + (len(added) if start > at else 0), origin, length))
    return text[:at] + added + text[at:], tuple(moved)


def _count_without_slots(text: str, copied: Copied) -> Copied:
    """Places in a text whose slots are marks, counted as if there were no marks."""
    marks = [item.span() for item in _SLOT.finditer(text)]
    return tuple((at - sum(min(end, at) - start for start, end in marks if start < at), o, n) for at, o, n in copied)
