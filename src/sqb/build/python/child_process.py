"""A Python node run in a process of its own: started, listened to, and ended in time, whatever its code does.

The node's code can neither hang nor end nor confuse the build: what it prints becomes lines of its own, what it hands
over is in files or behind a view, and everything that it started ends with it.
"""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sqb.build.checks.report import format_examples, format_row_count
from sqb.build.python.child_output import ChildOutput
from sqb.errors.base import SqbError
from sqb.errors.build import CheckFailed, Interrupted
from sqb.errors.connections import SparkDisconnected
from sqb.errors.project import ProjectError
from sqb.errors.python import NodeEnded, NodeTimedOut
from sqb.names import At, format_seconds
from sqb.project.python.discovery_process import build_child_environment
from sqb.python_runtime.protocol import (
    ANSWER,
    ASK,
    BEGAN,
    DONE,
    EXIT_CANNOT_ANSWER,
    FOUND,
    STACK_FILE,
    LineDecoder,
    Message,
    decode_error,
    decode_place,
    encode_error,
    encode_message,
    write_all,
)
from sqb.python_runtime.tracebacks import find_dump_place

if TYPE_CHECKING:
    from sqb.build.node.context import NodeContext

Serve = Callable[[str, Mapping[str, Any]], Any]
Log = Callable[[str], None]

_TICK = 0.1
_CHUNK = 1 << 16
_STACK_SECONDS = 0.3
_TERMINATE_SECONDS = 1.0
_EXIT_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Call:
    """A function to run, and what its `ctx` knows."""

    name: str
    # loader, task, asset, check, hook, model or materialization
    type: str
    root: Path
    # How it is imported from `python/`, or the file of a materialisation, `materializations/x.py`.
    module: str
    function: str
    run_id: str
    target: str
    vars: Mapping[str, Any] = field(default_factory=dict)
    # What ctx.relation("x") gives: the quoted name in SQL, by every spelling that may be used.
    relations: Mapping[str, str] = field(default_factory=dict)
    # What ctx.ref("x") reads: a relation at the pinned version, as it stands after FROM.
    pinned: Mapping[str, str] = field(default_factory=dict)
    # The node's own options: columns, mode, key, severity …
    options: Mapping[str, Any] = field(default_factory=dict)
    # What only nodes of this type have: `results` of hooks; all attributes of a materialisation's ctx.
    extra: Mapping[str, Any] = field(default_factory=dict)
    timeout: float | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a call."""

    status: Literal["ok", "skipped", "failed"]
    # JSON, or nothing.
    payload: str = ""
    metadata: str = ""
    skip_mode: Literal["", "soft", "hard"] = ""
    reason: str = ""
    error: SqbError | None = None
    # Arrow IPC files of the rows that a loader gave, in their order, all with one schema; none is nothing new. A column
    # without any value has Arrow's type null.
    files: tuple[Path, ...] = ()
    # The global temporary view of a Spark DataFrame that was given.
    view: str = ""
    used_spark: bool = False


def build_call(
    context: NodeContext, type: str, module: str, function: str, called: Mapping[str, str], extra: Mapping[str, Any]
) -> Call:
    """The call of a function that makes a model's rows; `called` are the names by which it may read others."""
    live, pinned = context.live, context.pinned
    return Call(
        name=context.node.name,
        type=type,
        root=context.root,
        module=module,
        function=function,
        run_id=context.run_id,
        target=context.project.target,
        vars=context.project.variables,
        relations={name: live(node_name) for name, node_name in called.items()},
        pinned={name: pinned(meant) for name, meant in called.items()},
        extra=extra,
    )


