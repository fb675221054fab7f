"""Tokens of Spark SQL, with their places.

Identity and expansion work on tokens and not on a parser's tree: a token keeps exactly what was written, so that two
texts with another meaning never look the same, whatever a parser makes of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal, NamedTuple

Kind = Literal["word", "quoted", "string", "number", "hint", "comment", "symbol", "variable", "macro", "broken"]


class Token(NamedTuple):
    """A piece of SQL and the half-open span `[start, end)` that it takes in the text; there are many: a tuple is made
    in a third of the time of a frozen dataclass."""

    kind: Kind
    text: str
    start: int
    end: int


_PATTERN = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<line>--(?:[^\n\\]|\\(?!\n)|\\\n)*)
  | (?P<hint>/\*\+)
  | (?P<block>/\*)
  | (?P<string>[rRxX]?'(?:''|\\.|[^'\\])*'|[rRxX]?"(?:""|\\.|[^"\\])*")
  | (?P<quoted>`(?:``|[^`])*`)
  | (?P<broken>[rRxX]?['"`])
  | (?P<variable>@@ENV:[A-Za-z_][A-Za-z0-9_]*|@@[A-Za-z_][A-Za-z0-9_]*)
  | (?P<macro>@[A-Za-z_][A-Za-z0-9_]*)
  | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?:BD|bd|[lLsSyYfFdD])?(?![A-Za-z0-9_]))
  | (?P<word>[^\W\d]\w*|\d\w*)
  | (?P<symbol><=>|<>|!=|<=|>=|==|->|=>|::|\|\||<<|>>>|>>|.)
    """,
    re.VERBOSE | re.DOTALL,
)
# In a raw string a backslash is just a backslash, so that r'\' ends where an ordinary string would go on.
_RAW = re.compile(r"""[rR](?:'[^']*'|"[^"]*")""")


def tokenize(text: str, start: int = 0) -> Iterator[Token]:
    """The tokens of a text; comments are tokens too, white space is not."""
    position = start
    while position < len(text):
        raw = _RAW.match(text, position) if text[position] in "rR" else None
        match = raw or _PATTERN.match(text, position)
        assert match is not None
        kind = match.lastgroup or "string"
        end = match.end()
        if kind in ("block", "hint"):
            block_end = _find_end_of_block(text, position)
            kind, end = (kind, block_end) if block_end is not None else ("broken", len(text))
        if kind == "space":
            position = end
            continue
        if kind in ("line", "block"):
            kind = "comment"
        yield Token(kind, text[position:end], position, end)  # type: ignore[arg-type]
        position = end


def _find_end_of_block(text: str, start: int) -> int | None:
    """Where a bracketed comment ends (they nest); None when it never does."""
    depth = 0
    for match in re.compile(r"/\*|\*/").finditer(text, start):
        depth += 1 if match[0] == "/*" else -1
        if depth == 0:
            return match.end()
    return None


def tokenize_code(text: str, start: int = 0) -> list[Token]:
    """The tokens of a text without its comments."""
    return list(_tokenize_code(text, start))


@lru_cache(maxsize=8)
def _tokenize_code(text: str, start: int) -> tuple[Token, ...]:
    """A query's text is asked for several times while it is read."""
    return tuple(token for token in tokenize(text, start) if token.kind != "comment")


def find_closing(tokens: list[Token], opening: int) -> int | None:
    """The index of the token that closes the bracket at index `opening`."""
    depth = 0
    for index in range(opening, len(tokens)):
        if tokens[index].text in ("(", "[", "{"):
            depth += 1
        elif tokens[index].text in (")", "]", "}"):
            depth -= 1
            if depth == 0:
                return index
    return None


def split_arguments(text: str, tokens: list[Token], opening: int, end: int) -> list[str]:
    """The texts between top-level commas inside the brackets from `opening` to `end`."""
    parts: list[str] = []
    depth, begin = 0, tokens[opening].end
    for token in tokens[opening + 1 : end]:
        if token.text in ("(", "[", "{"):
            depth += 1
        elif token.text in (")", "]", "}"):
            depth -= 1
        elif token.text == "," and depth == 0:
            parts.append(text[begin : token.start].strip())
            begin = token.end
    last = text[begin : tokens[end].start].strip()
    return [*parts, last] if parts or last else []


def strip_quotes(token: Token) -> str:
    """A name without its quotes."""
    return token.text[1:-1].replace("``", "`") if token.kind == "quoted" else token.text
