"""Analyses of queries, kept between runs so that an edit of one file parses one file."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from sqb.sql.body import Body
from sqb.sql.calls import Calls, read_calls
from sqb.sql.delta.joins import Joins
from sqb.sql.query import Query


class Analyses:
    """Reads queries, from the cache where the same text was read before by the same code."""

    def __init__(self, path: Path, code: str) -> None:
        self.path, self.code = path, code
        self.kept: dict[str, str] = {}
        self.used: dict[str, str] = {}
        with suppress(OSError, ValueError, KeyError, TypeError):
            document = json.loads(path.read_text())
            if document["code"] == code:
                self.kept = document["queries"]

    def read(self, text: str, forced: Mapping[int, str]) -> Query:
        """What a query says; raises `QueryProblem` when the text is not one."""
        key = hashlib.sha256((text + "\0" + repr(sorted(forced.items()))).encode()).hexdigest()[:32]
        found = self.kept.get(key)
        if found is not None:
            self.used[key] = found
            return Query.from_json(found)
        from sqb.sql.parse import read_query  # loads sqlglot, which nothing unchanged needs

        query = read_query(text, forced)
        self.used[key] = query.to_json()
        return query

    def columns(self, text: str) -> tuple[str, ...]:
        """The columns that a SQL expression uses; raises `QueryProblem` when the text is not one."""
        key = "columns " + hashlib.sha256(text.encode()).hexdigest()[:32]
        found = self.kept.get(key)
        if found is None:
            from sqb.sql.expressions import expression_columns  # loads sqlglot, which nothing unchanged needs

            found = json.dumps(expression_columns(text))
        self.used[key] = found
        return tuple(json.loads(found))

    def calls(self, text: str, names: Collection[str]) -> Calls:
        """The calls of these functions in a query."""
        key = "calls " + hashlib.sha256("\0".join([text, *sorted(names)]).encode()).hexdigest()[:32]
        found = self.kept.get(key)
        self.used[key] = found if found is not None else read_calls(text, names).to_json()
        return Calls.from_json(self.used[key])

    def body(self, text: str, function: str, parameters: Sequence[str], forced: Mapping[int, str]) -> Body:
        """What the body of a function says; raises `QueryProblem` when it cannot be one."""
        parts = [text, function, *parameters, repr(sorted(forced.items()))]
        key = "body " + hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
        found = self.kept.get(key)
        if found is None:
            from sqb.sql.bodies import read_body  # loads sqlglot, which nothing unchanged needs

            found = read_body(text, function, parameters, forced).to_json()
        self.used[key] = found
        return Body.from_json(found)

    def joins(self, text: str, count: int) -> Joins:
        """How a query joins each of its tables."""
        key = "joins " + hashlib.sha256(f"{count} {text}".encode()).hexdigest()[:32]
        found = self.kept.get(key)
        if found is None:
            from sqb.sql.delta.lookups import read_joins  # loads sqlglot, which nothing unchanged needs

            found = read_joins(text, count).to_json()
        self.used[key] = found
        return Joins.from_json(found)

    def is_known(self, fact: str) -> bool:
        """Whether something was found out before, by the same code."""
        if fact in self.kept:
            self.used[fact] = self.kept[fact]
        return fact in self.used

    def note(self, fact: str) -> None:
        """Remember that something was found out."""
        self.used[fact] = ""

    def save(self) -> None:
        """Keep the analyses that this run used; a cache that cannot be written is no error."""
        if self.used == self.kept:
            return
        with suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}")
            temporary.write_text(json.dumps({"code": self.code, "queries": self.used}))
            os.replace(temporary, self.path)
