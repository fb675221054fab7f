"""The net change of one table as a frame, read in the way that the plan chose for it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from sqb.names import quote

if TYPE_CHECKING:
    from sqb.build.incremental.refresh import TableSlot
    from sqb.build.node.context import NodeContext


def read_slot_changes(
    context: NodeContext, session: Any, slot: TableSlot, columns: Sequence[str], stack: ExitStack, net: bool = True
) -> Any:
    """The change of a table over some of its columns; what is made to read it lasts as long as the stack.

    Where it need not be `net`, rows that came and went unchanged may be among it, each with its own sign.
    """
    from sqb.spark.data import changes  # the node has Spark by now

    old, new = slot.old, slot.state.snapshot_id
    assert old is not None and new is not None
    if slot.table_change.read_mode != "files":
        how: Any = slot.table_change.read_mode
        return changes.read_table_changes(session, slot.table, old, new, columns, how, net)
    staged = context.lake.stage_changed_files(slot.relation, old, new, columns, context.run_id)
    if staged is None:
        return changes.read_table_changes(session, slot.table, old, new, columns, "compared", net)
    stack.callback(context.lake.drop_changed_files, staged)
    if not staged.parts:
        return session.sql(f"SELECT {', '.join(map(quote, columns))}, 1L AS {changes.MULTIPLICITY} FROM {slot.nothing}")
    from sqb.spark.data.file_changes import read_file_changes

    table = quote(context.catalog, staged.relation.schema, staged.relation.name)
    return read_file_changes(session, table, staged.parts, columns, net)
