"""Analyses of queries, kept between runs so that an edit of one file parses one file."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

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

    def save(self) -> None:
        """Keep the analyses that this run used; a cache that cannot be written is no error."""
        if self.used == self.kept:
            return
        with suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}")
            temporary.write_text(json.dumps({"code": self.code, "queries": self.used}))
            os.replace(temporary, self.path)
