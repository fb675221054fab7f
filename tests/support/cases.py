"""Behaviours as folders: a project, and the steps of a story in which every build says exactly what it did.

A case is a folder with `project/` (models as a user writes them) and `steps.yml`. A step does one thing:

    build: {select: …, exclude: …, force: …, full_refresh: …, target: …, vars: …, env: …, fail_fast: …,
            start_cursor: …, end_cursor: …, allow_data_loss: …}
    plan: the same options; nothing is run
    sql: statements on the lake, from outside
    write: {file: text}      edit: {file: {old: new}}      remove: file      touch: file      copy: {from: to}

and then says what is true after it:

    ran: nothing, or every node that ran with its reason; `, identical` after it when its output did not change;
         then how it ran, `, incremental`, `, full`, `, backfill` or `, reuse`, where that matters;
         where more is to be said, {reason: …, run_type: …, detail: …, rows: …}
    would_run: (after `plan`) every node that would run, with its reason
    skipped: nodes that were skipped, with what is said about it (others may be skipped too)
    failed: every node that failed, with code, place and words of its error
    blocked: every node that is blocked, with what is said about it
    errors: the errors of the project, with code, place and words; then nothing else happened
    tests: every unit test that ran, `passed` or `failed`
    warnings: the plan's warnings      warnings_like: how they begin, one by one
    notices: words of what the build said besides, []: nothing
    rows: the rows of relations     columns: their columns with types     answers: queries with their rows
    there, not_there: relations of the catalog

A node that ran and is not listed, or is listed and did not run, is an error of the case.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from sqb.build.events import NodeDone
from sqb.build.result import BuildResult
from sqb.errors.base import SqbError, flatten
from sqb.plan.model import Plan
from sqb.plan.refresh.choose import FOLLOWED_REASONS
from sqb.project.models.kinds import FOLLOWING_KINDS
from support.sandbox import Sandbox, environment, ordered_rows, plain_value

_ACTIONS = ("build", "plan", "sql", "write", "edit", "remove", "touch", "copy")
_EXPECTATIONS = (
    "ran",
    "would_run",
    "skipped",
    "failed",
    "blocked",
    "errors",
    "tests",
    "warnings",
    "warnings_like",
    "notices",
    "rows",
    "columns",
    "answers",
    "there",
    "not_there",
)


# What only the rows tell, once changes are being followed.
FOUND_OUT = (
    "a key may have come back",
    "an average over numbers too large to add up exactly",
    "its columns changed",
    "its columns or layout changed",
    "the removed rows are not the current ones",
    "the smallest or largest value of a group left",
)


def run_case(folder: Path, sandbox: Sandbox) -> None:
    """Go through a case's steps; the first that does not hold ends it."""
    shutil.copytree(folder / "project", sandbox.folder, dirs_exist_ok=True)
    story = yaml.safe_load((folder / "steps.yml").read_text())
    assert set(story) == {"about", "steps"}, "a case says what it is about and has steps"
    for number, step in enumerate(story["steps"], 1):
        unknown = [key for key in step if key not in (*_ACTIONS, *_EXPECTATIONS)]
        assert not unknown, f"step {number}: {unknown} is no action and no expectation"
        _Step(sandbox, step, f"step {number} ({', '.join(k for k in step if k in _ACTIONS)})").take()


