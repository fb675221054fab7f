"""A node in a process of its own: whatever its code does, the build gets one clear answer."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sqb.build.python.child_process import Answer, Call, run_child, run_with_retries
from sqb.errors.build import CheckFailed, Interrupted
from sqb.errors.connections import SparkDisconnected
from sqb.errors.project import BadValue
from sqb.errors.python import BadReturn, ContextMisuse, NodeEnded, NodeRaised, NodeTimedOut
from sqb.errors.spark import SparkDidNotStart
from sqb.names import At

Serve = Callable[[str, Mapping[str, Any]], Any]


class Project:
    """A project with one module, `nodes`, whose function `f` is run."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.lines: list[str] = []
        self.stop = threading.Event()
        (root / "python").mkdir()

    def call(self, code: str, type: str = "task", **settings: Any) -> Call:
        (self.root / "python" / "nodes.py").write_text(textwrap.dedent(code).lstrip("\n"))
        return Call("n", type, self.root, "nodes", "f", run_id="run-1", target="dev", **settings)

    def run(
        self, code: str, type: str = "task", serve: Serve = lambda request, arguments: None, **settings: Any
    ) -> Answer:
        with run_child(self.call(code, type, **settings), serve, self.stop, self.lines.append) as answer:
            return answer


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@contextmanager
def taking_less_than(seconds: float) -> Iterator[None]:
    began = time.monotonic()
    yield
    assert time.monotonic() - began < seconds


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone_soon(pid: int) -> bool:
    until = time.monotonic() + 3
    while is_alive(pid) and time.monotonic() < until:
        time.sleep(0.02)
    return not is_alive(pid)


# --- what goes well -------------------------------------------------------------------------------------------------


def test_a_function_is_run_in_the_projects_folder_and_its_value_is_the_payload(project: Project) -> None:
    (project.root / "python" / "shared.py").write_text("WORD = 'hello'")
    code = """
        import os, sys
        from shared import WORD

        def f(ctx):
            print(WORD)
            print("and", "this", file=sys.stderr)
            ctx.log.info("%d rows", 3)
            ctx.log.warning("careful")
            ctx.log("short")
            where = os.getcwd()
            os.chdir("/")
            known = {"run": ctx.run_id, "target": ctx.target, "day": ctx.vars["day"]}
            return {"cwd": where, **known, "in": sys.stdin.read()}
    """
    answer = project.run(code, vars={"day": "2026-01-01"})
    assert answer.status == "ok"
    assert json.loads(answer.payload) == {
        "cwd": str(project.root),
        "run": "run-1",
        "target": "dev",
        "day": "2026-01-01",
        "in": "",
    }
    assert project.lines == ["n: hello", "n: and this", "n: 3 rows", "n: warning: careful", "n: short"]
    assert not list(project.root.rglob("__pycache__"))


def test_results_are_recorded_read_and_handed_over(project: Project) -> None:
    code = """
        def f(ctx):
            before = ctx.last_result
            other = ctx.result_of("fetch")
            ctx.result({"was": before, "other": other, "relation": ctx.relation("Orders")}, metadata={"pages": 2})
    """
    asked = []

    def serve(request: str, arguments: Mapping[str, Any]) -> Any:
        asked.append((request, dict(arguments)))
        return {"last_result": {"cursor": 7}, "result_of": [1, None]}[request]

    answer = project.run(code, serve=serve, relations={"orders": "`lake`.`raw`.`orders`"})
    assert asked == [("last_result", {}), ("result_of", {"name": "fetch"})]
    assert json.loads(answer.payload) == {"was": {"cursor": 7}, "other": [1, None], "relation": "`lake`.`raw`.`orders`"}
    assert json.loads(answer.metadata) == {"pages": 2}
    assert not answer.used_spark


def test_hooks_see_the_results_of_the_build(project: Project) -> None:
    code = """
        def f(ctx):
            return [[r.name, r.status, r.rows] for r in ctx.results] + [f.error for f in ctx.failures]
    """
    results = [
        {"name": "a", "type": "model", "status": "ok", "rows": 3, "seconds": 0.1, "error": None},
        {"name": "b", "type": "task", "status": "failed", "rows": None, "seconds": 0.1, "error": "no"},
    ]
    answer = project.run(code, "hook", extra={"results": results})
    assert json.loads(answer.payload) == [["a", "ok", 3], ["b", "failed", None], "no"]


