"""Errors as people and programs read them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sqb.cli import main
from sqb.cli.commands.build.build import print_causes
from sqb.console.errors import encode_errors, format_error
from sqb.console.style import Paint, wrap_line
from sqb.errors.base import Errors, SqbError, SqbErrors
from sqb.errors.build import QueryFailed
from sqb.errors.call import CallError
from sqb.errors.project import BadSql, UnknownReference
from sqb.names import At
from sqb.project.config.connections.lake_location import locate_lake
from sqb.project.config.connections.model import CatalogSettings, Connection, SparkSettings, resolve_spark
from sqb.project.config.connections.postgres_url import parse_postgres


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> Paint:
    monkeypatch.setenv("NO_COLOR", "1")
    return Paint()


def shown(error: SqbError, root: Path | None, paint: Paint) -> str:
    return "\n".join(format_error(error, root, paint))


def test_the_place_is_underlined_and_the_way_out_is_said(tmp_path: Path, plain: Paint) -> None:
    (tmp_path / "m.sql").write_text("SELECT *\nFROM stg_order\n")
    error = UnknownReference("no model is called that", at=At("m.sql", 2, 6, 9), hint="did you mean 'stg_orders'?")
    assert shown(error, tmp_path, plain) == (
        "error[SQB-R002]: m.sql:2:6: no model is called that\n"
        "  2 | FROM stg_order\n"
        "    |      ^^^^^^^^^\n"
        "hint: did you mean 'stg_orders'?"
    )


@pytest.mark.parametrize(
    ("line", "column", "length", "expected"),
    [
        # Tabs stay tabs, so that the marks stand beneath what they mean whatever a terminal makes of a tab.
        ("\tFROM\tx", 7, 1, ["\tFROM\tx", "\t    \t^"]),
        # What is longer than its line is underlined to its end.
        ("FROM x", 6, 40, ["FROM x", "     ^"]),
        ("FROM x", 1, 0, ["FROM x", "^"]),
        # A place behind the end, such as where something is missing.
        ("SELECT", 7, 1, ["SELECT", "      ^"]),
        # Characters that take two columns or none.
        ("'日本' x", 6, 1, ["'日本' x", "       ^"]),
        ("'日本'", 1, 4, ["'日本'", "^^^^^^"]),
        ("'e\u0301' x", 6, 1, ["'e\u0301' x", "    ^"]),
        # Nothing in a file can steer the terminal.
        ("a \x1b[31m b", 1, 1, ["a �[31m b", "^"]),
        ("", 1, 1, ["", "^"]),
    ],
)
def test_underlines(tmp_path: Path, plain: Paint, line: str, column: int, length: int, expected: list[str]) -> None:
    (tmp_path / "m.sql").write_text(line + "\n")
    entry = shown(BadSql("wrong", at=At("m.sql", 1, column, length)), tmp_path, plain).splitlines()[1:]
    assert entry == [f"  1 | {expected[0]}", f"    | {expected[1]}"]


@pytest.mark.parametrize("column", [1, 50, 5_000, 9_991])
def test_a_long_line_is_shown_around_its_place(tmp_path: Path, plain: Paint, column: int) -> None:
    line = "".join(f"{i:09} " for i in range(1000))
    (tmp_path / "m.sql").write_text(line)
    entry = shown(BadSql("wrong", at=At("m.sql", 1, column, 4)), tmp_path, plain).splitlines()[1:]
    assert all(len(text) <= 170 for text in entry)
    marked = entry[1].index("^")
    assert entry[0][marked : marked + 4] == line[column - 1 : column + 3]
    assert entry[1].count("^") == 4


def test_line_endings_of_windows_and_a_byte_order_mark_are_not_shown(tmp_path: Path, plain: Paint) -> None:
    (tmp_path / "m.sql").write_bytes("\ufeffSELECT x\r\nFROM y\r\n".encode())
    assert shown(BadSql("wrong", at=At("m.sql", 1, 8)), tmp_path, plain).splitlines()[1:] == [
        "  1 | SELECT x",
        "    |        ^",
    ]


def test_a_file_that_is_not_utf_8_can_still_be_pointed_at(tmp_path: Path, plain: Paint) -> None:
    (tmp_path / "m.sql").write_bytes(b"SELECT '\xff'\n")
    assert shown(BadSql("wrong", at=At("m.sql", 1, 8)), tmp_path, plain).splitlines()[1] == "  1 | SELECT '�'"


@pytest.mark.parametrize("at", [At("gone.sql", 1, 1), At("m.sql", 99, 1), At("m.sql"), At(".", 1, 1), None])
def test_without_a_line_there_is_no_excerpt(tmp_path: Path, plain: Paint, at: At | None) -> None:
    (tmp_path / "m.sql").write_text("SELECT 1\n")
    assert len(shown(BadSql("wrong", at=at), tmp_path, plain).splitlines()) == 1
    assert len(shown(BadSql("wrong", at=at), None, plain).splitlines()) == 1


def test_further_lines_of_a_message_are_indented(plain: Paint) -> None:
    assert shown(BadSql("one\ntwo"), None, plain) == "error[SQB-S004]: one\n  two"


def test_several_errors_stand_apart_and_in_the_order_of_files(plain: Paint) -> None:
    errors = SqbErrors([BadSql("b", at=At("z.sql", 1, 1)), BadSql("a", at=At("a.sql", 9, 1)), CallError("call")])
    assert shown(errors, None, plain) == (
        "error[SQB-C001]: call\n\nerror[SQB-S004]: a.sql:9:1: a\n\nerror[SQB-S004]: z.sql:1:1: b"
    )


def test_colours_are_used_where_they_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    text = shown(BadSql("wrong", hint="right"), None, Paint())
    assert "\x1b[31;1merror[SQB-S004]\x1b[0m" in text and "\x1b[36mhint\x1b[0m" in text
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in shown(BadSql("wrong", hint="right"), None, Paint())


def test_errors_as_data() -> None:
    errors = Errors()
    errors.add(BadSql("wrong", at=At("m.sql", 2, 3), hint="right"))
    errors.add(CallError("call"))
    errors.add(BadSql("whole file", at=At("n.sql")))
    with pytest.raises(SqbErrors) as caught:
        errors.raise_any()
    assert encode_errors(caught.value) == [
        {"code": "SQB-C001", "file": None, "line": None, "column": None, "message": "call", "hint": None},
        {"code": "SQB-S004", "file": "m.sql", "line": 2, "column": 3, "message": "wrong", "hint": "right"},
        {"code": "SQB-S004", "file": "n.sql", "line": None, "column": None, "message": "whole file", "hint": None},
    ]


@pytest.fixture
def quoting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """What drivers may repeat, with every secret of a connection in use and of the state."""
    monkeypatch.setenv("WORD", "hunter2")
    spark = SparkSettings(
        remote="sc://h/;token=t%2Fken", conf={"spark.redis.auth": "@@ENV:WORD", "x.secret": "qu'\"iet"}
    )
    options = {"s3.secret-access-key": "s3cr3t", "header.x-auth": "one @@ENV:WORD"}
    connection = Connection("team", CatalogSettings("rest", "https://ana:h%40sh@h", "w", options=options), spark)
    resolve_spark(connection)
    locate_lake(connection, tmp_path)
    parse_postgres("postgresql://ana:st%20te@db/state", "")
    return "ana hunter2 t%2Fken t/ken s3cr3t h%40sh h@sh st te " + repr("qu'\"iet")


HIDDEN = "ana *** *** *** *** *** *** *** '***'"


def test_no_traceback_repeats_a_secret(
    quoting: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        try:
            raise ValueError(quoting)
        except ValueError as error:
            raise BadSql("the outer one says nothing") from error

    monkeypatch.setattr(main.sqb, "main", fail)
    assert main.run(["build", "--debug"]) == 2
    output = capsys.readouterr().err
    assert f"ValueError: {HIDDEN}\n" in output and "Traceback" in output and "hunter2" not in output

    inner = BadSql("another")
    inner.__cause__ = ValueError(quoting)
    print_causes([SimpleNamespace(error=inner)])
    assert capsys.readouterr().err == f"ValueError: {HIDDEN}\n"


def test_no_mistake_of_ours_repeats_a_secret(
    quoting: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise ValueError(quoting)

    monkeypatch.setattr(main.sqb, "main", fail)
    assert main.run(["build", "--debug"]) == 1
    captured = capsys.readouterr().err
    assert captured.count(f"ValueError: {HIDDEN}\n") == 2 and "hunter2" not in captured


def test_links_take_no_room_where_lines_are_broken() -> None:
    link = "\x1b]8;;file:///a/long/path/to/SQB-C003.html\x1b\\\x1b[31;1merror[SQB-C003]\x1b[0m\x1b]8;;\x1b\\"
    line = f'{link}: \x1b[1mnothing is called "fct_orderz"\x1b[0m'
    width = len('error[SQB-C003]: nothing is called "fct_orderz"')
    assert list(wrap_line(line, width)) == [line]
    assert len(list(wrap_line(line, width - 1))) == 2


def test_a_place_in_a_query_of_its_own_is_shown_once(plain: Paint) -> None:
    shown = QueryFailed("wrong", at=At("", 1, 8, 2), evidence=("SELECT ab", "       ^^"))
    assert list(format_error(shown, None, plain)) == ["error[SQB-B001]: wrong", "  SELECT ab", "         ^^"]
    cut = QueryFailed("wrong", at=At("", 1, 800, 2))
    assert list(format_error(cut, None, plain)) == ["error[SQB-B001]: line 1, column 800: wrong"]
