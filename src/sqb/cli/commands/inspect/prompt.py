"""`sqb query` alone: a prompt that takes one query after another, with history and completion, on one Spark."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Protocol

from sqb.build.spark_engine import OnDemandSpark
from sqb.cli.commands.inspect.prompt_line import complete, keep_history
from sqb.cli.commands.inspect.rows import RowsForm, print_rows
from sqb.cli.options import CommonOptions, parse_call
from sqb.cli.output import create_spark, print_lines
from sqb.console.errors import print_error
from sqb.console.lines import format_table
from sqb.console.phase import show_waiting
from sqb.errors.base import SqbError
from sqb.operations.inspect.query import QueryOptions, run_query
from sqb.operations.inspect.tables import describe_table, list_tables
from sqb.sql.text.lexer import tokenize_code
from sqb.workspace import Workspace

_WORDS = (
    "SELECT FROM WHERE GROUP BY HAVING ORDER LIMIT JOIN LEFT INNER ON USING WITH AS AND OR NOT NULL IS IN BETWEEN LIKE"
    " CASE WHEN THEN ELSE END DISTINCT UNION ALL count sum avg min max cast date_trunc coalesce DESCRIBE EXPLAIN SHOW"
)
_HELP = r"""Queries end with ; and may have many lines. Tab completes names.
  \d         the tables that can be read        \d NAME    the columns of one
  \x         one value a line, or a table again \q         leave (or Ctrl-D)"""


def run_prompt(limit: int | None, form: RowsForm, **values: Any) -> int:
    """Ask for queries until there are no more."""
    common, options = parse_call(QueryOptions, {**values, "sql": "", "limit": limit})
    workspace = common.open_workspace()
    spark = create_spark(workspace, "query_")
    prompt = Prompt(workspace, common, options, spark, form)
    print(f"{workspace.project.name}, target {workspace.project.target}. Queries end with ;  \\? is help, \\q leaves.")
    try:
        with keep_history(workspace.folder / "query_history") as history, complete(prompt.list_words):
            for text in read_statements(history.ask, f"{workspace.project.target}> ", history.join):
                if not prompt.answer(text):
                    break
    finally:
        spark.stop()
    return 0


class Ask(Protocol):
    """Asks for a line, the first of a query or one more."""

    def __call__(self, prompt: str, is_first: bool) -> str: ...


def read_statements(ask: Ask, prompt: str, remember: Callable[[str], None] = lambda text: None) -> Iterator[str]:
    """What is typed: commands that begin with a backslash, and queries up to their semicolon."""
    begun = ""
    while True:
        try:
            line = ask("." * (len(prompt) - 2) + "> " if begun else prompt, not begun)
        except EOFError:
            print()
            return
        except KeyboardInterrupt:
            # What was begun is forgotten, as in a shell.
            print()
            begun = ""
            continue
        word = line.strip()
        # No query has a line that begins so.
        if word.startswith("\\") or (not begun and word.lower().rstrip(";") in ("exit", "quit")):
            yield word
            continue
        begun = f"{begun}\n{line}" if begun else line
        statements, rest = split_statements(begun)
        if statements and not rest:
            remember(begun)
        begun = rest
        yield from statements


def split_statements(text: str) -> tuple[list[str], str]:
    """The queries in a text that end with a semicolon, and what is begun after them."""
    statements, start = [], 0
    for token in (tokens := tokenize_code(text)):
        if token.text == ";":
            statements.append(text[start : token.end].strip())
            start = token.end
    is_begun = bool(tokens) and tokens[-1].text != ";"
    # A comment that is never closed is a token too.
    return [statement for statement in statements if statement != ";"], text[start:].strip(" ") if is_begun else ""


class Prompt:
    """What is done with what is typed."""

    def __init__(
        self, workspace: Workspace, common: CommonOptions, options: QueryOptions, spark: OnDemandSpark, form: RowsForm
    ) -> None:
        self._workspace, self._common, self._options, self._spark = workspace, common, options, spark
        self._form = form
        self._words: list[str] | None = None

    def answer(self, text: str) -> bool:
        """Run a query or a command; whether to go on."""
        if text.lower().rstrip(";") in ("\\q", "exit", "quit"):
            return False
        try:
            self._run(text)
        except SqbError as error:
            print_error(error, None)
        except KeyboardInterrupt:
            self._spark.get_engine().cancel()
            print("Interrupted.", file=sys.stderr)
        return True

    def _run(self, text: str) -> None:
        match text.rstrip(";").split():
            case ["\\d"]:
                tables = list_tables(self._workspace, self._options.virtual_env)
                print_lines(
                    format_table(("name", "kind", "columns"), ((t.name, t.kind, len(t.columns)) for t in tables))
                )
            case ["\\d", name]:
                table = describe_table(self._workspace, self._options.virtual_env, name)
                print_lines(format_table(("column", "type"), table.columns.items()))
            case ["\\x"]:
                self._form = RowsForm(self._form.as_csv, not self._form.vertical, self._form.no_pager)
                print("One value a line." if self._form.vertical else "Tables where they fit.")
            case [word] if word.startswith("\\"):
                print(_HELP)
            case _:
                self._query(text)

    def _query(self, text: str) -> None:
        # Models may have been edited, and others built, since the last query.
        self._workspace = self._common.open_workspace()
        options = QueryOptions(text, self._options.limit, self._options.virtual_env)
        with show_waiting() as show:
            result = run_query(self._workspace, options, self._spark, show, is_last=False)
        print_rows(result, self._form, self._common)

    def list_words(self) -> list[str]:
        """What may be completed: names of tables and of their columns, and words of SQL."""
        if self._words is None:
            words = set(_WORDS.split())
            with suppress(SqbError):
                for table in list_tables(self._workspace, self._options.virtual_env):
                    words |= {table.name, table.name.rpartition(".")[2], *table.columns}
            self._words = sorted(words)
        return self._words
