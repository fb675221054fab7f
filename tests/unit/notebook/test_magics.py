"""`%sqb` and `%%sqb` in a real shell of IPython; what needs Spark is in `tests/cli/test_notebook.py`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

import sqb
from sqb.api.html import format_difference_html, format_table_html
from sqb.notebook.magics import NotebookError
from unit.folders import write


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.chdir(write(tmp_path, {"seeds/orders.csv": "id,amount\n1,10\n2,20\n", "seeds/people.csv": "id\n1\n"}))
    monkeypatch.setattr("sys.argv", ["sqb"])
    shell: Any = InteractiveShell()
    shell.run_line_magic("load_ext", "sqb")
    yield shell
    shell.history_manager.end_session()


def test_plan_and_build_are_values_that_show_themselves(shell: Any) -> None:
    plan = shell.run_line_magic("sqb", "plan orders")
    assert isinstance(plan, sqb.Plan)
    html = plan._repr_html_()
    assert (
        "<b>Plan of dev</b>: 1 run, 0 skip, 0 blocked" in html
        and "<td style='text-align:left'>seeds.orders</td>" in html
    )
    result = shell.run_line_magic("sqb", "build")
    assert isinstance(result, sqb.Result) and result.ok
    html = result._repr_html_()
    assert "2 ran, 0 skipped, 0 failed" in html and "<td style='text-align:right'>2</td>" in html
    assert "Nothing to do: everything is up to date." in shell.run_line_magic("sqb", "plan")._repr_html_()


def test_other_commands_print(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert shell.run_line_magic("sqb", "list") is None
    assert capsys.readouterr().out.split() == ["seeds.orders", "seeds.people"]
    assert shell.run_line_magic("sqb", "plan --json") is None
    assert '"target": "dev"' in capsys.readouterr().out


def test_errors_are_explained_without_a_traceback(shell: Any, tmp_path: Path) -> None:
    with pytest.raises(NotebookError) as unknown:
        shell.run_line_magic("sqb", "plan --nowhere")
    assert "plan has no option --nowhere" in str(unknown.value)
    assert "Traceback" not in "\n".join(unknown.value._render_traceback_())
    (tmp_path / "models").mkdir()
    (tmp_path / "models/a.sql").write_text("SELECT x FROM nothing_like_it\n")
    with pytest.raises(NotebookError) as broken:
        shell.run_line_magic("sqb", "build -s a")
    assert "SQB-" in str(broken.value) and "models/a.sql:1:15" in str(broken.value)
    # A cell that fails stops the notebook.
    assert not shell.run_cell("%sqb plan --nowhere").success


def test_a_difference_takes_the_options_of_the_command(shell: Any) -> None:
    with pytest.raises(NotebookError) as absent:
        shell.run_line_magic("sqb", "diff orders --key id --limit 3")
    assert "SQB-C006" in str(absent.value)


def test_tables_by_name(shell: Any) -> None:
    project = sqb.Project(".")
    assert project["orders"].name == "seeds.orders" and project["seeds.people"].relation == "seeds.people"
    with pytest.raises(KeyError):
        project["nobody"]


def test_html_escapes() -> None:
    rows = sqb.Rows(("<a>", "n"), (("<script>", None), ("x", 1)))
    html = rows._repr_html_()
    assert "<script>" not in html and "&lt;script&gt;" in html and "&lt;a&gt;" in html and ">NULL<" in html
    assert "and 1 more rows" in format_table_html(["a"], [[i] for i in range(501)])


def test_a_difference() -> None:
    html = format_difference_html(
        {
            "name": "marts.x",
            "same": False,
            "rows": {"added": 1, "removed": 0, "changed": 1},
            "samples": {"added": [{"id": 3}], "changed": [{"key": {"id": 1}, "changes": {"v": {"from": 1, "to": 2}}}]},
            "notes": ["by key"],
        }
    )
    assert "<b>marts.x</b>: different" in html and "v: 1 → 2" in html and "id: 1" in html and "by key" in html


def test_sqb_itself_does_not_load_ipython() -> None:
    code = "import sys, sqb; sqb.load_ipython_extension; print('IPython' in sys.modules, 'sqb.api' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"
