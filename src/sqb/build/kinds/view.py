"""`view`: the query itself, stored in the catalog. Its rows are always those of the tables beneath it."""

from __future__ import annotations

from sqb.build.checks.run import check_view
from sqb.build.node.analyse import analyse_node
from sqb.build.node.context import NodeContext, NodeOutcome
from sqb.build.node.render import render_query
from sqb.lake.metadata.table_state import VIEW_TEXT, compute_text_token
from sqb.lake.port import STAGE_SCHEMA
from sqb.names import Relation, quote


def build_view(context: NodeContext) -> NodeOutcome:
    """Create the view in the stage schema, then replace the current relation in one step."""
    from sqb.spark.data import frames  # Spark is only there when something runs

    sql = render_query(context.node, context.live).sql.strip()
    comments: list[tuple[str, str | None]] = []
    if context.node.contract is not None or context.comments:
        _, columns = analyse_node(context, context.session())
        comments = [(c.name, context.comments.get(c.name.lower())) for c in columns] if context.comments else []
    passed = check_view(context)
    properties = context.build_identity(None, passed=passed.identity).to_properties()
    properties[VIEW_TEXT] = compute_text_token(sql)
    if context.node.description:
        properties["comment"] = context.node.description
    target = context.node.relation
    staged = Relation(STAGE_SCHEMA, f"{target.schema}__{target.name}__{context.run_id}")
    context.lake.ensure_schemas([target.schema])
    try:
        frames.create_view(
            context.session(), quote(context.catalog, staged.schema, staged.name), sql, properties, comments
        )
        context.announce("before publish", context.node.name)
        context.lake.publish_view(staged, target, context.current.base if context.current is not None else None)
    except BaseException:
        context.lake.discard_view(staged)
        raise
    context.announce("view created", context.node.name)
    state = context.lake.read_tables([context.lake.list_pointers()[target]])[target]
    return NodeOutcome(0, state.snapshot_id, state, notices=passed.notices, findings=passed.findings)
