"""`view`: the query itself, stored in the catalog. Its rows are always those of the tables beneath it."""

from __future__ import annotations

from sqb.build.render import render
from sqb.build.turn import Outcome, Turn
from sqb.lake.metadata import text_token
from sqb.lake.port import STAGE_SCHEMA
from sqb.names import Relation, quote


def build_view(turn: Turn) -> Outcome:
    """Create or replace the view; a table in its place gives way in one step."""
    from sqb.spark import frames  # Spark is only there when something runs

    sql = render(turn.node, turn.live).sql.strip()
    properties = {**turn.identity(None), "sqb.view_text": text_token(sql)}
    if turn.node.description:
        properties["comment"] = turn.node.description
    turn.announce("before publish", turn.node.name)
    target = turn.node.relation
    in_the_way = turn.standing is not None and not turn.standing.is_view
    made = Relation(STAGE_SCHEMA, f"{target.schema}__{target.name}__{turn.run_id}") if in_the_way else target
    frames.create_view(turn.session(), quote(turn.catalog, made.schema, made.name), sql, properties)
    if in_the_way:
        turn.lake.move_view(made, target)
    turn.announce("view created", turn.node.name)
    state = turn.lake.tables([turn.lake.pointers()[target]])[target]
    return Outcome(0, state.snapshot_id, state)
