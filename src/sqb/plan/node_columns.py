"""The columns that every node and source has once a plan has run, derived through the queries. Pure.

A node that runs has the columns that its query gives; one that does not has those of its table. A relation that is
not known in full is open: it may have more columns, and sqb reports no mistake in what reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field
from functools import lru_cache

from sqb.compile.model import Node, Project
from sqb.light_dataclass import dataclass
from sqb.names import Relation
from sqb.plan.observed import RelationState
from sqb.project.models.kinds import KINDS, list_added_columns
from sqb.sql.columns.cache import UNKNOWN_COLUMNS, Columns
from sqb.sql.columns.problems import Problem
from sqb.sql.text.spans import Reference
from sqb.types.iceberg import read_stored_type, to_stored_type
from sqb.types.parse import parse_type

StateOf = Callable[[Relation], RelationState | None]
# The columns of a query, by its text and slots, over the columns of what is in the slots.
Evaluate = Callable[[str, Sequence[Reference], Sequence[Columns]], Columns]

# The kinds whose table is what the query gives; the others keep columns of before.
_LIKE_THEIR_QUERY = frozenset(kind.name for kind in KINDS.values() if kind.has_query_columns)
# Statements of hooks that give tables other columns, or names to sessions.
_ALTERING = ("alter ", "declare ", "create ", "replace ")


@dataclass(frozen=True, slots=True)
class ProjectColumns:
    """The columns of everything, by name, and what is wrong with the queries of models."""

    columns: Mapping[str, Columns] = field(default_factory=dict)
    problems: Mapping[str, tuple[Problem, ...]] = field(default_factory=dict)


def derive_project_columns(
    project: Project, running: Collection[str], state_of: StateOf, evaluate: Evaluate, names: Iterable[str] = ()
) -> ProjectColumns:
    """The columns after a build in which these nodes run; of `names` also the mistakes, though they do not run."""
    return _Deriver(project, running, state_of, evaluate, frozenset(names)).derive()


class _Deriver:
    def __init__(
        self,
        project: Project,
        running: Collection[str],
        state_of: StateOf,
        evaluate: Evaluate,
        names: frozenset[str],
    ) -> None:
        self.project, self.running, self.state_of, self.evaluate = project, running, state_of, evaluate
        self.names = names
        self.columns: dict[str, Columns] = {}
        self.problems: dict[str, tuple[Problem, ...]] = {}

    def derive(self) -> ProjectColumns:
        for node in self.project:
            self.columns[node.name] = self._derive_node(node)
        return ProjectColumns(self.columns, self.problems)

    def _derive_node(self, node: Node) -> Columns:
        if node.type == "seed" and not node.unread:
            return Columns(tuple((name, str(text)) for name, text in node.settings["columns"]))
        runs = node.name in self.running
        table = read_table_columns(node.relation, self.state_of)
        if node.python or node.unread:
            return UNKNOWN_COLUMNS if runs or table is None else table
        if not runs and node.kind != "view" and node.name not in self.names:
            return table or UNKNOWN_COLUMNS
        result = self.evaluate(node.sql, node.slots, [self.get_columns(name) for name in node.reads])
        if not _has_altering_hooks(node, "pre"):
            self.problems[node.name] = result.problems
        if not runs and node.kind != "view":
            return table or UNKNOWN_COLUMNS
        if node.kind == "custom" or _has_altering_hooks(node, "post"):
            return UNKNOWN_COLUMNS
        return _add_table_columns(node, _to_stored(result), table)

    def get_columns(self, name: str) -> Columns:
        """The columns of a node or of what is outside of the project."""
        if name not in self.columns:
            # A source in terms of itself is refused elsewhere.
            self.columns[name] = UNKNOWN_COLUMNS
            self.columns[name] = self._derive_external(name)
        return self.columns[name]

    def _derive_external(self, name: str) -> Columns:
        source, external = self.project.sources.get(name), self.project.externals.get(name)
        loader = self.project.loaders.get(name)
        if loader is not None and loader in self.running:
            return UNKNOWN_COLUMNS
        if source is not None and source.function is not None:
            return Columns(tuple(source.function.columns))
        if source is not None and source.expression is not None:
            query = source.expression
            result = self.evaluate(query.sql, query.slots, [self.get_columns(read) for read in query.reads])
            return Columns(result.columns, result.is_open)
        if external is None or (source is not None and source.path is not None):
            return UNKNOWN_COLUMNS
        return read_table_columns(external.relation, self.state_of) or UNKNOWN_COLUMNS


def read_table_columns(relation: Relation, state_of: StateOf) -> Columns | None:
    """The columns that a table has now; None when there is no such table, or something else in its place."""
    state = state_of(relation)
    if state is None or state.is_view or state.version.definition is not None or not state.version.shape:
        return None
    return Columns(tuple((name, _format_stored_type(text)) for name, text, *_ in state.version.shape))


@lru_cache(maxsize=4096)
def _format_stored_type(text: str) -> str:
    return str(read_stored_type(text))


def _has_altering_hooks(node: Node, when: str) -> bool:
    return any(hook.when == when and hook.text.lstrip().lower().startswith(_ALTERING) for hook in node.hooks)


def _to_stored(columns: Columns) -> Columns:
    """Columns as a table holds them."""
    stored = []
    for name, text in columns.columns:
        kind = parse_type(text)
        stored.append((name, str(to_stored_type(kind)) if kind is not None else text))
    return Columns(tuple(stored), columns.is_open)


def _add_table_columns(node: Node, derived: Columns, table: Columns | None) -> Columns:
    """The columns of a table after a run: those of the query, those that the kind adds, and those that stay."""
    if more := list_added_columns(node.kind):
        names = {name.lower() for name in derived.names}
        derived = Columns(
            (*derived.columns, *(c for c in more if c[0] not in names)), derived.is_open, derived.problems
        )
    if node.kind in _LIKE_THEIR_QUERY or table is None or node.settings.get("on_schema_change") == "sync_all_columns":
        return derived
    names = {name.lower() for name in table.names}
    added = tuple((n, t) for n, t in derived.columns if n is None or n.lower() not in names)
    return Columns((*table.columns, *added), derived.is_open)
