"""The child's side of one Spark for several processes: the session that a build shares (see `parent`).

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
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, java_import
from pyspark import SparkContext, cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sqb.errors.base import SqbError
from sqb.errors.build import QueryFailed
from sqb.errors.lake import LakeError, LakeFull, LakeUnreadable
from sqb.errors.spark import SparkLost
from sqb.names import quote
from sqb.spark.connect.mode import enter_connect_mode
from sqb.spark.errors import explain_failure
from sqb.spark.private_api import find_java_session, open_shared_context, open_shared_session, set_default_session
from sqb.spark.session.logging import silence_loggers
from sqb.types.format import format_sql_type
from sqb.types.model import Type

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


def connect_to_session(where: Mapping[str, Any], root: Path) -> SparkSession:
    """The session that the build lends; called once in a process."""
    _register_modules_by_value(root)
    return _connect_to_spark_server(where) if "remote" in where else _connect_to_java(where, root)


def _connect_to_spark_server(where: Mapping[str, Any]) -> SparkSession:
    """The build's session on a Spark Connect server."""
    silence_loggers()
    enter_connect_mode()
    from pyspark.sql.connect.session import SparkSession as ConnectSession  # only there where it is used

    from sqb.spark.connect.sessions import set_retry_policy

    session: Any = set_retry_policy(ConnectSession(connection=get_server_address(where), userId=where["user"]))
    session.release_session_on_close = False
    set_default_session(session)
    ConnectSession.stop = _ignore_stop  # type: ignore[assignment, method-assign]
    return session  # type: ignore[no-any-return]


def get_server_address(where: Mapping[str, Any]) -> Any:
    """The address of the server that a build lends a session of, as PySpark takes it."""
    from sqb.spark.connect.client import LoopbackChannelBuilder  # only there where it is used

    return LoopbackChannelBuilder(where["remote"]) if where["is_engine"] else where["remote"]


def _connect_to_java(where: Mapping[str, Any], root: Path) -> SparkSession:
    """The build's session in its own Java process."""
    parameters = GatewayParameters(port=where["port"], auth_token=where["token"], auto_convert=True)
    gateway: Any = JavaGateway(gateway_parameters=parameters)
    for name in _JAVA_NAMES:
        java_import(gateway.jvm, name)
    java_session = find_java_session(gateway, where["session"])
    java_context = gateway.jvm.JavaSparkContext.fromSparkContext(java_session.sparkContext())
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    interrupted = signal.getsignal(signal.SIGINT)
    context = open_shared_context(gateway, java_context)
    if threading.current_thread() is threading.main_thread():
        # PySpark's own handler would cancel the jobs of the whole build.
        signal.signal(signal.SIGINT, interrupted)
    session = open_shared_session(context, java_session)
    # What is asked outside of a query, such as the name of the current catalog, is answered by the active session.
    getattr(gateway.jvm, "org.apache.spark.sql.classic.SparkSession").setActiveSession(java_session)
    # Scripts end by stopping Spark, out of habit; here others go on with it.
    SparkSession.stop = SparkContext.stop = _ignore_stop  # type: ignore[assignment, method-assign]
    # Modules that are imported later are found there, at least on this machine.
    context.environment["PYTHONPATH"] = os.pathsep.join(map(str, _list_code_folders(root)))
    return session


def _ignore_stop(_: Any) -> None:
    return None


def _register_modules_by_value(root: Path) -> None:
    """Let functions of the project's modules run in Spark's own processes, which know nothing of the project."""
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if file is not None and any(Path(file).is_relative_to(folder) for folder in _list_code_folders(root)):
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def _list_code_folders(root: Path) -> tuple[Path, ...]:
    return root / "python", root / "materializations"


def publish_view(frames: Sequence[DataFrame], declared: Mapping[str, Type], name: str) -> str:
    """Let the build read DataFrames as one: the name of a global temporary view."""
    frame = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)
    if declared:
        frame = _cast_columns(frame, declared)
    view = "sqb_" + "".join(c if c.isalnum() else "_" for c in name)
    frame.createOrReplaceGlobalTempView(view)
    return view


def _cast_columns(frame: DataFrame, declared: Mapping[str, Type]) -> DataFrame:
    """The rows with the declared types; declared columns that are missing are NULL."""
    types = {name.lower(): kind for name, kind in declared.items()}
    columns = []
    for name in frame.columns:
        kind = types.pop(name.lower(), None)
        column = F.col(quote(name))
        columns.append(column if kind is None else column.cast(format_sql_type(kind)).alias(name))
    missing = [F.lit(None).cast(format_sql_type(kind)).alias(n) for n, kind in declared.items() if n.lower() in types]
    return frame.select(*columns, *missing)


def explain_error(error: BaseException) -> SqbError:
    """Spark's error for a node, in words for people."""
    failure = explain_failure(error, "")
    return _KINDS.get(failure.kind, QueryFailed)(failure.message, hint=failure.hint)
