"""The Spark session of a project that stays between calls: for notebooks, which go on with DataFrames.

A process has one Spark of its own at a time, so there is one such session at most.
"""

from __future__ import annotations

import atexit
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqb.build.spark_engine import OnDemandSpark, ProgressListener
from sqb.names import quote
from sqb.project.config.connections.model import Connection
from sqb.workspace import Workspace


@dataclass(frozen=True, slots=True)
class _OpenSession:
    root: Path
    connection: Connection
    spark: OnDemandSpark
    session: Any


_LOCK = threading.Lock()
_OPEN: list[_OpenSession] = []


def find_session(workspace: Workspace) -> Any:
    """The session that is open for a project; one of another project is closed, as both cannot have a Spark."""
    with _LOCK:
        current = _OPEN[0] if _OPEN else None
        if current is None:
            return None
        if (current.root, current.connection) == (workspace.root, workspace.connection):
            return current.session
        _close_current()
        return None


def open_session(workspace: Workspace, report: ProgressListener) -> Any:
    """The session of a project; its Spark is started when it is first asked for, and ends with the process."""
    session = find_session(workspace)
    if session is not None:
        return session
    with _LOCK:
        spark = OnDemandSpark(workspace, report, "session_")
        try:
            session = spark.session()
            # What is asked of the catalog first takes longest: those who use the session next wait for less.
            session.sql(f"SHOW NAMESPACES IN {quote(workspace.connection.catalog.name)}").collect()
        except BaseException:
            spark.stop()
            raise
        _OPEN.append(_OpenSession(workspace.root, workspace.connection, spark, session))
    atexit.register(close_session, workspace.root)
    return session


def close_session(root: Path) -> None:
    """End the Spark of a project, if it has one."""
    with _LOCK:
        if _OPEN and _OPEN[0].root == root:
            _close_current()


def _close_current() -> None:
    _OPEN.pop().spark.stop()
