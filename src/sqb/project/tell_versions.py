"""The process that asks table functions for their versions: `python -m sqb.project.tell_versions`.

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

from sqb.errors import BadPython, Errors
from sqb.project.python_files import execute, importable

# What is longer stands in no sentence.
_LONGEST = 120


def main() -> None:
    """Answer what the input asks."""
    asked = json.load(sys.stdin)
    root = Path(asked["root"])
    # What functions print is for people; the answers go where nobody else writes.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    modules: dict[str, Any] = {}
    with importable(root / "functions"):
        for name, file, symbol in asked["functions"]:
            _tell(answers, name, _answer(root, file, symbol, modules))
    answers.flush()
    # Threads that a file has started do not keep anybody waiting.
    os._exit(0)


def _tell(answers: IO[str], name: str, answer: dict[str, str]) -> None:
    answers.write(json.dumps([name, answer]) + "\n")
    answers.flush()


def _answer(root: Path, file: str, symbol: str, modules: dict[str, Any]) -> dict[str, str]:
    try:
        if file not in modules:
            errors = Errors()
            modules[file] = execute(root / file, file, BadPython, errors)
            if modules[file] is None:
                return {"error": "; ".join(f"{e.message} ({e.at})" for e in errors.found)}
        made = getattr(modules[file], symbol)
        return {"version": version_text(made.__sqb__.options["version"]())}
    except (Exception, SystemExit) as error:
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
        where = f" ({file}:{lines[-1]})" if lines else ""
        return {"error": f"{type(error).__name__}: {error}{where}"}


def version_text(value: Any) -> str:
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
    if len(text) <= _LONGEST and "\n" not in text:
        return text
    return f"{' '.join(text.split())[:40]}… {hashlib.sha256(text.encode()).hexdigest()[:16]}"


if __name__ == "__main__":
    main()
