"""Failures of a build as people read them: all of a few, and of fifty what fits on one screen."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from sqb.build.events import NodeDone
from sqb.console.failures import format_failures
from sqb.console.live import Listener
from sqb.console.style import Paint
from sqb.errors.build import BuildError
from sqb.names import At, Relation
from sqb.plan.model import PlannedNode, Reason

SCREEN = 50


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("FORCE_COLOR", raising=False)


def failed(number: int, message: str, hint: str = "mend it", status: str = "failed") -> NodeDone:
    name = f"marts.m_{number:03d}"
    reason = Reason.UPSTREAM_CHANGED if status == "failed" else Reason.UPSTREAM_FAILED
    planned = PlannedNode(name, "model", "table", Relation.parse(name), "run", "full", reason)
    error = BuildError(message, at=At(f"models/{name}.sql", 3, 1), hint=hint) if status == "failed" else None
    detail = "" if status == "failed" else "upstream marts.m_000 failed"
    return NodeDone(planned, status, "full", detail, error=error)  # type: ignore[arg-type]


def lines(nodes: list[NodeDone], root: Path, verbose: bool = False) -> list[str]:
    return list(format_failures(nodes, root, verbose, Paint(io.StringIO())))


def test_a_few_are_explained_in_full(tmp_path: Path) -> None:
    shown = lines([failed(1, "no space"), failed(2, "no such column")], tmp_path)
    assert shown == [
        "",
        "marts.m_001:",
        f"error[{BuildError.code}]: models/marts.m_001.sql:3:1: no space",
        "hint: mend it",
        "",
        "marts.m_002:",
        f"error[{BuildError.code}]: models/marts.m_002.sql:3:1: no such column",
        "hint: mend it",
    ]


def test_fifty_different_ones_fit_on_one_screen(tmp_path: Path) -> None:
    nodes = [failed(i, f"row {i} is wrong\n" + "\n".join(f"line {n}" for n in range(30))) for i in range(50)]
    shown = lines(nodes, tmp_path)
    assert len(shown) <= SCREEN
    assert sum("more lines" in line for line in shown) == 3
    assert "47 more nodes failed, for 47 reasons:" in shown
    assert f"  {BuildError.code} marts.m_003: row 3 is wrong" in shown
    assert shown[-1] == "  … and 27 more; -v explains each of them"


def test_what_is_said_of_many_places_is_said_once(tmp_path: Path) -> None:
    nodes = [failed(i, "the partition column is gone" if i % 2 else "no such function") for i in range(50)]
    shown = lines(nodes, tmp_path)
    assert len(shown) <= 25
    assert shown[-4:] == [
        "47 more nodes failed, for 2 reasons:",
        f"  {BuildError.code} marts.m_003, marts.m_005, marts.m_007 and 21 more: the partition column is gone",
        f"  {BuildError.code} marts.m_004, marts.m_006, marts.m_008 and 20 more: no such function",
        "  -v explains each of them",
    ]


def test_verbose_explains_each(tmp_path: Path) -> None:
    shown = lines([failed(i, f"row {i} is wrong") for i in range(50)], tmp_path, verbose=True)
    assert sum(line.startswith("error[") for line in shown) == 50 and "-v" not in "".join(shown)


def test_one_error_of_all_is_printed_once(tmp_path: Path) -> None:
    nodes = [failed(i, "x") for i in range(9)]
    same = BuildError("Java was not found", hint="install it")
    for node in nodes:
        object.__setattr__(node, "error", same)
    assert lines(nodes, tmp_path) == [
        "",
        "marts.m_000, marts.m_001, marts.m_002 and 6 more:",
        f"error[{BuildError.code}]: Java was not found",
        "hint: install it",
    ]


@pytest.mark.parametrize(("verbose", "count"), [(False, 21), (True, 200)])
def test_many_nodes_below_a_failure(verbose: bool, count: int) -> None:
    stream = io.StringIO()
    with Listener(stream, 250, verbose=verbose) as listener:
        for i in range(200):
            listener(failed(i, "", status="blocked"))
    shown = stream.getvalue().splitlines()
    assert len(shown) == count
    assert shown[0] == "[SKIP] marts.m_000 (upstream marts.m_000 failed)"
    assert verbose or shown[-1] == "[SKIP] 180 more nodes below what failed"
