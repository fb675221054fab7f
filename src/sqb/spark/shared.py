"""The child's side of one Spark for several processes: the session that a build lends (see `lending`).

Both talk to the same Spark. What the child makes are DataFrames there, which the build reads by the name of a view;
what belongs to Python, such as functions in SQL, stays in the child, which therefore lives until the rows are read.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
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
from sqb.spark.connect_mode import enter_connect_mode
from sqb.spark.failures import explain
from sqb.spark.quiet import silence

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


def connect(where: Mapping[str, Any], root: Path) -> SparkSession:
    """The session that the build lends; called once in a process."""
    _by_value(root)
    return _connect_to_server(where) if "remote" in where else _connect_to_java(where, root)


def _connect_to_server(where: Mapping[str, Any]) -> SparkSession:
    """The build's session on a Spark Connect server."""
    silence()
    enter_connect_mode()
    from pyspark.sql.connect.session import SparkSession as ConnectSession  # only there where it is used

    from sqb.spark.connect_sessions import patient

    session: Any = patient(ConnectSession(connection=server_of(where), userId=where["user"]))
    session.release_session_on_close = False
    ConnectSession._set_default_and_active_session(session)
    ConnectSession.stop = _stay  # type: ignore[assignment, method-assign]
    return session  # type: ignore[no-any-return]


def server_of(where: Mapping[str, Any]) -> Any:
    """The address of the server that a build lends a session of, as PySpark takes it."""
    from sqb.spark.loopback import Loopback  # only there where it is used

    return Loopback(where["remote"]) if where["is_engine"] else where["remote"]


def _connect_to_java(where: Mapping[str, Any], root: Path) -> SparkSession:
    """The build's session in its own Java process."""
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
    # Modules that are imported later are found there, at least on this machine.
    context.environment["PYTHONPATH"] = os.pathsep.join(map(str, _folders(root)))
    return session


def _stay(_: Any) -> None:
    return None


def _by_value(root: Path) -> None:
    """Let functions of the project's modules run in Spark's own processes, which know nothing of the project."""
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if file is not None and any(Path(file).is_relative_to(folder) for folder in _folders(root)):
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def _folders(root: Path) -> tuple[Path, ...]:
    return root / "python", root / "materializations"


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
