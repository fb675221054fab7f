"""The columns of queries, cached between runs: a text is evaluated once for the columns that its tables have."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from sqb.cache import codec
from sqb.cache.files import read_entries, write_entries
from sqb.light_dataclass import dataclass
from sqb.sql.columns.functions.signatures import Signatures
from sqb.sql.columns.outline import Query
from sqb.sql.columns.problems import Problem
from sqb.sql.text.spans import Reference
from sqb.types import model as m
from sqb.types.model import Type
from sqb.types.parse import parse_type


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a table or a query: names with the texts of types. An open one may have more."""

    # None for a column whose name only Spark can tell.
    columns: tuple[tuple[str | None, str], ...] = ()
    is_open: bool = False
    problems: tuple[Problem, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names that are known."""
        return tuple(name for name, _ in self.columns if name is not None)


UNKNOWN_COLUMNS = Columns(is_open=True)
# A plan evaluates the models that run, `sqb validate` all of them: what one did not ask for the other will.
_MOST_UNUSED = 5000


class ColumnsCache:
    """Evaluates queries, from the cache where the same text was evaluated over the same columns by the same code."""

    def __init__(self, path: Path, code: str, outlines: Mapping[str, Query]) -> None:
        self.path, self.code, self.outlines = path, code, outlines
        self._known = read_entries(path, code)
        self._used: dict[str, str] = {}

    def evaluate(
        self, text: str, slots: Sequence[Reference], tables: Sequence[Columns], signatures: Signatures
    ) -> Columns:
        """The columns of a query whose slots have these columns."""
        key = _compute_key(text, slots, tables, signatures)
        entry = self._known.get(key)
        if entry is not None:
            try:
                columns = codec.decode(Columns, entry)
            except codec.Undecodable:
                pass
            else:
                self._used[key] = entry
                return columns
        columns = self._evaluate(text, slots, tables, signatures)
        self._used[key] = codec.encode(columns)
        return columns

    def _evaluate(
        self, text: str, slots: Sequence[Reference], tables: Sequence[Columns], signatures: Signatures
    ) -> Columns:
        from sqb.sql.columns.evaluate import evaluate_query  # what nothing unchanged needs

        outline = self.outlines.get(text)
        if outline is None:
            from sqb.sql.analysis.parse import read_query_outline  # loads sqlglot, which nothing unchanged needs

            outline = read_query_outline(text)
        known = {s.start: None if t.is_open or s.is_pinned else _read(t) for s, t in zip(slots, tables, strict=True)}
        result = evaluate_query(outline, known, signatures)
        columns = tuple((name, str(kind)) for name, kind in result.columns)
        return Columns(columns, result.is_open, result.problems)

    def save(self) -> None:
        """Keep what this run used, and the newest of what others did, where there is something new."""
        if self._used.items() <= self._known.items():
            return
        unused = [(key, entry) for key, entry in self._known.items() if key not in self._used]
        write_entries(self.path, self.code, dict(unused[-_MOST_UNUSED:]) | self._used)


def _read(table: Columns) -> list[tuple[str | None, Type]]:
    return [(name, parse_type(text) or m.UNKNOWN) for name, text in table.columns]


def _compute_key(text: str, slots: Sequence[Reference], tables: Sequence[Columns], signatures: Signatures) -> str:
    parts = [text, *(f"{s.start} {s.is_pinned}" for s in slots), *(f"{t.columns} {t.is_open}" for t in tables)]
    parts += [f"{signatures.own} {signatures.is_complete}"]
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]
