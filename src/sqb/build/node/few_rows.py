"""Few rows go to a stage without Spark: a write of Spark's takes longer than all else that is done with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sqb.plan.recorded.commit_identity import MODEL

if TYPE_CHECKING:
    from sqb.build.node.context import NodeContext
    from sqb.lake.port import Shape
    from sqb.spark.data.frames import WrittenContent

# What a table may be told that says nothing of how its files are written.
_PLAIN_PROPERTIES = frozenset({MODEL, "comment"})


def can_fill(shape: Shape) -> bool:
    """Whether files for a table of this shape are as Spark would write them: nothing is asked for but rows."""
    is_laid_out = shape.partitioned_by or shape.sorted_by or shape.keeps_layout
    return not is_laid_out and _PLAIN_PROPERTIES.issuperset(shape.properties)


def fill_stage(context: NodeContext, stage: Any, rows: Any) -> bool:
    """Append an Arrow table to a stage; False where Spark has to do it, for values that Python cannot describe."""
    from sqb.lake.arrow.values import can_describe_values

    if not can_describe_values(rows):
        return False
    context.lake.fill_batches(stage, rows.to_batches())
    return True


def collect_and_fill(
    context: NodeContext, stage: Any, shape: Shape, frame: Any, part: Sequence[str] | None
) -> WrittenContent | None:
    """Append a query's few rows to a stage; their number and content, or None where Spark has to do it."""
    from sqb.spark.data import local_rows

    if not can_fill(shape):
        return None
    rows, written = local_rows.collect_and_compare(frame, part)
    return written if fill_stage(context, stage, rows) else None
