"""The prompt of `sqb query`: what is a query, what is a command, and that errors do not end it."""

from __future__ import annotations

import readline
from collections.abc import Iterator
from pathlib import Path

import pytest

from sqb.build.spark_engine import OnDemandSpark
from sqb.cli import entry
from sqb.cli.commands.inspect.prompt import Prompt, read_statements
from sqb.cli.commands.inspect.prompt_line import History, find_completions
from sqb.cli.commands.inspect.rows import RowsForm
from sqb.cli.options import CommonOptions
from sqb.operations.inspect.query import QueryOptions
from sqb.workspace import open_workspace
from unit.folders import write


def type_lines(*lines: str | type[BaseException]) -> list[str]:
    typed: Iterator[str | type[BaseException]] = iter((*lines, EOFError))

    def ask(prompt: str, is_first: bool) -> str:
        assert prompt == ("dev> " if is_first else "...> ")
        line = next(typed)
        if isinstance(line, str):
            return line
        raise line

    return list(read_statements(ask, "dev> "))


def test_what_is_typed() -> None:
    assert type_lines("", "select 1;", "\\d x", "select", "", "2 ;", "exit") == [
        "select 1;",
        "\\d x",
        "select\n\n2 ;",
        "exit",
    ]
    assert type_lines("select 1", KeyboardInterrupt, "select 2;") == ["select 2;"]


def test_queries_end_where_their_semicolons_are() -> None:
    assert type_lines("select 1; select", "2; ;;", "select ';' as x;") == [
        "select 1;",
        "select\n2;",
        "select ';' as x;",
    ]
    assert type_lines("select 1; -- done", "-- only this", "select 2; /* a", "; */ select 3;") == [
        "select 1;",
        "select 2;",
        "/* a\n; */ select 3;",
    ]
    assert type_lines("select 1", "\\d", "+ 2;", "\\q") == ["\\d", "select 1\n+ 2;", "\\q"]


def test_a_query_of_several_lines_comes_back_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    typed = iter(["select 0;", "select 1", "  , 2;", "select 3 -- three", "+ 1;"])

    def type_line(prompt: str) -> str:
        line = next(typed, None)
        if line is None:
            raise EOFError
        readline.add_history(line)
        return line

    monkeypatch.setattr("builtins.input", type_line)
    readline.clear_history()
    history = History()
    list(read_statements(history.ask, "dev> ", history.join))
    lines = [readline.get_history_item(n + 1) for n in range(readline.get_current_history_length())]
    readline.clear_history()
    assert lines == ["select 0;", "select 1   , 2;", "select 3 -- three", "+ 1;"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("FCT", ["fct_orders"]),
        ("marts.f", ["marts.fct_orders"]),
        ("o.tot", ["o.total"]),
        ("o.", ["o.fct_orders", "o.total"]),
        ("xyz", []),
    ],
)
def test_what_tab_completes(text: str, expected: list[str]) -> None:
    assert find_completions(text, ["fct_orders", "marts.fct_orders", "total"]) == expected


@pytest.fixture
def prompt(tmp_path: Path) -> Prompt:
    import sqb

    root = write(tmp_path, {"seeds/people.csv": "id,name\n1,Ada\n", "models/m.sql": "SELECT id FROM people"})
    sqb.Project(root).build(select="people").raise_for_failures()
    workspace = open_workspace(root)
    spark = OnDemandSpark(workspace, print)
    return Prompt(workspace, CommonOptions(root), QueryOptions(""), spark, RowsForm())


def test_commands_and_errors(prompt: Prompt, capsys: pytest.CaptureFixture[str]) -> None:
    assert prompt.answer("\\d") and "seeds.people  seed  2" in capsys.readouterr().out
    assert prompt.answer("\\d people")
    assert capsys.readouterr().out.splitlines()[2:] == ["id      BIGINT", "name    STRING"]
    assert prompt.answer("\\d peple") and "did you mean" in capsys.readouterr().err
    assert prompt.answer("select * from nobody;") and "SQB-C009" in capsys.readouterr().err
    assert prompt.answer("drop table people;") and "only reads" in capsys.readouterr().err
    assert prompt.answer("\\x") and capsys.readouterr().out == "One value a line.\n"
    assert prompt.answer("\\?") and "\\q" in capsys.readouterr().out
    assert not prompt.answer("\\q") and not prompt.answer("quit;")


def test_names_to_complete(prompt: Prompt) -> None:
    assert {"seeds.people", "people", "name", "SELECT"} <= set(prompt.list_words())


def test_a_prompt_is_not_handed_to_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    assert entry._asks_for_queries(["query"]) and entry._asks_for_queries(["query", "--limit", "5"])
    assert not any(
        entry._asks_for_queries(words)
        for words in (["query", "select 1"], ["query", "-"], ["query", "-f", "x.sql"], ["plan"], [])
    )
