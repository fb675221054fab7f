"""The child in which one node runs: `python -m sqb.python_runtime.worker <read> <write>`, with the pipes to the build.

The node's code may do anything here, to itself: this process ends with it, and says one answer before.
"""

from __future__ import annotations

import atexit
import concurrent.futures.thread
import faulthandler
import importlib
import inspect
import logging
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from sqb.decorators import Decoration, decorated, get_decoration
from sqb.errors.base import SqbError
from sqb.errors.python import NodeEnded, NodeRaised
from sqb.names import At
from sqb.python_runtime.context import Context, NodeLogger, Skip
from sqb.python_runtime.loader.rows import LoaderOutput
from sqb.python_runtime.protocol import (
    ANSWER,
    BEGAN,
    EXIT_CANNOT_ANSWER,
    FOUND,
    STACK_FILE,
    Link,
    encode_error,
    encode_place,
)
from sqb.python_runtime.return_values import build_answer
from sqb.python_runtime.tracebacks import find_error_place, find_function_place

_LONGEST_MESSAGE = 4_000
_LONGEST_TRACEBACK = 100_000
# What Spark's client is made of when Spark is reached over the network.
_CLIENT = frozenset({"pyspark", "grpc", "google"})
# A thread of a pool stands here while it has nothing to do.
_EXECUTOR = concurrent.futures.thread._worker.__code__
_CHATTY = ("py4j", "SQLQueryContextLogger", "DataFrameQueryContextLogger")


def main() -> NoReturn:
    """Run the node that the build names, answer, and end."""
    link = Link(int(sys.argv[1]), int(sys.argv[2]))
    call = link.receive()
    folder = Path(call["folder"])
    _prepare_process(call, folder)
    link.send({BEGAN: True})
    answer = _Run(call, link, folder).run()
    if not link.is_owner:
        os._exit(0)  # a fork of the node's process ran to the end of its code as well
    _report_threads(call["name"])
    _flush()
    try:
        link.send({ANSWER: answer})
    except OSError:
        os._exit(EXIT_CANNOT_ANSWER)  # the node's code closed the pipe
    if answer.get("view"):
        link.receive()  # Spark asks this process for what the rows are made of, until the build has read them
    with suppress(BaseException):
        atexit._run_exitfuncs()
    _flush()
    # Neither threads that were left running nor Spark's context may hold this up.
    os._exit(0)


def _prepare_process(call: Mapping[str, Any], folder: Path) -> None:
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, encoding="utf-8", errors="backslashreplace")  # type: ignore[union-attr]
    sys.dont_write_bytecode = True
    root = Path(call["root"])
    first = "materializations" if call["module"].endswith(".py") else "python"
    sys.path.insert(0, str(root / first))
    sys.argv = [call["module"]]
    # The interpreter itself writes where a process is stuck or has crashed.
    stack = open(folder / STACK_FILE, "w")  # noqa: SIM115 - open as long as the process lives
    faulthandler.enable(stack, all_threads=False)
    faulthandler.register(signal.SIGUSR1, stack, all_threads=False)
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(_Format())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)


class _Format(logging.Formatter):
    """Information as it is, everything graver with its level before it."""

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        return text if record.levelno <= logging.INFO else f"{record.levelname.lower()}: {text}"


def _report_threads(name: str) -> None:
    frames = sys._current_frames()
    others = (t for t in threading.enumerate() if t is not threading.main_thread() and not t.daemon)
    left = [t for t in others if t.ident not in frames or _is_working(frames[t.ident])]
    if left:
        threads = "1 thread" if len(left) == 1 else f"{len(left)} threads"
        with suppress(Exception):  # the node's code may have closed the stream
            print(f"{threads} still running when {name} returned: ended with it")


def _is_working(frame: FrameType) -> bool:
    """Whether a thread does something for the node: not one that waits for work, nor one of Spark's client alone."""
    if frame.f_code is _EXECUTOR:
        return False
    packages = {str(f.f_globals.get("__name__", "")).partition(".")[0] for f, _ in traceback.walk_stack(frame)}
    return packages.isdisjoint(_CLIENT) or not packages <= (_CLIENT | sys.stdlib_module_names)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()


