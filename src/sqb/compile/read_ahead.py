"""A large project that nothing is known of is parsed by several processes: forks that answer what this one would ask.

A fork reads its share of the models, sends what it learned of their queries, and ends. This process then reads the same
models with these answers.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqb.cache import forks
from sqb.compile.reading import Reading
from sqb.compile.resolve import Draft
from sqb.project import files


def read_models(reading: Reading, paths: Sequence[str]) -> list[Draft]:
    """The models of these files, in this order."""
    count = forks.count_processes(len(paths)) if reading.analyst.is_cold() else 1
    if count < 2:
        return [reading.read_model(path) for path in paths]
    from sqb.sql.analysis import parse  # noqa: F401  # every process needs it, so it is loaded before there are several

    def learn(share: Sequence[str]) -> bytes:
        for path in share:
            if not _calls_macros(reading, path):
                reading.read_model(path)
        return reading.analyst.dump_answers()

    return forks.map_ahead(paths, count, reading.read_model, learn, reading.analyst.load_answers)


def _calls_macros(reading: Reading, path: str) -> bool:
    """Whether reading a model would run the project's own Python, which is run once."""
    text = files.read_text(reading.root, path, reading.errors) or ""
    return any(f"@{name}" in text for name in reading.macros.functions)
