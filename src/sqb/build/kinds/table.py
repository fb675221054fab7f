"""`table`: the query's full result, replaced as a whole."""

from __future__ import annotations

from typing import Any

from sqb.build.turn import Outcome, Turn, staged
from sqb.names import quote


def build_table(turn: Turn) -> Outcome:
    """Run the query once, into a stage, and make that the table."""
    from sqb.spark import frames  # Spark is only there when something runs

    session = turn.session()
    frame = frames.analyse(session, turn.query().sql)
    shape = turn.shape(frames.columns_of(frame))

    def write(stage: Any) -> dict[str, Any]:
        name = quote(turn.catalog, stage.relation.schema, stage.relation.name)
        rows, content = frames.write_to_stage(session, frame, name, shape)
        return {"rows": rows, "content": content}

    return staged(turn, shape, write)