def test_materialisations_are_files_of_their_own_folder(project: Project) -> None:
    folder = project.root / "materializations"
    folder.mkdir()
    (folder / "words.py").write_text("WORD = 'swap'")
    (folder / "swap.py").write_text(
        "from words import WORD\n"
        "def run(ctx):\n    print(WORD, ctx.sql, ctx.relation_name)\n    return ctx.written(rows=2)"
    )
    extra = {"sql": "SELECT 1", "relation_name": "s.t"}
    call = Call(
        "m", "materialization", project.root, "materializations/swap.py", "run", run_id="r", target="t", extra=extra
    )
    with run_child(call, lambda request, arguments: None, project.stop, project.lines.append) as answer:
        assert json.loads(answer.payload) == {"written": True, "rows": 2}
    assert project.lines == ["m: swap SELECT 1 s.t"]


def test_the_function_of_a_node_is_found_where_a_loop_made_many(project: Project) -> None:
    code = """
        from functools import wraps
        from sqb import task

        def twice(function):
            return wraps(function)(lambda ctx: 2 * function(ctx))

        for number, name in enumerate(["m", "n", "o"]):
            @twice
            @task(name=name)
            def f(ctx, number=number):
                return [number]
    """
    call = project.call(code)
    for name, expected in (("n", "[1]"), ("o", "[2, 2]")):
        with run_child(replace(call, name=name), lambda r, a: None, project.stop, project.lines.append) as answer:
            assert answer.payload == expected


def test_asynchronous_functions_and_functions_without_ctx_are_run(project: Project) -> None:
    assert project.run("async def f(ctx):\n    return 1").payload == "1"
    assert project.run("def f():\n    return 2").payload == "2"


@pytest.mark.parametrize(("mode", "expected"), [("", "soft"), (', mode="hard"', "hard")])
def test_a_skip_is_no_exception_that_code_catches_by_the_way(project: Project, mode: str, expected: str) -> None:
    code = f"""
        def f(ctx):
            try:
                ctx.skip("nothing new"{mode})
            except Exception:
                print("caught")
    """
    answer = project.run(code)
    assert (answer.status, answer.skip_mode, answer.reason) == ("skipped", expected, "nothing new")
    assert project.lines == []


# --- what goes wrong ------------------------------------------------------------------------------------------------


def test_an_exception_has_its_place_in_the_project_and_its_traceback_for_debugging(project: Project) -> None:
    code = """
        import json

        def f(ctx):
            é = "ü"; json.loads("{" + é)
    """
    error = project.run(code).error
    assert isinstance(error, NodeRaised)
    assert error.message.startswith("JSONDecodeError: Expecting property name")
    assert error.at == At("python/nodes.py", 4, 14, len('json.loads("{" + é)'))
    assert "json/decoder.py" in str(error.__cause__)


