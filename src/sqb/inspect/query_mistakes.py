"""Mistakes in a query of the user's own, reported before Spark starts: the rules are those of models."""

from __future__ import annotations

from collections.abc import Iterator

from sqb.build.observe.columns import build_signatures
from sqb.build.observe.mistakes import choose_error, has_own_rules
from sqb.errors.base import Errors, SqbError
from sqb.inspect.query import ResolvedQuery
from sqb.plan.node_columns import ProjectColumns
from sqb.sql.columns.cache import UNKNOWN_COLUMNS, ColumnsCache
from sqb.workspace import Workspace, compute_code_stamp


def refuse_query_mistakes(workspace: Workspace, query: ResolvedQuery, columns: ProjectColumns) -> None:
    """Raise everything that is surely wrong with a query, over tables that have these columns."""
    errors = Errors()
    for error in _iter_mistakes(workspace, query, columns):
        errors.add(error)
    errors.raise_any()


def _iter_mistakes(workspace: Workspace, query: ResolvedQuery, columns: ProjectColumns) -> Iterator[SqbError]:
    parsed = query.parsed
    if parsed is None or query.reads is None or has_own_rules(workspace):
        return
    cache = ColumnsCache(workspace.folder / "cache" / "columns", compute_code_stamp(), {})
    tables = [columns.columns.get(name, UNKNOWN_COLUMNS) for name in query.reads]
    result = cache.evaluate(parsed.runnable, parsed.slots, tables, build_signatures(workspace))
    for problem in result.problems:
        error = choose_error(workspace, problem)
        # Only a table has each name once.
        if error is None or problem.kind == "doubled column":
            continue
        asked = query.asked if problem.start >= 0 else None
        at, evidence = asked.locate(problem.start, problem.end) if asked is not None else (None, ())
        yield error(problem.message, at=at, hint=problem.hint, evidence=evidence)
