"""What the other pages of the documentation show is printed in the example project, which is built once for all."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import redirect_stderr
from pathlib import Path

import docs_output
import pytest

from cli.conftest import Done, Folder

PRINTED = "one\ntwo 14ms\nthree\nfour\n"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the example project is, for all pages."""
    return tmp_path_factory.mktemp("guides")


@pytest.mark.parametrize("page", docs_output.list_guides(), ids=lambda page: page.stem)
def test_a_page_shows_what_is_printed(
    page: Path, place: Path, sqb_here: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    def run(command: str, folder: Path) -> str:
        arguments = docs_output.split_sqb(command)
        if arguments is None:
            return docs_output.run_in_shell(command, folder)
        # In the order in which it is printed, as at a terminal.
        with redirect_stderr(sys.stdout):
            return sqb_here(Folder(folder), *arguments).out

    written = page.read_text(encoding="utf-8")
    now = docs_output.run_page(written, docs_output.prepare_example(place, run), run)
    assert docs_output.compare(written, now, page.name) == "", "`make docs-output` writes it anew"


@pytest.mark.parametrize(
    "written", ["one\n…\nfour\n", "…\nthree\n…\n", "one\ntwo 3.1s\n…\n", "one\n…\ntwo 1ms\nthree\nfour\n"]
)
def test_a_page_may_leave_lines_out(written: str, tmp_path: Path) -> None:
    page = f"```console\n$ sqb plan\n{written}```\n"
    assert docs_output.run_page(page, tmp_path, lambda command, folder: PRINTED) == page


@pytest.mark.parametrize("written", ["one\n…\nthree\n", "two 3ms\n…\n", "…\nfive\n…\n", "…\nthree\n…\ntwo 1ms\n…\n"])
def test_lines_that_are_not_left_out_are_compared(written: str, tmp_path: Path) -> None:
    page = f"```console\n$ sqb plan\n{written}```\n"
    now = docs_output.run_page(page, tmp_path, lambda command, folder: PRINTED)
    assert now == f"```console\n$ sqb plan\n{PRINTED}```\n"


def test_nodes_that_are_left_out_may_be_done_at_any_time(tmp_path: Path) -> None:
    page = "```console\n$ sqb build\n[OK] b (table, 3 rows, 2s)\n[OK] c (view, 1s)\n…\nDone: 2 ran\n```\n"
    printed = (
        "[OK] a (table, skip)\n[OK] c (view, 40ms)\n[OK] b (table, 3 rows, 1.1s)\n[OK] d (table, skip)\nDone: 2 ran\n"
    )
    assert docs_output.run_page(page, tmp_path, lambda command, folder: printed) == page
    for wrong in (printed.replace("3 rows", "4 rows"), printed.replace("2 ran", "3 ran")):
        assert wrong in docs_output.run_page(page, tmp_path, lambda command, folder, text=wrong: text)


def test_lines_beside_those_that_are_left_out_get_new_times(tmp_path: Path) -> None:
    page = "```console\n$ sqb plan\none\ntwo 9.9s\n…\n```\n"
    now = docs_output.run_page(page, tmp_path, lambda command, folder: PRINTED, with_times=True)
    assert now == page.replace("9.9s", "14ms")


def test_an_illustration_is_neither_run_nor_a_file(tmp_path: Path) -> None:
    page = '```text title="Illustration: takes days"\n$ sqb janitor\nremoved\n```\n'
    assert docs_output.run_page(page, tmp_path, lambda command, folder: PRINTED) == page
    assert list(tmp_path.iterdir()) == []


def test_the_example_is_put_back_for_each_page(tmp_path: Path) -> None:
    """It is built once; what a page did to it is gone for the next one."""
    commands: list[str] = []

    def run(command: str, folder: Path) -> str:
        commands.append(command)
        (tmp_path / "shop" / "lake").mkdir(parents=True, exist_ok=True)
        return ""

    project = docs_output.prepare_example(tmp_path, run)
    (project / "lake" / "new").touch()
    assert docs_output.prepare_example(tmp_path, run) == project
    assert commands == ["sqb init shop", "sqb build"] and list(project.rglob("*")) == [project / "lake"]


def test_an_example_that_does_not_build_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="sqb init shop"):
        docs_output.prepare_example(tmp_path, lambda command, folder: "error[SQB-P001]: no")
