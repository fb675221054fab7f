"""Rows of a model, or of a query of the user's own, as if everything that they read were built. Nothing is written."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqb.build.observe.lake import LakeState
from sqb.build.spark_engine import OnDemandSpark
from sqb.compile.model import Node, Project
from sqb.errors.call import BadSelector, CallError
from sqb.graph import find_reachable
from sqb.operations.environment import open_environment
from sqb.operations.inspect.query import QueryOptions, QueryResult, ReportPhase, run_resolved
from sqb.operations.inspect.write_rows import check_output
from sqb.operations.plan import observe_environment
from sqb.operations.selection import Wanted, select_nodes
from sqb.plan.decide import make_plan
from sqb.plan.model import Options
from sqb.workspace import Workspace

if TYPE_CHECKING:
    from sqb.inspect.asked_query import AskedQuery
    from sqb.inspect.query import ResolvedQuery
    from sqb.inspect.show import UnbuiltTables


@dataclass(frozen=True, slots=True)
class ShowOptions:
    """Whose rows are shown: a model's, or a query's; of an incremental model perhaps only a window."""

    name: str | None = None
    inline: str | None = None
    limit: int | None = 5
    virtual_env: str | None = None
    output: Path | None = None
    next_window: bool = False
    start_cursor: str | None = None
    end_cursor: str | None = None

    def __post_init__(self) -> None:
        """Refuse options that contradict each other."""
        if (self.name is None) == (self.inline is None):
            raise CallError(
                "name a model, or give a query with --inline",
                hint='`sqb show MODEL`, or `sqb show --inline "SELECT …"`',
            )
        if self.inline is not None and self.has_window:
            raise CallError("a window is of an incremental model, and --inline is a query", hint="name the model")
        if self.next_window and (self.start_cursor is not None or self.end_cursor is not None):
            raise CallError("--next-window and --start-cursor are two windows", hint="give one of them")
        if self.output is not None:
            check_output(self.output)

    @property
    def has_window(self) -> bool:
        return self.next_window or self.start_cursor is not None or self.end_cursor is not None


def show_rows(
    workspace: Workspace, options: ShowOptions, spark: OnDemandSpark, report_phase: ReportPhase = lambda text: None
) -> QueryResult:
    """The rows that a build would give now, of one node or of a query; `spark` is stopped."""
    started_at = time.monotonic()
    environment = open_environment(workspace, options.virtual_env)
    opened = environment.workspace
    try:
        node = _find_node(environment, options.name) if options.name is not None else None
        sql, asked, functions = _expand(options.inline or "", opened)
        reads = [node.name] if node is not None else _list_reads(sql, asked, opened, environment.lake)
        names = _list_above(reads, opened.project)
        seen = observe_environment(environment, opened, names, spark)
        tables = _build_tables(opened, seen, names)
        window = _parse_window(node, options) if node is not None and options.has_window else None
        if node is not None:
            query = _resolve_node(node, tables, window is not None)
        else:
            query = _resolve_query(sql, asked, tables, environment.lake, is_strict=not spark.has_given_session)
        wanted = QueryOptions(sql, options.limit, output=options.output)
        windows: list[str] = []

        def prepare(session: Any) -> Any:
            tables.register_seeds(session)
            if node is None or window is None:
                return None
            frame, words = window.build_frame(tables, node, session)
            windows.append(f"the window {words} of {node.name}")
            return frame

        result = run_resolved(opened, seen, query, wanted, spark, report_phase, functions, started_at, prepare)
    finally:
        spark.stop()
    return replace(result, notes=(*windows, *tables.notes.values()))


def _find_node(environment: Any, name: str) -> Node:
    project = environment.workspace.project
    chosen = sorted(select_nodes(environment, Wanted((name,)), project.nodes).names)
    if len(chosen) != 1:
        few = ", ".join(chosen[:5]) + (" …" if len(chosen) > 5 else "")
        raise BadSelector(f'"{name}" means {len(chosen)} nodes: {few}', hint="rows are shown of one: name it")
    node: Node = project.nodes[chosen[0]]
    return node


def _expand(inline: str, workspace: Workspace) -> tuple[str, AskedQuery, tuple[str, ...]]:
    """The query of --inline with the project's functions in the place of their calls, and those that Spark calls."""
    from sqb.inspect.asked_query import AskedQuery
    from sqb.inspect.query import expand_functions  # reads SQL

    called = expand_functions(inline, workspace.project, workspace.root)
    return called.text, AskedQuery(inline, called.pieces), tuple(called.functions)


