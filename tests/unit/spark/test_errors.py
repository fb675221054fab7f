"""Failures that are told by their text alone: storage, memory, a lost process."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from sqb.errors.build import QueryFailed
from sqb.project.config.secrets import remember_secrets
from sqb.python_runtime.protocol import decode_error, encode_error
from sqb.spark.errors import explain_failure, get_grpc_status


@pytest.mark.parametrize(
    "error",
    [
        Py4JNetworkError("Error while receiving"),
        ConnectionRefusedError(111, "refused"),
        Py4JError("Answer from Java side is empty"),
    ],
)
def test_a_lost_process(error: Exception) -> None:
    assert explain_failure(error, "SELECT 1").kind == "lost"


def test_a_full_disk_is_seen_wherever_it_is_in_the_causes() -> None:
    error = RuntimeError(
        "An error occurred while calling o1.append.\n: org.apache.spark.SparkException: Writing job aborted\n"
        "\tat org.apache.spark.X.y(X.scala:1)\nCaused by: java.io.IOException: No space left on device\n\t... 9 more"
    )
    failure = explain_failure(error, "SELECT 1")
    assert (failure.kind, failure.message) == ("disk_full", "no space left on the disk")


def test_denied_names_the_file() -> None:
    error = RuntimeError(
        "org.apache.iceberg.exceptions.RuntimeIOException: Failed\n"
        "Caused by: java.io.FileNotFoundException: /lake/data/s/t/x.parquet (Permission denied)\n\tat x"
    )
    failure = explain_failure(error, "SELECT 1")
    assert (failure.kind, failure.message) == ("denied", "permission denied: /lake/data/s/t/x.parquet")


def test_no_memory_says_what_to_set() -> None:
    failure = explain_failure(RuntimeError("java.lang.OutOfMemoryError: Java heap space"), "SELECT 1")
    assert failure.kind == "out_of_memory"
    assert "spark.driver.memory" in (failure.hint or "")


def test_an_unknown_failure_keeps_its_words_and_loses_its_stack() -> None:
    error = RuntimeError(
        "An error occurred while calling o7.sql.\n: org.apache.iceberg.exceptions.ValidationException: Cannot do this"
        "\n\tat org.apache.iceberg.A.b(A.java:1)\n\tat java.base/java.lang.Thread.run(Thread.java:840)\n"
    )
    assert explain_failure(error, "SELECT 1").message == "Cannot do this"


def test_what_a_thread_failed_with_is_told_and_not_that_another_one_waited() -> None:
    error = RuntimeError(
        "An error occurred while calling o7.getResult.\n: org.apache.spark.SparkException: Exception thrown in"
        " awaitResult: \n\tat org.apache.spark.A.b(A.scala:1)\nCaused by: org.apache.spark.SparkException:"
        " [SCALAR_SUBQUERY_TOO_MANY_ROWS] More than one row. SQLSTATE: 21000\n\tat org.apache.spark.C.d(C.scala:2)"
    )
    failure = explain_failure(error, "SELECT 1")
    assert (failure.message, failure.condition) == ("More than one row", "SCALAR_SUBQUERY_TOO_MANY_ROWS")
    alone = RuntimeError("org.apache.spark.SparkException: Exception thrown in awaitResult: broken")
    assert explain_failure(alone, "SELECT 1").message == "Exception thrown in awaitResult: broken"


def test_the_plan_of_a_query_is_not_shown() -> None:
    error = RuntimeError('[DATATYPE_MISMATCH.X] Cannot resolve "a".;\n\'Project [_0#1 AS a#2]\n+- OneRowRelation\n')
    assert explain_failure(error, "SELECT a").message == 'Cannot resolve "a"'


def test_a_place_in_a_dump_is_found_in_the_sql() -> None:
    error = RuntimeError("[SOME_CONDITION] It went wrong. SQLSTATE: 21000 (line 2, pos 7)\n\n== SQL ==\nSELECT\n")
    failure = explain_failure(error, "SELECT\n  a, b_c\nFROM t")
    assert (failure.condition, failure.message) == ("SOME_CONDITION", "It went wrong. (line 2, pos 7)")
    assert (failure.start, failure.stop) == (14, 15)


def test_what_a_server_repeats_of_a_token_is_hidden() -> None:
    remember_secrets(("hunter2",))
    error = Exception(
        "org.apache.iceberg.exceptions.NotAuthorizedException: Not authorized: who is Bearer hunter2\n\tat x"
    )
    assert explain_failure(error, "SELECT 1").message == "Not authorized: who is Bearer ***"
    # As the child of a Python node tells it, which does not know the token.
    encoded = encode_error(QueryFailed("Not authorized: who is Bearer hunter2"))
    assert decode_error(encoded).message == "Not authorized: who is Bearer ***"


class _Call(Exception):
    """What grpc raises for a call that failed."""

    def code(self) -> Any:
        return SimpleNamespace(name="UNAVAILABLE")


def test_the_status_of_a_call_is_that_of_its_error_where_pyspark_does_not_hand_it_on() -> None:
    # As PySpark 4.0 raises it.
    with pytest.raises(PySparkException) as caught:
        try:
            raise _Call
        except _Call:
            raise PySparkException("no answer") from None
    assert get_grpc_status(caught.value) == get_grpc_status(_Call()) == "UNAVAILABLE"
    assert get_grpc_status(PySparkException("other")) == get_grpc_status(ValueError()) == ""
