"""Private parts of PySpark that sqb uses are where it looks for them: what a new version moves is named here."""

from __future__ import annotations

import ast
import inspect
import subprocess
import textwrap
from types import SimpleNamespace
from typing import Any

import pyspark
import pytest
from py4j.java_gateway import JavaGateway, JavaObject
from pyspark import SparkConf, SparkContext, java_gateway
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.errors.exceptions.connect import SparkConnectGrpcException
from pyspark.sql import SparkSession
from pyspark.sql.connect.client.core import DefaultChannelBuilder, SparkConnectClient
from pyspark.sql.connect.client.reattach import ExecutePlanResponseReattachableIterator
from pyspark.sql.connect.session import SparkSession as ConnectSession

from sqb.spark import private_api

# It has nothing that would have to be skipped.
IS_4_0 = pyspark.__version__.startswith("4.0.")


def attributes_of_instances(kind: type) -> set[str]:
    """The attributes that the code of a class sets on its instances."""
    code = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    stored = (n for n in ast.walk(code) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store))
    return {n.attr for n in stored if isinstance(n.value, ast.Name) and n.value.id == "self"}


@pytest.mark.parametrize(("kind", "name", "user"), [
    (SparkContext, "_accumulatorServer", private_api.forget_accumulators),
    (SparkContext, "_jsc", private_api.is_stopped),
    (SparkConf, "_jconf", private_api.remove_setting),
    (SparkSession, "_jvm", private_api.get_jvm),
    (SparkSession, "_jsparkSession", private_api.clone_java_session),
    (JavaGateway, "gateway_parameters", private_api.describe_java_session),
    (JavaGateway, "_gateway_client", private_api.find_java_session),
    (JavaObject, "_target_id", private_api.describe_java_session),
    (SparkConnectClient, "_channel", private_api.get_channel),
    (SparkConnectClient, "_builder", private_api.get_channel_builder),
    (SparkConnectClient, "_user_id", private_api.get_user_id),
    (CapturedException, "_desc", private_api.get_description),
    (CapturedException, "_stackTrace", private_api.get_java_stack),
    (SparkConnectGrpcException, "_stacktrace", private_api.get_java_stack),
])  # fmt: skip
def test_instances_have(kind: type, name: str, user: Any) -> None:
    assert name in attributes_of_instances(kind), f"{kind.__name__} no longer sets {name}: {user.__name__} needs it"


@pytest.mark.parametrize(("kind", "name", "user"), [
    (SparkContext, "_active_spark_context", private_api.has_spark),
    (SparkContext, "_gateway", private_api.forget_gateway),
    (SparkContext, "_jvm", private_api.forget_gateway),
    (SparkSession, "_instantiatedSession", private_api.open_shared_session),
    *([(SparkConnectClient, "_cleanup_ml_cache", private_api.skip_model_cleanup)] if not IS_4_0 else []),
])  # fmt: skip
def test_classes_have(kind: type, name: str, user: Any) -> None:
    assert hasattr(kind, name), f"{kind.__name__}.{name} is gone: {user.__name__} needs it"


@pytest.mark.parametrize(("function", "parameters", "user"), [
    (SparkContext._ensure_initialized, ["instance", "gateway", "conf"], private_api.attach_gateway),
    (SparkConf.__init__, ["self", "loadDefaults", "_jvm", "_jconf"], private_api.open_shared_context),
    (SparkSession.__init__, ["self", "sparkContext", "jsparkSession", "options"], private_api.open_shared_session),
    (JavaObject.__init__, ["self", "target_id", "gateway_client"], private_api.find_java_session),
    (java_gateway.launch_gateway, ["conf", "popen_kwargs"], private_api.watch_launches),
    (DefaultChannelBuilder._secure_channel, ["self", "target", "credentials", "kwargs"],
     private_api.open_secure_channel),
    (ConnectSession._set_default_and_active_session, ["session"], private_api.set_default_session),
])  # fmt: skip
def test_functions_take(function: Any, parameters: list[str], user: Any) -> None:
    now = list(inspect.signature(function).parameters)
    assert now == parameters, f"{function.__qualname__} takes {now}: {user.__name__} expects {parameters}"


def test_java_is_launched_by_a_name_that_can_be_watched() -> None:
    assert java_gateway.Popen is subprocess.Popen
    assert "Popen(" in inspect.getsource(java_gateway.launch_gateway)
    launched: list[Any] = []
    with private_api.watch_launches(launched.append):
        process = java_gateway.Popen(["true"])
    assert process.wait() == 0
    assert launched == [process]
    assert java_gateway.Popen is subprocess.Popen


def test_the_default_of_java_is_left_alone_where_a_session_seems_to_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "if SparkSession._should_update_active_session()" in inspect.getsource(SparkSession.__init__)
    context = SimpleNamespace(_jsc=object())
    monkeypatch.setattr(SparkSession, "_instantiatedSession", SimpleNamespace(_sc=context))
    assert not SparkSession._should_update_active_session()


def test_a_client_of_spark_connect() -> None:
    """A client connects when it is first used, so this one needs no server."""
    client = SparkConnectClient(connection="sc://localhost:1/;token=abc;x-team=shop", user_id="ana")
    builder = private_api.get_channel_builder(client)
    assert isinstance(builder, DefaultChannelBuilder)
    assert private_api.get_address_parameters(builder)["x-team"] == "shop"
    assert private_api.get_user_id(client) == "ana"
    private_api.skip_model_cleanup(client)
    private_api.get_channel(client).close()


def test_a_session_that_python_collects_does_not_wait_for_the_threads_of_all_sessions() -> None:
    session = ConnectSession(connection="sc://localhost:1")
    private_api.close_once(session.client)
    assert session.client.is_closed
    threads = ExecutePlanResponseReattachableIterator._get_or_create_release_thread_pool()
    # As it happens in the middle of a call: the end of a session runs in a thread that others wait for.
    threads.submit(session.__del__).result(timeout=10)
    assert threads.submit(lambda: "still works").result(timeout=10) == "still works"
    ExecutePlanResponseReattachableIterator.shutdown()


def test_a_setting_that_is_removed_is_removed_in_java() -> None:
    removed: list[str] = []

    class JavaConf:
        def remove(self, key: str) -> None:
            removed.append(key)

    private_api.remove_setting(SparkConf(_jconf=JavaConf()), "spark.sql.legacy.x")  # type: ignore[arg-type]
    assert removed == ["spark.sql.legacy.x"]


def test_what_java_said_of_an_error_is_read_without_java() -> None:
    error = SparkConnectGrpcException("no", server_stacktrace="at x.scala")  # type: ignore[no-untyped-call]
    assert private_api.get_java_stack(error) == "at x.scala"
    assert private_api.get_description(ValueError("x")) == ""
