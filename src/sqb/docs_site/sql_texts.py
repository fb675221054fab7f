"""The SQL of models, as written and as run, with the places of what it reads."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from sqb.build.node.render import render_query
from sqb.compile.model import Node
from sqb.sql.text.spans import find_piece, trace_offset

# Characters that no SQL has stand around what is read, while a query is put together.
_BEGIN, _MIDDLE, _END = "\ue000", "\ue001", "\ue002"
_MARKED = re.compile(f"{_BEGIN}([^{_MIDDLE}]*){_MIDDLE}|{_END}")

SqlText = dict[str, Any]
# The same in parts: a text, or a text and the name that it links to.
SqlParts = list[str | list[str]]


def describe_written(node: Node, text: str) -> SqlText:
    """A model's file, and where in it each relation is named: the places that no macro has made."""
    links = []
    for name, slot in zip(node.reads, node.slots, strict=True):
        piece = find_piece(node.pieces, slot.start)
        if node.pieces and (piece is None or not piece.is_copied or piece.within):
            continue
        start = trace_offset(node.pieces, slot.start) if node.pieces else slot.start
        end = start + slot.end - slot.start
        if text[start:end] == node.sql[slot.start : slot.end]:
            links.append([start, end, name])
    return {"text": text, "links": sorted(links)}


def describe_rendered(node: Node, name_relation: Callable[[str], str]) -> SqlText:
    """The query as `sqb compile` prints it, and where in it each relation stands."""
    marked = render_query(node, lambda name: f"{_BEGIN}{name}{_MIDDLE}{name_relation(name)}{_END}").sql.strip()
    text, links, open_at, name, at = "", [], 0, "", 0
    for mark in _MARKED.finditer(marked):
        text += marked[at : mark.start()]
        at = mark.end()
        if mark[1] is not None:
            name, open_at = mark[1], len(text)
        elif name:
            # A source that is a query has links inside: only the innermost are kept.
            links.append([open_at, len(text), name])
            name = ""
    return {"text": text + marked[at:], "links": links}


def split_at_links(sql: SqlText) -> SqlParts:
    """A text with links as its parts: each can be changed, and the links stay where they are."""
    text, parts, at = sql["text"], [], 0
    for start, end, name in sorted(sql["links"]):
        if start >= at:
            parts += [text[at:start], [text[start:end], name]]
            at = end
    return [*parts, text[at:]]


def join_parts(parts: SqlParts) -> SqlText:
    """What parts are as one text, and where in it their links are."""
    text, links = "", []
    for part in parts:
        if isinstance(part, str):
            text += part
        else:
            links.append([len(text), len(text) + len(part[0]), part[1]])
            text += part[0]
    return {"text": text, "links": links}