ENDINGS: dict[str, tuple[str, type[Exception], str, int, str]] = {
    "sys.exit": (
        "import sys\ndef f(ctx):\n    sys.exit(0)",
        NodeEnded,
        "sys.exit(0) was called",
        3,
        "a node ends by returning, by raising an exception, or with ctx.skip()",
    ),
    "os._exit": (
        "import os\ndef f(ctx):\n    os._exit(3)",
        NodeEnded,
        "n ended by itself with code 3 before it returned",
        2,
        "something called os._exit, or a library ended the process; return from the function instead",
    ),
    "killed": (
        "import os\ndef f(ctx):\n    os.kill(os.getpid(), 9)",
        NodeEnded,
        "n was ended by signal 9 (SIGKILL)",
        2,
        "the system ends processes that way when memory runs out: load or hold less at once",
    ),
    "crashed": (
        "import ctypes\ndef f(ctx):\n    ctypes.string_at(0)",
        NodeEnded,
        "n was ended by signal 11 (SIGSEGV)",
        3,
        "code that is not Python's crashed: a package that it uses does not fit this system",
    ),
    "interrupted": (
        "import os, signal\ndef f(ctx):\n    os.kill(os.getpid(), signal.SIGINT)",
        NodeRaised,
        "KeyboardInterrupt",
        3,
        "",
    ),
    "import": ("import nowhere\ndef f(ctx): pass", NodeRaised, "ModuleNotFoundError: No module named 'nowhere'", 1, ""),
    "syntax": ("def f(ctx)\n    pass", NodeRaised, "not Python: expected ':'", 1, ""),
    "unprintable": (
        "class E(Exception):\n    def __str__(self): raise self\ndef f(ctx): raise E()",
        NodeRaised,
        "E",
        3,
        "",
    ),
    "pipes closed": (
        "import os\ndef f(ctx):\n    os.closerange(3, 256)",
        NodeEnded,
        "n closed the pipe through which it answers, or wrote to it",
        2,
        "close and use only descriptors that you opened",
    ),
    "pipes written to": (
        "import os\nfrom contextlib import suppress\ndef f(ctx):\n    for d in range(3, 256):\n"
        "        with suppress(OSError): os.write(d, b'x\\n')",
        NodeEnded,
        "n closed the pipe through which it answers, or wrote to it",
        3,
        "close and use only descriptors that you opened",
    ),
    "group": (
        "def f(ctx):\n    raise ExceptionGroup('many', [ValueError('one \\ud800')])",
        NodeRaised,
        "ValueError: one ?",
        1,
        "",
    ),
    "output closed": (
        "import sys\ndef f(ctx):\n    sys.stdout.close()\n    1 / 0",
        NodeRaised,
        "ZeroDivisionError: division by zero",
        4,
        "",
    ),
    "only hooks": ("def f(ctx):\n    ctx.results", NodeRaised, "AttributeError: only a hook has ctx.results", 2, ""),
    "unknown attribute": (
        "def f(ctx):\n    ctx.spak",
        NodeRaised,
        "AttributeError: ctx has no 'spak': did you mean 'spark'?",
        2,
        "",
    ),
    "unknown relation": (
        'def f(ctx):\n    ctx.relation("ordrs")',
        ContextMisuse,
        'no model, seed or source is called "ordrs" here',
        2,
        "did you mean 'orders'?",
    ),
    "unknown mode": (
        'def f(ctx):\n    ctx.skip(mode="sft")',
        ContextMisuse,
        "ctx.skip has no mode 'sft'",
        2,
        "did you mean 'soft'?",
    ),
    "write": (
        "def f(ctx):\n    ctx.write([])",
        ContextMisuse,
        "only a loader has ctx.write, and this is a task",
        2,
        "use ctx.execute to change tables, or ctx.result to record a result",
    ),
}


@pytest.mark.parametrize("case", ENDINGS)
def test_every_end_is_told_apart(project: Project, case: str) -> None:
    code, kind, message, line, hint = ENDINGS[case]
    error = project.run(code, relations={"orders": "`o`"}).error
    assert type(error) is kind
    assert (error.message, error.at.line if error.at else 0, error.hint or "") == (message, line, hint)


def test_a_node_that_hangs_is_ended_with_all_that_it_started(project: Project) -> None:
    code = """
        import signal, subprocess, time

        def f(ctx):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            print(subprocess.Popen(["sleep", "60"]).pid, flush=True)
            while True:
                time.sleep(60)
    """
    error = project.run(code, timeout=0.2).error
    assert isinstance(error, NodeTimedOut)
    assert error.message == "n was stopped: it took longer than 200ms"
    assert error.at == At("python/nodes.py", 7, 9, len("time.sleep(60)"))
    (line,) = project.lines
    assert gone_soon(int(line.removeprefix("n: ")))


def test_waiting_for_spark_is_no_running_time(project: Project) -> None:
    def serve(request: str, arguments: Mapping[str, Any]) -> Any:
        time.sleep(0.3)
        raise SparkDidNotStart("no Java")

    code = """
        def f(ctx):
            try:
                ctx.spark
            except Exception as error:
                return str(error)
    """
    answer = project.run(code, serve=serve, timeout=0.2)
    assert (answer.status, answer.payload) == ("ok", '"error[SQB-E002]: no Java"')


