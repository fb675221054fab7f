"""The rows that a node would have if it were built now: queries of what is not built take the places of its tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqb.build.node.render import (
    Rendered,
    build_live_names,
    build_pinned_names,
    build_version_names,
    format_pinned,
    render_query,
)
from sqb.build.observe.lake import LakeState
from sqb.compile.model import Node
from sqb.errors.base import Errors
from sqb.errors.build import CursorUnfit
from sqb.errors.call import NotBuilt
from sqb.names import quote
from sqb.plan.model import Plan
from sqb.project.models.cursor import (
    HIGHEST,
    LOWEST,
    Form,
    build_cursor,
    format_literal,
    format_point,
    parse_point,
)
from sqb.project.models.kinds import HISTORY_KINDS, KINDS
from sqb.project.seeds import load_seed, read_columns
from sqb.sql.text.cursor_calls import END, START
from sqb.types.iceberg import to_stored_type
from sqb.workspace import Workspace

# Kinds whose table is what their query gives, whatever the table held.
_QUERY_KINDS = frozenset(kind.name for kind in KINDS.values() if kind.has_query_rows and not kind.is_history)
# Kinds that begin as what their query gives.
_FIRST_FROM_QUERY = frozenset(kind.name for kind in KINDS.values() if kind.is_history and not kind.added_columns)


@dataclass(slots=True)
class UnbuiltTables:
    """The texts that stand for nodes, and what has to be there for these: CTEs, and views of seeds."""

    workspace: Workspace
    seen: LakeState
    # The nodes that a build would make anew.
    stale: frozenset[str]
    ctes: dict[str, str] = field(default_factory=dict)
    seeds: dict[str, Node] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    # The nodes whose definitions are read in the place of their tables.
    replaced: set[str] = field(default_factory=set)

    def get_text(self, name: str) -> str:
        """What stands for a node or a source in a query."""
        node = self.workspace.project.nodes.get(name)
        if node is None:
            return self._pin(name)
        if not self.is_replaced(node):
            return self._pin_table(node)
        return self._define(node, lambda: self.render(node).sql)

    def is_replaced(self, node: Node) -> bool:
        """Whether a node's rows come from its definition and not from its table."""
        state = self.seen.states.get(node.relation)
        if node.kind == "view":
            return True
        if node.name not in self.stale and state is not None:
            return False
        if not node.python and (node.type == "seed" or node.kind in _QUERY_KINDS):
            if node.settings.get("on_source_delete") == "keep" and state is not None:
                self.notes[node.name] = f"{node.name} also keeps rows that its query no longer gives"
            return True
        if state is not None:
            self.notes[node.name] = f"{node.name} is out of date: its present rows are read"
            return False
        if node.kind in _FIRST_FROM_QUERY and not node.python:
            self.notes[node.name] = (
                f"{node.name} is not built: its rows are what its query gives over all of its inputs"
            )
            return True
        what = "a Python model" if node.python else f"of the kind {node.kind}"
        raise NotBuilt(
            f"{node.name} is {what} and is not built, so its rows are not known",
            hint=f"`sqb build -s +{node.name}` builds it",
        )

    def get_query(self, node: Node) -> str:
        """The rows of one node that are asked for: of a model that would run, what its query gives."""
        if node.python or node.type == "seed" or (node.name not in self.stale and node.relation in self.seen.states):
            return f"SELECT * FROM {self.get_text(node.name)}"
        if node.kind in HISTORY_KINDS:
            over = "every window" if node.kind == "incremental" else "all of its inputs"
            self.notes[node.name] = f"these are the rows of its query over {over}; its table keeps a history"
        return self.render(node).sql

    def render(self, node: Node, window: Mapping[str, str] | None = None) -> Rendered:
        """A node's query over what it reads, as that would be built."""
        names = self.workspace.project, self.seen.catalog, self.seen.externals
        live, at_version = build_live_names(*names, self.seen.files), build_version_names(*names, self.seen.states.get)
        return render_query(node, self.get_text, live, window, at_version)

    def _define(self, node: Node, build: Callable[[], str]) -> str:
        name = f"__sqb_{node.name.replace('.', '__')}"
        self.replaced.add(node.name)
        if node.type == "seed":
            self.seeds[name] = node
        elif name not in self.ctes:
            # What it reads comes before it.
            self.ctes[name] = build()
        return quote(name)

    def _pin_table(self, node: Node) -> str:
        state = self.seen.states[node.relation]
        return format_pinned(quote(self.seen.catalog, node.relation.schema, node.relation.name), state)

    def _pin(self, name: str) -> str:
        # An expression of a source may read other sources, and these are pinned too.
        names = self.workspace.project, self.seen.catalog, self.seen.externals
        return build_pinned_names(*names, self.seen.states.get, self.seen.files)(name)

    def add_ctes(self, sql: str) -> str:
        """A query with the CTEs that it needs before it."""
        if not self.ctes:
            return sql
        return f"{self._format_ctes()}{sql}\n)"

    def measure_ctes(self) -> int:
        """How much of the text stands before a query that has them."""
        return len(self._format_ctes()) if self.ctes else 0

    def _format_ctes(self) -> str:
        defined = ",\n".join(f"{quote(name)} AS (\n{text}\n)" for name, text in self.ctes.items())
        return f"WITH {defined}\n(\n"

    def register_seeds(self, session: Any) -> None:
        """Make the rows of seeds known to a session, as their files have them."""
        from sqb.spark.data.diff import create_frame

        root = self.workspace.root
        for name, node in self.seeds.items():
            seed = load_seed(root, root / node.file, errors := Errors())
            errors.raise_any()
            assert seed is not None
            columns = [(c.name, to_stored_type(c.type)) for c in seed.columns]
            create_frame(session, columns, read_columns(root, seed)).createOrReplaceTempView(name)


