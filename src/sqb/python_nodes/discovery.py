"""The child that finds Python nodes: it imports every module of `python/` once, and tells what is decorated there.

`python -m sqb.python_nodes.discovery <descriptor>`: what to do comes as JSON on standard input, and what was found goes
as lines of JSON to the descriptor, since the code of people may print. It knows nothing of projects: whether what it
found is right, and where it stands in a file, is told by `sqb.project.python_nodes`.
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

from sqb.decorators import Given, decorated, node_of

_DEEPEST = 20


class TooLong(BaseException):
    """An import took more time than a module has. No exception, so that nobody catches it by the way."""


def main() -> None:
    """Do what standard input says, and end without waiting for anything that a module left running."""
    task = json.load(sys.stdin)
    with os.fdopen(int(sys.argv[1]), "w", encoding="utf-8") as answer:
        # What is printed is for people to read; the command's own output must stay what it is.
        os.dup2(2, 1)
        sys.dont_write_bytecode = True
        sys.path.insert(0, task["folder"])
        for found in discover(task["modules"], task["seconds"]):
            answer.write(json.dumps(found) + "\n")
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
            with _limited(seconds):
                module = importlib.import_module(name)
        except BaseException as error:
            failed.update(_files_of(error))
            yield {"failed": file, **_failure(error)}
            continue
        actual = getattr(module, "__file__", None)
        if actual is None or not os.path.samefile(actual, file):
            yield {"shadowed": file, "name": name, "by": actual or "Python itself"}
    yield {
        "nodes": [_described(index, *one) for index, one in enumerate(decorated)],
        "path": [entry for entry in sys.path[1:] if isinstance(entry, str)],
        "loaded": sorted(set(_files_of_modules())),
    }


def _files_of_modules() -> Iterator[str]:
    for module in list(sys.modules.values()):
        # Some modules import others when they are asked for anything.
        file = getattr(module, "__dict__", {}).get("__file__")
        if isinstance(file, str):
            yield os.path.abspath(file)


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Let the code inside run for a while only."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, stop)
    # A module that catches everything is interrupted again.
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _files_of(error: BaseException) -> set[str]:
    """The modules whose import ended with an error."""
    frames = traceback.extract_tb(error.__traceback__)
    return {os.path.realpath(frame.filename) for frame in frames if frame.name == "<module>"}


def _failure(error: BaseException) -> dict[str, Any]:
    frames = [
        [frame.filename, frame.lineno or 1, frame.colno or 0, frame.end_lineno or 0, frame.end_colno or 0]
        for frame in traceback.extract_tb(error.__traceback__)
    ]
    found: dict[str, Any] = {"error": type(error).__name__, "message": _text(error), "frames": frames}
    if isinstance(error, SyntaxError):
        found["syntax"] = [error.filename, error.lineno or 1, error.offset or 1, error.end_offset or 0]
        found["message"] = error.msg
    if isinstance(error, ImportError):
        found["missing"] = error.name
        found["names"] = _names_in(error)
    return found


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return ""


def _names_in(error: ImportError) -> list[str]:
    """What could have been imported where a name was not found."""
    module = sys.modules.get(error.name or "")
    return [name for name in vars(module) if not name.startswith("__")] if module is not None else []


def _described(index: int, given: Given, function: Callable[..., Any]) -> dict[str, Any]:
    same = [i for i, (_, other) in enumerate(decorated) if other is function]
    return {
        "kind": given.kind,
        "function": str(getattr(function, "__name__", "")),
        "module": given.module,
        "module_line": given.module_line,
        "file": os.path.abspath(given.file),
        "line": given.line,
        "options": {name: plain(value) for name, value in given.options.items()},
        "unnamed": [plain(value) for value in given.unnamed],
        "again": "" if len(same) == 1 else "first" if index == same[0] else "later",
        "form": _form(function),
        "signature": _signature(function),
    }


def _form(function: Callable[..., Any]) -> str:
    if inspect.isclass(function):
        return "class"
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        return "async"
    if inspect.isgeneratorfunction(inspect.unwrap(function)):
        return "generator"
    return "function" if callable(function) else "value"


def _signature(function: Callable[..., Any]) -> str | None:
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


def plain(value: Any, depth: int = 0) -> Any:
    """A value as JSON has it; what has no place there is `{"?": what it is}`."""
    if depth > _DEEPEST:
        return {"?": "a value that holds itself"}
    if node_of(value) is not None:
        # What it is called as a node is read from the file, where that is not said.
        index = next(i for i, (_, function) in enumerate(decorated) if function is value)
        return {"?": f"the function {getattr(value, '__name__', '')}", "node": index}
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Enum):
        return plain(value.value, depth + 1)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else {"?": str(value)}
    if isinstance(value, list | tuple):
        return [plain(item, depth + 1) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((plain(item, depth + 1) for item in value), key=json.dumps)
    if isinstance(value, Mapping):
        if all(isinstance(key, str) and key != "?" for key in value):
            return {str(key): plain(item, depth + 1) for key, item in value.items()}
        return {"?": "a mapping whose keys are not texts"}
    if inspect.isroutine(value):
        return {"?": f"the function {getattr(value, '__name__', '')}".rstrip()}
    what = f"the class {value.__name__}" if isinstance(value, type) else f"a value of type {type(value).__name__}"
    return {"?": what}


if __name__ == "__main__":
    main()