def test_a_node_does_not_wait_for_a_spark_that_is_gone(project: Project) -> None:
    asked: list[str] = []

    def serve(request: str, arguments: Mapping[str, Any]) -> Any:
        asked.append(request)
        # Spark is lent, is there for a while, and is lost.
        return SparkDisconnected("it broke") if request == "loss" and asked.count("loss") > 3 else None

    call = project.call("import time\n\ndef f(ctx):\n    ctx._link.request('spark')\n    time.sleep(60)")
    with taking_less_than(10), run_with_retries(call, serve, project.stop, project.lines.append, 2, 60.0) as answer:
        assert isinstance(answer.error, SparkDisconnected)
        assert str(answer.error.at) == "python/nodes.py:3:5"
    assert project.lines == [] and asked.count("spark") == 1 and asked[-1] == "ended"


def test_an_error_of_the_build_is_the_nodes_error_as_it_is(project: Project) -> None:
    served = SparkDidNotStart("no Java", hint="install it")

    def serve(request: str, arguments: Mapping[str, Any]) -> Any:
        raise served

    answer = project.run("def f(ctx):\n    ctx.spark", serve=serve)
    assert answer.error is served
    assert served.at is not None and served.at.line == 2


def test_a_stopped_build_stops_the_child_at_once(project: Project) -> None:
    threading.Timer(0.3, project.stop.set).start()
    with taking_less_than(2):
        answer = project.run("import time\ndef f(ctx):\n    time.sleep(60)")
    assert isinstance(answer.error, Interrupted)


def test_a_child_does_not_outlive_its_build(project: Project) -> None:
    project.call("""
        import os, re
        def f(ctx):
            print(os.getpid(), flush=True)
            re.match("(a+)+$", "a" * 40 + "b")  # hours, in which no other thread gets a turn
    """)
    code = f"""if True:
        import sys, threading
        from pathlib import Path
        from sqb.build.python.child_process import Call, run_child
        call = Call("n", "task", Path({str(project.root)!r}), "nodes", "f", run_id="r", target="t")
        with run_child(call, lambda r, a: None, threading.Event(), lambda line: print(line, flush=True)):
            pass
    """
    build = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert build.stdout is not None
    pid = int(build.stdout.readline().removeprefix("n: "))
    assert is_alive(pid)
    build.send_signal(signal.SIGKILL)
    build.communicate()
    assert gone_soon(pid)


def test_what_a_node_leaves_running_does_not_hold_it_up(project: Project) -> None:
    code = """
        import os, threading, time

        def f(ctx):
            threading.Thread(target=time.sleep, args=(60,)).start()
            if os.fork() == 0:
                if os.fork() == 0:
                    return "from a fork"
                time.sleep(60)
            return "done"
    """
    with taking_less_than(2):
        answer = project.run(code)
    assert answer.payload == '"done"'
    assert project.lines == ["n: 1 thread still running when n returned: ended with it"]


def test_threads_that_wait_for_work_and_those_of_sparks_client_are_not_told_of(project: Project) -> None:
    code = """
        import threading, time, types
        from concurrent.futures import ThreadPoolExecutor

        pool = ThreadPoolExecutor(2)
        # What Spark's client does when it lets go of answers.
        client = types.ModuleType("pyspark.sql.connect.client.reattach")
        exec("import time\\ndef release(): time.sleep(60)", client.__dict__)

        def f(ctx):
            list(pool.map(abs, range(8)))
            threading.Thread(target=client.release).start()
            time.sleep(0.1)
            return "done"
    """
    assert project.run(code).payload == '"done"'
    assert project.lines == []


def test_ctx_belongs_to_the_nodes_own_process(project: Project) -> None:
    code = """
        import os

        def f(ctx):
            if os.fork() == 0:
                try:
                    ctx.result_of("x")
                except Exception as error:
                    print(error.message, flush=True)
                os._exit(0)
            os.wait()
    """
    assert project.run(code).status == "ok"
    assert project.lines == ["n: ctx was used in another process than the node's own"]


