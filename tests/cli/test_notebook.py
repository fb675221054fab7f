"""The notebook of the examples in a real kernel: as Jupyter runs it, cell by cell, on one Spark."""

from __future__ import annotations

import ast
import re
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from support.required import missing

ROOT = Path(__file__).parents[2]
# What is in the variables that the notebook has made, before it closes its Spark.
LOOK = "[len(best), float(best.rows[0][2]), int(by_country['count'].sum())]"
BROKEN = '%sqb build -s nothing_like_it\nprint("not reached")'


def run_notebook(notebook: Any, folder: Path) -> Any:
    """Run all cells in a kernel whose working directory is a project's; the notebook with what they showed."""
    from nbclient import NotebookClient

    client = NotebookClient(
        notebook, timeout=600, kernel_name="python3", allow_errors=True, resources={"metadata": {"path": str(folder)}}
    )
    return client.execute()


def list_shown(cell: Any, kind: str) -> list[str]:
    """What a cell has shown of a kind, such as text/html; what it has printed with the kind stream."""
    if kind == "stream":
        return [output["text"] for output in cell["outputs"] if output["output_type"] == "stream"]
    return [output["data"][kind] for output in cell["outputs"] if kind in output.get("data", {})]


@pytest.mark.timeout(900)
def test_the_notebook_of_the_examples(tmp_path: Path) -> None:
    if find_spec("nbclient") is None or find_spec("ipykernel") is None:
        missing("nbclient and ipykernel are not installed: make venv does that")
    import nbformat

    project = tmp_path / "shop"
    shutil.copytree(ROOT / "src/sqb/example", project)
    notebook = nbformat.read(ROOT / "examples/notebook/revenue.ipynb", as_version=4)
    nbformat.validate(notebook)
    last = notebook["cells"].pop()
    notebook["cells"] += [nbformat.v4.new_code_cell(LOOK), last, nbformat.v4.new_code_cell(BROKEN)]
    done = run_notebook(notebook, project)
    cells = {"".join(cell["source"]): cell for cell in done["cells"] if cell["cell_type"] == "code"}
    errors = {
        source: output for source, c in cells.items() for output in c["outputs"] if output["output_type"] == "error"
    }
    assert list(errors) == [BROKEN], errors
    (plan,), (built,) = (list_shown(cells[f"%sqb {name}"], "text/html") for name in ("plan", "build"))
    assert "<b>Plan of dev</b>: 15 run, 0 skip, 0 blocked" in plan
    assert "15 ran, 0 skipped, 0 failed" in built
    # What happens meanwhile is printed, and nothing of Spark's or Java's beside it.
    printed = re.sub(r"\x1b\[\d*m", "", "".join(list_shown(cells["%sqb build"], "stream")))
    assert "[OK] marts.customer_revenue" in printed and "WARN" not in printed and "Traceback" not in printed
    (rows,) = (list_shown(c, "text/html") for source, c in cells.items() if source.startswith("%%sqb best"))
    assert "customer_name" in rows[0]
    count, revenue, customers = ast.literal_eval(list_shown(cells[LOOK], "text/plain")[0])
    assert (count, customers) == (5, 120) and revenue > 0
    # A mistake is explained, without a traceback, and ends its cell.
    text = "\n".join(errors[BROKEN]["traceback"])
    assert "nothing_like_it" in text and "File " not in text and sys.executable not in text
    assert list_shown(cells[BROKEN], "stream") == []
