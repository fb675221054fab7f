"""What stays the same in a table that is rebuilt with other columns or another query, for readers of some columns.

Its commit says which contents of before its rows still have, and in which columns. A reader that was built from such a
content and reads only those columns has nothing to do.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sqb.build.node.context import NodeContext
from sqb.lake.port import TableState
from sqb.plan.changes.columns import is_everything, parse_unchanged_columns, resolve_column_reads
from sqb.plan.model import Reason

_NEW_DEFINITION = (Reason.QUERY_CHANGED, Reason.CONFIG_CHANGED, Reason.FUNCTION_CHANGED, Reason.SCHEMA_CHANGED)
# Who has not been built for so many changes of columns is built again.
_MAX_ENTRIES = 12


def list_retained_columns(context: NodeContext, columns: Sequence[str]) -> list[str] | None:
    """The columns that the table has, when all of them stay and the table gets others or another order."""
    current = _get_comparable_state(context)
    if current is None:
        return None
    before, now = [c.name for c in current.columns], [c.lower() for c in columns]
    names = [c.lower() for c in before]
    return before if names != now and set(names) <= set(now) and _is_read_in_part(context) else None


def describe_unchanged_columns(context: NodeContext, session: Any, stage: str, content: str, part: str) -> str:
    """What the commit of a stage may say of contents before it; `part` is its content in the columns of before."""
    current = _get_comparable_state(context)
    if current is None:
        return ""
    if current.identity.content in (part, content):
        return encode_unchanged_columns(current, [[c.name for c in current.columns]])
    if context.planned.reason not in _NEW_DEFINITION:
        return ""
    from sqb.spark.data import frames  # Spark is only there when something runs

    text = f"{context.format_relation()} VERSION AS OF {current.snapshot_id}"
    parts = _list_common_columns(context, current, session.table(stage).columns)
    if not parts:
        return ""
    now, then = (frames.compute_part_contents(session, relation, parts) for relation in (stage, text))
    return encode_unchanged_columns(current, [part for part, a, b in zip(parts, now, then, strict=True) if a == b])


def encode_unchanged_columns(current: TableState, parts: Iterable[Sequence[str]]) -> str:
    """Encode that the rows have the content of the previous rows in each of these lists of columns."""
    earlier = parse_unchanged_columns(current.identity.unchanged_columns)
    entries: list[list[Any]] = []
    for part in parts:
        names = {name.lower() for name in part}
        entries.append([current.identity.content, current.columns_token, sorted(names)])
        entries += [[content, columns, sorted(names & set(unchanged))] for content, columns, unchanged in earlier]
    return json.dumps(entries[:_MAX_ENTRIES], separators=(",", ":")) if entries else ""


def _get_comparable_state(context: NodeContext) -> TableState | None:
    current = context.current
    if current is None or current.is_view or current.drifted or current.snapshot_id is None:
        return None
    return current if current.identity.content else None


def _is_read_in_part(context: NodeContext) -> bool:
    return next(_iter_column_sets(context), None) is not None


def _iter_column_sets(context: NodeContext) -> Iterator[frozenset[str]]:
    """The columns that each reader reads of the node, where it does not read all; the names need not be columns."""
    names, key = {context.node.name}, context.node.get_input_key()
    for node in context.project:
        if names.isdisjoint(node.upstream):
            continue
        if node.kind == "view":
            names.add(node.name)
            continue
        read = resolve_column_reads(node, context.project).get(key)
        if read is not None and not is_everything(read):
            yield read


def _list_common_columns(context: NodeContext, current: TableState, columns: Sequence[str]) -> list[list[str]]:
    """The lists of columns that readers read, of those that the table had and still has."""
    now = {c.lower() for c in columns}
    common = [c.name for c in current.columns if c.name.lower() in now]
    parts = {tuple(c for c in common if c.lower() in read) for read in _iter_column_sets(context)}
    return [list(part) for part in sorted(parts)]
