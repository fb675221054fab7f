"""Python functions of the project in Spark's sessions, and the history of functions."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from typing import Any

from sqb.compile.model import Function, Node, Project
from sqb.errors.base import Errors
from sqb.lake.state.rows import Fingerprint
from sqb.workspace import Workspace

NODE_TYPE = "function"


class PythonFunctions:
    """The Python functions that a project uses, loaded once and registered in every session."""

    def __init__(self, workspace: Workspace, also: Collection[str] = ()) -> None:
        self._root = workspace.root
        self._sources = workspace.project.sources
        self._functions = [f for f in _iter_python_functions(workspace.project) if f.used or f.name in also]
        self._loaded: dict[str, Callable[..., Any]] = {}
        self._lock = threading.Lock()

    def register(self, session: Any) -> None:
        """Let SQL of a session call the functions."""
        if not self._functions:
            return
        with self._lock:
            if not self._loaded:
                self._load()
        # A session is there, and pyspark with it.
        from sqb.spark.data.udfs import register_function, register_table_function

        for function in self._functions:
            loaded = self._loaded[function.name]
            table_function = self._sources[function.name].function if function.is_table else None
            if table_function is not None:
                register_table_function(session, function.name, loaded, table_function.columns)
            else:
                register_function(session, function.name, loaded, function.returns, function.deterministic)

    def _load(self) -> None:
        from sqb.project.functions.python import load_python  # a build with nothing to do loads no functions

        errors = Errors()
        by_file: dict[str, list[Function]] = {}
        for function in self._functions:
            by_file.setdefault(function.file, []).append(function)
        loaded_functions: dict[str, Callable[..., Any]] = {}
        for file, functions in by_file.items():
            loaded = load_python(self._root, file, [f.symbol for f in functions], errors)
            loaded_functions |= {f.name: loaded[f.symbol] for f in functions if f.symbol in loaded}
        errors.raise_any()
        self._loaded = loaded_functions


def _iter_python_functions(project: Project) -> Iterable[Function]:
    return (f for f in project.functions if f.language == "python")


def build_function_fingerprints(
    project: Project, built: Iterable[Node], run_id: str, now: datetime
) -> list[Fingerprint]:
    """What the functions were that nodes were built with, one row for each and every schema that they were built in."""
    functions = {f.name: f for f in project.functions}
    fingerprints: dict[tuple[str, str], Fingerprint] = {}
    for node in built:
        for name, function_hash in node.functions.items():
            if name in functions:
                key = (name, node.relation.schema)
                fingerprints.setdefault(
                    key, _build_fingerprint(functions[name], function_hash, node.relation.schema, run_id, now)
                )
    return list(fingerprints.values())


def _build_fingerprint(function: Function, function_hash: str, schema: str, run_id: str, now: datetime) -> Fingerprint:
    return Fingerprint(
        node_type=NODE_TYPE,
        node_name=function.name,
        target_schema=schema,
        target_name="",
        run_id=run_id,
        local_hash=function_hash,
        version_hash=function_hash,
        schema_hash="",
        definition=function.definition,
        metadata=json.dumps({"file": function.file, "language": function.language, "returns": function.returns}),
        ts=now,
    )
