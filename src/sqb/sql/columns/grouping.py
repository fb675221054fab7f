"""Columns of a grouped query that are neither grouped nor aggregated.

Only a column that GROUP BY does not mention at all is surely wrong: which expressions over grouped columns are the same
is for Spark to say.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqb.sql.columns.clauses import Report, is_aggregate, iter_calls
from sqb.sql.columns.functions.signatures import Signatures
from sqb.sql.columns.outline import Call, Constant, Expression, Lambda, Name, Nested, Opaque, Select, Star
from sqb.sql.columns.places import list_parts
from sqb.sql.columns.scope import Found, Scope


class _NotSure(Exception):
    """What is grouped by cannot be told."""


def check_grouping(select: Select, scope: Scope, signatures: Signatures, report: Report) -> None:
    """Report the columns in the list of a grouped query that GROUP BY does not mention and that no aggregate takes."""
    if select.is_group_all or any(isinstance(item.value, Star) for item in select.items):
        return
    if select.group is None and not _has_aggregate(select, signatures):
        return
    try:
        grouped = {key for value in select.group or () for key in _iter_grouped(value, select, scope)}
    except _NotSure:
        return
    for item in select.items:
        for name in _iter_bare(item.value, signatures):
            match = scope.lookup(name.parts)
            if isinstance(match, Found) and match.column.key not in grouped:
                text = ".".join(name.parts)
                message = f'"{text}" is neither in GROUP BY nor inside an aggregate'
                hint = f"add it to GROUP BY, aggregate it, or write any_value({text}) if any value will do"
                report("not grouped", message, name.start, name.end, hint)


def _has_aggregate(select: Select, signatures: Signatures) -> bool:
    return any(is_aggregate(call, signatures) for item in select.items for call in iter_calls(item.value))


def _iter_grouped(value: Expression, select: Select, scope: Scope) -> Iterator[int]:
    """The columns that an expression of GROUP BY mentions, by their keys."""
    match value:
        case Constant(_, text):
            if not text.isdigit() or not 1 <= int(text) <= len(select.items):
                raise _NotSure
            yield from _iter_mentioned(select.items[int(text) - 1].value, scope)
        case Name(parts):
            match = scope.lookup(parts)
            if isinstance(match, Found):
                yield match.column.key
                return
            items = [i for i in select.items if i.aliases and i.aliases[0].lower() == parts[0].lower()]
            if len(items) != 1:
                raise _NotSure
            yield from _iter_mentioned(items[0].value, scope)
        case Opaque(parts) if parts:
            for part in parts:
                yield from _iter_grouped(part, select, scope)
        case _:
            yield from _iter_mentioned(value, scope)


def _iter_mentioned(value: Expression, scope: Scope) -> Iterator[int]:
    if isinstance(value, Nested | Lambda) or (isinstance(value, Opaque) and not value.parts):
        raise _NotSure
    if isinstance(value, Name):
        match = scope.lookup(value.parts)
        if not isinstance(match, Found):
            raise _NotSure
        yield match.column.key
    for part in list_parts(value):
        yield from _iter_mentioned(part, scope)


def _iter_bare(value: Expression, signatures: Signatures) -> Iterator[Name]:
    """The names in an expression that no aggregate takes; functions that are not Spark's may be aggregates."""
    if isinstance(value, Name):
        yield value
    if isinstance(value, Lambda):
        return
    if isinstance(value, Call) and (is_aggregate(value, signatures) or not signatures.is_known(value.name)):
        return
    for part in list_parts(value):
        yield from _iter_bare(part, signatures)
