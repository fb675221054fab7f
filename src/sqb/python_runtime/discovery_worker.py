"""The child process that discovers Python nodes: it imports every module of `python/` once.

`python -m sqb.python_runtime.discovery_worker <descriptor>`: the request is JSON on standard input, and the answer goes
as lines of JSON to the descriptor, because users' code may print. It knows nothing of projects: `sqb.project.python`
decides whether a node is right, and where it is in its file.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from types import FrameType
from typing import Any

from sqb.decorators import Decoration, decorated, get_decoration

_MAX_DEPTH = 20


class ImportTimeout(BaseException):
    """An import took more time than a module has. Not an `Exception`, so that user code does not catch it."""


def main() -> None:
    """Do what standard input says, and end without waiting for anything that a module left running."""
    task = json.load(sys.stdin)
    with os.fdopen(int(sys.argv[1]), "w", encoding="utf-8") as answer:
        # What is printed is for people to read; the command's own output must stay what it is.
        os.dup2(2, 1)
        sys.dont_write_bytecode = True
        sys.path.insert(0, task["folder"])
        for message in discover(task["modules"], task["seconds"]):
            answer.write(json.dumps(message) + "\n")
            answer.flush()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def discover(modules: Mapping[str, str], seconds: float) -> Iterator[dict[str, Any]]:
    """Import modules (names with their files), and tell which is next, what failed, and in the end what was found."""
    failed: set[str] = set()
    for name, file in modules.items():
        if os.path.realpath(file) in failed:
            continue
        yield {"importing": file}
        try:
            with _limit_time(seconds):
                module = importlib.import_module(name)
        except BaseException as error:
            failed.update(_list_failed_modules(error))
            yield {"failed": file, **_describe_failure(error)}
            continue
        actual = getattr(module, "__file__", None)
        if actual is None or not os.path.samefile(actual, file):
            yield {"shadowed": file, "name": name, "by": actual or "Python itself"}
    yield {
        "nodes": [_describe_node(index, *entry_given) for index, entry_given in enumerate(decorated)],
        "path": [entry for entry in sys.path[1:] if isinstance(entry, str)],
        "loaded": sorted(set(_iter_module_files())),
    }


def _iter_module_files() -> Iterator[str]:
    for module in list(sys.modules.values()):
        # Some modules import others when they are asked for anything.
        file = getattr(module, "__dict__", {}).get("__file__")
        if isinstance(file, str):
            yield os.path.abspath(file)


@contextmanager
def _limit_time(seconds: float) -> Iterator[None]:
    """Let the code inside run for a while only."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise ImportTimeout

    before = signal.signal(signal.SIGALRM, stop)
    # A module that catches everything is interrupted again.
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _list_failed_modules(error: BaseException) -> set[str]:
    """The modules whose import ended with an error."""
    frames = traceback.extract_tb(error.__traceback__)
    return {os.path.realpath(frame.filename) for frame in frames if frame.name == "<module>"}


def _describe_failure(error: BaseException) -> dict[str, Any]:
    frames = [
        [frame.filename, frame.lineno or 1, frame.colno or 0, frame.end_lineno or 0, frame.end_colno or 0]
        for frame in traceback.extract_tb(error.__traceback__)
    ]
    failure: dict[str, Any] = {"error": type(error).__name__, "message": _format_error(error), "frames": frames}
    if isinstance(error, SyntaxError):
        failure["syntax"] = [error.filename, error.lineno or 1, error.offset or 1, error.end_offset or 0]
        failure["message"] = error.msg
    if isinstance(error, ImportError):
        failure["missing"] = error.name
        failure["names"] = _list_importable_names(error)
    return failure


def _format_error(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return ""


def _list_importable_names(error: ImportError) -> list[str]:
    """What could have been imported where a name was not found."""
    module = sys.modules.get(error.name or "")
    return [name for name in vars(module) if not name.startswith("__")] if module is not None else []


def _describe_node(index: int, decoration: Decoration, function: Callable[..., Any]) -> dict[str, Any]:
    same = [i for i, (_, other) in enumerate(decorated) if other is function]
    return {
        "kind": decoration.kind,
        "function": str(getattr(function, "__name__", "")),
        "module": decoration.module,
        "module_line": decoration.module_line,
        "file": os.path.abspath(decoration.file),
        "line": decoration.line,
        "options": {name: to_json_value(value) for name, value in decoration.options.items()},
        "unnamed": [to_json_value(value) for value in decoration.unnamed],
        "again": "" if len(same) == 1 else "first" if index == same[0] else "later",
        "form": _get_form(function),
        "signature": _format_bad_signature(function),
    }


def _get_form(function: Callable[..., Any]) -> str:
    if inspect.isclass(function):
        return "class"
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        return "async"
    if inspect.isgeneratorfunction(inspect.unwrap(function)):
        return "generator"
    return "function" if callable(function) else "value"


def _format_bad_signature(function: Callable[..., Any]) -> str | None:
    """What a function takes, when it cannot be called with one argument."""
    try:
        signature = inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):
        return None
    try:
        signature.bind(None)
    except TypeError:
        return str(signature)
    return None


def to_json_value(value: Any, depth: int = 0) -> Any:
    """A value as JSON has it; what has no place there is `{"?": what it is}`."""
    if depth > _MAX_DEPTH:
        return {"?": "a value that holds itself"}
    if get_decoration(value) is not None:
        # What it is called as a node is read from the file, where that is not given.
        index = next(i for i, (_, function) in enumerate(decorated) if function is value)
        return {"?": f"the function {getattr(value, '__name__', '')}", "node": index}
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Enum):
        return to_json_value(value.value, depth + 1)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else {"?": str(value)}
    if isinstance(value, list | tuple):
        return [to_json_value(item, depth + 1) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((to_json_value(item, depth + 1) for item in value), key=json.dumps)
    if isinstance(value, Mapping):
        if all(isinstance(key, str) and key != "?" for key in value):
            return {str(key): to_json_value(item, depth + 1) for key, item in value.items()}
        return {"?": "a mapping whose keys are not texts"}
    if inspect.isroutine(value):
        return {"?": f"the function {getattr(value, '__name__', '')}".rstrip()}
    what = f"the class {value.__name__}" if isinstance(value, type) else f"a value of type {type(value).__name__}"
    return {"?": what}


if __name__ == "__main__":
    main()
