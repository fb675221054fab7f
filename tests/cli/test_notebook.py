"""The notebook of the examples, run as a kernel runs it: cell by cell in one shell of IPython, on one Spark."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RUN = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell()
for cell in json.load(open(sys.argv[1]))["cells"]:
    if cell["cell_type"] == "code":
        done = shell.run_cell("".join(cell["source"]))
        done.raise_error()
names = shell.user_ns
print(json.dumps({"best": len(names["best"]), "revenue": float(names["best"].rows[0][2]),
                  "customers": int(names["by_country"]["count"].sum())}))
"""


@pytest.mark.timeout(900)
def test_the_notebook_of_the_examples(tmp_path: Path) -> None:
    project = tmp_path / "shop"
    shutil.copytree(ROOT / "src/sqb/example", project)
    notebook = ROOT / "examples/notebook/revenue.ipynb"
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(notebook)],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer["best"] == 5 and answer["customers"] == 120 and answer["revenue"] > 0
