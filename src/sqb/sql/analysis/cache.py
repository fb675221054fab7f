"""Analyses of queries, cached between runs so that an edit of one file parses one file."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from sqb.sql.analysis.query import Query
from sqb.sql.delta.joins import Joins
from sqb.sql.functions.body import Body
from sqb.sql.text.calls import Calls, read_calls


class AnalysisCache:
    """Reads queries, from the cache where the same text was read before by the same code."""

    def __init__(self, path: Path, code: str) -> None:
        self.path, self.code = path, code
        self.cached: dict[str, str] = {}
        self.used_entries: dict[str, str] = {}
        with suppress(OSError, ValueError, KeyError, TypeError):
            document = json.loads(path.read_text())
            if document["code"] == code:
                self.cached = document["queries"]

    def read(self, text: str, forced: Mapping[int, str]) -> Query:
        """What a query says; raises `QueryProblem` when the text is not one."""
        key = hashlib.sha256((text + "\0" + repr(sorted(forced.items()))).encode()).hexdigest()[:32]
        encoded = self.cached.get(key)
        if encoded is not None:
            self.used_entries[key] = encoded
            return Query.from_json(encoded)
        from sqb.sql.analysis.parse import read_query  # loads sqlglot, which nothing unchanged needs

        query = read_query(text, forced)
        self.used_entries[key] = query.to_json()
        return query

    def columns(self, text: str) -> tuple[str, ...]:
        """The columns that a SQL expression uses; raises `QueryProblem` when the text is not one."""
        key = "columns " + hashlib.sha256(text.encode()).hexdigest()[:32]
        encoded = self.cached.get(key)
        if encoded is None:
            from sqb.sql.analysis.parse import list_expression_columns  # loads sqlglot, which nothing unchanged needs

            encoded = json.dumps(list_expression_columns(text))
        self.used_entries[key] = encoded
        return tuple(json.loads(encoded))

    def calls(self, text: str, names: Collection[str]) -> Calls:
        """The calls of these functions in a query."""
        key = "calls " + hashlib.sha256("\0".join([text, *sorted(names)]).encode()).hexdigest()[:32]
        encoded = self.cached.get(key)
        self.used_entries[key] = encoded if encoded is not None else read_calls(text, names).to_json()
        return Calls.from_json(self.used_entries[key])

    def body(self, text: str, function: str, parameters: Sequence[str], forced: Mapping[int, str]) -> Body:
        """What the body of a function says; raises `QueryProblem` when it cannot be one."""
        parts = [text, function, *parameters, repr(sorted(forced.items()))]
        key = "body " + hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
        encoded = self.cached.get(key)
        if encoded is None:
            from sqb.sql.functions.bodies import parse_body  # loads sqlglot, which nothing unchanged needs

            encoded = parse_body(text, function, parameters, forced).to_json()
        self.used_entries[key] = encoded
        return Body.from_json(encoded)

    def joins(self, text: str, count: int) -> Joins:
        """How a query joins each of its tables."""
        key = "joins " + hashlib.sha256(f"{count} {text}".encode()).hexdigest()[:32]
        encoded = self.cached.get(key)
        if encoded is None:
            from sqb.sql.delta.lookups import read_joins  # loads sqlglot, which nothing unchanged needs

            encoded = read_joins(text, count).to_json()
        self.used_entries[key] = encoded
        return Joins.from_json(encoded)

    def is_known(self, fact: str) -> bool:
        """Whether a fact was recorded before, by the same code."""
        if fact in self.cached:
            self.used_entries[fact] = self.cached[fact]
        return fact in self.used_entries

    def note(self, fact: str) -> None:
        """Record a fact."""
        self.used_entries[fact] = ""

    def save(self) -> None:
        """Keep the analyses that this run used; a cache that cannot be written is ignored."""
        if self.used_entries == self.cached:
            return
        with suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}")
            temporary.write_text(json.dumps({"code": self.code, "queries": self.used_entries}))
            os.replace(temporary, self.path)
