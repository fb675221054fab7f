"""`sqb load`: loaders alone."""

from __future__ import annotations

from pathlib import Path

from sqb.cli.build import open_project, run_build
from sqb.errors.call import CallError
from sqb.names import suggest_nearest


def run_load(
    names: tuple[str, ...],
    concurrency: int | None,
    fail_fast: bool,
    project_dir: Path,
    target: str | None,
    variables: str | None,
    as_json: bool,
    verbose: bool,
    debug: bool,
    virtual_env: str | None = None,
    take_over: bool = False,
) -> int:
    """Run the loaders that are named, or all; nothing that reads their sources."""
    loaders = open_project(project_dir, target, variables).project.loaders
    if not loaders:
        raise CallError("the project has no loaders", hint="a loader is a function in python/ with @loader(source=…)")
    # A loader is called by its own name or by that of the source it fills.
    known = {**{name: name for name in loaders.values()}, **loaders}
    for name in names:
        if name not in known:
            raise CallError(f'no loader is called "{name}"', hint=suggest_nearest(name, known))
    chosen = sorted({known[name] for name in names} or loaders.values())
    return run_build(
        project_dir=project_dir,
        target=target,
        variables=variables,
        select=tuple(f"loader:{name}" for name in chosen),
        exclude=(),
        force=False,
        full_refresh=False,
        start_cursor=None,
        end_cursor=None,
        concurrency=concurrency,
        fail_fast=fail_fast,
        store_failures=False,
        as_json=as_json,
        verbose=verbose,
        debug=debug,
        virtual_env=virtual_env,
        take_over=take_over,
    )
