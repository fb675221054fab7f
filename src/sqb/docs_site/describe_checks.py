"""Checks as the document has them, with their results by run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqb.checks.model import Check
from sqb.compile.python.model import PythonNode


def describe_check(check: Check, runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A check, how it last ended, and in each run, oldest first, how many rows violated it."""
    about = {"text": check.text, "name": check.name, "role": check.role, "description": check.description}
    place = {"columns": list(check.columns), "file": check.at.file, "line": check.at.line}
    return about | {"severity": "error" if check.is_blocking else "warn"} | place | list_results(check.text, runs)


def describe_python_check(node: PythonNode, runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A check that is a function, as if it were written in a header."""
    about = {"text": node.name, "name": node.name, "role": "check", "description": node.description}
    severity = str(node.settings.get("severity") or "error")
    place = {"columns": [], "file": node.file, "line": node.at.line}
    return about | {"severity": severity} | place | list_results(node.name, runs)


def list_results(text: str, runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """How a check last ended, and how in each run that ran it, oldest first."""
    results = [_judge_check(text, run) for run in runs if run["status"] in ("ok", "failed")]
    results = [result for result in results if result is not None]
    return {"last": results[0] if results else None, "results": list(reversed(results))}


def _judge_check(text: str, run: Mapping[str, Any]) -> dict[str, Any] | None:
    """How a check ended in a run; None where that is not known, as the run failed for another reason."""
    match = next((f for f in run["failures"] if f["check"] == text), None)
    if match is not None:
        status = "failed" if match["severity"] == "error" else "warned"
        shown = {"message": match["message"], "violations": match["violations"]}
        return {"run": run["run"], "at": run["at"], "status": status, **shown}
    # Rows that another environment has built were checked there.
    if run["run_type"] == "reuse" or (run["status"] == "failed" and not run["failures"]):
        return None
    return {"run": run["run"], "at": run["at"], "status": "passed", "message": "", "violations": 0}


def add_tests_of_columns(columns: list[dict[str, Any]], checks: Sequence[Check]) -> None:
    by_name = {column["name"].lower(): column for column in columns}
    for check in checks:
        for name in check.columns:
            if name.lower() in by_name:
                by_name[name.lower()]["tests"].append(check.text)
