"""The versions that table functions tell of themselves, asked in a process of their own. Nothing here starts Java."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from sqb.build.observe import Look
from sqb.compiled_sources import DeclaredSource
from sqb.plan.freshness import versioned
from sqb.plan.observed import Standing
from sqb.workspace import Workspace

# Longer than anybody wants to wait for a plan.
WAIT_SECONDS = 60.0


def with_function_versions(workspace: Workspace, look: Look, names: Iterable[str]) -> Look:
    """The look with the versions of the table functions among these sources; what is not told is noted as that."""
    known = (workspace.project.sources.get(name) for name in names)
    asked = [s for s in known if s is not None and s.function is not None and s.function.versioned]
    if not asked:
        return look
    relations, untold = dict(look.observed.relations), dict(look.observed.untold)
    for name, answer in ask_versions(workspace.root, asked).items():
        if "version" in answer:
            source = workspace.project.sources[name]
            relations[source.relation] = Standing(version=versioned(answer["version"]))
        else:
            untold[name] = f"{name}() does not tell its version: {answer['error']}"
    return replace(look, observed=replace(look.observed, relations=relations, untold=untold))


def ask_versions(
    root: Path, sources: Iterable[DeclaredSource], wait: float = WAIT_SECONDS
) -> dict[str, Mapping[str, str]]:
    """What each table function says: its `version`, or the `error` that kept it from saying it."""
    asked = [[s.name, s.function.file, s.function.symbol] for s in sources if s.function is not None]
    child = subprocess.Popen(
        # The folder that one happens to be in is no place to import from.
        [sys.executable, "-P", "-m", "sqb.project.tell_versions"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=root,
        text=True,
        start_new_session=True,
    )
    ended = ""
    try:
        answers, _ = child.communicate(json.dumps({"root": str(root), "functions": asked}), wait)
    except subprocess.TimeoutExpired:
        with suppress(OSError):
            os.killpg(child.pid, signal.SIGKILL)
        answers, _ = child.communicate()
        ended = f"it takes longer than {wait:g} seconds"
    except BaseException:
        with suppress(OSError):
            os.killpg(child.pid, signal.SIGKILL)
        raise
    found: dict[str, Mapping[str, str]] = {}
    for line in (answers or "").splitlines():
        name, answer = json.loads(line)
        found[name] = answer
    ended = ended or f"its process ended without an answer (exit code {child.returncode})"
    return {name: found.get(name, {"error": ended}) for name, _, _ in asked}