def _list_reads(sql: str, asked: AskedQuery, workspace: Workspace, lake: Any) -> list[str]:
    """The nodes that a query of the user's own reads; none where only Spark can read it."""
    from sqb.inspect.query import Tables, find_node, parse_reading

    query = parse_reading(sql, asked)
    tables = Tables(workspace.project, workspace.connection.catalog.name, frozenset(lake.list_pointers()))
    value = (find_node(slot, tables) for slot in query.slots) if query is not None else ()
    return [node.name for node in value if node is not None]


def _list_above(names: Iterable[str], project: Project) -> frozenset[str]:
    """Nodes and all nodes above them."""
    edges = {n.name: n.upstream for n in project}
    return frozenset(name for name in find_reachable(names, edges) if name in project.nodes)


def _build_tables(workspace: Workspace, seen: LakeState, names: frozenset[str]) -> UnbuiltTables:
    from sqb.build.observe.mistakes import refuse_mistakes  # reads queries
    from sqb.inspect.show import UnbuiltTables, list_stale_nodes

    plan = make_plan(workspace.project, seen.observed, Options(names))
    refuse_mistakes(workspace, seen, plan, allow_breaking=True)
    return UnbuiltTables(workspace, seen, list_stale_nodes(plan))


def _resolve_node(node: Node, tables: UnbuiltTables, is_window: bool) -> ResolvedQuery:
    """The query that gives the rows of a node."""
    from sqb.inspect.query import ResolvedQuery

    project = tables.workspace.project
    text = tables.render(node).sql if is_window else tables.get_query(node)
    reads: tuple[str, ...] = tuple(sorted(_list_above([node.name], project)))
    sources = {name for above in reads for name in project.nodes[above].after}
    return ResolvedQuery(tables.add_ctes(text), tuple(sorted(sources)), reads)


def _resolve_query(sql: str, asked: AskedQuery, tables: UnbuiltTables, lake: Any, is_strict: bool) -> ResolvedQuery:
    """A query of the user's own over nodes as a build would make them."""
    from sqb.inspect.query import Tables, fill_tables

    project = tables.workspace.project
    existing = frozenset(lake.list_pointers())
    names = Tables(project, tables.seen.catalog, existing, lambda n: tables.get_text(n.name), is_strict)
    query = fill_tables(sql, names, tables.seen.files, asked)
    if is_strict:
        _refuse_mistakes(query, tables)
    above = _list_above(query.reads or (), project)
    sources = {*query.sources, *(name for n in above for name in project.nodes[n].after)}
    text, lead = tables.add_ctes(query.text), tables.measure_ctes()
    return replace(query, text=text, lead=lead, sources=tuple(sorted(sources)))


def _refuse_mistakes(query: ResolvedQuery, tables: UnbuiltTables) -> None:
    """Refuse what is surely wrong with a query, over the columns of what it reads."""
    from sqb.build.observe.columns import observe_columns
    from sqb.inspect.query_mistakes import refuse_query_mistakes

    refuse_query_mistakes(tables.workspace, query, observe_columns(tables.workspace, tables.seen, tables.replaced))


def _parse_window(node: Node, options: ShowOptions) -> Any:
    from sqb.inspect.show import ShownWindow

    if node.kind != "incremental":
        raise CallError(
            f"{node.name} has no windows: its kind is {node.kind}", hint="only models of the kind incremental have any"
        )
    return ShownWindow(options.start_cursor, options.end_cursor)
