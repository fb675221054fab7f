"""Spark Connect in this process. PySpark's functions are those of one kind of session or of the other, for the whole
process, and a variable of the environment says which."""

from __future__ import annotations

import os
import threading

from sqb.errors_connections import SparkUnfit

_VARIABLE = "SPARK_CONNECT_MODE_ENABLED"
_lock = threading.Lock()
_users = 0
_is_ours = False


def enter_connect_mode() -> None:
    """Let PySpark's functions be those of Spark Connect; refused while this process has a classic Spark."""
    global _users, _is_ours
    from pyspark import SparkContext  # this module is loaded by those who have it

    with _lock:
        if _VARIABLE not in os.environ:
            if SparkContext._active_spark_context is not None:
                raise SparkUnfit(
                    "this Python process has a Spark of its own, and PySpark cannot use a Spark server beside it",
                    hint="hand the session in, `sqb.build(project, spark=spark)`, or stop it first",
                )
            os.environ[_VARIABLE] = "1"
            _is_ours = True
        _users += 1


def leave_connect_mode() -> None:
    """The other half of `enter_connect_mode`: the last one puts things back."""
    global _users, _is_ours
    with _lock:
        _users -= 1
        if _users == 0 and _is_ours:
            os.environ.pop(_VARIABLE, None)
            _is_ours = False


def in_connect_mode() -> bool:
    """Whether PySpark's functions are those of Spark Connect."""
    return _VARIABLE in os.environ
