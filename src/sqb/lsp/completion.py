"""What can be written at a place: tables, columns of what is in scope, functions, keys of headers, values, checks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from sqb.checks.catalogue import CATALOGUE
from sqb.lsp.functions import describe_own, load_spark_texts
from sqb.lsp.key_texts import KEY_TEXTS, KIND_TEXTS
from sqb.lsp.model_names import find_named
from sqb.lsp.places import find_body
from sqb.lsp.python_names import list_macros, list_package_files, list_variables
from sqb.lsp.scope import Block, Column, Cte, list_columns, read_blocks, read_ctes
from sqb.lsp.snapshot import Snapshot
from sqb.names import quote
from sqb.project.models.keys import KEYS, Shape, find_key
from sqb.sql.text.lexer import Token, strip_quotes, tokenize

Kind = Literal["table", "column", "function", "keyword", "key", "value", "check", "macro", "variable", "alias"]

_KEYWORDS = """
    SELECT FROM WHERE GROUP BY HAVING ORDER LIMIT JOIN LEFT INNER FULL CROSS SEMI ANTI ON USING UNION ALL INTERSECT
    EXCEPT WITH AS DISTINCT CASE WHEN THEN ELSE END AND OR NOT IN IS NULL LIKE BETWEEN EXISTS CAST OVER PARTITION
    QUALIFY ASC DESC LATERAL VIEW INTERVAL TRUE FALSE
    """.split()
_TABLE_WORDS = frozenset(["FROM", "JOIN"])
_NAME = re.compile(r"[A-Za-z_]\w*")
# The keys whose values name columns of the model itself.
_OF_COLUMNS = frozenset(
    """
    unique_key group_key cursor partitioned_by sorted_by columns contract
    """.split()
)
_OF_CHECKS = frozenset(["constraints", "audits", "warnings"])
_DIRECTIVE = re.compile(r"--[ \t]*@(\w*)$")
_DIRECTIVE_VALUE = re.compile(r"--[ \t]*@(\w+)[ \t]*:?(.*)$")


@dataclass(frozen=True, slots=True)
class Completion:
    """Something that can be written, and what is shown beside it; `start` is where what it replaces begins."""

    label: str
    kind: Kind
    start: int
    detail: str = ""
    text: str = ""
    # What is inserted, where that is not the label.
    insert: str = ""
    # Those with a smaller one come first.
    order: int = 5


def complete(snapshot: Snapshot, path: str, offset: int) -> list[Completion]:
    """Everything that can be written at an offset of a model's file."""
    text = snapshot.read_text(path)
    if not path.endswith(".sql"):
        return []
    if path.startswith("models/") and _is_in_header(text, path, offset):
        return list(_complete_header(snapshot, path, text, offset))
    tokens = [t for t in tokenize(text) if t.start < offset]
    if tokens and tokens[-1].kind in ("comment", "string") and offset < tokens[-1].end:
        return []
    is_after_line = tokens and tokens[-1].text.startswith("--") and "\n" not in text[tokens[-1].end : offset]
    if is_after_line or any(t.kind == "broken" for t in tokens):
        return []
    return list(_complete_query(snapshot, text, offset, [t for t in tokens if t.kind != "comment"]))


# --- queries ----------------------------------------------------------------------------------------------------------


def _complete_query(snapshot: Snapshot, text: str, offset: int, tokens: list[Token]) -> Iterator[Completion]:
    start = offset
    if tokens and tokens[-1].end >= offset and tokens[-1].kind in ("word", "variable", "macro"):
        start = tokens[-1].start
        last = tokens.pop()
        if last.kind == "variable":
            yield from _complete_variables(snapshot, start)
            return
        if last.kind == "macro":
            yield from _complete_macros(snapshot, start)
            return
    before = tokens[-1].text.upper() if tokens else ""
    if before == "@":
        mark = tokens[-1].start
        doubled = len(tokens) > 1 and tokens[-2].text == "@" and tokens[-2].end == mark
        yield from _complete_variables(snapshot, mark - 1) if doubled else _complete_macros(snapshot, mark)
        return
    blocks, ctes = read_blocks(text, offset), read_ctes(text, offset)
    if before == ".":
        yield from _complete_qualified(snapshot, text, start, tokens, blocks, ctes)
    elif _expects_table(tokens):
        yield from _complete_tables(snapshot, start, ctes)
    else:
        yield from _complete_columns(snapshot, text, start, blocks, ctes)
        yield from _complete_functions(snapshot, start)
        yield from (Completion(word, "keyword", start, order=9) for word in _KEYWORDS)


