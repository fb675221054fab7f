"""Several processes read a large project; what comes of it is the same."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from sqb.cache import forks
from sqb.errors.base import SqbError, flatten
from sqb.sql.analysis import parse
from sqb.sql.analysis.cache import AnalysisCache
from sqb.workspace import compile_workspace
from unit.folders import write

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

MACRO = """
def twice(text):
    with open({!r}, "a") as calls:
        calls.write("x")
    return f"({{text}} * 2)"
"""


def write_models(root: Path, count: int = 9) -> Path:
    models = {f"models/m{n}.sql": f"-- @kind: view\nSELECT id + {n} AS id FROM things\n" for n in range(count)}
    return write(root, {"seeds/things.csv": "id\n1\n", **models})


def compile_with(root: Path, processes: int, monkeypatch: pytest.MonkeyPatch) -> tuple[object, AnalysisCache]:
    monkeypatch.setattr(forks, "count_processes", lambda models: processes)
    analyses = AnalysisCache(root / "none.json", "")
    return compile_workspace(root, None, analyses), analyses


def test_the_project_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write_models(tmp_path)
    parsed: list[str] = []
    read = parse.read_query_with_outline

    def count(text: str, forced: dict[int, str]) -> object:
        parsed.append(text)
        return read(text, forced)

    monkeypatch.setattr(parse, "read_query_with_outline", count)
    alone, of_one = compile_with(root, 1, monkeypatch)
    assert len(parsed) == 9
    parsed.clear()
    together, of_three = compile_with(root, 3, monkeypatch)
    assert together == alone
    # Only its own share is parsed by this process.
    assert len(parsed) == 3
    assert of_three.used_entries == of_one.used_entries
    assert of_three.outlines == of_one.outlines


def test_mistakes_are_told_as_by_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write(write_models(tmp_path), {"models/m2.sql": "SELECT id, FROM things\n", "models/m8.sql": "SELEC 1\n"})
    messages = []
    for processes in (1, 3):
        with pytest.raises(SqbError) as caught:
            compile_with(root, processes, monkeypatch)
        messages.append([(str(e.at), e.message, e.hint) for e in flatten(caught.value)])
    assert messages[0] == messages[1]
    assert len(messages[0]) == 2


def test_macros_run_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = tmp_path / "calls"
    root = write(
        write_models(tmp_path / "project"),
        {"macros/own.py": MACRO.format(str(calls)), "models/m8.sql": "SELECT @twice('id') AS id FROM things\n"},
    )
    compile_with(root, 3, monkeypatch)
    assert calls.read_text() == "x"


def test_a_fork_that_ends_early_is_made_up_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, own = write_models(tmp_path), os.getpid()
    alone, _ = compile_with(root, 1, monkeypatch)
    read = parse.read_query_with_outline

    def die_elsewhere(text: str, forced: dict[int, str]) -> object:
        if os.getpid() != own:
            os._exit(3)
        return read(text, forced)

    processes: list[int] = []
    start = forks._start_fork

    def record(*arguments: Any) -> Any:
        fork = start(*arguments)
        processes.append(fork.process)
        return fork

    monkeypatch.setattr(forks, "_start_fork", record)
    monkeypatch.setattr(parse, "read_query_with_outline", die_elsewhere)
    together, _ = compile_with(root, 3, monkeypatch)
    assert together == alone
    assert len(processes) == 2
    for process in processes:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)


def test_small_projects_and_one_core_are_read_by_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("threading.active_count", lambda: 1)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1, 2, 3}, raising=False)
    assert [forks.count_processes(models) for models in (0, 100, 130, 2000)] == [1, 1, 2, 4]
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0}, raising=False)
    assert forks.count_processes(2000) == 1
    monkeypatch.setattr("threading.active_count", lambda: 2)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1}, raising=False)
    assert forks.count_processes(2000) == 1
