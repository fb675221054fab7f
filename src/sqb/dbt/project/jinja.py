"""A file of a dbt project by what it means: its text without what changes nothing, and the names that it asks for.

Two texts that mean something else never look the same here; two that mean the same may look different, and then dbt
itself is asked to compile them. Jinja comes first, as in dbt: its blocks are cut out, and what is left is SQL.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sqb.identity import digest
from sqb.sql.text.lexer import tokenize

_OPENING = re.compile(r"\{\{|\{%|\{#")
_CLOSING = {"{{": "}}", "{%": "%}", "{#": "#}"}
# The pieces of an expression; strings are one piece, so that nothing inside of them is touched.
_PIECE = re.compile(r"""\s+|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\w+|.""", re.DOTALL)
_RAW = re.compile(r"\{%[-+]?\s*raw\b")
# Stands for a block in the SQL around it; it is part of a word, of a string or of a comment as the block was.
_MARK = "__jinja_{}__"


@dataclass(frozen=True, slots=True)
class Block:
    """A `{{ expression }}` or `{% statement %}`: its pieces without white space."""

    opening: str
    text: str
    pieces: tuple[str, ...]

    @property
    def is_config(self) -> bool:
        """Whether it only sets configuration, which dbt resolves and tells."""
        words = _strip_dashes(self.pieces)
        if self.opening != "{{" or words[:2] != ("config", "("):
            return False
        depth = 0
        for index, piece in enumerate(words):
            depth += {"(": 1, ")": -1}.get(piece, 0)
            if depth == 0 and index > 0:
                return index == len(words) - 1
        return False


@dataclass(frozen=True, slots=True)
class BlockSpan:
    """Where a block of Jinja is in a text, and what is inside of its brackets."""

    opening: str
    inside: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class ContextNames:
    """The names that a text asks dbt's context for; None among them is a name that only running it would tell."""

    variables: frozenset[str | None] = frozenset()
    environment: frozenset[str | None] = frozenset()
    target: bool = False

    def __or__(self, other: ContextNames) -> ContextNames:
        return ContextNames(
            self.variables | other.variables, self.environment | other.environment, self.target or other.target
        )


def hash_text(text: str) -> str:
    """A hash that is the same for texts that differ only in comments, white space and `config(…)`."""
    sql, blocks = _split(text)
    # A SQL comment that holds Jinja is not a comment for Jinja.
    words = [t.text for t in tokenize(sql) if t.kind != "comment" or "__jinja_" in t.text]
    # In a raw part braces are text, and so is the white space between them.
    inside = [b.text for b in blocks] if _RAW.search(text) else [chr(0).join(b.pieces) for b in blocks]
    return digest("jinja", *words, "\0", *(f"{b.opening}{i}" for b, i in zip(blocks, inside, strict=True)))


def find_context_names(text: str) -> ContextNames:
    """What a text asks for with `var()`, `env_var()` and `target`."""
    names = ContextNames()
    for block in _split(text)[1]:
        words = _strip_dashes(block.pieces)
        if "var" in words or "env_var" in words or "target" in words:
            names |= ContextNames(
                frozenset(_iter_arguments(words, "var")),
                frozenset(_iter_arguments(words, "env_var")),
                _has_target(words),
            )
    return names


def collect_context_names(texts: Iterable[str]) -> ContextNames:
    """What several texts ask for."""
    names = ContextNames()
    for text in texts:
        if "var" in text or "target" in text:
            names |= find_context_names(text)
    return names


def _iter_arguments(words: tuple[str, ...], function: str) -> Iterator[str | None]:
    for index, word in enumerate(words):
        if word != function or words[index + 1 : index + 2] != ("(",):
            # `var.get('x')` or a variable that is called so: its use is unknown.
            if word == function and words[index + 1 : index + 2] == (".",):
                yield None
            continue
        argument, after = words[index + 2 : index + 3], words[index + 3 : index + 4]
        literal = argument and argument[0][0] in "'\"" and after in ((",",), (")",))
        yield argument[0][1:-1] if literal else None


def _has_target(words: tuple[str, ...]) -> bool:
    return any(w == "target" and words[i - 1 : i] != (".",) for i, w in enumerate(words))


def _strip_dashes(pieces: tuple[str, ...]) -> tuple[str, ...]:
    """The pieces without the signs that control white space around a block."""
    start = 1 if pieces[:1] in (("-",), ("+",)) else 0
    end = len(pieces) - 1 if len(pieces) > start and pieces[-1] in ("-", "+") else len(pieces)
    return pieces[start:end]


def _split(text: str) -> tuple[str, list[Block]]:
    """The SQL of a text with a mark in the place of every block, and the blocks.

    Comments of Jinja are gone, and configuration.
    """
    out: list[str] = []
    blocks: list[Block] = []
    position = 0
    for span in iter_blocks(text):
        out.append(text[position : span.start])
        position = span.end
        if span.opening == "{#":
            continue
        block = Block(span.opening, span.inside, tuple(p for p in _PIECE.findall(span.inside) if not p.isspace()))
        if block.is_config:
            out.append(" ")
            continue
        out.append(_MARK.format(len(blocks)))
        blocks.append(block)
    out.append(text[position:])
    return "".join(out), blocks


def iter_blocks(text: str) -> Iterator[BlockSpan]:
    """All blocks of a text, comments of Jinja among them, in order."""
    position = 0
    while (match := _OPENING.search(text, position)) is not None:
        inside, position = _read_block(text, match.end(), match.group())
        yield BlockSpan(match.group(), inside, match.start(), position)


def _read_block(text: str, start: int, opening: str) -> tuple[str, int]:
    """Read the block that begins at `start`, and find where the text goes on; strings may hold its end."""
    closing = _CLOSING[opening]
    if opening == "{#":
        end = text.find(closing, start)
        return (text[start:end], end + 2) if end >= 0 else (text[start:], len(text))
    position = start
    while position < len(text):
        if text.startswith(closing, position):
            return text[start:position], position + 2
        match = _PIECE.match(text, position)
        assert match is not None
        position = match.end()
    return text[start:], len(text)
