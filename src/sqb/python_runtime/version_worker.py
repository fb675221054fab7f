"""The process that asks table functions for their versions: `python -m sqb.python_runtime.version_worker`.

It reads one JSON document from its input and writes a line for each function, as soon as that has answered.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import sys
import traceback
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import IO, Any

from sqb.errors.base import Errors
from sqb.errors.project import BadPython
from sqb.project.functions.module_files import allow_imports, execute_module

# What is longer does not fit into a sentence.
_MAX_LENGTH = 120


def main() -> None:
    """Answer what the input asks."""
    request = json.load(sys.stdin)
    root = Path(request["root"])
    # What functions print is for people; the answers go to a descriptor of their own.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    modules: dict[str, Any] = {}
    with allow_imports(root / "functions"):
        for name, file, symbol in request["functions"]:
            _write_answer(answers, name, _ask_version(root, file, symbol, modules))
    answers.flush()
    # Threads that a file has started do not delay the caller.
    os._exit(0)


def _write_answer(answers: IO[str], name: str, answer: dict[str, str]) -> None:
    answers.write(json.dumps([name, answer]) + "\n")
    answers.flush()


def _ask_version(root: Path, file: str, symbol: str, modules: dict[str, Any]) -> dict[str, str]:
    try:
        if file not in modules:
            errors = Errors()
            modules[file] = execute_module(root / file, file, BadPython, errors)
            if modules[file] is None:
                return {"error": "; ".join(f"{e.message} ({e.at})" for e in errors.found)}
        function = getattr(modules[file], symbol)
        return {"version": format_version(function.__sqb__.options["version"]())}
    except (Exception, SystemExit) as error:
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
        where = f" ({file}:{lines[-1]})" if lines else ""
        return {"error": f"{type(error).__name__}: {error}{where}"}


def format_version(value: Any) -> str:
    """A version as the text that is recorded: the same for the same value, and short enough to be read."""
    match value:
        case str():
            text = value
        case bool() | int() | Decimal():
            text = str(value)
        case float() if math.isfinite(value):
            text = repr(value)
        case datetime() | date() | time():
            text = value.isoformat()
        case dict() | list() | tuple():
            text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        case _:
            what = "None" if value is None else repr(value)
            raise TypeError(f"a version is a text, a number, a date or JSON, and this is {what}")
    if len(text) <= _MAX_LENGTH and "\n" not in text:
        return text
    return f"{' '.join(text.split())[:40]}… {hashlib.sha256(text.encode()).hexdigest()[:16]}"


if __name__ == "__main__":
    main()
