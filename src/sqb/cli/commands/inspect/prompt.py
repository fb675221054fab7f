"""`sqb query` alone: a prompt that takes one query after another, with history and completion, on one Spark."""

from __future__ import annotations

import readline
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sqb.build.spark_engine import OnDemandSpark
from sqb.cli.commands.inspect.rows import RowsForm, print_rows
from sqb.cli.options import CommonOptions, parse_call
from sqb.cli.output import create_spark, print_lines
from sqb.console.errors import print_error
from sqb.console.lines import format_table
from sqb.console.phase import show_waiting
from sqb.errors.base import SqbError
from sqb.operations.inspect.query import QueryOptions, run_query
from sqb.operations.inspect.tables import describe_table, list_tables
from sqb.workspace import Workspace

_MOST_HISTORY = 1000
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
        with _keep_history(workspace.folder / "query_history"), _complete(prompt.list_words):
            for text in read_statements(input, f"{workspace.project.target}> "):
                if not prompt.answer(text):
                    break
    finally:
        spark.stop()
    return 0


def read_statements(ask: Callable[[str], str], prompt: str) -> Iterator[str]:
    """What is typed: commands that begin with a backslash, and queries up to their semicolon."""
    lines: list[str] = []
    while True:
        try:
            line = ask(prompt if not lines else "." * (len(prompt) - 2) + "> ")
        except EOFError:
            print()
            return
        except KeyboardInterrupt:
            # What was begun is forgotten, as in a shell.
            print()
            lines = []
            continue
        word = line.strip()
        if not lines and (word.startswith("\\") or word.lower().rstrip(";") in ("exit", "quit")):
            yield word
        elif lines or word:
            lines.append(line)
        if lines and word.endswith(";"):
            text, lines = "\n".join(lines), []
            yield text


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
                    words |= {table.name, *table.columns}
            self._words = sorted(words)
        return self._words


@contextmanager
def _keep_history(path: Path) -> Iterator[None]:
    """What was typed before can be recalled, and what is typed now the next time."""
    with suppress(OSError):
        readline.read_history_file(path)
    readline.set_history_length(_MOST_HISTORY)
    try:
        yield
    finally:
        with suppress(OSError):
            path.parent.mkdir(exist_ok=True)
            # Queries may hold what is nobody else's business.
            path.touch(mode=0o600)
            readline.write_history_file(path)


@contextmanager
def _complete(list_words: Callable[[], list[str]]) -> Iterator[None]:
    """Tab completes names while this lasts."""
    matches: list[str] = []

    def find(text: str, state: int) -> str | None:
        nonlocal matches
        if state == 0:
            matches = [word for word in list_words() if word.lower().startswith(text.lower())] if text else []
        return matches[state] if state < len(matches) else None

    before, delimiters = readline.get_completer(), readline.get_completer_delims()
    readline.set_completer(find)
    readline.set_completer_delims(" \t\n,()=<>+-*/;'\"")
    # What Apple ships under this name has other words.
    is_editline = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if is_editline else "tab: complete")
    try:
        yield
    finally:
        readline.set_completer(before)
        readline.set_completer_delims(delimiters)
