"""The run of everything gives out every test once, and the longest files in pieces."""

from __future__ import annotations

from pathlib import Path

import conftest
from support.scheduling import PIECES, PiecesOfFiles

_TESTS = Path(__file__).parents[1]


def _scheduling() -> PiecesOfFiles:
    made = PiecesOfFiles.__new__(PiecesOfFiles)
    made._scopes, made._counts = {}, {}
    return made


def test_a_file_is_given_out_whole() -> None:
    scheduling = _scheduling()
    names = ["tests/spark/test_diff.py::test_a", "tests/spark/test_diff.py::TestB::test_c[1]"]
    assert {scheduling._split_scope(name) for name in names} == {"tests/spark/test_diff.py"}


def test_a_long_file_is_given_out_in_pieces_and_a_test_stays_in_its_piece() -> None:
    scheduling = _scheduling()
    file = "tests/cases/test_cases.py"
    names = [f"{file}::test_case[{number}]" for number in range(20)]
    pieces = [scheduling._split_scope(name) for name in names]
    sizes = [pieces.count(piece) for piece in dict.fromkeys(pieces)]
    assert sizes == [6, 6, 6, 2]
    assert [scheduling._split_scope(name) for name in reversed(names)] == pieces[::-1]


def test_the_files_that_are_named_are_there() -> None:
    named = [*PIECES, *(f"tests/{name}" for name in (*conftest._LONGEST, *conftest._PIECES))]
    assert [name for name in named if not (_TESTS.parent / name).is_file()] == []
    ordered = {f"tests/{name}" for name in (*conftest._LONGEST, *conftest._PIECES)}
    assert set(PIECES) <= ordered and {f"tests/{name}" for name in conftest._PIECES} <= set(PIECES)


def test_tests_of_a_file_in_pieces_share_no_fixture_of_the_file() -> None:
    assert [file for file in PIECES if 'scope="' in (_TESTS.parent / file).read_text()] == []
