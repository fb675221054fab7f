"""What stays the same in a table that is rebuilt with other columns or another query, for readers of some columns.

Its commit says which contents of before its rows still have, and in which columns. A reader that was built from such a
content and reads only those columns has nothing to do.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sqb.build.turn import Turn
from sqb.lake.port import TableState
from sqb.plan.observed import KEPT
from sqb.plan.schema import is_everything, kept_contents, reads_of
from sqb.plan.values import Reason

_NEW_DEFINITION = (Reason.QUERY_CHANGED, Reason.CONFIG_CHANGED, Reason.FUNCTION_CHANGED, Reason.SCHEMA_CHANGED)
# Who has not been built for so many changes of columns is built again.
_REMEMBERED = 12


def columns_of_before(turn: Turn, columns: Sequence[str]) -> list[str] | None:
    """The columns that the table has, when all of them stay and the table gets others or another order."""
    standing = _comparable(turn)
    if standing is None:
        return None
    before, now = [c.name for c in standing.columns], [c.lower() for c in columns]
    names = [c.lower() for c in before]
    return before if names != now and set(names) <= set(now) and _is_read_in_part(turn) else None


def kept_after_rebuild(turn: Turn, session: Any, stage: str, content: str, part: str) -> str:
    """What the commit of a stage may say of contents before it; `part` is its content in the columns of before."""
    standing = _comparable(turn)
    if standing is None:
        return ""
    if standing.identity["sqb.content"] in (part, content):
        return kept_in(standing, [[c.name for c in standing.columns]])
    if turn.planned.reason not in _NEW_DEFINITION:
        return ""
    from sqb.spark import frames  # Spark is only there when something runs

    text = f"{turn.relation_text()} VERSION AS OF {standing.snapshot_id}"
    parts = _common_parts(turn, standing, session.table(stage).columns)
    if not parts:
        return ""
    now, then = (frames.contents_of_parts(session, relation, parts) for relation in (stage, text))
    return kept_in(standing, [part for part, a, b in zip(parts, now, then, strict=True) if a == b])


def kept_in(standing: TableState, parts: Iterable[Sequence[str]]) -> str:
    """The text that says that rows have the content of those that stood before, in each of these lists of columns."""
    told = kept_contents(standing.identity.get(KEPT, ""))
    found: list[list[Any]] = []
    for part in parts:
        names = {name.lower() for name in part}
        found.append([standing.identity["sqb.content"], standing.columns_token, sorted(names)])
        found += [[content, columns, sorted(names & set(kept))] for content, columns, kept in told]
    return json.dumps(found[:_REMEMBERED], separators=(",", ":")) if found else ""


def _comparable(turn: Turn) -> TableState | None:
    standing = turn.standing
    if standing is None or standing.is_view or standing.drifted or standing.snapshot_id is None:
        return None
    return standing if standing.identity.get("sqb.content") else None


def _is_read_in_part(turn: Turn) -> bool:
    return next(_parts_read(turn), None) is not None


def _parts_read(turn: Turn) -> Iterator[frozenset[str]]:
    """What each reader reads of the turn's node, where that is not all of it; the names need not be columns."""
    names, key = {turn.node.name}, str(turn.node.relation)
    for node in turn.project:
        if names.isdisjoint(node.upstream):
            continue
        if node.kind == "view":
            names.add(node.name)
            continue
        read = reads_of(node, turn.project).get(key)
        if read is not None and not is_everything(read):
            yield read


def _common_parts(turn: Turn, standing: TableState, columns: Sequence[str]) -> list[list[str]]:
    """The lists of columns that readers read, of those that the table had and still has."""
    now = {c.lower() for c in columns}
    common = [c.name for c in standing.columns if c.name.lower() in now]
    parts = {tuple(c for c in common if c.lower() in read) for read in _parts_read(turn)}
    return [list(part) for part in sorted(parts)]
