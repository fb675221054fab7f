"""The grammar of values in model headers: strings, lists, mappings, calls, and text up to the next comma.

Works on spans of a text, so that every value keeps its place. Knows no keys.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from sqb.names import At, locate_offset
from sqb.project.values import Call, Statement, Value

BOM = "\ufeff"


class Span(NamedTuple):
    """A stretch of a text."""

    start: int
    end: int


class Token(NamedTuple):
    """A piece that matters for structure: comment, string, open, close, mark, or broken (it never ends)."""

    kind: str
    start: int
    end: int


class Malformed(Exception):
    """A value does not parse; the offset is where it goes wrong."""

    def __init__(self, message: str, offset: int, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset
        self.hint = hint


Leaf = Callable[[str, Span], Value]

_TOKEN = re.compile(
    r"(?P<comment>--[^\n]*)"
    r"|(?P<block>/\*)"
    r"|(?P<string>'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"|`(?:[^`]|``)*`)"
    r"|(?P<open>[(\[{])"
    r"|(?P<close>[)\]}])"
    r"|(?P<mark>[,;:=])"
    r"|(?P<broken>['\"`])",
    re.DOTALL,
)
_BLOCK_EDGE = re.compile(r"/\*|\*/")
_CLOSERS = {"(": ")", "[": "]", "{": "}"}
_CALL = re.compile(r"([A-Za-z_]\w*)\s*\(")
_INTEGER = re.compile(r"[+-]?\d+")
_NUMBER = re.compile(r"[+-]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d+)?")
_ESCAPED = re.compile(r"\\(['\"\\])|''|\"\"")


def find_block_end(text: str, start: int) -> int | None:
    """Where the block comment that opens at `start` ends (they nest in Spark SQL); None when it never does."""
    depth = 0
    for edge in _BLOCK_EDGE.finditer(text, start):
        depth += 1 if edge.group() == "/*" else -1
        if depth == 0:
            return edge.end()
    return None


def iter_tokens(text: str, start: int = 0, end: int | None = None) -> Iterator[Token]:
    """The tokens that give a text its structure, in order; a broken one is the last."""
    pos, end = start, len(text) if end is None else end
    while match := _TOKEN.search(text, pos, end):
        kind = match.lastgroup or ""
        pos = match.end()
        if kind == "block":
            stop = find_block_end(text, match.start())
            kind, pos = ("broken", end) if stop is None or stop > end else ("comment", stop)
        yield Token(kind, match.start(), pos)
        if kind == "broken":
            return


def locate_span(text: str, span: Span, file: str) -> At:
    """The place of a span, underlined to the end of its first line; a byte order mark takes no column."""
    newline = text.find("\n", span.start, span.end)
    at = locate_offset(text, span.start, file, (newline if newline >= 0 else span.end) - span.start)
    if at.line == 1 and text.startswith(BOM):
        return At(file, 1, max(1, at.column - 1), at.length)
    return at


def trim(text: str, span: Span) -> Span:
    """The span without the whitespace around it."""
    inside = text[span.start : span.end]
    start = span.start + len(inside) - len(inside.lstrip())
    return Span(start, max(start, span.start + len(inside.rstrip())))


def iter_nesting(text: str, span: Span) -> Iterator[tuple[int, Token]]:
    """The tokens of a span with the depth that they are at; raises Malformed where brackets do not pair."""
    open_at: list[int] = []
    for token in iter_tokens(text, *span):
        match token.kind:
            case "open":
                yield len(open_at), token
                open_at.append(token.start)
            case "close":
                if not open_at:
                    raise Malformed(f"`{text[token.start]}` closes nothing", token.start)
                opener = text[open_at.pop()]
                if _CLOSERS[opener] != text[token.start]:
                    raise Malformed(f"`{opener}` is closed by `{text[token.start]}`", token.start)
                yield len(open_at), token
            case "broken":
                raise Malformed("this quote or comment is never closed", token.start)
            case _:
                yield len(open_at), token
    if open_at:
        raise Malformed(f"`{text[open_at[-1]]}` is never closed", open_at[-1])


def split(text: str, span: Span) -> list[Span]:
    """The pieces between top-level commas, trimmed; a trailing comma adds none."""
    edges = [
        t.start for depth, t in iter_nesting(text, span) if depth == 0 and t.kind == "mark" and text[t.start] == ","
    ]
    starts = [span.start, *(edge + 1 for edge in edges)]
    pieces = [trim(text, Span(start, end)) for start, end in zip(starts, [*edges, span.end], strict=True)]
    if pieces[-1].start == pieces[-1].end:
        pieces.pop()
    for piece in pieces:
        if piece.start == piece.end:
            raise Malformed("there is nothing between two commas", piece.start)
    return pieces


def find_inside(text: str, span: Span, openers: str = "([{") -> Span | None:
    """What is in the brackets when one pair encloses the whole span."""
    if text[span.start : span.start + 1] not in tuple(openers):
        return None
    for depth, token in iter_nesting(text, span):
        if depth == 0 and token.kind == "close":
            return Span(span.start + 1, span.end - 1) if token.end == span.end else None
    return None


def read_text_leaf(text: str, span: Span) -> str:
    """The text of a span, without its quotes when it is one quoted string."""
    first = next(iter_tokens(text, *span), None)
    raw = text[span.start : span.end]
    if first is None or first.kind != "string" or (first.start, first.end) != span or raw[0] == "`":
        return raw
    return _ESCAPED.sub(lambda match: match.group(1) or match.group()[0], raw[1:-1])


def read_typed_leaf(text: str, span: Span) -> Value:
    """A boolean, a number, or text."""
    raw = text[span.start : span.end]
    if raw.lower() in ("true", "false"):
        return raw.lower() == "true"
    if _INTEGER.fullmatch(raw):
        return int(raw)
    if _NUMBER.fullmatch(raw):
        return float(raw)
    return read_text_leaf(text, span)


def build_call_leaf(file: str, at: At | None = None) -> Leaf:
    """A reader of calls such as `between(v, 0, 9)`; what is not a call stays text."""

    def read(text: str, span: Span) -> Value:
        name = _CALL.match(text, span.start, span.end)
        arguments = find_inside(text, Span(name.end() - 1, span.end)) if name else None
        if name is None or arguments is None:
            return read_text_leaf(text, span)
        written = tuple(text[piece.start : piece.end] for piece in split(text, arguments))
        return Call(name.group(1), written, at or locate_span(text, span, file))

    return read


def build_statement_leaf(file: str, at: At | None = None) -> Leaf:
    """A reader of SQL statements, in quotes or not."""

    def read(text: str, span: Span) -> Value:
        written = read_text_leaf(text, span)
        start = span.start + (written != text[span.start : span.end])
        return Statement(written, at or locate_span(text, Span(start, span.end), file))

    return read


def read_items(text: str, span: Span, leaf: Leaf) -> tuple[Value, ...]:
    """A list: `a`, `a, b`, `[a, b]` or `(a, b)`."""
    return tuple(leaf(text, piece) for piece in split(text, find_inside(text, span, "([") or span))


def read_pairs(text: str, span: Span, leaf: Leaf) -> dict[str, Value]:
    """A mapping: `k: v, 'k' = v`, alone or in brackets."""
    pairs: dict[str, Value] = {}
    for piece in split(text, find_inside(text, span) or span):
        edge = next((t for depth, t in iter_nesting(text, piece) if depth == 0 and text[t.start] in ":="), None)
        if edge is None:
            raise Malformed("a mapping needs `key: value`", piece.start)
        key = read_text_leaf(text, trim(text, Span(piece.start, edge.start))).strip("`")
        value = trim(text, Span(edge.end, piece.end))
        if not key or value.start == value.end:
            raise Malformed("a mapping needs `key: value`", piece.start)
        if key in pairs:
            raise Malformed(f"`{key}` is given twice", piece.start)
        pairs[key] = leaf(text, value)
    return pairs


def read_nested_leaf(text: str, span: Span) -> Value:
    """A typed value that may itself be a list or a mapping."""
    if find_inside(text, span, "{"):
        return read_pairs(text, span, read_nested_leaf)
    if find_inside(text, span, "(["):
        return list(read_items(text, span, read_nested_leaf))
    return read_typed_leaf(text, span)
