"""Whether PySpark's functions are those of Spark Connect; loads nothing that only Spark Connect needs."""

from __future__ import annotations

import os
import threading

from sqb.errors.connections import SparkUnfit
from sqb.spark.private_api import has_spark

_VARIABLE = "SPARK_CONNECT_MODE_ENABLED"
_lock = threading.Lock()
_users = 0
_is_ours = False


def enter_connect_mode() -> None:
    """Let PySpark's functions be those of Spark Connect; refused while this process has a classic Spark."""
    global _users, _is_ours
    with _lock:
        if _VARIABLE not in os.environ:
            if has_spark():
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


def is_connect_mode() -> bool:
    """Whether PySpark's functions are those of Spark Connect."""
    return _VARIABLE in os.environ
