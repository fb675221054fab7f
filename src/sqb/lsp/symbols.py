"""What stands at a place of a file: a table, a column, a function, a macro, a key of the header, a check."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqb.checks.catalogue import find_check
from sqb.compile.model import Node
from sqb.lsp.model_names import find_named, find_output, get_owner, iter_mentions, read_uses
from sqb.lsp.places import Place, find_body, find_origin, find_token
from sqb.lsp.python_names import list_package_files
from sqb.lsp.scope import read_ctes
from sqb.lsp.snapshot import Snapshot
from sqb.lsp.yaml_names import iter_names_in
from sqb.project.models.keys import find_key
from sqb.sql.columns.uses import QueryColumn, TableColumn
from sqb.sql.text.lexer import Token, strip_quotes

_DIRECTIVE = re.compile(r"--[ \t]*@([A-Za-z_]\w*)")


@dataclass(frozen=True, slots=True)
class TableSymbol:
    """A model, seed or source."""

    name: str


@dataclass(frozen=True, slots=True)
class ColumnSymbol:
    """A column of a model, seed or source."""

    owner: str
    column: str


@dataclass(frozen=True, slots=True)
class LocalSymbol:
    """A name that one query gives itself: a column of a CTE, or a CTE; `place` is where it is named."""

    name: str
    place: Place
    is_column: bool = True


@dataclass(frozen=True, slots=True)
class WordSymbol:
    """A function, a macro, a variable, a key of the header or a check."""

    kind: str
    name: str


Symbol = TableSymbol | ColumnSymbol | LocalSymbol | WordSymbol


def find_symbol(snapshot: Snapshot, path: str, offset: int) -> tuple[Symbol, Place] | None:
    """What is at an offset of a file, and the span that names it."""
    text = snapshot.read_text(path)
    if path.endswith((".yml", ".yaml")):
        return _find_in_yaml(snapshot, path, offset)
    if path.startswith("seeds/") and path.endswith(".csv"):
        return _find_in_seed(snapshot, path, offset)
    if not path.endswith(".sql"):
        return None
    token = find_token(text, offset)
    if token is None:
        return None
    if path.startswith("models/") and offset < find_body(text, path):
        return _find_in_header(snapshot, path, text, offset, token)
    node = snapshot.find_node(path)
    if node is not None and snapshot.is_compiled_from(path):
        in_query = _find_in_query(snapshot, node, offset)
        if in_query is not None:
            return in_query
    return _find_by_word(snapshot, path, text, token)


def _find_in_yaml(snapshot: Snapshot, path: str, offset: int) -> tuple[Symbol, Place] | None:
    for name in iter_names_in(snapshot, path):
        if name.place.start <= offset <= name.place.end:
            column = ColumnSymbol(name.table, name.column) if name.column is not None else None
            return column or TableSymbol(name.table), name.place
    return None


def _find_in_seed(snapshot: Snapshot, path: str, offset: int) -> tuple[Symbol, Place] | None:
    node = snapshot.find_node(path)
    for column in snapshot.get_columns(node.name).names if node is not None else ():
        place = find_seed_column(snapshot, path, column)
        if node is not None and place is not None and place.start <= offset <= place.end:
            return ColumnSymbol(node.name, column), place
    return None


def find_seed_column(snapshot: Snapshot, file: str, column: str) -> Place | None:
    """The name of a column in the first row of a seed."""
    first = snapshot.read_text(file).partition("\n")[0]
    for match in re.finditer(r"[^,;\t|\"]+", first):
        if match[0].strip().lower() == column.lower():
            start = match.start() + len(match[0]) - len(match[0].lstrip())
            return Place(file, start, start + len(match[0].strip()))
    return None


def _find_in_query(snapshot: Snapshot, node: Node, offset: int) -> tuple[Symbol, Place] | None:
    for slot, name in zip(node.slots, node.reads, strict=True):
        place = find_origin(node, slot.start, slot.end)
        if place is not None and place.start <= offset <= place.end:
            return TableSymbol(name), place
    for mention in iter_mentions(snapshot, node):
        if mention.place.start <= offset <= mention.place.end:
            return ColumnSymbol(mention.owner, mention.column), mention.place
    uses = read_uses(snapshot, node)
    made = [u.origin for u in uses.uses] + [o.origin for o in uses.outputs]
    spans = [(u.start, u.end, u.origin) for u in uses.uses]
    spans += [(o.start, o.end, o) for o in made if isinstance(o, QueryColumn) and o.start >= 0]
    for start, end, origin in spans:
        place = find_origin(node, start, end)
        if place is not None and place.start <= offset <= place.end and isinstance(origin, QueryColumn):
            return build_query_column(snapshot, node, origin), place
    return None


def build_query_column(snapshot: Snapshot, node: Node, origin: QueryColumn) -> Symbol:
    """A column that a query makes: one of the model where it is in the result, else a name of the query's own."""
    output = find_output(snapshot, node, origin.name)
    if output is not None and output.origin == origin:
        return ColumnSymbol(node.name, origin.name)
    place = find_origin(node, origin.start, origin.end)
    return LocalSymbol(origin.name, place or Place(node.file, 0, 0))


