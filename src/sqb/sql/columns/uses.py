"""Which column every name in a query means: for editors, which show it, go there and rename it.

Evaluates a query as `evaluate.py` does, and notes on the way what names lead to. Nothing is decided by it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqb.sql.columns.evaluate import _Evaluator
from sqb.sql.columns.functions.signatures import Signatures
from sqb.sql.columns.outline import Item, Name, Query, Select, SetOperation, Star, Table, UnreadableQuery
from sqb.sql.columns.scope import Column, Found, Relation, Scope, Source
from sqb.sql.columns.sources import NamedColumn, SourceReader
from sqb.sql.columns.types_of_expressions import ExpressionTyper
from sqb.sql.text.lexer import tokenize_code
from sqb.types.model import Type


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of the table whose name begins at `slot`."""

    slot: int
    column: str


@dataclass(frozen=True, slots=True)
class QueryColumn:
    """A column that the query itself makes; `start` and `end` are where its name is written, -1 where it is not."""

    name: str
    start: int
    end: int


Origin = TableColumn | QueryColumn


@dataclass(frozen=True, slots=True)
class Use:
    """A name of a column: the span of its last part, what it means and its type."""

    start: int
    end: int
    origin: Origin
    type: Type
    # It is a column of a list by itself: the list's column is called as it is.
    is_item: bool = False


@dataclass(frozen=True, slots=True)
class Output:
    """A column of the result, and what it is when it is one column as it is."""

    name: str | None
    origin: Origin | None
    type: Type


@dataclass(frozen=True, slots=True)
class QueryUses:
    """All names of columns in a query with what they mean, and the columns of its result."""

    uses: tuple[Use, ...] = ()
    outputs: tuple[Output, ...] = ()
    # Something in it is not understood: names may be missing.
    is_partial: bool = False


def find_uses(
    outline: Query, text: str, tables: Mapping[int, Sequence[NamedColumn] | None], signatures: Signatures
) -> QueryUses:
    """What the names in a query mean, over tables by where their names begin in it."""
    recorder = _Recorder(text, tables, signatures)
    try:
        relation = recorder.evaluate(outline, Scope(), {})
    except RecursionError:
        return QueryUses(is_partial=True)
    outputs = tuple(Output(c.name, recorder.trace(c.key), c.type) for c in relation.columns)
    uses = sorted(dict.fromkeys(recorder.uses), key=lambda use: (use.start, not use.is_item))
    by_place = {use.start: use for use in reversed(uses)}
    is_partial = relation.is_open or has_unreadable(outline)
    return QueryUses(tuple(by_place[start] for start in sorted(by_place)), outputs, is_partial)


def has_unreadable(query: Query) -> bool:
    """Whether a part of the query has columns that are not known, or meets others by their names."""
    match query:
        case UnreadableQuery():
            return True
        case SetOperation():
            nested = [query.left, query.right, *(c.query for c in query.ctes)]
            return query.is_by_name or any(has_unreadable(q) for q in nested)
        case Select():
            return any(has_unreadable(c.query) for c in query.ctes)


class _Recorder(_Evaluator):
    def __init__(self, text: str, tables: Mapping[int, Sequence[NamedColumn] | None], signatures: Signatures) -> None:
        super().__init__(tables, signatures)
        self.text = text
        self.uses: list[Use] = []
        self.origins: dict[int, Origin] = {}
        # The key of a CTE's column behind that of a mention of it.
        self.behind: dict[int, int] = {}
        # Scopes are kept, so that their ids stay theirs.
        self.scopes: dict[int, Scope] = {}
        self.aliases: dict[tuple[int, str], int] = {}
        self.typer = _RecordingTyper(self)
        self.sources = _RecordingReader(self, tables)

    def trace(self, key: int) -> Origin | None:
        """What a column is, through the names that only hand it on."""
        while key not in self.origins and key in self.behind:
            key = self.behind[key]
        return self.origins.get(key)

    def note_alias(self, scope: Scope, name: str, key: int) -> None:
        self.scopes[id(scope)] = scope
        self.aliases.setdefault((id(scope), name.lower()), key)

    def note_name(self, name: Name, scope: Scope, kind: Type) -> None:
        """Note what a name means, by the same steps as its type is found."""
        first = name.parts[0].lower()
        current: Scope | None = scope
        while current is not None:
            if first in current.variables:
                return
            alias = self.aliases.get((id(current), first))
            if alias is not None and current.has_aliases_first and len(name.parts) == 1:
                return self._add(name, 0, self.trace(alias), kind)
            column = current.lookup(name.parts)
            if isinstance(column, Found):
                part = len(name.parts) - len(column.fields) - 1
                return self._add(name, part, self.trace(column.column.key), kind)
            if column is not None:
                return None
            if alias is not None:
                return self._add(name, 0, self.trace(alias), kind)
            current = current.outer

    def _add(self, name: Name, part: int, origin: Origin | None, kind: Type, is_item: bool = False) -> None:
        if origin is not None and name.start >= 0:
            words = [t for t in tokenize_code(self.text[name.start : name.end]) if t.text != "."]
            if part < len(words):
                start, end = name.start + words[part].start, name.start + words[part].end
                self.uses.append(Use(start, end, origin, kind, is_item))

    def _evaluate_item(self, item: Item, scope: Scope) -> list[Column] | None:
        made = super()._evaluate_item(item, scope)
        if made and not isinstance(item.value, Star):
            for column in made:
                if item.aliases and column.name is not None:
                    self.origins[column.key] = QueryColumn(column.name, item.start, item.end)
                elif not isinstance(item.value, Name) and column.name is not None:
                    self.origins[column.key] = QueryColumn(column.name, -1, -1)
                if column.name is not None:
                    self.note_alias(scope, column.name, column.key)
            if isinstance(item.value, Name) and not item.aliases:
                self._note_item(item.value, scope, made[0].type)
        return made

    def _note_item(self, name: Name, scope: Scope, kind: Type) -> None:
        column = scope.lookup(name.parts)
        if isinstance(column, Found) and not column.fields:
            self._add(name, len(name.parts) - 1, self.trace(column.column.key), kind, is_item=True)


class _RecordingTyper(ExpressionTyper):
    def __init__(self, recorder: _Recorder) -> None:
        super().__init__(recorder.signatures, recorder._evaluate_nested, recorder.problems)
        self.recorder = recorder

    def type_name(self, name: Name, scope: Scope) -> Type:
        kind = super().type_name(name, scope)
        self.recorder.note_name(name, scope, kind)
        return kind


class _RecordingReader(SourceReader):
    def __init__(self, recorder: _Recorder, tables: Mapping[int, Sequence[NamedColumn] | None]) -> None:
        super().__init__(tables, recorder.typer, recorder._evaluate_nested, recorder._read_cte, recorder.keys)
        self.recorder = recorder

    def _read_table(self, table: Table, scope: Scope) -> Source:
        source = super()._read_table(table, scope)
        # A column list gives other names: then the table's own are found by their places.
        names = [name for name, _ in self.tables.get(table.slot) or ()] if table.columns else []
        for index, column in enumerate(source.relation.columns):
            name = names[index] if index < len(names) else column.name
            if column.key not in self.recorder.behind and name is not None and self.tables.get(table.slot) is not None:
                self.recorder.origins[column.key] = TableColumn(table.slot, name)
        return source

    def _renew(self, relation: Relation) -> Relation:
        renewed = super()._renew(relation)
        for before, after in zip(relation.columns, renewed.columns, strict=True):
            self.recorder.behind[after.key] = before.key
        return renewed
