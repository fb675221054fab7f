"""Jinja in a model, which is how dbt's models are written: where it is, and the same model as it is written here."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from typing import Any

from sqb.light_dataclass import dataclass
from sqb.project.models.other_tools import translate_config
from sqb.sql.text.lexer import tokenize

# Blocks of templates, not SQL: what is between them is left as it is.
_CLOSING = {"{": "}}", "%": "%}", "#": "#}"}
# `'{{ var('day') }}'` with one sort of quotes: two strings with a name between them, which no SQL has.
_CALL_IN_QUOTES = re.compile(r"""(?s)((['"])\{\{-?\s*\w+\(\s*\2)\w+\2[^{}]*\}\}\2""")
_BLANK_LINES = re.compile(r"\n(?:[ \t]*\n){2,}")


@dataclass(frozen=True, slots=True)
class Translation:
    """A model without the Jinja that has a meaning here, and whether some is left."""

    text: str
    is_whole: bool


@dataclass(frozen=True, slots=True)
class _Block:
    kind: str
    body: str
    start: int
    end: int

    @property
    def word(self) -> str:
        """The first word of a statement."""
        return self.body.split(None, 1)[0] if self.kind == "%" and self.body else ""


@dataclass(frozen=True, slots=True)
class _Edit:
    """What stands for a part of the text: a text, the settings of a config, or None for what only dbt knows."""

    start: int
    end: int
    by: str | Mapping[str, Any] | None


def find_jinja(text: str, start: int = 0) -> tuple[int, int] | None:
    """The span of the first block outside of strings and comments."""
    for token in tokenize(text, start):
        if token.kind == "symbol" and token.text == "{" and text[token.end : token.end + 1] in _CLOSING:
            closing = text.find(_CLOSING[text[token.end]], token.end + 1)
            return token.start, closing + 2 if closing >= 0 else token.end + 1
        if token.kind == "string" and (call := _CALL_IN_QUOTES.match(text, token.start)) and call.end(1) == token.end:
            return call.start() + 1, call.end() - 1
    return None


def translate(text: str) -> Translation:
    """A model of dbt's as it is written here, as far as that can be said of its text."""
    header: dict[str, str] = {}
    notes: list[str] = []
    body, position, is_whole = "", 0, True
    for edit in _list_edits(_read_blocks(text)):
        body += text[position : edit.start]
        position = edit.end
        match edit.by:
            case None:
                body += text[edit.start : edit.end]
                is_whole = False
            case str() as words:
                quote = body[-1:]
                if words.startswith("@@") and quote in ("'", '"') and text[position : position + 1] == quote:
                    # A variable is a literal here: it brings its quotes along.
                    body, position = body[:-1], position + 1
                body += words
            case settings:
                known, unknown = translate_config(settings)
                header |= known
                notes += unknown
    body = _BLANK_LINES.sub("\n\n", body + text[position:]).strip()
    comments = "".join(f"-- {note}\n" for note in notes)
    lines = "".join(f"  {key} {value},\n" for key, value in header.items())
    return Translation(comments + (f"MODEL (\n{lines});\n\n" if lines else "") + body + "\n", is_whole)


def _read_blocks(text: str) -> list[_Block]:
    blocks: list[_Block] = []
    position = 0
    while (start := text.find("{", position)) >= 0:
        kind = text[start + 1 : start + 2]
        end = text.find(_CLOSING[kind], start + 2) if kind in _CLOSING else -1
        if end < 0:
            position = start + 1
            continue
        position = end + 2
        blocks.append(_Block(kind, text[start + 2 : end].strip().strip("-").strip(), start, position))
    return blocks


def _list_edits(blocks: Sequence[_Block]) -> list[_Edit]:
    edits: list[_Edit] = []
    closed: set[int] = set()
    index = 0
    while index < len(blocks):
        block = blocks[index]
        if index in closed:
            edits.append(_Edit(block.start, block.end, ""))
        elif block.kind == "#":
            edits.append(_Edit(block.start, block.end, f"/* {block.body} */"))
        elif block.kind == "{":
            edits.append(_Edit(block.start, block.end, _translate_expression(block.body)))
        elif block.body.startswith("if is_incremental()") and (end := _find_end(blocks, index)) is not None:
            # sqb itself reads only what changed, so the condition has no place; what is for a first run stays.
            branches = (i for i in range(index + 1, end) if blocks[i].word == "else" and _find_end(blocks, i) == end)
            last = next(branches, end)
            edits.append(_Edit(block.start, blocks[last].end, ""))
            closed |= {end} - {last}
            index = last
        else:
            edits.append(_Edit(block.start, block.end, None))
        index += 1
    return edits


def _find_end(blocks: Sequence[_Block], start: int) -> int | None:
    """The `endif` that belongs to an `if` or an `else`."""
    depth = 1
    for index in range(start + 1, len(blocks)):
        depth += {"if": 1, "endif": -1}.get(blocks[index].word, 0)
        if depth == 0:
            return index
    return None


def _translate_expression(text: str) -> str | Mapping[str, Any] | None:
    """What stands for `{{ … }}`; None where only dbt knows."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name):
            return None
        values = [ast.literal_eval(argument) for argument in tree.args]
        named = {k.arg: ast.literal_eval(k.value) for k in tree.keywords if k.arg is not None}
    except (SyntaxError, ValueError):
        return None
    match tree.func.id, values:
        case "config", []:
            return named
        case "ref", [str(), str() as name] | [str() as name]:
            return name
        case "source", [str() as schema, str() as name]:
            return f"{schema}.{name}"
        case "var", [str() as name, *_]:
            return f"@@{name}"
        case "env_var", [str() as name, *_]:
            return f"@@ENV:{name}"
        case _:
            return None