def _expects_table(tokens: Sequence[Token]) -> bool:
    """Whether a table's name comes next: after FROM and JOIN, and after a comma between tables."""
    if not tokens:
        return False
    if tokens[-1].text.upper() in _TABLE_WORDS:
        return True
    if tokens[-1].text != ",":
        return False
    depth = 0
    for token in reversed(tokens):
        if token.text in (")", "]"):
            depth += 1
        elif token.text in ("(", "["):
            if depth == 0:
                return False
            depth -= 1
        elif depth == 0 and token.kind == "word":
            word = token.text.upper()
            if word in _TABLE_WORDS:
                return True
            if word in ("SELECT", "WHERE", "BY", "HAVING", "ON", "USING", "VALUES", "WITH"):
                return False
    return False


def build_lookup(snapshot: Snapshot, parts: Sequence[str]) -> list[Column]:
    """The columns of a table of the project, by the parts of its name."""
    project = snapshot.workspace.project if snapshot.workspace else None
    name = find_named(project, ".".join(parts)) if project is not None else None
    if name is None:
        return []
    return [(column, kind) for column, kind in snapshot.get_columns(name).columns if column is not None]


def _complete_qualified(
    snapshot: Snapshot, text: str, start: int, tokens: list[Token], blocks: Sequence[Block], ctes: Sequence[Cte]
) -> Iterator[Completion]:
    parts: list[str] = []
    index = len(tokens) - 1
    while index > 0 and tokens[index].text == "." and tokens[index - 1].kind in ("word", "quoted"):
        parts.insert(0, strip_quotes(tokens[index - 1]))
        index -= 2
    if _expects_table(tokens[: index + 1]):
        prefix = ".".join(parts).lower() + "."
        for name in _list_tables(snapshot):
            if name.lower().startswith(prefix):
                yield _build_table(snapshot, name, start, name[len(prefix) :])
        return
    for block in blocks:
        for item in block.items:
            if item.alias.lower() == parts[-1].lower() if parts else False:
                for column in list_columns(text, item, ctes, lambda p: build_lookup(snapshot, p)):
                    yield _build_column(column, item.alias, start)
                return


def _complete_columns(
    snapshot: Snapshot, text: str, start: int, blocks: Sequence[Block], ctes: Sequence[Cte]
) -> Iterator[Completion]:
    seen: set[str] = set()
    for depth, block in enumerate(blocks):
        for item in block.items:
            if item.alias and item.alias.lower() not in seen:
                seen.add(item.alias.lower())
                named = ".".join(item.parts) or "a query"
                yield Completion(item.alias, "alias", start, named, order=2 + depth)
            for column in list_columns(text, item, ctes, lambda p: build_lookup(snapshot, p)):
                key = f"{column[0].lower()} {item.alias.lower()}"
                if key not in seen:
                    seen.add(key)
                    yield _build_column(column, item.alias, start, 1 + depth)
        if depth == 0:
            yield from (Completion(alias, "column", start, "column of this list", order=1) for alias in block.aliases)


def _build_column(column: Column, owner: str, start: int, order: int = 1) -> Completion:
    name, kind = column
    insert = name if _NAME.fullmatch(name) else quote(name)
    detail = f"{kind}  {owner}".strip() if kind not in ("", "unknown") else owner
    return Completion(name, "column", start, detail, insert=insert, order=order)


def _list_tables(snapshot: Snapshot) -> list[str]:
    if snapshot.workspace is None:
        return []
    project = snapshot.workspace.project
    return list(dict.fromkeys([*project.nodes, *project.sources, *project.externals]))


def _complete_tables(snapshot: Snapshot, start: int, ctes: Sequence[Cte]) -> Iterator[Completion]:
    yield from (Completion(cte.name, "table", start, "CTE", order=0) for cte in ctes)
    names = _list_tables(snapshot)
    shorts = [n.rpartition(".")[2].lower() for n in names]
    for name in names:
        short = name.rpartition(".")[2]
        # A name that two have is written in full.
        yield _build_table(snapshot, name, start, name if shorts.count(short.lower()) > 1 else short)
    if snapshot.workspace is not None:
        for function in snapshot.workspace.project.functions:
            if function.is_table:
                yield Completion(function.name, "function", start, function.returns, order=4)


def _build_table(snapshot: Snapshot, name: str, start: int, label: str) -> Completion:
    assert snapshot.workspace is not None
    project = snapshot.workspace.project
    node, source = project.nodes.get(name), project.sources.get(name)
    what = f"{node.kind} {name}" if node is not None else f"source {name}"
    text = node.description if node is not None else source.description if source is not None else ""
    return Completion(label, "table", start, what, text, order=1 if node is not None else 2)


def _complete_functions(snapshot: Snapshot, start: int) -> Iterator[Completion]:
    own = [describe_own(f) for f in snapshot.workspace.project.functions] if snapshot.workspace else []
    for function in (*own, *load_spark_texts().values()):
        if _NAME.fullmatch(function.name):
            detail = f"{function.call} → {function.returns}" if function.returns else function.call
            order = 3 if function.is_own else 7
            yield Completion(function.name, "function", start, detail, function.text, order=order)