@contextmanager
def run_child(call: Call, serve: Serve, stop: threading.Event, log: Log) -> Iterator[Answer]:
    """Run a function in a child of its own; what it hands over stays until the caller is done with it.

    `serve` answers what only the build knows: "spark", "result_of", "last_result", "changes"; "ended" tells it that a
    child which used Spark is gone, and "loss" asks for the message where Spark itself is gone. `log` gets lines that
    begin with the node's name.
    """
    folder = Path(tempfile.mkdtemp(prefix="sqb-node-"))
    try:
        child = ChildProcess(call, folder, serve, stop, log)
        try:
            yield child.run()
        finally:
            child.end()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def run_with_retries(
    call: Call, serve: Serve, stop: threading.Event, log: Log, retries: int = 0, delay: float = 0.0
) -> Iterator[Answer]:
    """Run a function, again when it failed and may be tried again; gives the answer of the last attempt."""
    for attempt in range(1, retries + 2):
        with ExitStack() as running:
            answer = running.enter_context(run_child(call, serve, stop, log))
            if attempt > retries or not _can_retry(answer):
                yield answer
                return
        assert answer.error is not None
        pause = f" in {format_seconds(delay)}" if delay else ""
        why = answer.error.message.splitlines()[0]
        log(f"{call.name}: attempt {attempt} of {retries + 1} failed: {why}; trying again{pause}")
        if stop.wait(delay):
            yield replace(answer, error=_build_interrupted())
            return


def _can_retry(answer: Answer) -> bool:
    """Whether a second attempt could end otherwise: not without Spark, or where the project must be changed first."""
    return answer.status == "failed" and not isinstance(answer.error, Interrupted | ProjectError | SparkDisconnected)


