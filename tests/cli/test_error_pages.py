"""What pages about errors show is printed: mistakes that are noticed without Spark are made, and outputs compared."""

from __future__ import annotations

from pathlib import Path

import docs_output
import error_pages
import pytest

from cli.conftest import Folder


@pytest.mark.parametrize("code", error_pages.CODES)
def test_a_mistake_looks_as_on_its_page(code: str, tmp_path: Path) -> None:
    def run(command: str, folder: Path) -> str:
        arguments = docs_output.split_sqb(command)
        assert arguments is not None
        done = Folder(folder).here(*arguments)
        return done.out + done.err

    now = error_pages.run_step(code, tmp_path, run)
    assert now == error_pages.read_step(code), "`.venv/bin/python scripts/error_pages.py` writes it anew"
