"""Which tests a worker is given at once: a file, since its fixtures are made once for it; of some files only a few.

Nothing here is about what a test does: every test of a file that is split stands for itself.
"""

from __future__ import annotations

from typing import Any

from xdist.scheduler import LoadFileScheduling

# How many tests of these files make one piece of work: their tests share nothing but the worker's Spark. Given out
# whole, the longest of them would keep one worker busy long after the others are done.
PIECES = {
    "tests/dbt/test_real.py": 1,
    "tests/cases/test_cases.py": 6,
    "tests/properties/test_exactness.py": 1,
    "tests/spark/test_all_or_nothing.py": 6,
}


class PiecesOfFiles(LoadFileScheduling):
    """Gives out files, and of those in `PIECES` as many tests at a time as they say."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._scopes: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    def _split_scope(self, nodeid: str) -> str:
        if nodeid not in self._scopes:
            file: str = super()._split_scope(nodeid)
            size, before = PIECES.get(file), self._counts.get(file, 0)
            self._counts[file] = before + 1
            self._scopes[nodeid] = file if size is None else f"{file} {before // size}"
        return self._scopes[nodeid]
