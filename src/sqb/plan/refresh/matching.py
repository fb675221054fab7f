"""Which rows of a large table can belong to the changed rows of another: what is worth asking of statistics. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqb.light_dataclass import dataclass

if TYPE_CHECKING:
    from sqb.plan.refresh.choose import RefreshCase, TableChange
    from sqb.sql.delta.operators.model import Origin

# A smaller table is read as quickly as statistics of its files.
_LARGE = 100_000


@dataclass(frozen=True, slots=True)
class JoinedTable:
    """A large table that is joined by a column to a column of a table that changed, or itself changed."""

    table: TableChange
    column: str
    changed: TableChange
    by: str

    @property
    def key(self) -> tuple[Origin, Origin]:
        """The two columns, each with the slot of its table."""
        return (self.table.index, self.column), (self.changed.index, self.by)


def list_joined_tables(case: RefreshCase, tables: tuple[TableChange, ...]) -> list[JoinedTable]:
    """The large tables of a query of which changed rows of other tables may concern only a part."""
    facts = case.query.facts
    if facts is None or facts.tree is None:
        return []
    by_slot = {table.index: table for table in tables}
    links = [link for o in facts.tree.operators if o.block is not None for link in o.block.links]
    joined = {}
    for origin, by in (pair for link in links for pair in ((link.origin, link.by_origin), (link.origin, link.origin))):
        table, changed = by_slot.get(origin[0]), by_slot.get(by[0])
        if table is None or changed is None or not changed.is_changed or changed.late_by:
            continue
        if (table.rows or 0) >= _LARGE:
            one = JoinedTable(table, origin[1], changed, by[1])
            joined[one.key] = one
    return list(joined.values())
