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

from sqb.build.checks.report import rows, table
from sqb.build.child_output import Output
from sqb.errors import CheckFailed, Interrupted, ProjectError, SqbError
from sqb.errors_connections import SparkDisconnected
from sqb.errors_python import NodeEnded, NodeTimedOut
from sqb.names import At, human_seconds
from sqb.project.discovery_process import child_environment
from sqb.python_nodes.channel import (
    ANSWER,
    ASK,
    BEGAN,
    DONE,
    FOUND,
    SPEECHLESS,
    STACK_FILE,
    Lines,
    Message,
    encoded,
    error_data,
    error_from,
    place_from,
    write_all,
)
from sqb.python_nodes.places import place_in_dump

if TYPE_CHECKING:
    from sqb.build.turn import Turn

Serve = Callable[[str, Mapping[str, Any]], Any]
Log = Callable[[str], None]

_TICK = 0.1
_CHUNK = 1 << 16
_SECONDS_TO_TELL = 0.3
_SECONDS_TO_OBEY = 1.0
_SECONDS_TO_END = 2.0


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


def call_of(
    turn: Turn, type: str, module: str, function: str, called: Mapping[str, str], extra: Mapping[str, Any]
) -> Call:
    """The call of a function that makes a model's rows; `called` are the names by which it may read others."""
    live, pinned = turn.live, turn.pinned
    return Call(
        name=turn.node.name,
        type=type,
        root=turn.root,
        module=module,
        function=function,
        run_id=turn.run_id,
        target=turn.project.target,
        vars=turn.project.variables,
        relations={name: live(meant) for name, meant in called.items()},
        pinned={name: pinned(meant) for name, meant in called.items()},
        extra=extra,
    )


@contextmanager
def run_child(call: Call, serve: Serve, stop: threading.Event, log: Log) -> Iterator[Answer]:
    """Run a function in a child of its own; what it hands over stays until the caller is done with it.

    `serve` answers what only the build knows: "spark", "result_of", "last_result", "changes"; "ended" tells it that a
    child which used Spark is gone, and "loss" asks what is said where Spark itself is gone. `log` gets lines that
    begin with the node's name.
    """
    folder = Path(tempfile.mkdtemp(prefix="sqb-node-"))
    try:
        child = Child(call, folder, serve, stop, log)
        try:
            yield child.run()
        finally:
            child.end()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def with_retries(
    call: Call, serve: Serve, stop: threading.Event, log: Log, retries: int = 0, delay: float = 0.0
) -> Iterator[Answer]:
    """Run a function, again when it failed and may be tried again; gives the answer of the last attempt."""
    for attempt in range(1, retries + 2):
        with ExitStack() as running:
            answer = running.enter_context(run_child(call, serve, stop, log))
            if attempt > retries or not _may_succeed(answer):
                yield answer
                return
        assert answer.error is not None
        pause = f" in {human_seconds(delay)}" if delay else ""
        why = answer.error.message.splitlines()[0]
        log(f"{call.name}: attempt {attempt} of {retries + 1} failed: {why}; trying again{pause}")
        if stop.wait(delay):
            yield replace(answer, error=_interrupted())
            return


def _may_succeed(answer: Answer) -> bool:
    """Whether a second attempt could end otherwise: not without Spark, or where the project must be changed first."""
    return answer.status == "failed" and not isinstance(answer.error, Interrupted | ProjectError | SparkDisconnected)