def _complete_macros(snapshot: Snapshot, start: int) -> Iterator[Completion]:
    for macro in list_macros(snapshot):
        yield Completion(f"@{macro.name}", "macro", start, macro.call, macro.text)


def _complete_variables(snapshot: Snapshot, start: int) -> Iterator[Completion]:
    for name, value in list_variables(snapshot).items():
        yield Completion(f"@@{name}", "variable", start, repr(value))
    yield Completion("@@ENV:", "variable", start, "an environment variable")


# --- headers ----------------------------------------------------------------------------------------------------------


def _is_in_header(text: str, path: str, offset: int) -> bool:
    line = text[text.rfind("\n", 0, offset) + 1 : offset]
    if _DIRECTIVE.search(line) or _DIRECTIVE_VALUE.match(line.lstrip()):
        return True
    if not text.lstrip().upper().startswith("MODEL"):
        return False
    # While it is being written the block may not be closed, and all of the text seems to be in it.
    opened = [t.text for t in tokenize(text[:offset]) if t.text in ("(", ")")]
    return (
        opened.count("(") > opened.count(")")
        if text.lstrip()[5:].lstrip()[:1] == "("
        else offset < find_body(text, path)
    )


def _complete_header(snapshot: Snapshot, path: str, text: str, offset: int) -> Iterator[Completion]:
    line = text[text.rfind("\n", 0, offset) + 1 : offset]
    match = _DIRECTIVE.search(line)
    if match is not None:
        yield from _complete_keys(offset - len(match[1]), ": ")
        return
    value = _DIRECTIVE_VALUE.match(line.lstrip())
    if value is not None:
        yield from _complete_value(snapshot, path, value[1], value[2], offset)
        return
    entry, is_key = _read_entry(text[text.find("(") + 1 : offset])
    if is_key:
        yield from _complete_keys(offset - len(entry), " ")
    else:
        key, _, rest = entry.partition(" ")
        yield from _complete_value(snapshot, path, key, rest, offset)


def _read_entry(before: str) -> tuple[str, bool]:
    """The entry of a MODEL block that is being written, and whether its key is not whole yet."""
    depth, start = 0, 0
    for token in tokenize(before):
        if token.text in ("(", "[", "{"):
            depth += 1
        elif token.text in (")", "]", "}"):
            depth -= 1
        elif token.text == "," and depth == 0:
            start = token.end
    entry = before[start:].lstrip()
    return entry, _NAME.fullmatch(entry) is not None or not entry


def _complete_keys(start: int, after: str) -> Iterator[Completion]:
    for key in KEYS.values():
        text = KEY_TEXTS.get(key.name, "")
        only = f"for {', '.join(key.kinds)}" if key.kinds else ""
        yield Completion(key.name, "key", start, only, text, insert=key.name + after)


def _complete_value(snapshot: Snapshot, path: str, word: str, written: str, offset: int) -> Iterator[Completion]:
    key = find_key(word)
    if key is None:
        return
    last = re.search(r"\w*$", written)
    start = offset - len(last[0]) if last else offset
    node = snapshot.find_node(path)
    if key.name in _OF_CHECKS and not _is_in_call(written):
        role = key.name.removesuffix("s")
        for check in CATALOGUE.values():
            if role in check.roles:
                yield Completion(check.name, "check", start, check.usage)
        own = (*sorted((snapshot.root / "audits").glob("*.sql")), *list_package_files(snapshot, "audits"))
        for audit in own if key.name != "constraints" else ():
            yield Completion(audit.stem, "check", start, "audit of the project")
    elif key.name in _OF_COLUMNS | _OF_CHECKS and node is not None:
        for name, kind in snapshot.get_columns(node.name).columns:
            if name is not None:
                yield _build_column((name, kind), node.name, start)
    elif key.shape is Shape.CHOICE:
        texts = KIND_TEXTS if key.name == "kind" else {}
        yield from (Completion(choice, "value", start, text=texts.get(choice, "")) for choice in key.choices)
    elif key.shape is Shape.FLAG:
        yield from (Completion(flag, "value", start) for flag in ("true", "false"))
    elif key.name == "tags" and snapshot.workspace is not None:
        tags = sorted({tag for other in snapshot.workspace.project for tag in other.tags})
        yield from (Completion(tag, "value", start) for tag in tags)
    elif key.name == "lookups" and node is not None:
        yield from (_build_table(snapshot, name, start, name) for name in node.upstream)


def _is_in_call(written: str) -> bool:
    return written.count("(") > written.count(")")
