"""What the README says was measured is in bench/RESULTS.md, in the section of the script that it names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_SCRIPT = re.compile(r"`(bench/\w+\.py)`")
_FIGURE = re.compile(r"\d+\.\d+")


def _list_rows() -> list[str]:
    """The rows of the README's table of figures."""
    table = (ROOT / "README.md").read_text(encoding="utf-8").partition("\n| | sqb | the other |\n|---|---|---|\n")[2]
    return table.partition("\n\n")[0].splitlines()


@pytest.mark.parametrize("row", _list_rows(), ids=lambda row: _SCRIPT.findall(row)[0])
def test_figures_are_those_of_the_results(row: str) -> None:
    (script,) = _SCRIPT.findall(row)
    assert (ROOT / script).is_file()
    sections = re.split(r"^## ", (ROOT / "bench" / "RESULTS.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    # The first one lists the scripts.
    measured = [float(figure) for text in sections[1:] if script in text for figure in _FIGURE.findall(text)]
    written = _FIGURE.findall(row)
    assert written
    assert [w for w in written if not any(f"{m:.{len(w.partition('.')[2])}f}" == w for m in measured)] == []
