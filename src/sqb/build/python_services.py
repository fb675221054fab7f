"""What a running Python node may ask of its build: Spark, and what nodes have returned."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqb.build.events import NodeDone
from sqb.compiled_python import PythonNode
from sqb.errors import BuildError
from sqb.lake.state import NODE_RESULTS, NodeResult
from sqb.names import did_you_mean

if TYPE_CHECKING:
    from sqb.build.run import Build


@dataclass(frozen=True, slots=True)
class Services:
    """Answers the questions of one node, or of a Python model."""

    build: Build
    called: str
    node: PythonNode | None = None
    # Of a model: the name of a view that has the changes of a table.
    changes: Callable[[str], str] | None = None
    # What is set in the sessions that it uses.
    conf: Mapping[str, str] = field(default_factory=dict)
    # Those sessions, until it has ended.
    lent: list[Any] = field(default_factory=list)
    # How long it waited for Spark, in seconds.
    waited: list[float] = field(default_factory=list)

    def __call__(self, request: str, arguments: Mapping[str, Any]) -> Any:
        match request:
            case "spark":
                return self._lend()
            case "ended":
                while self.lent:
                    self.lent.pop().end(str(arguments["view"]))
                return None
            case "loss":
                return self.build.engine.loss() if self.build.engine.gone else None
            case "result_of":
                return self._result_of(str(arguments["name"]))
            case "last_result":
                return self._stored(self.node) if self.node is not None else None
            case "changes" if self.changes is not None:
                return self.changes(str(arguments["name"]))
            case _:
                # Errors get the place of the call in the function's file, which the child knows.
                raise BuildError(f"{self.called} cannot use ctx.{request}", hint="that is for models of python/models/")

    def _lend(self) -> dict[str, Any]:
        """A session of the build's Spark, which is started for it if need be."""
        asked = time.monotonic()
        session = self.build.engine.session()
        # Waiting for Spark to start is nobody's run time.
        self.waited.append(time.monotonic() - asked)
        from sqb.spark.lending import lend  # a session is there, and pyspark with it

        self.lent.append(lend(session, self.conf))
        found: dict[str, Any] = self.lent[-1].address()
        return found

    def _result_of(self, name: str) -> Any:
        """What a node returned in this build; else what it returned when it last ran."""
        wanted = name.rpartition(":")[2]
        python = self.build.project.python
        node = python.get(wanted)
        if node is None or node.type == "hook":
            raise BuildError(
                f'result_of("{name}"): no Python node is called so',
                hint=did_you_mean(wanted, python) or "it takes the name of a loader, task, asset or check",
            )
        done = self.build.done.get(node.name)
        if done is not None and done.status == "ok":
            return _decoded(done)
        return self._stored(node)

    def _stored(self, node: PythonNode) -> Any:
        """What a node last returned. A loader remembers what filled its table, whichever target that was."""
        lake, schemas = self.build.lake, [node.schema]
        if node.relation is not None:
            schemas = sorted({r.schema for r in lake.pointers() if r.name == NODE_RESULTS.name} | {node.schema})
        rows = lake.node_results(schemas, node_name=node.name)
        done = (r for r in rows if r.status == "ok" and r.node_type == node.type and _did_something(r))
        found = next((r for r in done if r.target_schema == node.schema or _fills(r, node)), None)
        return json.loads(found.payload) if found is not None and found.payload else None


def _did_something(row: NodeResult) -> bool:
    """Whether a run returned something, or loaded rows; one that found nothing new leaves what was known before it."""
    return bool(row.payload) or '"identical": true' not in row.metadata


def _fills(row: NodeResult, node: PythonNode) -> bool:
    """Whether a run in another target filled the table that this loader fills."""
    try:
        return bool(json.loads(row.metadata).get("relation") == str(node.relation))
    except (ValueError, AttributeError):
        return False


def _decoded(done: NodeDone) -> Any:
    return json.loads(done.payload) if done.payload else None
