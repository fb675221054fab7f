"""The columns that a model's header names: in keys, descriptions, contracts and checks."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from sqb.compile.model import Node
from sqb.lsp.model_names import find_named
from sqb.lsp.places import Place, find_body
from sqb.lsp.snapshot import Snapshot
from sqb.project.models.keys import find_key
from sqb.sql.text.lexer import Token, strip_quotes, tokenize

_NAMING = frozenset(
    """
    unique_key group_key cursor columns contract constraints audits warnings partitioned_by sorted_by
    """.split()
)
_LINE = re.compile(r"--[ \t]*@([A-Za-z_]\w*)[ \t]*:?")


def iter_header_columns(snapshot: Snapshot, node: Node) -> Iterator[tuple[str, Place]]:
    """The names of the model's own columns in its header, with their places."""
    if node.type != "model" or node.python:
        return
    text = snapshot.read_text(node.file)
    names = {name.lower() for name in snapshot.get_columns(node.name).names}
    for start, end in iter_naming_values(text, node.file):
        tokens = list(tokenize(text[:end], start))
        for index, token in enumerate(tokens):
            if strip_quotes(token).lower() in names and _is_own_name(tokens, index):
                yield strip_quotes(token), Place(node.file, token.start, token.end)


def iter_foreign_names(snapshot: Snapshot, node: Node) -> Iterator[tuple[str, str, Place, Place]]:
    """Columns of other tables in a model's checks, as `references(id, staging.orders.id)` names them: the table, the
    column, and the places of both names."""
    if snapshot.workspace is None or node.type != "model" or node.python:
        return
    text = snapshot.read_text(node.file)
    for start, end in iter_naming_values(text, node.file):
        tokens = list(tokenize(text[:end], start))
        for index in range(len(tokens)):
            chain = _read_chain(tokens, index)
            if len(chain) < 2 or (index and tokens[index - 1].text == "."):
                continue
            table = find_named(snapshot.workspace.project, ".".join(strip_quotes(t) for t in chain[:-1]))
            if table is not None:
                named, column = (Place(node.file, t.start, t.end) for t in chain[-2:])
                yield table, strip_quotes(chain[-1]), named, column


def _read_chain(tokens: list[Token], index: int) -> list[Token]:
    """The names from here on that are joined by dots."""
    chain: list[Token] = []
    while index < len(tokens) and tokens[index].kind in ("word", "quoted"):
        chain.append(tokens[index])
        if index + 1 >= len(tokens) or tokens[index + 1].text != ".":
            break
        index += 2
    return chain


def _is_own_name(tokens: list[Token], index: int) -> bool:
    """Whether a word names a column of the model: not called, not a column of another table, not a text."""
    if tokens[index].kind not in ("word", "quoted"):
        return False
    after = tokens[index + 1].text if index + 1 < len(tokens) else ""
    before = tokens[index - 1].text if index else ""
    return after not in ("(", ".") and before != "."


def iter_naming_values(text: str, file: str) -> Iterator[tuple[int, int]]:
    """The spans of the header's values that can name columns."""
    body = find_body(text, file)
    for match in re.finditer(r"(?m)^[ \t]*(--[^\n]*)$", text):
        line = _LINE.match(match[1])
        if match.start() < body + len(match[0]) and line is not None and _is_naming(line[1]):
            yield match.start(1) + line.end(), match.end()
    yield from _iter_block_values(text, body)


def _iter_block_values(text: str, body: int) -> Iterator[tuple[int, int]]:
    tokens = [t for t in tokenize(text[:body]) if t.kind != "comment"]
    if len(tokens) < 2 or tokens[0].text.upper() != "MODEL" or tokens[1].text != "(":
        return
    depth, key = 0, None
    for previous, token in itertools.pairwise(tokens):
        if depth == 1 and previous.text in ("(", ",") and token.kind == "word":
            key = token
        if token.text in ("(", "[", "{"):
            depth += 1
        if token.text in (")", "]", "}"):
            depth -= 1
        ends = depth == 0 or (depth == 1 and token.text == ",")
        if ends and key is not None:
            if _is_naming(key.text):
                yield key.end, token.start
            key = None


def _is_naming(word: str) -> bool:
    key = find_key(word)
    return key is not None and key.name in _NAMING
