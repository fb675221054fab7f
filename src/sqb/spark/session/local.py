"""Starting Spark, handing out sessions and ending it. Nothing that Spark says ever reaches the terminal."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext, java_gateway
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sqb.errors.base import SqbError
from sqb.errors.lake import LakeUnreadable
from sqb.errors.spark import JarsUnavailable, SparkDidNotStart
from sqb.project.config.connections.lake_location import LakeLocation
from sqb.project.config.connections.model import Connection, resolve_spark
from sqb.project.config.session_settings import LEGACY
from sqb.spark.connect.mode import is_connect_mode
from sqb.spark.private_api import (
    attach_gateway,
    forget_accumulators,
    forget_gateway,
    has_spark,
    remove_setting,
    watch_launches,
)
from sqb.spark.session.catalog_conf import is_secret, list_packages
from sqb.spark.session.class_archive import add_archive, compute_archive_path, is_mapped, remove_archive
from sqb.spark.session.conf import build_session_conf, get_master
from sqb.spark.session.heartbeat import Heartbeat
from sqb.spark.session.jars import (
    FETCHING,
    FETCHING_MORE,
    PACKAGES,
    build_jar_conf,
    is_fetch_failure,
    is_local,
    list_unresolved,
)
from sqb.spark.session.java import Java, find_java
from sqb.spark.session.java_options import JAVA_OPTIONS, LAUNCHER_OPTIONS, Compiler, is_plain_java
from sqb.spark.session.logging import silence_loggers
from sqb.spark.session.reachability import build_lost_cluster_error, is_standalone, refuse_unreachable, start_heartbeat
from sqb.spark.session.request_archive import request_archive
from sqb.spark.session.versions import read_spark_version, refuse_unknown_spark

_SECONDS_TO_END = 5.0
_SECONDS_TO_CANCEL = 5.0
_TROUBLE = re.compile(
    r"\b(error|exception|unrecognized|invalid|could not|failed|denied)\b|Exception|Error", re.IGNORECASE
)
_LAUNCHER_VARIABLE = "SPARK_LAUNCHER_OPTS"
_CRASH = "A fatal error has been detected by the Java Runtime Environment"
_CRASH_CODES = tuple(-number for number in (signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS))
_ANNOUNCES = "Error occurred during initialization of VM"
_EMPTY_TROUBLE = ("could not create the java virtual machine", "a fatal exception has occurred", "\tat ")
# Every process that was launched and not seen to end.
_LAUNCHED: list[subprocess.Popen[bytes]] = []
_CLASS_NAME = re.compile(r"\b(?:[a-z][a-z0-9_]*\.)+[A-Z]\w*(?:Exception|Error)\b:?\s*")


class ClassicEngine:
    """A Spark of the build's own: one process, one context, a session per worker; executors may be on a cluster."""

    def __init__(self, session: SparkSession, process: subprocess.Popen[bytes] | None, scratch: Path) -> None:
        self._session = session
        self._process = process
        self._scratch = scratch
        self._ending = threading.Lock()
        self._stopped = False
        self._heartbeat: Heartbeat | None = None
        self._build_loss: Callable[[], SqbError] | None = None
        self._lost = False
        self._after_stop: Callable[[], object] | None = None

    def call_after_stop(self, call: Callable[[], object]) -> None:
        """Have something done when Spark has ended, which never fails."""
        self._after_stop = call

    def start_heartbeat(self, connection: str, master: str) -> None:
        """Give up when the cluster's masters cannot be reached any more."""
        self._build_loss = lambda: build_lost_cluster_error(connection, master)
        self._heartbeat = start_heartbeat(master, self._give_up)

    def _give_up(self) -> None:
        self._lost = True
        self._cancel()

    def worker_session(self) -> SparkSession:
        """A session of its own for one worker: settings and temporary views are not shared."""
        return self._session.newSession()

    @property
    def pid(self) -> int:
        """The number of Spark's process; 0 when another process started it."""
        return self._process.pid if self._process is not None else 0

    @property
    def exit_code(self) -> int | None:
        """What Spark's process ended with; None while it is there."""
        return self._process.poll() if self._process is not None else None

    def alive(self) -> bool:
        """Whether Spark's process is there, and its cluster."""
        return not self._stopped and not self._lost and (self._process is None or self._process.poll() is None)

    def loss(self) -> SqbError | None:
        """The message about a cluster that is gone; of a process nothing is known beyond that."""
        return self._build_loss() if self._build_loss is not None and self._lost else None

    def cancel_all(self) -> None:
        """Cancel whatever runs; safe in a signal handler, even while the interrupted thread waits for Spark."""
        if not self.alive():
            return
        # The thread that was interrupted may be in the middle of a call on its own connection to Spark.
        helper = threading.Thread(target=self._cancel, name="sqb-cancel", daemon=True)
        helper.start()
        helper.join(_SECONDS_TO_CANCEL)

    def _cancel(self) -> None:
        with contextlib.suppress(Exception):
            self._session.sparkContext.cancelAllJobs()

    def stop(self, seconds: float = _SECONDS_TO_END) -> None:
        """End Spark and its process, which is killed after `seconds`; a second call does nothing."""
        with self._ending:
            if self._stopped:
                return
            self._stopped = True
            if self._heartbeat is not None:
                self._heartbeat.end()
            with contextlib.suppress(Exception), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if self._process is None or self._process.poll() is None:
                    _stop_context(self._session)
            forget_gateway()
            if self._process is not None:
                _end_process(self._process, seconds)
            shutil.rmtree(self._scratch, ignore_errors=True)
            if self._after_stop is not None:
                self._after_stop()