class _Step:
    def __init__(self, sandbox: Sandbox, step: Mapping[str, Any], name: str) -> None:
        self.sandbox, self.step, self.name = sandbox, step, name

    def take(self) -> None:
        for action in (key for key in self.step if key in _ACTIONS):
            getattr(self, f"_{action}")(self.step[action])
        self._check_lake()

    def _is(self, what: str, actual: Any, expected: Any) -> None:
        assert actual == expected, f"{self.name}: {what} is {actual!r}, not {expected!r}"

    # --- actions --------------------------------------------------------------------------------------------------

    def _sql(self, text: str | Sequence[str]) -> None:
        for statement in _statements(text):
            self.sandbox.sql(statement)

    def _write(self, files: Mapping[str, str]) -> None:
        for path, text in files.items():
            self.sandbox.write(path, text)

    def _edit(self, files: Mapping[str, Mapping[str, str]]) -> None:
        for path, changes in files.items():
            for old, new in changes.items():
                self.sandbox.edit(path, old, new)

    def _remove(self, paths: str | Sequence[str]) -> None:
        for path in [paths] if isinstance(paths, str) else paths:
            self.sandbox.remove(path)

    def _touch(self, path: str) -> None:
        os.utime(self.sandbox.folder / path)

    def _copy(self, files: Mapping[str, str]) -> None:
        for source, target in files.items():
            (self.sandbox.folder / target).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(self.sandbox.folder / source, self.sandbox.folder / target)

    def _plan(self, options: Mapping[str, Any] | None) -> None:
        given = dict(options or {})
        with environment(given.pop("env", {})):
            try:
                plan = self.sandbox.plan(**given)
            except SqbError as error:
                return self._check_errors(error)
        assert "would_run" in self.step, f"{self.name}: a plan says what would run"
        expected = _listed(self.step["would_run"])
        self._is("what would run", {n.name: str(n.reason) for n in plan.nodes if n.action == "run"}, expected)
        self._check_blocked({n.name: f"{n.reason}: {n.detail}" for n in plan.nodes if n.action == "blocked"})
        self._check_warnings(plan)

    def _build(self, options: Mapping[str, Any] | None) -> None:
        given = dict(options or {})
        whole = not given.keys() & {"select", "exclude", "end_cursor"}
        if "during" in given:
            given["announce"] = self._meanwhile(given.pop("during"))
        with environment(given.pop("env", {})):
            try:
                result = self.sandbox.build(**given)
            except SqbError as error:
                return self._check_errors(error)
            assert "errors" not in self.step, f"{self.name}: there are no errors"
            self._check_build(result)
            again = {k: v for k, v in given.items() if k in ("target", "vars")}
            if result.ok and whole and "announce" not in given:
                left = [n for n in self.sandbox.plan(**again).nodes if n.action != "skip"]
                # Loaders run in every build, and what is below them waits for what they bring.
                surely = [n.name for n in left if n.type != "loader" and not n.pending]
                self._is("what the next build would do", surely, [])
                self._is("the unit tests that the next build would run", self.sandbox.due_tests(**again), [])

    def _meanwhile(self, during: Mapping[str, str]) -> Any:
        """Statements that somebody else runs when the build has come to a step."""

        def announce(step: str, node: str) -> None:
            if step == during["step"] and node == during.get("node", node):
                self._sql(during["sql"])

        return announce

    # --- what is true then ----------------------------------------------------------------------------------------

    def _check_build(self, result: BuildResult) -> None:
        by_status: dict[str, dict[str, NodeDone]] = {"ok": {}, "skipped": {}, "failed": {}, "blocked": {}}
        for node in result.nodes:
            by_status[node.status][node.planned.name] = node
        self._check_failed(by_status["failed"])
        assert "ran" in self.step, f"{self.name}: a build says what ran"
        expected = _listed(self.step["ran"])
        expected = {n: _with_run_type(e) for n, e in expected.items()}
        short = {n: e["reason"] if isinstance(e, dict) else e for n, e in expected.items()}
        self._is("what ran", {n: describe_run(d) for n, d in by_status["ok"].items()}, short)
        for name, more in ((n, e) for n, e in expected.items() if isinstance(e, dict)):
            for key in more.keys() - {"reason"}:
                self._is(f"the {key} of {name}", getattr(by_status["ok"][name], key), more[key])
        self._check_refreshes(by_status["ok"])
        skipped = {n: d.detail for n, d in by_status["skipped"].items()}
        for name, detail in self.step.get("skipped", {}).items():
            self._is(f"the detail of the skipped {name}", skipped.get(name, "not skipped"), detail)
        self._check_blocked({n: f"{d.planned.reason}: {d.detail}" for n, d in by_status["blocked"].items()})
        self._is("the unit tests that ran", {t.test.name: t.status for t in result.tests}, self.step.get("tests", {}))
        self._check_warnings(result.plan)
        messages = self.sandbox.notices
        if self.step.get("notices") == []:
            self._is("what the build said", messages, [])
        for words in self.step.get("notices", []):
            assert any(words in notice for notice in messages), f"{self.name}: the build said {messages}, not {words!r}"
        tried = any(done.skip for done in by_status["skipped"].values())
        if not by_status["ok"] and not by_status["failed"] and not result.tests and not tried:
            assert not result.spark_started, f"{self.name}: Spark was started for nothing"
        self._is("stages left behind", self.sandbox.stages(), [])

    def _check_refreshes(self, ran: Mapping[str, NodeDone]) -> None:
        for name, item, planned in list_surprises(ran):
            self._is(f"how {name} ran", item, planned)

    def _check_failed(self, failed: Mapping[str, NodeDone]) -> None:
        by_name = {n: str(d.error) for n, d in failed.items()}
        expected = self.step.get("failed", {})
        assert by_name.keys() == expected.keys(), f"{self.name}: failed are {by_name}, not {expected}"
        for name, wanted in expected.items():
            assert failed[name].error is not None
            self._check_error(failed[name].error, wanted)  # type: ignore[arg-type]

    def _check_error(self, error: SqbError, wanted: Mapping[str, str]) -> None:
        assert wanted.keys() <= {"code", "at", "says", "hint"}, f"{self.name}: {wanted}"
        self._is("the code of the error", (error.code, error.message), (wanted["code"], error.message))
        if "at" in wanted:
            self._is("the place of the error", str(error.at), wanted["at"])
        for key, text in (("says", error.message), ("hint", error.hint or "")):
            assert wanted.get(key, "") in text, f"{self.name}: the error says {text!r}, not {wanted[key]!r}"

    def _check_errors(self, error: SqbError) -> None:
        if "errors" not in self.step:
            raise error
        items = list(flatten(error))
        wanted = self.step["errors"]
        assert len(items) == len(wanted), f"{self.name}: the errors are {[str(e) for e in items]}"
        for one, expected in zip(items, wanted, strict=True):
            self._check_error(one, expected)

    def _check_blocked(self, matches: Mapping[str, str]) -> None:
        expected = self.step.get("blocked", {})
        assert matches.keys() == expected.keys(), f"{self.name}: blocked are {matches}, not {expected}"
        for name, text in expected.items():
            assert text in matches[name], f"{self.name}: {name} is blocked by {matches[name]!r}, not {text!r}"

    def _check_warnings(self, plan: Plan) -> None:
        if "warnings_like" in self.step:
            pairs = zip(plan.warnings, self.step["warnings_like"], strict=True)
            assert all(messages.startswith(like) for messages, like in pairs), (
                f"{self.name}: the warnings are {plan.warnings}"
            )
            return
        self._is("the warnings of the plan", list(plan.warnings), self.step.get("warnings", []))

    def _check_lake(self) -> None:
        for relation, rows in self.step.get("rows", {}).items():
            self._is(f"the content of {relation}", self.sandbox.rows(relation), _rows(rows))
        for relation, columns in self.step.get("columns", {}).items():
            self._is(f"the shape of {relation}", self.sandbox.columns(relation), columns)
        for query, rows in self.step.get("answers", {}).items():
            self._is(f"the answer to {query}", ordered_rows(self.sandbox.sql(query)), _rows(rows))
        if "there" in self.step or "not_there" in self.step:
            current = set(self.sandbox.relations())
            self._is("what is missing", [r for r in self.step.get("there", []) if r not in current], [])
            self._is("what should be gone", [r for r in self.step.get("not_there", []) if r in current], [])


