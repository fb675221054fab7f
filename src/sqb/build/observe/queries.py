"""What is known of a node's query before it runs: its tables, and what is proven of it over their columns.

Reads no rows and starts no Spark. A query is parsed only where its class is not cached.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqb.build.incremental.fallback import explain_fallback
from sqb.build.node.render import AtVersion, Name, resolve_fixed_slot
from sqb.compile.model import Node, Project
from sqb.names import Relation
from sqb.plan.observed import RelationState
from sqb.plan.refresh.choose import ObservedTable, QueryObservation
from sqb.sql.delta.cache import ClassificationCache
from sqb.sql.delta.facts import Facts
from sqb.sql.text.template import Part, Template, build_template
from sqb.types.format import format_sql_type
from sqb.types.iceberg import read_stored_type
from sqb.workspace import Workspace, compute_code_stamp

StateOf = Callable[[Relation], RelationState | None]


def open_classifications(workspace: Workspace) -> ClassificationCache:
    """The classes of the project's queries, as far as they are known."""
    return ClassificationCache(workspace.folder / "cache" / "classes", compute_code_stamp())


def build_node_template(node: Node, project: Project, live: Name, at_version: AtVersion) -> Template:
    """A node's query as a template, seen through views."""
    return build_template(
        Part(node.sql, node.slots, node.reads),
        _list_views(project),
        lambda sql, slot, name: resolve_fixed_slot(sql, slot, name, live, at_version),
    )


def _list_views(project: Project) -> Mapping[str, Part]:
    """What queries are seen through, by name; every node that runs asks for the same."""
    views: dict[str, Part] | None = project.memo.get(("views",))
    if views is None:
        views = {n.name: Part(n.sql, n.slots, n.reads) for n in project if n.kind == "view"}
        queries = ((s.name, s.expression) for s in project.sources.values() if s.name not in project.nodes)
        views |= {name: Part(q.sql, q.slots, q.reads) for name, q in queries if q is not None}
        project.memo["views",] = views
    return views


def observe_query(
    node: Node,
    project: Project,
    template: Template,
    externals: Mapping[str, Relation],
    state_of: StateOf,
    classifications: ClassificationCache,
) -> QueryObservation:
    """The tables of a query as they are now, and what is proven of the query over their columns."""
    tables = observe_tables(template.names, project, externals, state_of)
    try:
        return QueryObservation(tables, _classify(node, project, template, tables, classifications))
    except Exception as error:
        return QueryObservation(tables, failure=str(explain_fallback(error)))


def observe_tables(
    names: tuple[str, ...], project: Project, externals: Mapping[str, Relation], state_of: StateOf
) -> tuple[ObservedTable, ...]:
    """The tables of these names as they are now."""
    tables = []
    for name in names:
        node = project.nodes.get(name)
        relation = node.relation if node is not None else externals.get(name, project.externals[name].relation)
        state = state_of(relation)
        # Files, functions and views of others have no snapshots.
        is_table = state is not None and not state.is_view and state.version.definition is None
        tables.append(ObservedTable(name, relation, state if is_table else None))
    return tuple(tables)


def _classify(
    node: Node,
    project: Project,
    template: Template,
    tables: tuple[ObservedTable, ...],
    classifications: ClassificationCache,
) -> Facts | None:
    """What is proven of a query; None when one of its tables is not there, or is a view that sqb did not make."""
    schemas = []
    for table in tables:
        if table.state is None:
            return None
        schemas.append({f[0]: format_sql_type(read_stored_type(f[1])) for f in table.state.version.shape})
    if node.unread:
        return Facts("opaque", f"the query could not be analysed ({node.unread})")
    python = (f for f in project.functions if f.language == "python" and not f.is_table)
    return classifications.classify(node.name, template, schemas, {f.name for f in python if f.deterministic})
