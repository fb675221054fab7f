"""A random project in which something is not exact, made small, and written as a case of `tests/cases`.

Fewer models, then fewer tables, builds, statements and rows: each try builds what is left in a lake of its own, and
is kept when the same model is wrong in the same way.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from support.cases import describe_run
from support.exactness import NotExact, World, list_needed
from support.random_lake import Model, without_qualify
from support.sandbox import PROJECT_FILE, SandboxMaker, ordered_rows

_MADE = ("CREATE NAMESPACE", "CREATE TABLE")
_ROWS = " UNION ALL "


@dataclass(frozen=True, slots=True)
class RandomProject:
    """All that is needed to build it again: its settings, models, and the statements before each build."""

    settings: str
    models: tuple[Model, ...]
    steps: tuple[tuple[str, ...], ...]


def take_project(world: World) -> RandomProject:
    """The project of a world, with all that was done to it."""
    settings = (world.sandbox.folder / PROJECT_FILE).read_text()
    return RandomProject(settings, tuple(world.models.values()), tuple(map(tuple, world.steps)))


def shrink_project(
    project: RandomProject, error: NotExact, new_sandbox: SandboxMaker, tries: int
) -> tuple[RandomProject, NotExact]:
    """A smaller project that fails in the same way."""
    is_found = True
    while is_found and tries > 0:
        is_found = False
        for smaller in _list_smaller(project, error.model):
            tries -= 1
            failed = _replay(smaller, new_sandbox)[0]
            if failed is not None and (failed.model, failed.kind) == (error.model, error.kind):
                project, error, is_found = smaller, failed, True
                break
            if tries <= 0:
                break
    return project, error


def _list_smaller(project: RandomProject, model: str) -> Iterator[RandomProject]:
    named = {m.name: m for m in project.models}
    needed = [named[name] for name in list_needed(named, model)]
    read = {name for m in needed for name in m.reads}
    tables = {s.split()[2] for step in project.steps for s in step if s.startswith("CREATE TABLE")}
    unread = tables - read
    steps = tuple(tuple(s for s in step if not any(t in s for t in unread)) for step in project.steps)
    if len(needed) < len(project.models) or unread:
        yield replace(project, models=tuple(needed), steps=steps)
    for number in range(len(project.steps) - 2, 0, -1):
        # A build less: what was done before it is done before the next one, or not at all.
        before, after = project.steps[:number], project.steps[number + 1 :]
        yield replace(project, steps=(*before, *after))
        yield replace(project, steps=(*before, (*project.steps[number], *after[0]), *after[1:]))
    for number, step in enumerate(project.steps):
        for index, statement in enumerate(step):
            if not statement.startswith(_MADE):
                yield _with_step(project, number, (*step[:index], *step[index + 1 :]))
    for number, step in enumerate(project.steps):
        for index, statement in enumerate(step):
            for fewer in _list_fewer_rows(statement):
                yield _with_step(project, number, (*step[:index], fewer, *step[index + 1 :]))


def _with_step(project: RandomProject, number: int, step: tuple[str, ...]) -> RandomProject:
    return replace(project, steps=(*project.steps[:number], step, *project.steps[number + 1 :]))


def _list_fewer_rows(statement: str) -> Iterator[str]:
    """An INSERT of random rows with half of them, and with one less."""
    if not statement.startswith("INSERT"):
        return
    start = statement.index("SELECT ")
    rows = statement[start:].split(_ROWS)
    if len(rows) > 3:
        yield statement[:start] + _ROWS.join(rows[: len(rows) // 2])
        yield statement[:start] + _ROWS.join(rows[len(rows) // 2 :])
    for i in range(len(rows) if len(rows) > 1 else 0):
        yield statement[:start] + _ROWS.join((*rows[:i], *rows[i + 1 :]))


def _replay(project: RandomProject, new_sandbox: SandboxMaker) -> tuple[NotExact | None, list[dict[str, Any]]]:
    """What goes wrong, and the steps of a case: what each build ran, and the rows that there must be after it."""
    told: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        sandbox = new_sandbox(Path(folder) / "project")
        try:
            sandbox.write(PROJECT_FILE, project.settings)
            world = World(sandbox)
            for model in project.models:
                world.add(model)
            for step in project.steps:
                for statement in step:
                    world.do(statement)
                try:
                    world.build()
                except NotExact as error:
                    told.append(_tell_step(world, step))
                    return error, told
                told.append(_tell_step(world, step))
        except NotExact:
            raise
        except Exception:
            # A statement that no longer has what it changes: nothing is said about sqb.
            return None, told
        finally:
            sandbox.close()
    return None, told


def _tell_step(world: World, statements: Sequence[str]) -> dict[str, Any]:
    assert world.result is not None
    ran = {
        n.planned.name: f"{describe_run(n)}, {n.run_type}" for n in world.result.nodes if n.status in ("ok", "failed")
    }
    plain = [m for m in world.models.values() if m.kind not in ("view", "append", "scd2")]
    wanted = {m.name: ordered_rows(world.sandbox.sql(without_qualify(m.query.sql))) for m in plain}
    rows = {name: [list(row) for row in item] for name, item in wanted.items()}
    step = {"sql": list(statements)} if statements else {}
    return {**step, "build": None, "ran": ran or "nothing", "rows": rows}


def render_case(project: RandomProject, new_sandbox: SandboxMaker, about: str) -> str:
    """The files of a case: its models, and its steps with the rows that a rebuild gives."""
    error, steps = _replay(project, new_sandbox)
    parts = [f"== project/{PROJECT_FILE}\n{project.settings}"]
    parts += [f"== project/models/{m.name.replace('.', '/')}.sql\n{m.text}" for m in project.models]
    parts.append("== steps.yml\n" + yaml.safe_dump({"about": about, "steps": steps}, sort_keys=False, width=120))
    return "\n".join(parts) + (f"\n== what is wrong\n{error}" if error is not None else "")
