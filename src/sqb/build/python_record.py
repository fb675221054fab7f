"""What is recorded of Python nodes that did their work, and read back for the next plan."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from sqb.build.events import NodeDone
from sqb.compiled import Project
from sqb.compiled_python import PythonNode
from sqb.lake.state import Fingerprint
from sqb.plan.python_nodes import PythonSeen, python_above

RUNS = "runs"


def python_fingerprints(project: Project, run_id: str, tried: Iterable[NodeDone], now: datetime) -> list[Fingerprint]:
    """What the Python nodes were that ran to their end, or had nothing to do; one that skipped hard is tried again."""
    done = {n.planned.name: n for n in tried if n.planned.name in project.python}
    found = []
    for name, one in done.items():
        node = project.python[name]
        if node.type != "hook" and (one.status == "ok" or one.skip == "soft"):
            found.append(_fingerprint(node, one, project, run_id, now))
    return found


def _fingerprint(node: PythonNode, done: NodeDone, project: Project, run_id: str, now: datetime) -> Fingerprint:
    runs = {name: done.said.get(RUNS, {}).get(name, "") for name in python_above(node, project)}
    last = done.said.get("last_run", "") if done.skip else run_id
    return Fingerprint(
        node_type=node.type,
        node_name=node.name,
        target_schema=node.schema,
        target_name="",
        run_id=run_id,
        local_hash=node.local_hash,
        version_hash=node.local_hash,
        schema_hash="",
        definition=node.definition,
        metadata=json.dumps(
            {
                "hashes": [node.source_hash, node.config_hash],
                "dependencies": dict(node.dependencies),
                "sources": done.said.get("sources", {}),
                "runs": runs,
                # Who depends on it looks at the last run that did something.
                "worked": last,
            }
        ),
        ts=now,
    )


def python_seen(project: Project, rows: Iterable[Fingerprint]) -> dict[str, PythonSeen]:
    """The last run of each Python node that did its work, from the history."""
    found: dict[str, PythonSeen] = {}
    for row in rows:
        node = project.python.get(row.node_name)
        if node is None or node.type != row.node_type or node.schema != row.target_schema:
            continue
        try:
            said: Mapping[str, Any] = json.loads(row.metadata)
            source_hash, config_hash = said["hashes"]
            found[node.name] = PythonSeen(
                str(said["worked"]),
                row.local_hash,
                source_hash,
                config_hash,
                said["dependencies"],
                said["sources"],
                said["runs"],
            )
        except (ValueError, KeyError, TypeError):
            continue
    return found
