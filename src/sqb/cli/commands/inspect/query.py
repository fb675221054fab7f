"""`sqb query`: where its SQL comes from, and its output."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from sqb.cli.commands.inspect.rows import print_rows, split_form
from sqb.cli.options import parse_call
from sqb.cli.output import create_spark
from sqb.console.phase import show_waiting
from sqb.errors.call import CallError
from sqb.operations.inspect import query

_DEFAULT_LIMIT = 100


def run_query(sql: str | None, file: Path | None, limit: int | None, **values: Any) -> int:
    """Run one query on Spark and print its rows; without one, ask for queries at the terminal."""
    form, rest = split_form(values)
    if limit is None and values["output"] is None:
        limit = _DEFAULT_LIMIT
    if sql is None and file is None and sys.stdin.isatty() and sys.stdout.isatty():
        from sqb.cli.commands.inspect.prompt import run_prompt  # few queries are asked for there

        return run_prompt(limit, form, **rest)
    text = read_sql(sql, file)
    common, options = parse_call(query.QueryOptions, {**rest, "sql": text, "limit": limit})
    workspace = common.open_workspace()
    with show_waiting() as show:
        result = query.run_query(workspace, options, create_spark(workspace, "query_"), show)
    print_rows(result, form, common)
    return 0


def read_sql(sql: str | None, file: Path | None) -> str:
    """The text of a query: as it was given, from a file, or from standard input."""
    if sql is not None and file is not None:
        raise CallError("a query and --file are two queries", hint="give one of them")
    if sql is not None and sql != "-":
        # People name the file that they have just written.
        if not (sql.lower().endswith(".sql") and len(sql.split()) == 1):
            return sql
        file = Path(sql)
    if sql == "-" or (file is not None and str(file) == "-"):
        return sys.stdin.read()
    if file is None:
        raise CallError("there is no query", hint="write it in quotes, name a file with -f, or - for standard input")
    try:
        return file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise CallError(f"{file} cannot be read: {why}", hint="-f takes the path of a file with SQL") from error
