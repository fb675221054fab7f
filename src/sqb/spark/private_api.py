"""What sqb needs of PySpark and Py4J beyond their public interfaces: one function for each, and no second place.

Each says what it is for, and the version of PySpark since which sqb needs it. `tests/unit/spark/test_private_api.py`
names what a new version moved. Nothing here touches rows: those go through SQL and DataFrames alone.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from subprocess import Popen
from types import SimpleNamespace
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark import SparkConf, SparkContext, java_gateway
from pyspark.sql import SparkSession

# Where a session of Spark Connect keeps the copies of it that children use.
_SHARED_COPIES = "_sqb_lent"

# --- the process of a classic Spark -----------------------------------------------------------------------------------


@contextmanager
def watch_launches(note: Callable[[Popen[bytes]], None]) -> Iterator[None]:
    """Note the process of Java while it is being launched: PySpark tells of it only when it answers. Since 4.1."""
    module: Any = java_gateway
    popen = module.Popen

    def launch(*args: Any, **kwargs: Any) -> Popen[bytes]:
        process: Popen[bytes] = popen(*args, **kwargs)
        note(process)
        return process

    module.Popen = launch
    try:
        yield
    finally:
        module.Popen = popen


def has_spark() -> bool:
    """Whether this process has a classic Spark: PySpark would answer with that one, or start one. Since 4.1."""
    return SparkContext._active_spark_context is not None


def attach_gateway(gateway: Any) -> None:
    """Let PySpark use a Java that was launched by us, before there is a context. Since 4.1."""
    SparkContext._ensure_initialized(gateway=gateway)


def forget_gateway() -> None:
    """Let the next engine of this process launch its own Spark: stopping a context keeps its Java. Since 4.1."""
    gateway = SparkContext._gateway
    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkContext._active_spark_context = None
    if gateway is not None:
        with suppress(Exception):
            gateway.shutdown()


def forget_accumulators(context: SparkContext) -> None:
    """Let stopping a context not wait for its server of accumulators, which holds nothing by then. Since 4.1.

    The wait is half a second; where Python functions have run the server would print that Spark is gone.
    """
    server: Any = context._accumulatorServer
    if server is not None:
        server.handle_error = _ignore
    context._accumulatorServer = None  # type: ignore[assignment]


def _ignore(*_: Any) -> None:
    return None


def remove_setting(conf: SparkConf, key: str) -> None:
    """Remove a setting, which PySpark's own class has no method for. Since 4.1."""
    java_conf: Any = conf._jconf
    java_conf.remove(key)


def is_stopped(session: Any) -> bool:
    """Whether the Spark of a classic session was stopped, without asking it. Since 4.1."""
    return session.sparkContext._jsc is None


def get_jvm(session: Any) -> Any:
    """The Java of a classic session, for what an engine knows of itself: its memory, its port. Since 4.1."""
    return session._jvm


# --- one Java for several processes -----------------------------------------------------------------------------------


def clone_java_session(session: Any) -> Any:
    """A copy of a classic session with its settings and functions; PySpark has only empty new ones. Since 4.1."""
    return session._jsparkSession.cloneSession()


def describe_java_session(owner: Any, java_session: Any) -> dict[str, Any]:
    """Where another process finds a session of this Java. Since 4.1."""
    parameters = owner.sparkContext._gateway.gateway_parameters
    return {"port": parameters.port, "token": parameters.auth_token, "session": java_session._target_id}


def find_java_session(gateway: Any, target_id: str) -> Any:
    """The session that another process describes with `describe_java_session`. Since 4.1."""
    return JavaObject(target_id, gateway._gateway_client)


def open_shared_context(gateway: Any, java_context: Any) -> SparkContext:
    """A context over one that runs in the Java of another process. Since 4.1."""
    return SparkContext(gateway=gateway, jsc=java_context, conf=SparkConf(_jconf=java_context.getConf()))


def open_shared_session(context: SparkContext, java_session: Any) -> SparkSession:
    """A session over one of another process that leaves the default of its Java alone. Since 4.1.

    The first session of a process would make itself the default, unless there seems to be one already.
    """
    SparkSession._instantiatedSession = SimpleNamespace(_sc=context)  # type: ignore[assignment]
    session = SparkSession(context, java_session)
    SparkSession._instantiatedSession = session
    return session


# --- Spark Connect ----------------------------------------------------------------------------------------------------


def get_channel(client: Any) -> Any:
    """The channel of a client: to wait until it is ready, and to close it without waiting for answers. Since 4.1."""
    return client._channel


def close_once(client: Any) -> None:
    """Close a client; the end of its session's life does not close it again. Since 4.1.

    A session closes its client when Python collects it, in whatever thread that is, and waits there for threads that
    all sessions use. In one of those threads, in the middle of a call, it would wait for ever.
    """
    try:
        client.close()
    finally:
        client.close = _ignore


def skip_model_cleanup(client: Any) -> None:
    """Let the process end without asking the server to forget models of machine learning, one by one. Since 4.1.

    Spark 4.0 does not ask.
    """
    if hasattr(client, "_cleanup_ml_cache"):
        atexit.unregister(client._cleanup_ml_cache)


def get_channel_builder(client: Any) -> Any:
    """The address that a client was made with, for a child that connects to the same server. Since 4.1."""
    return client._builder


def get_address_parameters(builder: Any) -> dict[str, str]:
    """The parameters of an address, as in `sc://host/;name=value`, the session's id not among them. Since 4.1."""
    return dict(builder._params)


def get_user_id(client: Any) -> str:
    """The user whose session it is: a session is found by its id and its user. Since 4.1."""
    user: str = client._user_id
    return user


def open_secure_channel(builder: Any, target: str, credentials: Any) -> Any:
    """A channel with the options of an address, to a target that is written otherwise. Since 4.1."""
    return builder._secure_channel(target, credentials)


def set_default_session(session: Any) -> None:
    """Let `SparkSession.active()` and the like answer with a session of Spark Connect. Since 4.1."""
    type(session)._set_default_and_active_session(session)


def attach_copy(session: Any, copy: Any) -> None:
    """Keep a copy of a session as long as the session itself. Since 4.1.

    PySpark closes a session without references, and with it something that all sessions use.
    """
    session.__dict__.setdefault(_SHARED_COPIES, []).append(copy)


def list_copies(session: Any) -> tuple[Any, ...]:
    """The copies that `attach_copy` keeps with a session."""
    return tuple(session.__dict__.get(_SHARED_COPIES, ()))


# --- errors -----------------------------------------------------------------------------------------------------------


def get_description(error: BaseException) -> str:
    """The message of an error as Java gave it, without asking a Java that may be gone. Since 4.1."""
    return str(getattr(error, "_desc", "") or "")


def get_java_stack(error: BaseException) -> str:
    """Java's stack of causes, which classic Spark and Spark Connect keep by different names. Since 4.1."""
    stacks = (getattr(error, name, "") for name in ("_stackTrace", "_stacktrace"))
    return "\n".join(str(stack) for stack in stacks if stack)
