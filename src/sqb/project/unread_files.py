"""Files that people put where another tool reads them, and that sqb does not read: where they belong."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

# By folder and ending: what is said of such files. Endings are in lower case.
_HABITS: dict[str, dict[str, str]] = {
    "models": {
        ".yml": "a model is described in its header; sources are declared in sources/*.yml, "
        "exposures in exposures/*.yml, unit tests in tests/*.yml",
        ".yaml": "",
        ".py": "models in Python are functions in python/*.py, with @model",
        ".csv": "CSV files belong in seeds/",
    },
    "tests": {".sql": "a query that finds wrong rows belongs in audits/*.sql, and models name it under `audits`"},
    "snapshots": {".sql": "a snapshot is a model of the kind scd2, in models/", ".yml": ""},
    "macros": {".sql": "macros are functions in macros/*.py; a function in SQL belongs in functions/*.sql"},
    "seeds": {},
    "analyses": {".sql": "`sqb query` runs a query that is not a model"},
    "analysis": {".sql": "`sqb query` runs a query that is not a model"},
    "data": {".csv": "CSV files belong in seeds/"},
}
_ENDINGS = {"models": (".sql",), "seeds": (".csv",)}
_MAX_FILES = 3


def find_unread_files(root: Path) -> list[str]:
    """What is to be said of files that look as if they were read and are not: one text for each sort."""
    by_name: dict[str, list[str]] = {}
    for folder, habits in _HABITS.items():
        for path in _walk(os.path.join(root, folder), folder):
            why = _explain(path, folder, habits)
            if why is not None:
                by_name.setdefault(why, []).append(path)
    return [f"{_format_files(paths)} not read: {why}" for why, paths in by_name.items()]


def _explain(path: str, folder: str, habits: dict[str, str]) -> str | None:
    ending = os.path.splitext(path)[1]
    own = _ENDINGS.get(folder, ())
    if ending.lower() in own:
        return None if ending in own else f"write the ending in lower case, as in x{ending.lower()}"
    if ending.lower() not in habits:
        return None
    # An ending without words of its own shares those of the first.
    return habits[ending.lower()] or next(iter(habits.values()))


def _walk(folder: str, relative: str) -> Iterator[str]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        if entry.name.startswith((".", "__pycache__")):
            continue
        path = f"{relative}/{entry.name}"
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(entry.path, path)
        else:
            yield path


def _format_files(paths: list[str]) -> str:
    more = f" and {len(paths) - _MAX_FILES} more" if len(paths) > _MAX_FILES else ""
    return f"{', '.join(paths[:_MAX_FILES])}{more} {'is' if len(paths) == 1 else 'are'}"
