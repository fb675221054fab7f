"""What shells complete, as click is asked by their scripts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from sqb.cli.main import run, sqb
from sqb.workspace import open_workspace
from unit.folders import write

FILES = {
    "sqlbuild_project.toml": 'name = "shop"\n[targets.dev]\n[targets.prod]\n',
    "seeds/orders.csv": "id,amount\n1,2\n",
    "models/staging/a_one.sql": "SELECT id FROM orders\n",
    "models/staging/b.sql": "SELECT id FROM orders\n",
    "models/marts/c.sql": "MODEL (kind view, tags [x]);\nSELECT id FROM a_one\n",
    "selectors.yml": "selectors:\n  - name: nightly\n    definition: tag:x\n",
    "python/load.py": 'import sqb\n\n\n@sqb.loader(source="raw.events")\ndef load_events(ctx):\n    return []\n',
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(write(tmp_path, FILES))
    return tmp_path


def complete(*words: str) -> list[str]:
    *before, last = words
    return [item.value for item in ShellComplete(sqb, {}, "sqb", "X").get_completions(before, last)]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("pl",), ["plan"]),
        (("build", "sta"), ["staging.a_one", "staging.b", "state:"]),
        (("build", "-s", "a_"), ["a_one"]),
        (("plan", "-s", "c", "A_"), ["a_one"]),
        (("plan", "2+a"), ["2+a_one"]),
        (("plan", "-s", "tag:x,@a"), ["tag:x,@a_one"]),
        (("plan", "-s", "tag:"), ["tag:x"]),
        (("plan", "-s", "+state:m"), ["+state:modified"]),
        (("plan", "-s", "result:s"), ["result:skipped", "result:success"]),
        (("plan", "-s", "nothing:"), []),
        (("build", "--exclude", "marts"), ["marts.c"]),
        (("build", "load_"), ["load_events"]),
        (("show", "marts"), ["marts.c"]),
        (("lineage", "seeds."), ["seeds.orders"]),
        (("build", "-t", ""), ["dev", "prod"]),
        (("ls", "--selector", ""), ["nightly"]),
        (("ls", "--output", "j"), ["json"]),
        (("build", "--virtual-env", ""), []),
        (("completion", ""), ["bash", "zsh", "fish"]),
    ],
)
@pytest.mark.parametrize("is_cached", [True, False])
def test_words(project: Path, words: tuple[str, ...], expected: list[str], is_cached: bool) -> None:
    if is_cached:
        open_workspace(project)
    assert complete(*words) == expected


def test_names_of_virtual_environments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sqb as api

    toml = 'name = "shop"\n[virtual]\nenabled = true\n'
    monkeypatch.chdir(write(tmp_path, {"sqlbuild_project.toml": toml, "seeds/a.csv": "id\n1\n"}))
    for name in ("dev", "pr_1"):
        api.Project(tmp_path).build(virtual_env=name).raise_for_failures()
    assert complete("plan", "--virtual-env", "") == ["dev", "pr_1"]


def test_a_project_that_cannot_be_read_completes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert complete("build", "-t", "") == complete("build", "x") == []
    monkeypatch.chdir(write(tmp_path, {"sqlbuild_project.toml": "name = ", "models/a.sql": "SELECT"}))
    assert complete("build", "-t", "") == complete("build", "x") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", shell]) == 0
    assert f"_SQB_COMPLETE={shell}_complete" in capsys.readouterr().out


def test_a_shell_asks_the_installed_command(project: Path) -> None:
    open_workspace(project)
    code = "from sqb.cli.entry import main; main()"
    env = {"_SQB_COMPLETE": "bash_complete", "COMP_WORDS": "sqb build a_", "COMP_CWORD": "2"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert done.stdout == "plain,a_one\n", done.stderr
