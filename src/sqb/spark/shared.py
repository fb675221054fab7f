"""One Spark for several processes: a build lends a session, and the child that runs a node connects to it.

Both talk to the same JVM. What the child makes are DataFrames there, which the build reads by the name of a view; what
belongs to Python, such as functions in SQL, stays in the child, which therefore lives until the rows are read.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import reduce
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, JavaObject, java_import
from pyspark import SparkConf, SparkContext, cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sqb.errors import LakeError, LakeFull, LakeUnreadable, QueryFailed, SparkLost, SqbError
from sqb.names import quote
from sqb.project.column_types import Type, type_text
from sqb.spark.failures import explain

# What PySpark itself imports into the view that it has of the JVM.
_JAVA_NAMES = (
    "org.apache.spark.SparkConf",
    "org.apache.spark.api.java.*",
    "org.apache.spark.api.python.*",
    "org.apache.spark.ml.python.*",
    "org.apache.spark.mllib.api.python.*",
    "org.apache.spark.resource.*",
    "org.apache.spark.sql.*",
    "org.apache.spark.sql.Encoders",
    "org.apache.spark.sql.OnSuccessCall",
    "org.apache.spark.sql.functions",
    "org.apache.spark.sql.classic.*",
    "org.apache.spark.sql.api.python.*",
    "org.apache.spark.sql.hive.*",
    "scala.Tuple2",
)
_KINDS: Mapping[str, type[SqbError]] = {
    "lost": SparkLost,
    "disk_full": LakeFull,
    "denied": LakeUnreadable,
    "catalog_locked": LakeError,
}


# --- the build's side -----------------------------------------------------------------------------------------------


class Lent:
    """A session that a child may use: a copy of one of the build's, with its settings, functions and catalog."""

    def __init__(self, session: SparkSession, settings: Mapping[str, str] | None = None) -> None:
        self._owner = session
        # Held here, or the JVM would forget it.
        self._copy: Any = session._jsparkSession.cloneSession()
        for key, value in (settings or {}).items():
            self._copy.conf().set(key, value)

    def address(self) -> dict[str, Any]:
        """Where a child finds it."""
        gateway: Any = self._owner.sparkContext._gateway
        parameters = gateway.gateway_parameters
        return {"port": parameters.port, "token": parameters.auth_token, "session": self._copy._target_id}

    def end(self, view: str = "") -> None:
        """Stop what a child may have left running, and forget what it offered."""
        with suppress(Exception):
            self._copy.interruptAll()
        if view:
            with suppress(Exception):
                self._owner.catalog.dropGlobalTempView(view)


# --- the child's side -----------------------------------------------------------------------------------------------


def connect(where: Mapping[str, Any], root: Path) -> SparkSession:
    """The session that the build lends; called once in a process."""
    parameters = GatewayParameters(port=where["port"], auth_token=where["token"], auto_convert=True)
    gateway: Any = JavaGateway(gateway_parameters=parameters)
    for name in _JAVA_NAMES:
        java_import(gateway.jvm, name)
    java_session: Any = JavaObject(where["session"], gateway._gateway_client)
    java_context = gateway.jvm.JavaSparkContext.fromSparkContext(java_session.sparkContext())
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    interrupted = signal.getsignal(signal.SIGINT)
    context = SparkContext(gateway=gateway, jsc=java_context, conf=SparkConf(_jconf=java_context.getConf()))
    if threading.current_thread() is threading.main_thread():
        # PySpark's own handler would cancel the jobs of the whole build.
        signal.signal(signal.SIGINT, interrupted)
    # The first session of a process makes itself the default of the JVM, which here belongs to others.
    SparkSession._instantiatedSession = SimpleNamespace(_sc=context)  # type: ignore[assignment]
    session = SparkSession(context, java_session)
    SparkSession._instantiatedSession = session
    # What is asked outside of a query, such as the name of the current catalog, is answered by the active session.
    getattr(gateway.jvm, "org.apache.spark.sql.classic.SparkSession").setActiveSession(java_session)
    # Scripts end by stopping Spark, out of habit; here others go on with it.
    SparkSession.stop = SparkContext.stop = _stay  # type: ignore[assignment, method-assign]
    _take_along(context, root)
    return session


def _stay(_: Any) -> None:
    return None


def _take_along(context: SparkContext, root: Path) -> None:
    """Let functions of the project's modules run in Spark's own processes, which know nothing of the project."""
    folders = (root / "python", root / "materializations")
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if file is not None and any(Path(file).is_relative_to(folder) for folder in folders):
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    # Modules that are imported later are found there, at least on this machine.
    context.environment["PYTHONPATH"] = os.pathsep.join(map(str, folders))


def offer(frames: Sequence[DataFrame], declared: Mapping[str, Type], name: str) -> str:
    """Let the build read DataFrames as one: the name of a global temporary view."""
    whole = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)
    if declared:
        whole = _typed(whole, declared)
    view = "sqb_" + "".join(c if c.isalnum() else "_" for c in name)
    whole.createOrReplaceGlobalTempView(view)
    return view


def _typed(frame: DataFrame, declared: Mapping[str, Type]) -> DataFrame:
    """The rows with the declared types; declared columns that are missing are NULL."""
    kinds = {name.lower(): kind for name, kind in declared.items()}
    columns = []
    for name in frame.columns:
        kind = kinds.pop(name.lower(), None)
        column = F.col(quote(name))
        columns.append(column if kind is None else column.cast(type_text(kind)).alias(name))
    missing = [F.lit(None).cast(type_text(kind)).alias(n) for n, kind in declared.items() if n.lower() in kinds]
    return frame.select(*columns, *missing)


def explained(error: BaseException) -> SqbError:
    """What Spark said to a node, in words for people."""
    failure = explain(error, "")
    return _KINDS.get(failure.kind, QueryFailed)(failure.message, hint=failure.hint)
