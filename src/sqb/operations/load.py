"""Loaders alone: those that are named, or all; nothing that reads their sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqb.build.spark_engine import OnDemandSpark
from sqb.compile.model import Project
from sqb.errors.call import CallError
from sqb.names import suggest_nearest
from sqb.operations.build import BuildOptions, BuildOutcome, build_project
from sqb.workspace import Workspace

if TYPE_CHECKING:
    from sqb.operations.build import ListenTo


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """Which loaders run, and how."""

    names: Sequence[str] = ()
    concurrency: int | None = None
    fail_fast: bool = False
    virtual_env: str | None = None
    take_over: bool = False


def load_sources(workspace: Workspace, options: LoadOptions, spark: OnDemandSpark, listen_to: ListenTo) -> BuildOutcome:
    """Run loaders, by their names or by the names of their sources."""
    build_options = BuildOptions(
        select=tuple(f"loader:{name}" for name in _select_loaders(workspace.project, options.names)),
        concurrency=options.concurrency,
        fail_fast=options.fail_fast,
        virtual_env=options.virtual_env,
        take_over=options.take_over,
    )
    return build_project(workspace, build_options, spark, listen_to)


def _select_loaders(project: Project, names: Sequence[str]) -> list[str]:
    loaders = project.loaders
    if not loaders:
        raise CallError("the project has no loaders", hint="a loader is a function in python/ with @loader(source=…)")
    # A loader is called by its own name or by that of the source it fills.
    known = {**{name: name for name in loaders.values()}, **loaders}
    for name in names:
        if name not in known:
            raise CallError(f'no loader is called "{name}"', hint=suggest_nearest(name, known))
    return sorted({known[name] for name in names} or loaders.values())