def list_stale_nodes(plan: Plan) -> frozenset[str]:
    """The nodes whose rows a build would make anew, or may."""
    return frozenset(n.name for n in plan.nodes if n.action != "skip" and n.run_type != "check")


@dataclass(frozen=True, slots=True)
class ShownWindow:
    """The part of an incremental model's query that is shown: from where its table ends, or between two points."""

    start: str | None = None
    end: str | None = None

    def build_frame(self, tables: UnbuiltTables, node: Node, session: Any) -> tuple[Any, str]:
        """The rows of the window, and the window as people write it."""
        from zoneinfo import ZoneInfo

        from sqb.spark.data import cursor as cursors
        from sqb.spark.data import frames

        cursor = build_cursor(node.settings)
        widest = session.sql(tables.add_ctes(tables.render(node).sql))
        column = next((c for c in widest.columns if c.lower() == cursor.column.lower()), None)
        form: Form | None = cursors.find_cursor_form(widest, column)[0] if column is not None else None
        if column is None or form is None:
            raise CursorUnfit(f'`cursor` names "{cursor.column}", which is no column that has windows')
        zone = ZoneInfo(frames.get_time_zone(session))
        start, end = (parse_point(p, form, zone) if p is not None else None for p in (self.start, self.end))
        if self.start is None and self.end is None:
            start = self._find_next(tables, node, session, column, form)
            if start is None and cursor.start is not None:
                start = parse_point(cursor.start, form, zone)
        ends = {
            START: format_literal(LOWEST[cursor.type] if start is None else start, form),
            END: format_literal(HIGHEST[cursor.type] if end is None else end, form),
        }
        frame = session.sql(tables.add_ctes(tables.render(node, ends).sql))
        words = [format_point(x, form) if x is not None else "…" for x in (start, end)]
        condition = cursors.build_window_condition(column, form, start, end)
        return frame.where(condition), f"[{words[0]}, {words[1]})"

    def _find_next(self, tables: UnbuiltTables, node: Node, session: Any, column: str, form: Form) -> int | None:
        """Where the next run begins; None where it begins at the first row."""
        from sqb.spark.data import cursor as cursors

        state = tables.seen.states.get(node.relation)
        if state is None:
            return None
        relation = node.relation
        table = format_pinned(quote(tables.seen.catalog, relation.schema, relation.name), state)
        top = cursors.compute_range(session.sql(f"SELECT * FROM {table}"), column, form)[1]
        return top - build_cursor(node.settings).lookback if top is not None else None
