"""What a running Python node may ask of its build: Spark, and what nodes have returned."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqb.build.context import BuildContext
from sqb.build.events import NodeDone
from sqb.build.python.loader_memory import read_stored_result
from sqb.compile.python.model import PythonNode
from sqb.errors.build import BuildError
from sqb.names import suggest_nearest


@dataclass(frozen=True, slots=True)
class NodeServices:
    """Answers the questions of one node, or of a Python model."""

    build: BuildContext
    called: str
    node: PythonNode | None = None
    # Of a model: the name of a view that has the changes of a table.
    changes: Callable[[str], str] | None = None
    # What is set in the sessions that it uses.
    conf: Mapping[str, str] = field(default_factory=dict)
    # Those sessions, until it has ended.
    lent: list[Any] = field(default_factory=list)
    # How long it waited for Spark, in seconds.
    waited_seconds: list[float] = field(default_factory=list)

    def __call__(self, request: str, arguments: Mapping[str, Any]) -> Any:
        match request:
            case "spark":
                return self._lend_session()
            case "ended":
                while self.lent:
                    self.lent.pop().end(str(arguments["view"]))
                return None
            case "loss":
                return self.build.engine.loss() if self.build.engine.gone else None
            case "result_of":
                return self._read_result(str(arguments["name"]))
            case "last_result":
                return read_stored_result(self.node, self.build) if self.node is not None else None
            case "changes" if self.changes is not None:
                return self.changes(str(arguments["name"]))
            case _:
                # Errors get the place of the call in the function's file, which the child knows.
                raise BuildError(f"{self.called} cannot use ctx.{request}", hint="that is for models of python/models/")

    def _lend_session(self) -> dict[str, Any]:
        """A session of the build's Spark, which is started for it if need be."""
        requested_at = time.monotonic()
        session = self.build.engine.session()
        # Waiting for Spark to start does not count as the node's run time.
        self.waited_seconds.append(time.monotonic() - requested_at)
        from sqb.spark.sharing.parent import share_session  # a session is there, and pyspark with it

        self.lent.append(share_session(session, self.conf))
        address: dict[str, Any] = self.lent[-1].address()
        return address

    def _read_result(self, name: str) -> Any:
        """What a node returned in this build; else what it returned when it last ran."""
        node_name = name.rpartition(":")[2]
        python = self.build.project.python
        node = python.get(node_name)
        if node is None or node.type == "hook":
            raise BuildError(
                f'result_of("{name}"): there is no Python node of that name',
                hint=suggest_nearest(node_name, python) or "it takes the name of a loader, task, asset or check",
            )
        done = self.build.state.done.get(node.name)
        if done is not None and done.status == "ok":
            return _decode_payload(done)
        return read_stored_result(node, self.build)


def _decode_payload(done: NodeDone) -> Any:
    return json.loads(done.payload) if done.payload else None
