"""Python functions of the project in Spark's sessions, and the history of functions."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from typing import Any

from sqb.compiled import Function, Node, Project
from sqb.errors import Errors
from sqb.lake.state import Fingerprint
from sqb.workspace import Workspace

NODE_TYPE = "function"


class PythonFunctions:
    """The Python functions that a project uses, loaded once and registered in every session."""

    def __init__(self, workspace: Workspace, also: Collection[str] = ()) -> None:
        self._root = workspace.root
        self._sources = workspace.project.sources
        self._wanted = [f for f in _python(workspace.project) if f.used or f.name in also]
        self._loaded: dict[str, Callable[..., Any]] = {}
        self._lock = threading.Lock()

    def register(self, session: Any) -> None:
        """Let SQL of a session call the functions."""
        if not self._wanted:
            return
        with self._lock:
            if not self._loaded:
                self._load()
        # A session is there, and pyspark with it.
        from sqb.spark.functions import register_function, register_table_function

        for one in self._wanted:
            loaded = self._loaded[one.name]
            made = self._sources[one.name].function if one.is_table else None
            if made is not None:
                register_table_function(session, one.name, loaded, made.columns)
            else:
                register_function(session, one.name, loaded, one.returns, one.deterministic)

    def _load(self) -> None:
        from sqb.project.python_functions import load_python  # a build with nothing to do loads no functions

        errors = Errors()
        by_file: dict[str, list[Function]] = {}
        for one in self._wanted:
            by_file.setdefault(one.file, []).append(one)
        found: dict[str, Callable[..., Any]] = {}
        for file, functions in by_file.items():
            loaded = load_python(self._root, file, [f.symbol for f in functions], errors)
            found |= {f.name: loaded[f.symbol] for f in functions if f.symbol in loaded}
        errors.raise_any()
        self._loaded = found


def _python(project: Project) -> Iterable[Function]:
    return (f for f in project.functions if f.language == "python")


def function_fingerprints(project: Project, built: Iterable[Node], run_id: str, now: datetime) -> list[Fingerprint]:
    """What the functions were that nodes were built with, one row for each and every schema that they were built in."""
    known = {f.name: f for f in project.functions}
    found: dict[tuple[str, str], Fingerprint] = {}
    for node in built:
        for name, own in node.functions.items():
            if name in known:
                key = (name, node.relation.schema)
                found.setdefault(key, _fingerprint(known[name], own, node.relation.schema, run_id, now))
    return list(found.values())


def _fingerprint(function: Function, own: str, schema: str, run_id: str, now: datetime) -> Fingerprint:
    return Fingerprint(
        node_type=NODE_TYPE,
        node_name=function.name,
        target_schema=schema,
        target_name="",
        run_id=run_id,
        local_hash=own,
        version_hash=own,
        schema_hash="",
        definition=function.definition,
        metadata=json.dumps({"file": function.file, "language": function.language, "returns": function.returns}),
        ts=now,
    )
