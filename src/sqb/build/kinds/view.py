"""`view`: the query itself, stored in the catalog. Its rows are always those of the tables beneath it."""

from __future__ import annotations

from sqb.build.checking import check_view
from sqb.build.contracts import analysed
from sqb.build.render import render
from sqb.build.turn import Outcome, Turn
from sqb.lake.metadata import VIEW_TEXT, text_token
from sqb.lake.port import STAGE_SCHEMA
from sqb.names import Relation, quote


def build_view(turn: Turn) -> Outcome:
    """Make the view where nobody looks, and put it in the place of what stood there in one step."""
    from sqb.spark import frames  # Spark is only there when something runs

    sql = render(turn.node, turn.live).sql.strip()
    comments: list[tuple[str, str | None]] = []
    if turn.node.contract is not None or turn.comments:
        _, columns = analysed(turn, turn.session())
        comments = [(c.name, turn.comments.get(c.name.lower())) for c in columns] if turn.comments else []
    passed = check_view(turn)
    properties = {**turn.identity(None, passed=passed.summary), VIEW_TEXT: text_token(sql)}
    if turn.node.description:
        properties["comment"] = turn.node.description
    target = turn.node.relation
    staged = Relation(STAGE_SCHEMA, f"{target.schema}__{target.name}__{turn.run_id}")
    turn.lake.ensure_schemas([target.schema])
    try:
        frames.create_view(turn.session(), quote(turn.catalog, staged.schema, staged.name), sql, properties, comments)
        turn.announce("before publish", turn.node.name)
        turn.lake.publish_view(staged, target, turn.standing.base if turn.standing is not None else None)
    except BaseException:
        turn.lake.discard_view(staged)
        raise
    turn.announce("view created", turn.node.name)
    state = turn.lake.tables([turn.lake.pointers()[target]])[target]
    return Outcome(0, state.snapshot_id, state, notices=passed.notices, findings=passed.findings)