class _Run:
    """One run of one function."""

    def __init__(self, call: Mapping[str, Any], link: Link, folder: Path) -> None:
        self._call, self._link, self._folder = call, link, folder
        self._root = Path(call["root"])
        columns = call["options"].get("columns") if call["type"] == "loader" else None
        self._data = LoaderOutput(folder, columns)
        self._function: Callable[..., Any] | None = None
        self._context: Context | None = None

    def run(self) -> dict[str, Any]:
        """What is reported to the build; whatever the node's code raises is part of it."""
        try:
            self._function = self._find_function()
            self._link.send({FOUND: encode_place(self._find_own_place())})
            return self._build_answer(self._call_function(self._function))
        except Skip as skip:
            recorded = self._context._recorded if self._context is not None else None
            payload, metadata = (recorded.payload, recorded.metadata) if recorded else ("", "")
            skip_fields = {"skip_mode": skip.mode, "reason": skip.reason, "payload": payload, "metadata": metadata}
            return {"status": "skipped", **skip_fields}
        except AssertionError as error:
            if self._call["type"] != "check":
                return self._build_failure(error)
            message = str(error) or "an assertion does not hold"
            check = {
                "message": message,
                "violations": None,
                "examples": [],
                "at": encode_place(self._find_place(error)),
            }
            return {"status": "failed", "check": check}
        except BaseException as error:  # a KeyboardInterrupt or SystemExit of the node's code is the node's alone
            return self._build_failure(error)

    def _find_function(self) -> Callable[..., Any]:
        name = self._call["module"].removesuffix(".py").removeprefix("materializations/").replace("/", ".")
        module = importlib.import_module(name)
        function = getattr(module, self._call["function"], None)
        if callable(function) and self._is_requested(get_decoration(function)):
            return function  # type: ignore[no-any-return]
        # A loop may have made several nodes, of which the module's own name holds the last.
        for decoration, decorated_function in decorated:
            if decoration.module == name and (decoration.name or decorated_function.__name__) == self._own_name:
                return decorated_function
        raise NodeRaised(f"{name} has no function {self._call['function']} for {self._call['name']}")

    def _is_requested(self, decoration: Decoration | None) -> bool:
        if decoration is None or self._call["type"] == "materialization":
            return True
        return (decoration.name or self._call["function"]) == self._own_name

    @property
    def _own_name(self) -> str:
        """The name that is written in its file: that of a model has its folder before it elsewhere."""
        return str(self._call["name"]).rpartition(".")[2]

    def _call_function(self, function: Callable[..., Any]) -> Any:
        logging.setLoggerClass(NodeLogger)
        log = logging.getLogger(f"node.{self._call['name']}")
        logging.setLoggerClass(logging.Logger)
        assert isinstance(log, NodeLogger)
        self._context = Context(self._call, self._link, self._data, log)
        if self._call["type"] == "model":
            # Its code may need Spark before it reads anything, to make a function for instance.
            _ = self._context.spark
        takes = inspect.signature(function).parameters
        returned = function(self._context) if takes else function()
        if not inspect.iscoroutine(returned):
            return returned
        import asyncio  # takes a while to load

        return asyncio.run(returned)

    def _build_answer(self, returned: Any) -> dict[str, Any]:
        assert self._context is not None
        answer = build_answer(self._call["type"], returned, self._context, self._data)
        if answer.pop("data", False):
            answer["files"] = [str(file) for file in self._data.finish()]
            answer["frames"] = self._data.frames
        if frames := answer.pop("frames", None):
            from sqb.spark.sharing.child import publish_view  # a DataFrame of Spark's is here

            answer["view"] = publish_view(frames, self._data.parse_declared_types(), self._folder.name)
        if "check" in answer:
            answer["check"]["at"] = encode_place(self._find_own_place())
        return answer

    # --- what went wrong ------------------------------------------------------------------------------------------

    def _build_failure(self, error: BaseException) -> dict[str, Any]:
        served = getattr(error, "served", None)
        if served is not None:
            return {"status": "failed", "served": served, "at": encode_place(self._find_place(error))}
        traceback_text = "".join(traceback.format_exception(error))
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        sqb_error = self._explain_error(error)
        sqb_error.at = sqb_error.at or self._find_place(error)
        return {"status": "failed", "error": encode_error(sqb_error, traceback_text[-_LONGEST_TRACEBACK:])}

    def _explain_error(self, error: BaseException) -> SqbError:
        if isinstance(error, SqbError):
            return error
        if isinstance(error, SystemExit):
            code = "" if error.code is None else repr(error.code)
            return NodeEnded(
                f"sys.exit({code}) was called",
                hint="a node ends by returning, by raising an exception, or with ctx.skip()",
            )
        if type(error).__module__.startswith(("pyspark", "py4j", "grpc")):
            from sqb.spark.sharing.child import explain_error  # Spark is there, or this would not have failed

            return explain_error(error)
        if isinstance(error, SyntaxError):
            return NodeRaised(f"not Python: {error.msg}")
        return NodeRaised(_format_exception(error))

    def _find_place(self, error: BaseException) -> At | None:
        return find_error_place(error, self._root) or self._find_own_place()

    def _find_own_place(self) -> At | None:
        return find_function_place(self._function, self._root) if self._function is not None else None


def _format_exception(error: BaseException) -> str:
    """An exception as people know it: its name and what it says."""
    name = type(error).__name__
    try:
        message = str(error)
    except Exception:  # even that is the node's code
        return name
    message = message if len(message) <= _LONGEST_MESSAGE else message[: _LONGEST_MESSAGE - 1] + "…"
    return f"{name}: {message}" if message else name


if __name__ == "__main__":
    main()