class Child:
    """One process, from its start to its end."""

    def __init__(self, call: Call, folder: Path, serve: Serve, stop: threading.Event, log: Log) -> None:
        self._call, self._folder, self._serve, self._stop = call, folder, serve, stop
        self._output = Output(call.name, log)
        self._served: list[SqbError] = []
        # Whether it has asked for Spark, and got it.
        self._used_spark = self._has_spark = False
        # When the node's own code began, and how long it has waited for Spark to start since.
        self._began: float | None = None
        self._waited = 0.0
        # Where its function is defined.
        self._at: At | None = None
        self._said: Message | None = None
        self._lines = Lines()
        # Whether something came through the pipe that nobody from sqb said.
        self._garbled = False
        self._ended = False
        self._closing = threading.Event()
        self._keeper: threading.Thread | None = None
        self._start()

    def _start(self) -> None:
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        try:
            self._process = subprocess.Popen(
                # Without -P, the project's folder would come before everything that is installed.
                [sys.executable, "-P", "-m", "sqb.python_nodes.worker", str(theirs_in), str(theirs_out)],
                cwd=self._call.root,
                env=child_environment(),
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
            return self._failure(error)

    def _listen(self) -> Answer:
        self._send(_call_data(self._call, self._folder))
        with selectors.DefaultSelector() as selector:
            selector.register(self._in, selectors.EVENT_READ, self._take_messages)
            selector.register(self._printed, selectors.EVENT_READ, self._take_output)
            while True:
                if self._stop.is_set():
                    raise _interrupted()
                if self._is_overdue():
                    return self._timed_out()
                if self._has_spark and (loss := self._serve("loss", {})) is not None:
                    # A child that waits for an answer of Spark's would wait for ever.
                    loss.at = loss.at or self._at
                    return self._failure(loss)
                # Asked before its pipe is looked at: what it said last may come between the two.
                gone = self._process.poll() is not None
                ready = [key for key, _ in selector.select(0 if gone else _TICK)]
                for key in ready:
                    if not key.data():
                        selector.unregister(key.fileobj)
                if self._said is not None:
                    return self._answered(self._said)
                silent = gone and not any(key.fd == self._in for key in ready)
                if self._in not in selector.get_map() or silent:
                    return self._lost()

    def _is_overdue(self) -> bool:
        limit = self._call.timeout
        if limit is None or self._began is None:
            return False
        return time.monotonic() - self._began - self._waited > limit

    def _take_output(self) -> bool:
        """Read some of what was printed; False when there will be no more."""
        try:
            data = os.read(self._printed, _CHUNK)
        except BlockingIOError:
            return True
        self._output.feed(data)
        return bool(data)

    def _take_messages(self) -> bool:
        try:
            data = os.read(self._in, _CHUNK)
        except BlockingIOError:
            return True
        messages = self._lines.feed(data)
        while True:
            try:
                message = next(messages, None)
            except ValueError:
                self._garbled = True
                return False
            if message is None:
                return bool(data)
            self._take(message)

    def _take(self, message: Message) -> None:
        if BEGAN in message:
            self._began = time.monotonic()
        elif FOUND in message:
            self._at = place_from(message[FOUND])
        elif ASK in message:
            self._reply(message[ASK], message["arguments"])
        elif ANSWER in message:
            self._said = message[ANSWER]

    def _reply(self, request: str, arguments: Mapping[str, Any]) -> None:
        asked = time.monotonic()
        self._used_spark = self._used_spark or request == "spark"
        try:
            reply: Message = {"value": self._serve(request, arguments)}
            self._has_spark = self._has_spark or request == "spark"
        except Interrupted:
            raise
        except SqbError as error:
            self._served.append(error)
            reply = {"error": error_data(error), "served": len(self._served) - 1}
        if request == "spark":
            # That Spark has to start first is nobody's running time.
            self._waited += time.monotonic() - asked
        self._send(reply)

    def _send(self, message: Message) -> None:
        with suppress(BrokenPipeError):  # it has ended, which is seen elsewhere
            write_all(self._out, encoded(message))

    # --- how it ended ---------------------------------------------------------------------------------------------

    def _answered(self, said: Message) -> Answer:
        if said.get("view"):
            self._keeper = threading.Thread(target=self._keep_listening, name="node-output", daemon=True)
            self._keeper.start()
        else:
            self._drain(_SECONDS_TO_END)
        return Answer(
            status=said["status"],
            payload=said.get("payload", ""),
            metadata=said.get("metadata", ""),
            skip_mode=said.get("skip_mode", ""),
            reason=said.get("reason", ""),
            error=self._error_in(said),
            files=tuple(map(Path, said.get("files", ()))),
            view=said.get("view", ""),
            used_spark=self._used_spark,
        )

    def _error_in(self, said: Message) -> SqbError | None:
        if said["status"] != "failed":
            return None
        if "served" in said:
            error = self._served[said["served"]]
            error.at = error.at or place_from(said["at"])
            return error
        if "check" in said:
            return _check_failed(self._call, said["check"])
        return error_from(said["error"])

    def _failure(self, error: SqbError) -> Answer:
        self._kill()
        self._drain(0)
        return Answer("failed", error=error, used_spark=self._used_spark)

    def _timed_out(self) -> Answer:
        with suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGUSR1)
        until = time.monotonic() + _SECONDS_TO_TELL
        while not (stack := self._stack()).endswith("\n") and time.monotonic() < until:
            time.sleep(0.01)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)
        self._drain(_SECONDS_TO_OBEY)
        error = NodeTimedOut(
            f"{self._call.name} was stopped: it took longer than {human_seconds(self._call.timeout or 0.0)}",
            at=place_in_dump(stack, self._call.root) or self._at,
            hint="that is where it was; give it more time with `timeout`, or find out what it waits for",
        )
        return self._failure(error)

    def _lost(self) -> Answer:
        """The child is gone, or can no longer speak, without an answer."""
        self._drain(_SECONDS_TO_END)
        code = self._process.poll()
        at = place_in_dump(self._stack(), self._call.root) or self._at
        name = self._call.name
        if self._began is None:
            last = self._output.last or "it said nothing"
            return self._failure(NodeEnded(f"the process of {name} did not start: {last}"))
        hint: str | None
        if self._garbled or code is None or code == SPEECHLESS:
            message = f"{name} closed the pipe through which it answers, or wrote to it"
            hint = "close and use only descriptors that you opened"
        elif code < 0:
            message, hint = f"{name} was ended by signal {-code} ({_signal_name(-code)})", _SIGNAL_HINTS.get(-code)
        else:
            message = f"{name} ended by itself with code {code} before it returned"
            hint = "something called os._exit, or a library ended the process; return from the function instead"
        return self._failure(NodeEnded(message, at=at, hint=hint))

    def _stack(self) -> str:
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
                if selector.select(0.02) and not self._take_output():
                    with suppress(subprocess.TimeoutExpired):
                        self._process.wait(max(0.0, until - time.monotonic()))
                    break
            # What it left behind in the pipe; somebody that it started may still hold the other end.
            while selector.select(0) and self._take_output() and time.monotonic() < until + _SECONDS_TO_END:
                pass
        self._output.close()

    def _keep_listening(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._printed, selectors.EVENT_READ)
            while not self._closing.is_set():
                if selector.select(_TICK) and not self._take_output():
                    return

    def _kill(self) -> None:
        """End the process and everything that it started and that did not leave its group."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def end(self) -> None:
        """Let the child end, or end it; a second call does nothing."""
        if self._ended:
            return
        self._ended = True
        self._closing.set()
        if self._keeper is not None:
            self._keeper.join()
            self._send({DONE: True})
            self._drain(_SECONDS_TO_END)
        self._kill()
        if self._used_spark:
            with suppress(Exception):  # what it may still do in Spark is not worth more than its answer
                self._serve("ended", {"view": self._said.get("view", "") if self._said else ""})
        for descriptor in (self._in, self._out):
            os.close(descriptor)
        if self._process.stdout is not None:
            self._process.stdout.close()


_SIGNAL_HINTS: Mapping[int, str] = {
    signal.SIGKILL: "the system ends processes that way when memory runs out: load or hold less at once",
    signal.SIGSEGV: "code that is not Python's crashed: a package that it uses does not fit this system",
}


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"


def _interrupted() -> Interrupted:
    return Interrupted("the build was interrupted")


def _call_data(call: Call, folder: Path) -> Message:
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


def _check_failed(call: Call, found: Mapping[str, Any]) -> CheckFailed:
    violations, examples = found["violations"], found["examples"]
    message = found["message"] or rows(violations, "violates it", "violate it")
    at = place_from(found["at"])
    error = CheckFailed(message, at=at, evidence=tuple(table(examples, (), violations)))
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