# --- output ---------------------------------------------------------------------------------------------------------


def test_a_flood_is_read_to_its_end_and_cut(project: Project) -> None:
    code = """
        import sys

        def f(ctx):
            sys.stdout.write("x\\n" * 10_100)
            print("y" * 5_000_000)
            return 1
    """
    assert project.run(code).payload == "1"
    assert len(project.lines) == 10_001
    assert project.lines[-1] == "n: … 101 more lines"


def test_what_is_no_text_is_shown_as_such(project: Project) -> None:
    code = r"""
        import os, sys

        def f(ctx):
            os.write(1, b"\xff\x00 bytes\n")
            print("\ud800 half", "\x1b[31mred\x1b[0m")
            print("10 %\r50 %\r100 %")
            print("z" * 3000)
            sys.stdout.write("no end")
    """
    project.run(code)
    assert project.lines[:3] == ["n: �� bytes", "n: \\ud800 half red", "n: 100 %"]
    assert project.lines[3] == "n: " + "z" * 1999 + "…"
    assert project.lines[4] == "n: no end"


# --- values ---------------------------------------------------------------------------------------------------------

VALUES: dict[str, tuple[str, str, str]] = {
    "datetime": (
        "{'rows': [1, {'when': datetime.now()}]}",
        "payload.rows[1].when is a datetime, which JSON does not have",
        "write it as text, .isoformat(), and read it back with fromisoformat()",
    ),
    "decimal": (
        "{'a b': Decimal(1)}",
        "payload['a b'] is a Decimal, which JSON does not have",
        "write it as text, str(…), and read it back with Decimal(…)",
    ),
    "set": ("{1}", "payload is a set, which JSON does not have", "write it as a list: sorted(…)"),
    "nan": ("[float('nan')]", "payload[0] is nan, which JSON does not have", "record None or a text instead"),
    "key": ("{1: 2}", "payload has the key 1, and keys are texts in JSON", "write it as text: str(key)"),
    "circle": ("circle()", "payload[0] contains itself", "JSON has no circles: record plain values"),
    "deep": ("deep()", "payload is nested too deeply", "record plain values, a few levels deep"),
    "object": (
        "object()",
        "payload is an object, which JSON does not have",
        "record None, booleans, numbers, texts, lists and mappings",
    ),
    "large": (
        "'x' * 9_000_000",
        "payload has 9.0 MB as JSON, and at most 8.0 MB are kept",
        "results are for small facts; rows belong in a table",
    ),
    "table": (
        "pa.table({})",
        "a task returned a pyarrow Table",
        "a loader or a model returns rows; this returns a small result, or nothing",
    ),
}
HELPERS = """
from datetime import datetime
from decimal import Decimal

def circle():
    found = []
    found.append(found)
    return found

def deep():
    found = []
    for _ in range(100_000):
        found = [found]
    return found
"""


@pytest.mark.parametrize("case", VALUES)
def test_results_that_cannot_be_kept_say_where_and_what_to_do(project: Project, case: str) -> None:
    written, message, hint = VALUES[case]
    imports = "import pyarrow as pa\n" if case == "table" else ""
    error = project.run(f"{imports}{HELPERS}\ndef f(ctx):\n    return {written}").error
    assert isinstance(error, BadReturn)
    assert (error.message, error.hint) == (message, hint)
    assert error.at is not None and error.at.file == "python/nodes.py"


def test_a_bad_result_is_refused_where_it_is_recorded(project: Project) -> None:
    error = project.run("def f(ctx):\n    x = 1\n    ctx.result({'a': {1}})").error
    assert isinstance(error, BadReturn) and error.at is not None
    assert (error.at.line, error.message) == (3, "payload.a is a set, which JSON does not have")


def test_results_are_read_back_as_they_were(project: Project) -> None:
    code = """
        import numpy as np

        def f(ctx):
            numbers = {"n": np.int64(3), "f": np.float32(0.5), "b": np.bool_(True), "big": 2**70}
            return {**numbers, "t": (1, 2), "s": "\\ud800"}
    """
    document = json.loads(project.run(code).payload)
    assert document == {"t": [1, 2], "n": 3, "f": 0.5, "b": True, "big": 2**70, "s": "\ud800"}


