"""Analyses of queries, cached between runs so that an edit of one file parses one file."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from sqb.cache import codec
from sqb.cache.files import read_entries, write_entries
from sqb.sql.analysis.query import Query
from sqb.sql.columns import outline
from sqb.sql.delta.joins.model import Joins
from sqb.sql.functions.body import Body
from sqb.sql.text.calls import Calls, read_calls

T = TypeVar("T")
_MOST_ADDED = 1000


class AnalysisCache:
    """Reads queries, from the cache where the same text was read before by the same code."""

    def __init__(self, path: Path, code: str) -> None:
        self.path, self.code = path, code
        # What was read since everything was compiled is in a small file of its own, so that an edit writes little.
        self._added_path = path.with_name(f"{path.stem}-added{path.suffix}")
        self._added = read_entries(self._added_path, code)
        self.cached = {**read_entries(path, code), **self._added}
        self.used_entries: dict[str, str] = {}
        # What other processes read for this one.
        self._answers: dict[str, str] = {}
        # The outlines of queries that were parsed in this process, by the texts that are run.
        self.outlines: dict[str, outline.Query] = {}

    def read(self, text: str, forced: Mapping[int, str]) -> Query:
        """What a query says; raises `QueryProblem` when the text is not one."""

        def read() -> Query:
            from sqb.sql.analysis.parse import read_query_with_outline  # loads sqlglot, which nothing unchanged needs

            query, query_outline = read_query_with_outline(text, forced)
            self.outlines[query.runnable] = query_outline
            return query

        return self._recall("query", (text, repr(sorted(forced.items()))), Query, read)

    def columns(self, text: str) -> tuple[str, ...]:
        """The columns that a SQL expression uses; raises `QueryProblem` when the text is not one."""

        def read() -> tuple[str, ...]:
            from sqb.sql.analysis.parse import list_expression_columns  # loads sqlglot, which nothing unchanged needs

            return tuple(list_expression_columns(text))

        return self._recall("columns", (text,), tuple[str, ...], read)

    def calls(self, text: str, names: Collection[str]) -> Calls:
        """The calls of these functions in a query."""
        return self._recall("calls", (text, *sorted(names)), Calls, lambda: read_calls(text, names))

    def body(self, text: str, function: str, parameters: Sequence[str], forced: Mapping[int, str]) -> Body:
        """What the body of a function says; raises `QueryProblem` when it cannot be one."""

        def read() -> Body:
            from sqb.sql.functions.read_body import parse_body  # loads sqlglot, which nothing unchanged needs

            return parse_body(text, function, parameters, forced)

        return self._recall("body", (text, function, *parameters, repr(sorted(forced.items()))), Body, read)

    def joins(self, text: str, count: int) -> Joins:
        """How a query joins each of its tables."""

        def read() -> Joins:
            from sqb.sql.delta.joins.lookups import read_joins  # loads sqlglot, which nothing unchanged needs

            return read_joins(text, count)

        return self._recall("joins", (str(count), text), Joins, read)

    def _recall(self, question: str, about: Sequence[str], kind: type[T], read: Callable[[], T]) -> T:
        """The cached answer to a question about these texts, else what `read` says, which is then cached."""
        key = f"{question} {hashlib.sha256(chr(0).join(about).encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"
        text = self.cached.get(key) or self._answers.get(key)
        if text is not None:
            try:
                answer = codec.decode(kind, text)
            except codec.Undecodable:
                pass
            else:
                self.used_entries[key] = text
                return answer
        answer = read()
        self.used_entries[key] = codec.encode(answer, kind)
        return answer

    def is_cold(self) -> bool:
        """Whether nothing was read before by the same code."""
        return not self.cached

    def dump_answers(self) -> bytes:
        """What was read in this process, for one that reads the same texts."""
        return pickle.dumps((self.used_entries, self.outlines), pickle.HIGHEST_PROTOCOL)

    def load_answers(self, data: bytes) -> None:
        """Take over what another process of this program read."""
        with codec.pause_collection():
            entries, outlines = pickle.loads(data)
        self._answers |= entries
        self.outlines |= outlines

    def is_known(self, fact: str) -> bool:
        """Whether a fact was recorded before, by the same code."""
        if fact in self.cached:
            self.used_entries[fact] = self.cached[fact]
        return fact in self.used_entries

    def note(self, fact: str) -> None:
        """Record a fact."""
        self.used_entries[fact] = ""

    def save(self) -> None:
        """Keep the analyses that this run used, and no others."""
        if self.used_entries != self.cached or self._added:
            write_entries(self.path, self.code, self.used_entries)
            with suppress(OSError):
                self._added_path.unlink()

    def save_added(self) -> None:
        """Keep all analyses, after a run that read a few texts only."""
        added = {key: text for key, text in self.used_entries.items() if key not in self.cached}
        if added:
            # Whoever edits for days without compiling everything begins anew: what is lost is read again.
            before = self._added if len(self._added) < _MOST_ADDED else {}
            write_entries(self._added_path, self.code, {**before, **added})
