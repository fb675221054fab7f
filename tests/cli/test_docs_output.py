"""What the README and the tutorials show is what their commands print: they are run on the Spark of the test run."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from contextlib import redirect_stderr
from pathlib import Path

import docs_output
import make_recording
import pytest

from cli.conftest import Done, Folder

WRITTEN = (docs_output.DOCS / "getting-started.md").read_text(encoding="utf-8")


@pytest.fixture
def run(sqb_here: Callable[..., Done], monkeypatch: pytest.MonkeyPatch) -> docs_output.Run:
    """Runs a command on the Spark of the test run if it is one of sqb, and else in a shell."""
    monkeypatch.setenv("NO_COLOR", "1")

    def run_command(command: str, folder: Path) -> str:
        arguments = docs_output.split_sqb(command)
        if arguments is None:
            return docs_output.run_in_shell(command, folder)
        # In the order in which it is printed, as at a terminal.
        with redirect_stderr(sys.stdout):
            return sqb_here(Folder(folder), *arguments).out

    return run_command


@pytest.mark.parametrize("page", docs_output.PAGES, ids=lambda page: page.stem)
def test_a_page_shows_what_is_printed(page: Path, tmp_path: Path, run: docs_output.Run) -> None:
    written = page.read_text(encoding="utf-8")
    now = docs_output.run_page(written, tmp_path, run)
    assert docs_output.compare(written, now, page.name) == "", "`make docs-output` writes it anew"


def test_the_recording_shows_what_is_printed(tmp_path: Path, run: docs_output.Run) -> None:
    text = make_recording.read_text(make_recording.SVG.read_text(encoding="utf-8"))
    written = f"```console\n{text}```\n"
    now = docs_output.run_page(written, tmp_path, run)
    assert docs_output.compare(written, now, "terminal.svg") == "", "`make recording` writes it anew"


def test_another_output_is_noticed() -> None:
    assert docs_output.compare(WRITTEN, WRITTEN) == ""
    slower = re.sub(r"(\[OK\] .*), [0-9.]+m?s\)", r"\1, 61m 7s)", WRITTEN)
    assert slower != WRITTEN and docs_output.compare(WRITTEN, slower) == ""
    for old, new in (
        ("15 ran", "14 ran"),
        ("[OK] seeds.orders (seed, backfill, 320 rows", "[OK] seeds.orders (seed, full, 320 rows"),
    ):
        assert old in WRITTEN
        assert docs_output.compare(WRITTEN, WRITTEN.replace(old, new)) != ""


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("2026-11-18 16:53:04Z  ok", "2026-11-19T07:00:00.123+01:00    ok"),
        ("query 69e0e1a8 → c78c8c12", "query 00000001 → 1f2e3d4c"),
        ("snapshot 5871239847123984712", "snapshot 12398471239847123"),
        ("sqb 0.1.0", "sqb 0.2.0"),
        ("Spark: started (2.4s)", "Spark: started (1m 12s)"),
    ],
)
def test_what_differs_from_run_to_run_is_not_compared(one: str, other: str) -> None:
    assert docs_output.compare(one, other) == ""


def test_words_that_look_like_hashes_are_compared() -> None:
    assert docs_output.compare("defaced", "effaced") != ""
    assert docs_output.compare("12 rows", "13 rows") != ""


@pytest.mark.parametrize("page", docs_output.PAGES, ids=lambda page: page.stem)
def test_every_dialogue_of_a_page_is_carried_out(page: Path, tmp_path: Path) -> None:
    text = "\n".join(
        line for line in page.read_text(encoding="utf-8").splitlines() if not (line[:2] == "$ " and line[-1] == "&")
    )
    asked: list[str] = []
    docs_output.run_page(text, tmp_path, lambda command, folder: asked.append(command) or "")
    commands = [line for line in text.splitlines() if line.startswith("$ ")]
    assert len(asked) == len([c for c in commands if not c.startswith("$ cd ")]) > 0


def test_a_page_is_a_story_in_one_folder(tmp_path: Path) -> None:
    page = """
```console
$ mkdir shop
$ cd shop
```

```toml title="conf/a.toml"
port = 8123
```

```console
$ cat conf/a.toml
what was printed before
$ pwd
```
"""
    now = docs_output.run_page(page, tmp_path, docs_output.run_in_shell)
    assert "```console\n$ cat conf/a.toml\nport = 8123\n$ pwd\nshop\n```" in now
    assert "8123" not in (tmp_path / "shop/conf/a.toml").read_text()


def test_a_server_that_a_page_starts_ends_with_it(tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text("[1]\n")
    ask = "python -c \"import urllib.request as u; print(u.urlopen('http://127.0.0.1:8123/rows.json').read())\""
    page = f"```console\n$ python -m http.server 8123 --bind 127.0.0.1 &\n$ {ask}\n```\n"
    now = docs_output.run_page(page, tmp_path, docs_output.run_in_shell)
    assert "b'[1]\\n'" in now