# --- checks ---------------------------------------------------------------------------------------------------------

CHECKS: dict[str, tuple[str, str | None, tuple[str, ...]]] = {
    "nothing": ("None", None, ()),
    "true": ("True", None, ()),
    "no rows": ("[]", None, ()),
    "false": ("False", "it returned False", ()),
    "rows": (
        "[{'id': i, 'name': None} for i in range(7)]",
        "7 rows violate it",
        ("id  name", "0   NULL", "1   NULL", "2   NULL", "3   NULL", "4   NULL", "… and 2 more"),
    ),
    "ragged": ("({'a': 1}, {'b': 2})", "2 rows violate it", ("a  b", "1", "   2")),
    "generator": ("((i, 'x') for i in range(1))", "1 row violates it", ("#1  #2", "0   x")),
}


@pytest.mark.parametrize("case", CHECKS)
def test_checks_pass_or_say_what_violates_them(project: Project, case: str) -> None:
    written, message, evidence = CHECKS[case]
    answer = project.run(f"def f(ctx):\n    return {written}", "check", options={"severity": "warn"})
    if message is None:
        assert answer.status == "ok"
        return
    error = answer.error
    assert isinstance(error, CheckFailed)
    assert (error.message, error.evidence, error.at) == (message, evidence, At("python/nodes.py", 1, 5, 1))
    assert error.finding is not None and error.finding["severity"] == "warn"


def test_an_assertion_is_a_failed_check_and_any_other_exception_is_not(project: Project) -> None:
    failed = project.run("def f(ctx):\n    assert 1 > 2, 'one is less'", "check").error
    assert isinstance(failed, CheckFailed) and failed.at is not None
    assert (failed.message, failed.at.line) == ("one is less", 2)
    assert isinstance(project.run("def f(ctx):\n    1 / 0", "check").error, NodeRaised)
    assert isinstance(project.run("def f(ctx):\n    return 3", "check").error, BadReturn)


# --- retries --------------------------------------------------------------------------------------------------------

COUNTING = """
    from pathlib import Path

    def f(ctx):
        tried = Path("tried")
        number = len(tried.read_text()) if tried.exists() else 0
        tried.write_text("x" * (number + 1))
        {then}
"""


def tried(project: Project, then: str, retries: int, serve: Serve = lambda r, a: None) -> tuple[Answer, int]:
    call = project.call(COUNTING.format(then=then))
    with run_with_retries(call, serve, project.stop, project.lines.append, retries, 0.01) as answer:
        return answer, len((project.root / "tried").read_text())


def test_a_failed_node_is_tried_again_as_often_as_it_may(project: Project) -> None:
    answer, attempts = tried(project, "return number if number == 2 else 1 / 0", 3)
    assert (answer.payload, attempts) == ("2", 3)
    assert project.lines == [
        "n: attempt 1 of 4 failed: ZeroDivisionError: division by zero; trying again in 10ms",
        "n: attempt 2 of 4 failed: ZeroDivisionError: division by zero; trying again in 10ms",
    ]


def test_the_last_failure_is_the_answer(project: Project) -> None:
    answer, attempts = tried(project, "raise ValueError(number)", 1)
    assert answer.error is not None
    assert (answer.error.message, attempts) == ("ValueError: 1", 2)


def test_skips_and_wrong_projects_are_not_tried_again(project: Project) -> None:
    assert tried(project, "ctx.skip()", 2)[1] == 1
    (project.root / "tried").unlink()

    def serve(request: str, arguments: Mapping[str, Any]) -> Any:
        raise BadValue("wrong")

    assert tried(project, "ctx.spark", 2, serve)[1] == 1


def test_no_process_and_no_file_is_left_behind(
    project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "tmp").mkdir()
    before = set(os.listdir("/proc/self/fd"))
    for _ in range(3):
        project.run("def f(ctx):\n    pass")
    assert os.listdir(tmp_path / "tmp") == []
    assert set(os.listdir("/proc/self/fd")) == before