def list_surprises(ran: Mapping[str, NodeDone]) -> list[tuple[str, tuple[str, str], tuple[str, str]]]:
    """Nodes that were not refreshed or rebuilt as their plan said: the run type and the reason, found and planned.

    Nothing is said of those above which something ran: their plan was made before that.
    """
    surprises = []
    for name, done in ran.items():
        planned = done.planned
        is_decided = planned.reason in FOLLOWED_REASONS and planned.run_type in ("full", "incremental")
        if not is_decided or planned.kind not in FOLLOWING_KINDS or planned.pending:
            continue
        if planned.incremental is None or planned.incremental["class"] == "changes" or ran.keys() & planned.upstream:
            continue
        if planned.run_type == "incremental" and explain_rebuild(done) in FOUND_OUT:
            continue
        pair = (done.run_type, explain_rebuild(done))
        expected = (planned.run_type, planned.incremental["why"] if planned.run_type == "full" else "")
        if pair != expected:
            surprises.append((name, pair, expected))
    return surprises


def describe_run(done: NodeDone) -> str:
    """Why a node ran, as steps have it."""
    if done.identical:
        assert done.rows == 0, f"{done.planned.name} is identical but says that it wrote {done.rows} rows"
        return f"{done.planned.reason}, identical"
    return str(done.planned.reason)


def explain_rebuild(done: NodeDone) -> str:
    """Why a node was not brought up to date from changes, in the words of its plan."""
    whys = (done.detail.partition(f"; {words}: ")[2] for words in ("rebuilt", "compared in full"))
    return next((why.removeprefix("the query is opaque: ") for why in whys if why), "")


def _with_run_type(expected: Any) -> Any:
    """`Source changed, incremental` says the reason and how it ran."""
    if isinstance(expected, str):
        reason, _, run_type = expected.rpartition(", ")
        if run_type in ("incremental", "full", "backfill", "reuse"):
            return {"reason": reason, "run_type": run_type}
    return expected


def _listed(nodes: Mapping[str, Any] | str) -> dict[str, Any]:
    """`nothing`, or names with reasons."""
    if isinstance(nodes, str):
        assert nodes == "nothing", f"`{nodes}` is not `nothing`"
        return {}
    return dict(nodes)


def _rows(rows: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    return ordered_rows([[plain_value(value) for value in row] for row in rows])


def _statements(text: str | Sequence[str]) -> list[str]:
    if not isinstance(text, str):
        return list(text)
    return [statement.strip() for statement in text.split(";\n") if statement.strip().rstrip(";")]