def trace_column(snapshot: Snapshot, symbol: ColumnSymbol) -> ColumnSymbol | None:
    """The column that a column is, unchanged, one table further up."""
    node = snapshot.workspace.project.nodes.get(symbol.owner) if snapshot.workspace else None
    output = find_output(snapshot, node, symbol.column) if node is not None else None
    if node is None or output is None or not isinstance(output.origin, TableColumn):
        return None
    owner = get_owner(node, output.origin)
    return ColumnSymbol(owner, output.origin.column) if owner is not None else None


def _find_by_word(snapshot: Snapshot, path: str, text: str, token: Token) -> tuple[Symbol, Place] | None:
    place = Place(path, token.start, token.end)
    if token.kind == "macro":
        return WordSymbol("macro", token.text[1:]), place
    if token.kind == "variable":
        return WordSymbol("variable", token.text[2:]), place
    if token.kind not in ("word", "quoted"):
        return None
    if text[token.end :].lstrip()[:1] == "(" and token.kind == "word":
        return WordSymbol("function", token.text.lower()), place
    for cte in read_ctes(text, token.start):
        if cte.name.lower() == strip_quotes(token).lower():
            return LocalSymbol(cte.name, Place(path, cte.name_start, cte.name_end), is_column=False), place
    name = find_named(snapshot.workspace.project, strip_quotes(token)) if snapshot.workspace else None
    return (TableSymbol(name), place) if name is not None else None


def _find_in_header(snapshot: Snapshot, path: str, text: str, offset: int, token: Token) -> tuple[Symbol, Place] | None:
    start = text.rfind("\n", 0, offset) + 1
    line_end = text.find("\n", offset)
    line = text[start : line_end if line_end >= 0 else len(text)]
    word_start = offset - len(re.search(r"\w*$", line[: offset - start])[0])  # type: ignore[index]
    word = re.match(r"\w*", text[word_start:])[0]  # type: ignore[index]
    place = Place(path, word_start, word_start + len(word))
    directive = _DIRECTIVE.match(line)
    before = text[:word_start].rstrip()
    is_key = (directive is not None and start + directive.start(1) == word_start) or (
        directive is None and before.endswith(("(", ",")) and find_key(word) is not None
    )
    if is_key and find_key(word) is not None:
        return WordSymbol("key", word.lower()), place
    if text[place.end : place.end + 1] == "(":
        is_check = find_check(word) is not None or find_audit(snapshot, word) is not None
        return (WordSymbol("check", word.lower()), place) if is_check else None
    node = snapshot.find_node(path)
    if node is None:
        return None
    # `references(customer_id, staging.stg_customers.customer_id)`: a column of another table.
    qualifier = re.search(r"([\w.]+)\.$", text[start:word_start])
    if qualifier is not None and snapshot.workspace is not None:
        owner = find_named(snapshot.workspace.project, qualifier[1])
        return (ColumnSymbol(owner, word), place) if owner is not None else None
    names = {n.lower(): n for n in snapshot.get_columns(node.name).names}
    if word.lower() in names:
        return ColumnSymbol(node.name, names[word.lower()]), place
    name = find_named(snapshot.workspace.project, word) if snapshot.workspace and word else None
    return (TableSymbol(name), place) if name is not None else None


def find_audit(snapshot: Snapshot, name: str) -> str | None:
    """The file of a custom audit, of the project or of a package; None where there is none."""
    if (snapshot.root / "audits" / f"{name}.sql").is_file():
        return f"audits/{name}.sql"
    return next((p.as_posix() for p in list_package_files(snapshot, "audits") if p.stem == name), None)
