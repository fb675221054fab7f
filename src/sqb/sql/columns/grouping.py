"""Columns of a grouped query that are neither grouped nor aggregated.

Only a column that GROUP BY does not mention at all is surely wrong: which expressions over grouped columns are the same
is for Spark to say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqb.sql.columns.clauses import is_aggregate, iter_calls
from sqb.sql.columns.functions.signatures import Signatures
from sqb.sql.columns.outline import Call, Constant, Expression, Lambda, Name, Nested, Opaque, Select, Star
from sqb.sql.columns.places import list_parts
from sqb.sql.columns.problems import Report
from sqb.sql.columns.scope import Column, Found, Scope


class _NotSure(Exception):
    """What is grouped by cannot be told."""


def check_grouping(select: Select, scope: Scope, signatures: Signatures, report: Report) -> None:
    """Report the columns of a grouped query that GROUP BY does not mention and that no aggregate takes."""
    if select.is_group_all or (select.group is None and not _has_aggregate(select, signatures)):
        return
    try:
        grouped = {key for value in select.group or () for key in _iter_grouped(value, select, scope)}
        stars = [(star, _list_star_columns(star, scope)) for star in _iter_stars(select)]
    except _NotSure:
        return
    for star, columns in stars:
        outside = [c.name for c in columns if c.name is not None and scope.identify(c) not in grouped]
        if outside:
            _report_star(star, outside, report)
    later = [select.having, *select.order] if select.group is not None else []
    names = [name for item in select.items for name in _iter_bare(item.value, signatures)]
    names += [name for value in later if value is not None for name in _iter_hidden(value, scope, signatures)]
    for name in names:
        match = scope.lookup(name.parts)
        if isinstance(match, Found) and scope.identify(match.column) not in grouped:
            text = ".".join(name.parts)
            message = f'"{text}" is neither in GROUP BY nor inside an aggregate'
            hint = f"add it to GROUP BY, aggregate it, or write any_value({text}) if any value will do"
            report("not grouped", message, name.start, name.end, hint)


def _has_aggregate(select: Select, signatures: Signatures) -> bool:
    values = [*(item.value for item in select.items), *([select.having] if select.having is not None else [])]
    return any(is_aggregate(call, signatures) for value in values for call in iter_calls(value))


def _iter_stars(select: Select) -> Iterator[Star]:
    for item in select.items:
        if isinstance(item.value, Star):
            yield item.value


def _list_star_columns(star: Star, scope: Scope) -> Sequence[Column]:
    """The columns that a plain star stands for, where they are surely these."""
    if star.qualifier or star.hidden or scope.has_open_star or any(source.merged for source in scope.sources):
        raise _NotSure
    return scope.star


def _report_star(star: Star, outside: Sequence[str], report: Report) -> None:
    named = ", ".join(f'"{name}"' for name in outside[:3]) + (", …" if len(outside) > 3 else "")
    message = f"* stands for columns that are neither in GROUP BY nor inside an aggregate: {named}"
    report("not grouped", message, star.start, star.end, "list the columns that are grouped, and the aggregates")


def _iter_hidden(value: Expression, scope: Scope, signatures: Signatures) -> Iterator[Name]:
    """The bare names in HAVING or ORDER BY that are not those of columns of the result."""
    for name in _iter_bare(value, signatures):
        if name.parts[-1].lower() not in scope.aliases and name.parts[0].lower() not in scope.aliases:
            yield name


def _iter_grouped(value: Expression, select: Select, scope: Scope) -> Iterator[int]:
    """The columns that an expression of GROUP BY mentions, by their keys."""
    match value:
        case Constant(_, text):
            has_stars = any(True for _ in _iter_stars(select))
            if has_stars or not text.isdigit() or not 1 <= int(text) <= len(select.items):
                raise _NotSure
            yield from _iter_mentioned(select.items[int(text) - 1].value, scope)
        case Name(parts):
            match = scope.lookup(parts)
            if isinstance(match, Found):
                yield scope.identify(match.column)
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
        yield scope.identify(match.column)
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