def start_engine(
    connection: Connection,
    place: LakeLocation,
    log_path: Path,
    progress: Callable[[str], None],
    concurrency: int,
    compiler: Compiler = "full",
) -> ClassicEngine:
    """Start Spark on the lake; all that it prints goes to `log_path`. The compiler is chosen by how much it will do."""
    refuse_unknown_spark(read_spark_version())
    _refuse_second_spark()
    java = find_java()
    master = get_master(connection)
    if is_standalone(master):
        refuse_unreachable(connection.name, master)
    silence_loggers()
    # Where Spark puts files of its own; the lake and the user's folder stay clean.
    scratch = Path(tempfile.mkdtemp(prefix="sqb-spark-"))
    conf = build_session_conf(connection, place, scratch, concurrency, compiler)
    packages = list_packages(place)
    if build_jar_conf(master, connection.spark.conf, packages).needs_fetch:
        progress(FETCHING if packages == PACKAGES else FETCHING_MORE)
    hidden = frozenset(resolve_spark(connection).from_environment)
    if is_standalone(master):
        engine = _start(conf, hidden, scratch, log_path)
        engine.start_heartbeat(connection.name, master)
        return engine
    return _start_with_archive(java, conf, hidden, scratch, log_path, is_plain_java(connection.spark.conf))


def launch_engine(conf: dict[str, str], scratch: Path, log_path: Path) -> ClassicEngine:
    """Start Spark with these settings and no others."""
    _refuse_second_spark()
    silence_loggers()
    return _start(conf, frozenset(), scratch, log_path)


def _start_with_archive(
    java: Java, conf: dict[str, str], hidden: frozenset[str], scratch: Path, log_path: Path, is_plain: bool
) -> ClassicEngine:
    """Start Spark with its class archive; without one where there is none, and then one is made for the next start."""
    archived = add_archive(java, conf)
    if archived == conf:
        engine = _start(conf, hidden, scratch, log_path)
        engine.call_after_stop(lambda: request_archive(java, conf))
        return engine
    try:
        engine = _start(archived, hidden, scratch, log_path)
    except SparkDidNotStart as error:
        if _CRASH not in error.message:
            raise
        # Java trusts an archive; one that was damaged on the disk makes it crash.
        remove_archive(java, conf)
        return _start(conf, hidden, scratch, log_path)
    engine.call_after_stop(lambda: _remove_harmful_archive(engine, java, conf))
    path = compute_archive_path(java, conf)
    if is_plain and path is not None and not is_mapped(path, engine.pid):
        # Java refused it, and no option of the user's is the reason: it is made anew.
        remove_archive(java, conf)
    return engine


def _remove_harmful_archive(engine: ClassicEngine, java: Java, conf: dict[str, str]) -> None:
    """Remove an archive whose Java crashed in the middle of the work."""
    if engine.exit_code in _CRASH_CODES:
        remove_archive(java, conf)


def _refuse_second_spark() -> None:
    """PySpark has one Spark in a process."""
    if has_spark() or is_connect_mode():
        raise SparkDidNotStart(
            "this Python process uses a Spark already, and PySpark cannot start another beside it",
            hint="hand the session in, `sqb.build(project, spark=spark)`, or stop it first",
        )


def _start(conf: dict[str, str], hidden: frozenset[str], scratch: Path, log_path: Path) -> ClassicEngine:
    launched: list[subprocess.Popen[bytes]] = []

    def note(process: subprocess.Popen[bytes]) -> None:
        # Whoever gives up waiting for it must be able to end it.
        launched.append(process)
        _LAUNCHED.append(process)

    log_size = _get_size(log_path)
    try:
        with _open_log(log_path) as log, watch_launches(note), _launch_quickly():
            gateway = _launch(_set_crash_report_folder(log_path.parent, conf), hidden, log)
        with _preserve_interrupt_handler(), _use_this_python(conf["spark.master"]):
            session = _connect(conf, gateway)
    except BaseException as error:
        forget_gateway()
        for process in launched:
            _end_process(process)
        shutil.rmtree(scratch, ignore_errors=True)
        if isinstance(error, PySparkException | Py4JError | OSError) and not isinstance(error, SqbError):
            raise _explain_start_failure(error, _read_since(log_path, log_size), log_path) from error
        raise
    return ClassicEngine(session, gateway.proc, scratch)


