"""Modules that could not be imported, in words: what failed, where in the project, and the way out."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from sqb.errors.base import Errors
from sqb.errors.python import BadModule
from sqb.names import At, format_seconds, suggest_nearest
from sqb.project.python.discovery_process import SECONDS
from sqb.project.python.function_source import Source, read_source
from sqb.project.python.imports import is_installed


def build_syntax_error(error: Exception, file: str) -> BadModule:
    """A file that is not Python."""
    if not isinstance(error, SyntaxError):
        return BadModule(f"not Python: {error}", at=At(file))
    length = (error.end_offset or 0) - (error.offset or 1) if error.end_lineno == error.lineno else 1
    return BadModule(f"not Python: {error.msg}", at=At(file, error.lineno or 1, error.offset or 1, max(1, length)))


def report_failures(
    failures: Iterable[Mapping[str, Any]],
    root: Path,
    top: Path,
    sources: Mapping[str, Source],
    modules: Mapping[str, str],
    errors: Errors,
) -> None:
    """Report each failure once, at the innermost place in a file of the project."""
    known = {(error.at, error.message) for error in errors.found}
    broken = {error.at.file for error in errors.found if error.at is not None}
    for failure in failures:
        file = os.path.relpath(failure.get("failed") or failure.get("shadowed") or root / "python", root)
        error = (
            _build_shadowed_error(failure, file)
            if "shadowed" in failure
            else _build_failure_error(failure, file, root, top, sources, modules)
        )
        syntax = failure.get("syntax")
        # A module that is not Python was reported when it was read, and fails again in all that import it.
        if syntax and syntax[0] and os.path.relpath(syntax[0], root) in broken:
            continue
        if (error.at, error.message) not in known:
            known.add((error.at, error.message))
            errors.add(error)


def _build_shadowed_error(failure: Mapping[str, Any], file: str) -> BadModule:
    message = f"`import {failure['name']}` finds another module: {failure['by']}"
    return BadModule(message, at=At(file), hint="rename the file: its name is that of a module that Python has already")


def _build_failure_error(
    failure: Mapping[str, Any],
    file: str,
    root: Path,
    top: Path,
    sources: Mapping[str, Source],
    modules: Mapping[str, str],
) -> BadModule:
    frames = [frame for frame in failure["frames"] if _is_project_file(frame[0], root)]
    at = _locate_frame(frames[-1], root, sources) if frames else At(file)
    beneath = _describe_outside(failure, frames, root, top)
    message, kind = str(failure["message"]), str(failure["error"])
    match kind:
        case "ImportTimeout":
            return BadModule(
                f"the import takes longer than {format_seconds(SECONDS)}",
                at=at,
                hint="what takes time belongs in the function of a node, not in the module",
            )
        case "Ended":
            code = failure["code"]
            how = f"exit code {code}" if code >= 0 else f"signal {-code}"
            hint = "what a module does when it is imported must not end the process"
            what = "the process ended while this module was imported" if failure["failed"] else "Python did not start"
            return BadModule(f"{what} ({how})", at=at, hint=hint)
        case "SystemExit":
            hint = 'put what is for the command line below `if __name__ == "__main__":`'
            return BadModule(f"the module ends Python when it is imported (SystemExit: {message})", at=at, hint=hint)
        case "ModuleNotFoundError":
            return _build_missing_error(failure, at, modules, beneath)
        case "ImportError" if "partially initialized module" in message:
            hint = "modules import each other in a circle: import one of them inside of the function that needs it"
            return BadModule(f"{kind}: {message}", at=at, hint=hint)
        case "ImportError":
            name = message.split("'")[1] if message.count("'") >= 2 else ""
            return BadModule(f"{kind}: {message}{beneath}", at=at, hint=suggest_nearest(name, failure.get("names", ())))
    description = f"{kind}: {message}" if message else kind
    hint = "a module is imported before anything is built: what can fail belongs in the function of a node"
    return BadModule(f"{description}{beneath}", at=at, hint=hint)


def _build_missing_error(failure: Mapping[str, Any], at: At, modules: Mapping[str, str], beneath: str) -> BadModule:
    name = str(failure.get("missing") or "")
    known = {*modules, *(n.rpartition(".")[0] for n in modules)} - {""}
    close = suggest_nearest(name, known)
    first = name.partition(".")[0]
    if name in known and first in modules:
        hint = f"{modules[first]} is found where the folder python/{first}/ is meant: rename one of them"
    elif name in known:
        hint = f"a package that is installed has the name of python/{first}/: put an empty __init__.py in that folder"
    elif first in {n.partition(".")[0] for n in known}:
        hint = close or f"modules are found from python/ on: there is no python/{name.replace('.', '/')}.py"
    else:
        hint = f"{close or ''} " if close else ""
        hint += f"install it for the Python that runs sqb: {sys.executable} -m pip install {first}"
    return BadModule(f'there is no module "{name}"{beneath}' if name else str(failure["message"]), at=at, hint=hint)


def _is_project_file(file: str, root: Path) -> bool:
    path = Path(file)
    return path.is_absolute() and path.is_relative_to(root) and not is_installed(path, root)


def _describe_outside(failure: Mapping[str, Any], frames: list[Any], root: Path, top: Path) -> str:
    """Where it failed outside of the project, when that is the team's own code too."""
    if not failure["frames"] or (frames and frames[-1] is failure["frames"][-1]):
        return ""
    for file, line, *_ in reversed(failure["frames"]):
        if _is_project_file(file, top) and not _is_project_file(file, root):
            return f" ({os.path.relpath(file, root)}:{line})"
    return ""


def _locate_frame(frame: list[Any], root: Path, sources: Mapping[str, Source]) -> At:
    path, line, begin, last, end = frame
    file = os.path.relpath(path, root)
    source = sources.get(file) or read_source(file, path)
    if source is None:
        return At(file, line, 1)
    statement = _find_import(source, line)
    if statement is not None:
        return source.locate(statement)
    column = source.compute_column(line, begin)
    until = source.compute_column(line, end) if last == line else len(source.lines[line - 1]) + 1
    return At(file, line, column, max(1, until - column))


def _find_import(source: Source, line: int) -> ast.stmt | None:
    imports = (n for n in ast.walk(source.tree) if isinstance(n, ast.Import | ast.ImportFrom))
    return next((n for n in imports if n.lineno <= line <= (n.end_lineno or n.lineno)), None)
