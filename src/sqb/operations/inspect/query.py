"""One query of the user's own, run on Spark."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqb.build.events import Event, PhaseStarted, SparkStarted
from sqb.build.observe.files import SparkFileViews
from sqb.build.observe.lake import LakeState, observe_lake
from sqb.build.spark_engine import OnDemandSpark
from sqb.compile.model import Project
from sqb.errors.base import SqbError
from sqb.errors.build import QueryFailed
from sqb.operations.environment import open_read_only
from sqb.operations.inspect.write_rows import check_output, encode_value, number_repeated, write_rows
from sqb.workspace import Workspace

if TYPE_CHECKING:
    from sqb.inspect.query import ResolvedQuery

# Hears what a query waits for: "starting Spark", "running".
ReportPhase = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class QueryOptions:
    """A query, how many of its rows are wanted, and the environment that it reads."""

    sql: str
    # None for all of them.
    limit: int | None = 100
    virtual_env: str | None = None
    # Where the rows are written to: a .parquet, .csv or .jsonl file.
    output: Path | None = None

    def __post_init__(self) -> None:
        """Refuse a file that cannot be written."""
        if self.output is not None:
            check_output(self.output)


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The columns and the first rows of a query; of rows that went into a file only their number."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    seconds: float
    # There are more rows than were asked for.
    is_cut: bool = False
    output: Path | None = None
    written: int = 0
    # What is to be known of the rows.
    notes: tuple[str, ...] = ()

    def to_data(self) -> dict[str, Any]:
        """What `sqb query --json` prints."""
        if self.output is not None:
            return {"columns": list(self.columns), "output": str(self.output), "rows_written": self.written}
        names = number_repeated(self.columns)
        rows = [dict(zip(names, map(encode_value, row), strict=True)) for row in self.rows]
        return {"columns": list(self.columns), "rows": rows}


def run_query(
    workspace: Workspace,
    options: QueryOptions,
    spark: OnDemandSpark,
    report_phase: ReportPhase = lambda text: None,
    is_last: bool = True,
) -> QueryResult:
    """Run one query, which can only read; `spark` is stopped, unless more queries follow."""
    from sqb.build.observe.columns import observe_columns
    from sqb.inspect.asked_query import AskedQuery
    from sqb.inspect.query import expand_functions, resolve_query  # reads SQL
    from sqb.inspect.query_mistakes import refuse_query_mistakes

    opened, lake = open_read_only(workspace, options.virtual_env, as_shown=True)
    started_at = time.monotonic()
    seen = observe_lake(opened, lake)
    called = expand_functions(options.sql, opened.project, opened.root)
    asked = AskedQuery(options.sql, called.pieces)
    query = resolve_query(called.text, opened, lake, seen.files, not spark.has_given_session, asked)
    if not spark.has_given_session:  # which may know other tables and functions
        refuse_query_mistakes(opened, query, observe_columns(opened, seen, frozenset()))
    # Functions are made known to a session when it is made: one that stays needs all of them.
    functions: Collection[str] = called.functions if is_last else [f.name for f in opened.project.functions]
    try:
        return run_resolved(opened, seen, query, options, spark, report_phase, functions, started_at)
    finally:
        if is_last:
            spark.stop()


def run_resolved(
    workspace: Workspace,
    seen: LakeState,
    query: ResolvedQuery,
    options: QueryOptions,
    spark: OnDemandSpark,
    report_phase: ReportPhase,
    functions: Collection[str],
    started_at: float,
    prepare: Callable[[Any], Any] = lambda session: None,
) -> QueryResult:
    """Run a query whose names are resolved.

    `prepare` is given its session first, and may return a frame whose rows are wanted instead.
    """
    engine = spark.get_engine(functions=functions)
    engine.expect_rows(estimate_rows(query, workspace.project, seen))
    engine.tell(lambda event: _report(event, report_phase))
    session = engine.session()
    report_phase("running")
    from sqb.spark.errors import explain_failure  # Spark is there, and pyspark with it

    SparkFileViews(seen.files).register(session, query.sources, workspace.project)
    try:
        frame = prepare(session)
        return _collect(session.sql(query.text) if frame is None else frame, options, started_at)
    except (SqbError, KeyboardInterrupt):
        raise
    except Exception as error:
        failure = explain_failure(error, query.text)
        at, evidence = query.locate(failure.start, failure.stop) if failure.start >= 0 else (None, ())
        raise QueryFailed(failure.message, at=at, hint=failure.hint, evidence=evidence) from error


def _collect(frame: Any, options: QueryOptions, started_at: float) -> QueryResult:
    from sqb.spark.data.frames import collect_arrow, collect_rows
    from sqb.spark.data.portable import make_portable

    frame = make_portable(frame, is_for_file=options.output is not None)
    if options.output is not None:
        columns, count = write_rows(collect_arrow(frame, options.limit), options.output)
        return QueryResult(columns, (), time.monotonic() - started_at, output=options.output, written=count)
    limit = options.limit
    # One more tells whether there are more.
    columns, rows = collect_rows(frame, limit + 1 if limit is not None else None)
    is_cut = limit is not None and len(rows) > limit
    return QueryResult(columns, tuple(rows[:limit]), time.monotonic() - started_at, is_cut)


def _report(event: Event, report_phase: ReportPhase) -> None:
    match event:
        case PhaseStarted(text=text):
            report_phase(text)
        case SparkStarted():
            report_phase("running")
        case _:
            pass


def estimate_rows(query: ResolvedQuery, project: Project, seen: LakeState) -> int | None:
    """The rows that a query reads, as far as metadata tells."""
    from sqb.build.work_size import build_row_counter, estimate_generated_rows

    if query.reads is None:
        return None
    counts = [*map(build_row_counter(project, seen), query.reads), estimate_generated_rows(query.text)]
    return None if None in counts else sum(filter(None, counts))