def _set_crash_report_folder(folder: Path, conf: dict[str, str]) -> dict[str, str]:
    """A Java that crashes leaves its report beside the log, not in the user's working directory."""
    options = f'-XX:-CreateCoredumpOnCrash "-XX:ErrorFile={folder}/java_crash_%p.log"'
    return {**conf, JAVA_OPTIONS: f"{conf.get(JAVA_OPTIONS, '')} {options}".strip()}


def _launch(conf: dict[str, str], hidden: frozenset[str], log: IO[bytes]) -> Any:
    spark_conf = SparkConf(loadDefaults=False)
    for key, value in conf.items():
        # All of this can be seen by whoever lists processes; what the context alone needs is told to it later.
        if not key.startswith("spark.sql.") and key not in hidden and not is_secret(key, value):
            spark_conf.set(key, value)
    return java_gateway.launch_gateway(spark_conf, {"stdout": log, "stderr": log})  # type: ignore[no-untyped-call]


@atexit.register
def _kill_launched_processes() -> None:
    for process in _LAUNCHED:
        if process.poll() is None:
            process.kill()


def _connect(conf: dict[str, str], gateway: Any) -> SparkSession:
    attach_gateway(gateway)
    spark_conf = SparkConf(loadDefaults=True)
    _remove_legacy_flags(spark_conf)
    for key, value in conf.items():
        spark_conf.set(key, value)
    context = SparkContext(conf=spark_conf, gateway=gateway)
    return SparkSession(context)


def _remove_legacy_flags(defaults: SparkConf) -> None:
    """Let flags of spark-defaults.conf for the behaviour of older versions not decide about rows."""
    for key, _ in defaults.getAll():
        if key.startswith(LEGACY):
            remove_setting(defaults, key)


@contextlib.contextmanager
def _open_log(path: Path) -> Iterator[IO[bytes]]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = open(path, "ab")  # noqa: SIM115 - the errors of opening are ours, those of the body are not
    except OSError as error:
        raise LakeUnreadable(f"cannot write Spark's log to {path}", hint="check the permissions of .sqb") from error
    with file:
        yield file


@contextlib.contextmanager
def _preserve_interrupt_handler() -> Iterator[None]:
    """Undo the SIGINT handler that Spark's context installs: what Ctrl-C does is the caller's business."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before if before is not None else signal.SIG_DFL)


@contextlib.contextmanager
def _use_this_python(master: str) -> Iterator[None]:
    """Let Python functions in SQL run on this very Python; any other may be of another version."""
    if not is_local(master) or "PYSPARK_PYTHON" in os.environ:
        yield
        return
    os.environ["PYSPARK_PYTHON"] = sys.executable
    try:
        yield
    finally:
        del os.environ["PYSPARK_PYTHON"]


@contextlib.contextmanager
def _launch_quickly() -> Iterator[None]:
    """Let the Java that only puts Spark's command together not compile well, unless the user says how it is to be."""
    if _LAUNCHER_VARIABLE in os.environ:
        yield
        return
    os.environ[_LAUNCHER_VARIABLE] = LAUNCHER_OPTIONS
    try:
        yield
    finally:
        del os.environ[_LAUNCHER_VARIABLE]


def _stop_context(session: SparkSession) -> None:
    forget_accumulators(session.sparkContext)
    session.stop()


def _end_process(process: subprocess.Popen[bytes], seconds: float = _SECONDS_TO_END) -> None:
    """End Spark's process: it ends by itself when its input closes, and is killed when it does not."""
    with contextlib.suppress(OSError):
        if process.stdin is not None:
            process.stdin.close()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    with contextlib.suppress(ValueError):
        _LAUNCHED.remove(process)


def _explain_start_failure(error: Exception, log: str, log_path: Path) -> SqbError:
    if is_fetch_failure(log):
        return JarsUnavailable(
            f"{' and '.join(list_unresolved(log)) or 'jars that Spark needs'} could not be fetched",
            hint="check the connection to the internet (only the first run needs it), or set `spark.jars.ivy` in"
            f" the connection's `conf` to a folder that has the jars; Spark's log is {log_path}",
        )
    return SparkDidNotStart(f"Spark did not start: {_find_failure_line(log, error)}", hint=f"Spark's log is {log_path}")


def _get_size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _read_since(path: Path, offset: int) -> str:
    with contextlib.suppress(OSError), open(path, "rb") as file:
        file.seek(offset)
        return file.read().decode(errors="replace")
    return ""


def _find_failure_line(log: str, error: Exception) -> str:
    """The line of a log that says why Spark ended: the deepest cause, else the first that speaks of trouble."""
    lines = [line for line in log.splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by:")]
    announced = [after for line, after in itertools.pairwise(lines) if line.startswith(_ANNOUNCES)]
    troubles = [line for line in lines if _TROUBLE.search(line) and not any(e in line.lower() for e in _EMPTY_TROUBLE)]
    cause = (causes[-1:] or announced[:1] or troubles[:1] or lines[-1:] or [str(error)])[0]
    cause = cause.removeprefix("Caused by:").removeprefix('Exception in thread "main"')
    return _CLASS_NAME.sub("", cause).strip()
