"""What is recorded of Python nodes that did their work, and read back for the next plan."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqb.build.events import NodeDone
from sqb.compile.model import Project
from sqb.compile.python.model import PythonNode
from sqb.lake.state.rows import Fingerprint
from sqb.plan.python_nodes import LastPythonRun
from sqb.plan.recorded.versions import decode_sources

RETRY_DUE = "owed"


def build_python_fingerprints(
    project: Project, run_id: str, tried: Iterable[NodeDone], now: datetime
) -> list[Fingerprint]:
    """What the Python nodes were that ran to their end, or had nothing to do; one that skipped hard is tried again."""
    done = {n.planned.name: n for n in tried if n.planned.name in project.python}
    fingerprints = []
    for name, outcome in done.items():
        node = project.python[name]
        if outcome.status == "ok" or outcome.skip == "soft":
            fingerprints.append(_build_fingerprint(node, outcome, run_id, now))
    return fingerprints


def build_retry_fingerprints(
    project: Project,
    tried: Iterable[NodeDone],
    stored: Callable[[Iterable[str]], Mapping[Any, Fingerprint]],
    now: datetime,
) -> list[Fingerprint]:
    """The last good runs of Python nodes that failed or skipped hard now, marked: such a node is tried again."""
    names = {n.planned.name for n in tried if n.status == "failed" or n.skip == "hard"}
    nodes = [project.python[name] for name in names if name in project.python and project.python[name].type != "hook"]
    if not nodes:
        return []
    keys = {(node.type, node.name, node.schema) for node in nodes}
    rows = stored(sorted({node.schema for node in nodes})).values()
    return [
        replace(row, metadata=json.dumps({**json.loads(row.metadata), RETRY_DUE: True}), ts=now)
        for row in rows
        if (row.node_type, row.node_name, row.target_schema) in keys
    ]


def _build_fingerprint(node: PythonNode, done: NodeDone, run_id: str, now: datetime) -> Fingerprint:
    last = done.recorded.get("last_run", "") if done.skip else run_id
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
                "sources": done.recorded.get("sources", {}),
                "runs": done.recorded.get("runs", {}),
                # Who depends on it looks at the last run that did something.
                "worked": last,
            }
        ),
        ts=now,
    )


def load_python_runs(project: Project, rows: Iterable[Fingerprint]) -> dict[str, LastPythonRun]:
    """The last run of each Python node that did its work, from the history."""
    runs: dict[str, LastPythonRun] = {}
    for row in rows:
        node = project.python.get(row.node_name)
        if node is None or node.type != row.node_type or node.schema != row.target_schema:
            continue
        try:
            metadata: Mapping[str, Any] = json.loads(row.metadata)
            source_hash, config_hash = metadata["hashes"]
            runs[node.name] = LastPythonRun(
                str(metadata["worked"]),
                row.local_hash,
                source_hash,
                config_hash,
                metadata["dependencies"],
                decode_sources(metadata["sources"]),
                metadata["runs"],
                bool(metadata.get(RETRY_DUE)),
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
    return runs
