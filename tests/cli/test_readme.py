"""What README.md shows is what the commands print: they are run on the Spark of the test run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
import readme_output

from cli.conftest import Done, Folder

WRITTEN = readme_output.README.read_text(encoding="utf-8")


def test_the_readme_shows_what_is_printed(
    tmp_path: Path, sqb_here: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    def run(command: str, folder: Path) -> str:
        program, *arguments = shlex.split(command)
        if program != "sqb":
            return readme_output.run_in_shell(command, folder)
        done = sqb_here(Folder(folder), *arguments)
        return done.out + done.err

    now = readme_output.run_readme(WRITTEN, tmp_path, run)
    assert readme_output.compare(WRITTEN, now) == "", "`.venv/bin/python scripts/readme_output.py` writes it anew"


def test_another_output_is_noticed() -> None:
    assert readme_output.compare(WRITTEN, WRITTEN) == ""
    slower = re.sub(r"(\[OK\] .*), [0-9.]+m?s\)", r"\1, 61m 7s)", WRITTEN)
    assert slower != WRITTEN and readme_output.compare(WRITTEN, slower) == ""
    for old, new in (
        ("15 ran", "14 ran"),
        ("[OK] seeds.orders (seed, backfill, 320 rows", "[OK] seeds.orders (seed, full, 320 rows"),
    ):
        assert old in WRITTEN
        assert readme_output.compare(WRITTEN, WRITTEN.replace(old, new)) != ""


def test_every_dialogue_is_found() -> None:
    asked: list[str] = []
    readme_output.run_readme(
        WRITTEN, Path("somewhere"), lambda command, folder: asked.append(f"{folder}: {command}") or ""
    )
    assert asked[0] == "somewhere: sqb init shop"
    assert asked.count("somewhere/shop: sqb build") == 3
    assert len(asked) == sum(line.startswith("$ ") for line in WRITTEN.splitlines())