class ChildProcess:
    """One process, from its start to its end."""

    def __init__(self, call: Call, folder: Path, serve: Serve, stop: threading.Event, log: Log) -> None:
        self._call, self._folder, self._serve, self._stop = call, folder, serve, stop
        self._output = ChildOutput(call.name, log)
        self._served: list[SqbError] = []
        # Whether it has asked for Spark, and got it.
        self._used_spark = self._has_spark = False
        # When the node's own code began, and how long it has waited for Spark to start since.
        self._started_at: float | None = None
        self._waited_seconds = 0.0
        # Where its function is defined.
        self._at: At | None = None
        self._answer: Message | None = None
        self._lines = LineDecoder()
        # Whether the pipe carried something that is not a message of sqb.
        self._is_garbled = False
        self._is_ended = False
        self._closing = threading.Event()
        self._drain_thread: threading.Thread | None = None
        self._start()

    def _start(self) -> None:
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        try:
            self._process = subprocess.Popen(
                # Without -P, the project's folder would come before everything that is installed.
                [sys.executable, "-P", "-m", "sqb.python_runtime.worker", str(theirs_in), str(theirs_out)],
                cwd=self._call.root,
                env=build_child_environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(theirs_in, theirs_out),
                start_new_session=True,
            )
        except OSError as error:
            os.close(ours_in)
            os.close(ours_out)
            raise NodeEnded(f"the process of {self._call.name} could not be started: {error.strerror}") from error
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        self._in, self._out = ours_in, ours_out
        assert self._process.stdout is not None
        self._printed = self._process.stdout.fileno()
        for descriptor in (self._in, self._printed):
            os.set_blocking(descriptor, False)

    # --- while it runs --------------------------------------------------------------------------------------------

    def run(self) -> Answer:
        """Listen until the child has answered, ended, or must be stopped."""
        try:
            return self._listen()
        except Interrupted as error:
            return self._build_failure(error)

    def _listen(self) -> Answer:
        self._send(_encode_call(self._call, self._folder))
        with selectors.DefaultSelector() as selector:
            selector.register(self._in, selectors.EVENT_READ, self._read_messages)
            selector.register(self._printed, selectors.EVENT_READ, self._read_output)
            while True:
                if self._stop.is_set():
                    raise _build_interrupted()
                if self._is_overdue():
                    return self._build_timeout()
                if self._has_spark and (loss := self._serve("loss", {})) is not None:
                    # A child that waits for an answer of Spark's would wait for ever.
                    loss.at = loss.at or self._at
                    return self._build_failure(loss)
                # Asked before its pipe is looked at: what it said last may come between the two.
                gone = self._process.poll() is not None
                ready = [key for key, _ in selector.select(0 if gone else _TICK)]
                for key in ready:
                    if not key.data():
                        selector.unregister(key.fileobj)
                if self._answer is not None:
                    return self._build_answer(self._answer)
                silent = gone and not any(key.fd == self._in for key in ready)
                if self._in not in selector.get_map() or silent:
                    return self._build_lost()

    def _is_overdue(self) -> bool:
        limit = self._call.timeout
        if limit is None or self._started_at is None:
            return False
        return time.monotonic() - self._started_at - self._waited_seconds > limit

    def _read_output(self) -> bool:
        """Read some of what was printed; False when there will be no more."""
        try:
            data = os.read(self._printed, _CHUNK)
        except BlockingIOError:
            return True
        self._output.feed(data)
        return bool(data)

    def _read_messages(self) -> bool:
        try:
            data = os.read(self._in, _CHUNK)
        except BlockingIOError:
            return True
        messages = self._lines.feed(data)
        while True:
            try:
                message = next(messages, None)
            except ValueError:
                self._is_garbled = True
                return False
            if message is None:
                return bool(data)
            self._handle_message(message)

    def _handle_message(self, message: Message) -> None:
        if BEGAN in message:
            self._started_at = time.monotonic()
        elif FOUND in message:
            self._at = decode_place(message[FOUND])
        elif ASK in message:
            self._reply(message[ASK], message["arguments"])
        elif ANSWER in message:
            self._answer = message[ANSWER]

    def _reply(self, request: str, arguments: Mapping[str, Any]) -> None:
        requested_at = time.monotonic()
        self._used_spark = self._used_spark or request == "spark"
        try:
            reply: Message = {"value": self._serve(request, arguments)}
            self._has_spark = self._has_spark or request == "spark"
        except Interrupted:
            raise
        except SqbError as error:
            self._served.append(error)
            reply = {"error": encode_error(error), "served": len(self._served) - 1}
        if request == "spark":
            # Waiting for Spark to start does not count as the node's run time.
            self._waited_seconds += time.monotonic() - requested_at
        self._send(reply)

    def _send(self, message: Message) -> None:
        with suppress(BrokenPipeError):  # it has ended, which is seen elsewhere
            write_all(self._out, encode_message(message))

    # --- how it ended ---------------------------------------------------------------------------------------------

    def _build_answer(self, answer: Message) -> Answer:
        if answer.get("view"):
            self._drain_thread = threading.Thread(target=self._drain_in_background, name="node-output", daemon=True)
            self._drain_thread.start()
        else:
            self._drain(_EXIT_SECONDS)
        return Answer(
            status=answer["status"],
            payload=answer.get("payload", ""),
            metadata=answer.get("metadata", ""),
            skip_mode=answer.get("skip_mode", ""),
            reason=answer.get("reason", ""),
            error=self._parse_error(answer),
            files=tuple(map(Path, answer.get("files", ()))),
            view=answer.get("view", ""),
            used_spark=self._used_spark,
        )

    def _parse_error(self, answer: Message) -> SqbError | None:
        if answer["status"] != "failed":
            return None
        if "served" in answer:
            error = self._served[answer["served"]]
            error.at = error.at or decode_place(answer["at"])
            return error
        if "check" in answer:
            return _build_check_failure(self._call, answer["check"])
        return decode_error(answer["error"])

    def _build_failure(self, error: SqbError) -> Answer:
        self._kill()
        self._drain(0)
        return Answer("failed", error=error, used_spark=self._used_spark)

    def _build_timeout(self) -> Answer:
        with suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGUSR1)
        until = time.monotonic() + _STACK_SECONDS
        while not (stack := self._read_stack()).endswith("\n") and time.monotonic() < until:
            time.sleep(0.01)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)
        self._drain(_TERMINATE_SECONDS)
        error = NodeTimedOut(
            f"{self._call.name} was stopped: it took longer than {format_seconds(self._call.timeout or 0.0)}",
            at=find_dump_place(stack, self._call.root) or self._at,
            hint="that is where it was; give it more time with `timeout`, or find out what it waits for",
        )
        return self._build_failure(error)

    def _build_lost(self) -> Answer:
        """The child is gone, or can no longer speak, without an answer."""
        self._drain(_EXIT_SECONDS)
        code = self._process.poll()
        at = find_dump_place(self._read_stack(), self._call.root) or self._at
        name = self._call.name
        if self._started_at is None:
            last = self._output.last or "it printed nothing"
            return self._build_failure(NodeEnded(f"the process of {name} did not start: {last}"))
        hint: str | None
        if self._is_garbled or code is None or code == EXIT_CANNOT_ANSWER:
            message = f"{name} closed the pipe through which it answers, or wrote to it"
            hint = "close and use only descriptors that you opened"
        elif code < 0:
            message, hint = f"{name} was ended by signal {-code} ({_format_signal(-code)})", _SIGNAL_HINTS.get(-code)
        else:
            message = f"{name} ended by itself with code {code} before it returned"
            hint = "something called os._exit, or a library ended the process; return from the function instead"
        return self._build_failure(NodeEnded(message, at=at, hint=hint))

    def _read_stack(self) -> str:
        try:
            return (self._folder / STACK_FILE).read_text(errors="replace")
        except OSError:
            return ""

    # --- ending it ------------------------------------------------------------------------------------------------

    def _drain(self, seconds: float) -> None:
        """Go on reading what is printed until the process has ended, at most for some seconds."""
        until = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._printed, selectors.EVENT_READ)
            while self._process.poll() is None and time.monotonic() < until:
                if selector.select(0.02) and not self._read_output():
                    with suppress(subprocess.TimeoutExpired):
                        self._process.wait(max(0.0, until - time.monotonic()))
                    break
            # What it left behind in the pipe; a process that it started may still hold the other end.
            while selector.select(0) and self._read_output() and time.monotonic() < until + _EXIT_SECONDS:
                pass
        self._output.close()

    def _drain_in_background(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._printed, selectors.EVENT_READ)
            while not self._closing.is_set():
                if selector.select(_TICK) and not self._read_output():
                    return

    def _kill(self) -> None:
        """End the process and everything that it started and that did not leave its group."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def end(self) -> None:
        """Let the child end, or end it; a second call does nothing."""
        if self._is_ended:
            return
        self._is_ended = True
        self._closing.set()
        if self._drain_thread is not None:
            self._drain_thread.join()
            self._send({DONE: True})
            self._drain(_EXIT_SECONDS)
        self._kill()
        if self._used_spark:
            with suppress(Exception):  # what it may still do in Spark is not worth more than its answer
                self._serve("ended", {"view": self._answer.get("view", "") if self._answer else ""})
        for descriptor in (self._in, self._out):
            os.close(descriptor)
        if self._process.stdout is not None:
            self._process.stdout.close()


_SIGNAL_HINTS: Mapping[int, str] = {
    signal.SIGKILL: "the system ends processes that way when memory runs out: load or hold less at once",
    signal.SIGSEGV: "code that is not Python's crashed: a package that it uses does not fit this system",
}


def _format_signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"


def _build_interrupted() -> Interrupted:
    return Interrupted("the build was interrupted")


def _encode_call(call: Call, folder: Path) -> Message:
    return {
        "name": call.name,
        "type": call.type,
        "root": str(call.root),
        "folder": str(folder),
        "module": call.module,
        "function": call.function,
        "run_id": call.run_id,
        "target": call.target,
        "vars": dict(call.vars),
        "relations": dict(call.relations),
        "pinned": dict(call.pinned),
        "options": dict(call.options),
        "extra": dict(call.extra),
    }


def _build_check_failure(call: Call, result: Mapping[str, Any]) -> CheckFailed:
    violations, examples = result["violations"], result["examples"]
    message = result["message"] or format_row_count(violations, "violates it", "violate it")
    at = decode_place(result["at"])
    error = CheckFailed(message, at=at, evidence=tuple(format_examples(examples, (), violations)))
    error.finding = {
        "check": call.name,
        "role": "check",
        "severity": call.options.get("severity", "error"),
        "message": message,
        "file": at.file if at else None,
        "line": at.line if at else None,
        "column": at.column if at else None,
        "violations": violations,
        "rows": examples,
    }
    return error
