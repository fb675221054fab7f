"""A model's file in its usual form: the header, and the query below it. Values of the header stay as written."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sqb.errors.base import Errors
from sqb.project.models.grammar import iter_tokens
from sqb.project.models.header import parse_header
from sqb.project.models.keys import find_key
from sqb.project.values import Call, Header, Statement, Value
from sqb.sql.formatting.query import format_query
from sqb.sql.formatting.settings import FormatSettings
from sqb.sql.text.lexer import tokenize_code

_DIRECTIVE = re.compile(r"--[ \t]*@([A-Za-z_]\w*)[ \t]*(:?)[ \t]*(.*?)[ \t]*$")

_KEY = re.compile(r"[A-Za-z_]\w*(?![\w:=])")


def format_model(text: str, file: str, settings: FormatSettings = FormatSettings()) -> str:
    """A model's file, formatted; as it is where its header cannot be read, or would not say the same."""
    errors = Errors()
    header = parse_header(text, file, errors)
    if errors.found or not text.strip():
        return text
    top, body = text[: header.body_start], text[header.body_start :]
    if tokenize_code(top)[:1] and tokenize_code(top)[0].text.upper() == "MODEL":
        formatted = f"{_format_block(top, settings)}\n\n{format_query(body.lstrip(), settings)}"
    else:
        lines, rest = _split_directives(text)
        gap = "\n" if lines and rest[:1].isspace() and rest.strip() else ""
        formatted = "".join(f"{line}\n" for line in lines) + gap + format_query(rest.lstrip(), settings)
    again = parse_header(formatted, file, errors)
    return formatted if _read_values(header) == _read_values(again) and not errors.found else text


def _read_values(header: Header) -> dict[str, object]:
    """What a header says, wherever in the file it says so."""
    return {key: _drop_places(setting.value) for key, setting in header.settings.items()}


def _drop_places(value: Value) -> object:
    match value:
        case Call(name, arguments):
            return Call, name, arguments
        case Statement(text):
            return Statement, text
        case tuple() | list():
            return [_drop_places(item) for item in value]
        case Mapping():
            return {key: _drop_places(item) for key, item in value.items()}
        case _:
            return value


def _split_directives(text: str) -> tuple[list[str], str]:
    """The lines `-- @key: value` at the top, in their usual form, and what is below them."""
    lines: list[str] = []
    above: list[str] = []
    rest = text.lstrip("\n")
    after = rest
    while (line := after.partition("\n")[0]).startswith("--"):
        match = _DIRECTIVE.match(line)
        after = after.partition("\n")[2]
        if match is None or find_key(match[1]) is None:
            # Another comment, which belongs here if there is more below it.
            above.append(line.rstrip())
            continue
        value = f": {match[3]}" if match[3] else ":" if match[2] else ""
        lines += [*above, f"-- @{match[1].lower()}{value}"]
        above, rest = [], after
    return lines, rest


def _format_block(top: str, settings: FormatSettings) -> str:
    """`MODEL (…);` with an entry on every line; comments stay at their entries."""
    start = top.index("(")
    before, inside = top[:start].rstrip(), top[start + 1 : top.rindex(")")]
    indent = " " * settings.indent
    lines: list[str] = []
    for entry, comments, trailing in _split_entries(inside):
        lines += [f"{indent}{comment}" for comment in comments]
        if entry:
            lines.append(f"{indent}{entry},{f' {trailing}' if trailing else ''}")
    prefix, _, model = before.rpartition("\n")
    head = f"{prefix}\n{model.upper()}" if prefix else model.upper()
    return "\n".join([f"{head} (", *lines, ");"])


def _split_entries(inside: str) -> list[tuple[str, list[str], str]]:
    """The entries of a block: each with the comments above it, and the one behind it on its line."""
    entries: list[tuple[str, list[str], str]] = []
    depth = begin = 0
    above: list[str] = []
    for token in iter_tokens(inside):
        written = inside[token.start : token.end]
        if token.kind == "open":
            depth += 1
        elif token.kind == "close":
            depth -= 1
        elif depth == 0 and token.kind == "mark" and written == ",":
            entries.append((_tidy(inside[begin : token.start]), above, ""))
            above, begin = [], token.end
        elif depth == 0 and token.kind == "comment":
            is_behind = entries and "\n" not in inside[begin : token.start] and not inside[begin : token.start].strip()
            if is_behind:
                entry, comments, _ = entries[-1]
                entries[-1] = (entry, comments, written)
            elif inside[begin : token.start].strip():
                # Behind an entry that no comma ends.
                entries.append((_tidy(inside[begin : token.start]), above, written))
                above = []
            else:
                above.append(written)
            begin = token.end
    rest = _tidy(inside[begin:])
    return [*entries, (rest, above, "")] if rest or above else entries


def _tidy(entry: str) -> str:
    """An entry with one space behind its key; its value stays."""
    match = _KEY.match(entry.strip())
    return f"{match[0]} {entry.strip()[match.end() :].lstrip()}".rstrip() if match else entry.strip()
