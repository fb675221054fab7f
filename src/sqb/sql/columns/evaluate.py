"""The columns that a query gives over tables with known columns, and what is surely wrong in it.

Spark is the judge: what is not certain is left to it. Starts from the outline of a query, and needs no parser.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count

from sqb.light_dataclass import dataclass
from sqb.names import suggest_nearest
from sqb.sql.columns.clauses import check_clauses, iter_names
from sqb.sql.columns.functions.signatures import Signatures
from sqb.sql.columns.grouping import check_grouping
from sqb.sql.columns.numbers_of_columns import check_names, check_numbers, find_list_place, list_items
from sqb.sql.columns.outline import (
    Call,
    Constant,
    Conversion,
    Cte,
    Expression,
    Item,
    Name,
    Nested,
    Operation,
    Query,
    Select,
    SetOperation,
    Star,
    UnreadableQuery,
)
from sqb.sql.columns.places import find_item_place
from sqb.sql.columns.problems import Problem
from sqb.sql.columns.scope import OPEN, Column, Found, Relation, Scope, Source
from sqb.sql.columns.sources import NamedColumn, SourceReader, rename_columns
from sqb.sql.columns.types_of_expressions import ExpressionTyper
from sqb.sql.columns.windows import check_windows
from sqb.sql.functions.builtins import GENERATORS
from sqb.types import model as m
from sqb.types.common import common_type
from sqb.types.model import StructType, Type

_GENERATORS = GENERATORS | {"json_tuple", "variant_explode", "variant_explode_outer"}


@dataclass(frozen=True, slots=True)
class QueryColumns:
    """What is known of a query's result, and its mistakes."""

    # None for a column whose name only Spark can tell.
    columns: tuple[tuple[str | None, Type], ...]
    # There may be more columns than these.
    is_open: bool
    problems: tuple[Problem, ...] = ()


def evaluate_query(
    outline: Query, tables: Mapping[int, Sequence[NamedColumn] | None], signatures: Signatures
) -> QueryColumns:
    """The columns of a query over tables by where their names begin in it; None for one with unknown columns."""
    evaluator = _Evaluator(tables, signatures)
    try:
        relation = evaluator.evaluate(outline, Scope(), {})
        evaluator.check_names(relation)
    except RecursionError:
        return QueryColumns((), True)
    columns = tuple((c.name, c.type) for c in relation.columns)
    problems = sorted(dict.fromkeys(evaluator.problems), key=lambda p: p.start)
    return QueryColumns(columns, relation.is_open, tuple(problems))


@dataclass(slots=True)
class _CteColumns:
    relation: Relation
    # What is wrong in it counts once it is read.
    problems: list[Problem]


class _Evaluator:
    def __init__(self, tables: Mapping[int, Sequence[NamedColumn] | None], signatures: Signatures) -> None:
        self.signatures = signatures
        self.problems: list[Problem] = []
        self.keys = count()
        # Of names whose columns are not known, by the scope that they are in.
        self.name_keys: dict[tuple[int, tuple[str, ...]], int] = {}
        self.ctes: Mapping[str, _CteColumns] = {}
        self.typer = self._make_typer()
        self.sources = SourceReader(tables, self.typer, self._evaluate_nested, self._read_cte, self.keys)
        # What in the list of the last SELECT gives each column.
        self.owners: list[Item] = []

    def _make_typer(self) -> ExpressionTyper:
        return ExpressionTyper(self.signatures, self._evaluate_nested, self.problems)

    def evaluate(self, query: Query, outer: Scope | None, ctes: Mapping[str, _CteColumns]) -> Relation:
        """The columns of a query with everything in it."""
        if isinstance(query, UnreadableQuery):
            return OPEN
        before = self.ctes
        self.ctes = self._evaluate_ctes(query.ctes, outer, ctes) if query.ctes else ctes
        try:
            if isinstance(query, Select):
                return self._evaluate_select(query, outer)
            return self._evaluate_set_operation(query, outer)
        finally:
            self.ctes = before

    def _evaluate_nested(self, query: Query, scope: Scope) -> Relation:
        owners = self.owners
        relation = self.evaluate(query, scope, self.ctes)
        self.owners = owners
        return relation

    def _evaluate_ctes(
        self, ctes: Sequence[Cte], outer: Scope | None, around: Mapping[str, _CteColumns]
    ) -> dict[str, _CteColumns]:
        visible = dict(around)
        for cte in ctes:
            self._check_cte(cte, ctes)
            problems, self.problems = self.problems, []
            self.typer.problems = self.problems
            if cte.is_recursive:
                first = cte.query.left if isinstance(cte.query, SetOperation) else UnreadableQuery()
                anchor = rename_columns(self.evaluate(first, outer, visible), cte.columns, self.keys)
                columns = (Column(c.name, m.UNKNOWN, c.key) for c in anchor.columns)
                visible[cte.name] = _CteColumns(Relation(columns, anchor.is_open), [])
                self.problems.clear()
            made = self.evaluate(cte.query, outer, visible)
            check_names(cte.columns, made, find_list_place(cte.query), self.typer.report)
            relation = rename_columns(made, cte.columns, self.keys)
            visible[cte.name] = _CteColumns(relation, self.problems)
            self.problems = self.typer.problems = problems
        return visible

    def _check_cte(self, cte: Cte, ctes: Sequence[Cte]) -> None:
        first = next(other for other in ctes if other.name == cte.name)
        if first is not cte and first.start >= 0:
            self.typer.report("doubled column", f'two queries are called "{cte.name}"', cte.start, cte.end)

    def _evaluate_set_operation(self, query: SetOperation, outer: Scope | None) -> Relation:
        ctes = self.ctes
        left = self.evaluate(query.left, outer, ctes)
        owners = self.owners
        right = self.evaluate(query.right, outer, ctes)
        self.owners = owners
        result = self._combine(query, left, right)
        if query.order:
            check_numbers(query.order, result, "ORDER BY", self.typer.report)
            scope = Scope(outer, [Source((), result)])
            for value in query.order:
                # The names of the first query's tables can be used, too.
                if all(len(name.parts) == 1 for name in iter_names(value)):
                    self.typer.type(value, scope)
        return result

    def _combine(self, query: SetOperation, left: Relation, right: Relation) -> Relation:
        if left.is_open or right.is_open:
            return Relation((Column(c.name, m.UNKNOWN, c.key) for c in left.columns), left.is_open)
        if query.is_by_name:
            return Relation((Column(c.name, m.UNKNOWN, c.key) for c in left.columns), is_open=True)
        items = list_items(query.right)
        if len(left.columns) != len(right.columns):
            start, end = find_list_place(query.right)
            message = f"{query.operator} joins queries of {len(left.columns)} and {len(right.columns)} columns"
            self.typer.report("set operation", message, start, end, "both must have as many columns")
            return Relation((Column(c.name, m.UNKNOWN, c.key) for c in left.columns), is_open=True)
        columns = []
        for index, (one, two) in enumerate(zip(left.columns, right.columns, strict=True)):
            kind = common_type(one.type, two.type)
            if kind is None and m.UNKNOWN not in (one.type, two.type):
                has_places = len(items) == len(right.columns)
                start, end = find_item_place(items[index]) if has_places else (-1, -1)
                message = f"column {index + 1} of the {query.operator} is {one.type} before it and {two.type} after it"
                self.typer.report("set operation", message, start, end, "cast one of them to the type of the other")
            columns.append(Column(one.name, kind or m.UNKNOWN, one.key))
        return Relation(columns)

    # --- one SELECT -----------------------------------------------------------------------------------------------

    def _evaluate_select(self, select: Select, outer: Scope | None) -> Relation:
        scope = Scope(outer)
        for join in select.joins:
            self.sources.add_join(join, scope)
        if select.where is not None:
            self.typer.check_condition(select.where, scope, "WHERE")
        columns: list[Column] = []
        owners: list[Item] = []
        is_open = False
        _add_generated_names(select.items, scope)
        for item in select.items:
            made = self._evaluate_item(item, scope)
            is_open = is_open or made is None
            columns += made or ()
            owners += [item] * len(made or ())
            for column in made or ():
                # Names that Spark makes up can be used in the rest of the list, too.
                if column.name is not None:
                    scope.aliases.setdefault(column.name.lower(), column.type)
                scope.has_unnamed = scope.has_unnamed or column.name is None
        self.owners = owners
        for value in (*(select.group or ()), *select.others):
            self.typer.type(value, scope)
        scope.has_unnamed = scope.has_unnamed or bool(select.group)
        scope.has_aliases_first = True
        for value in select.order:
            self.typer.type(value, scope)
        if select.having is not None:
            if isinstance(select.having, Operation | Nested):
                # Spark takes a computed number for a condition here.
                self.typer.type(select.having, scope)
            else:
                self.typer.check_condition(select.having, scope, "HAVING")
        check_clauses(select, scope, self.signatures, self.typer.report)
        check_windows(select, self.signatures, self.typer.report)
        check_grouping(select, scope, self.signatures, self.typer.report)
        result = Relation(columns, is_open)
        check_numbers(select.group or (), result, "GROUP BY", self.typer.report)
        if all(_is_result(value, scope) for value in select.order):
            # With others than columns of the result, Spark counts those too.
            check_numbers(select.order, result, "ORDER BY", self.typer.report)
        if select.is_distinct and not is_open:
            self._check_distinct(select, columns, scope)
        return result

    def _check_distinct(self, select: Select, columns: Sequence[Column], scope: Scope) -> None:
        """Report what SELECT DISTINCT is sorted by and does not select."""
        keys = {scope.identify(column) for column in columns}
        mentioned = (scope.lookup(name.parts) for item in select.items for name in iter_names(item.value))
        keys.update(scope.identify(column.column) for column in mentioned if isinstance(column, Found))
        for value in select.order:
            if isinstance(value, Name) and value.parts[-1].lower() not in scope.aliases:
                column = scope.lookup(value.parts)
                if isinstance(column, Found) and not column.fields and scope.identify(column.column) not in keys:
                    message = f'SELECT DISTINCT is sorted by "{".".join(value.parts)}", which it does not select'
                    self.typer.report("unknown column", message, value.start, value.end, "select it too")

    def _read_cte(self, name: str) -> Relation | None:
        """The columns of a CTE; what is wrong in it counts from now on."""
        cte = self.ctes.get(name)
        if cte is None:
            return None
        self.problems += cte.problems
        cte.problems = []
        return cte.relation

    def _key(self) -> int:
        return next(self.keys)

    def _evaluate_item(self, item: Item, scope: Scope) -> list[Column] | None:
        """The columns that an item of the list gives; None when they are not known, or not all."""
        value = item.value
        if isinstance(value, Star):
            return self._expand_star(value, scope)
        if isinstance(value, Call) and value.name in _GENERATORS:
            kind = self.typer.type(value, scope)
            if not item.aliases:
                return None
            return [Column(alias, m.UNKNOWN if len(item.aliases) > 1 else kind, self._key()) for alias in item.aliases]
        kind = self.typer.type_value(value, scope)
        if item.aliases:
            return [Column(item.aliases[0], kind, self._key())]
        if isinstance(value, Name):
            return [Column(value.parts[-1], kind, self._find_key(value, scope))]
        return [Column(_derive_name(value), kind, self._key())]

    def _find_key(self, name: Name, scope: Scope) -> int:
        """The key of a column that is selected as it is: the same name twice is the same column."""
        column = scope.lookup(name.parts)
        if isinstance(column, Found) and not column.fields:
            return column.column.key
        return self.name_keys.setdefault((id(scope), tuple(p.lower() for p in name.parts)), self._key())

    def _expand_star(self, star: Star, scope: Scope) -> list[Column] | None:
        if not star.qualifier:
            columns, is_open = scope.star, scope.has_open_star
        else:
            sources = _find_sources(star.qualifier, scope)
            if not sources:
                return self._expand_struct(star, scope)
            columns = [c for s in sources for c in s.relation.columns]
            is_open = any(s.relation.is_open for s in sources)
        if is_open:
            return None
        return self._hide(star, columns)

    def _expand_struct(self, star: Star, scope: Scope) -> list[Column] | None:
        kind = self.typer.type_name(Name(star.qualifier, star.start, star.end), scope)
        if isinstance(kind, StructType) and not star.hidden:
            return [Column(f.name, f.type, self._key()) for f in kind.fields]
        return None

    def _hide(self, star: Star, columns: Sequence[Column]) -> list[Column]:
        """The columns of a star without those after EXCEPT."""
        left = list(columns)
        names = {c.name.lower() for c in columns if c.name is not None}
        for name in star.hidden:
            last, first = name.parts[-1].lower(), name.parts[0].lower()
            if last in names:
                left = [c for c in left if c.name is None or c.name.lower() != last]
            elif len(name.parts) > 1 and first in names:
                is_field = [c.name is not None and c.name.lower() == first for c in left]
                left = [c._replace(type=m.UNKNOWN) if f else c for c, f in zip(left, is_field, strict=True)]
            elif len(name.parts) == 1:
                hint = suggest_nearest(last, names)
                message = f'EXCEPT names "{name.parts[0]}", which is not among the columns'
                self.typer.report("unknown column", message, name.start, name.end, hint, last)
        return left

    # --- the whole result -----------------------------------------------------------------------------------------

    def check_names(self, relation: Relation) -> None:
        """Report two columns of one name: a table has each name once."""
        seen: set[str] = set()
        for index, column in enumerate(relation.columns):
            if column.name is None:
                continue
            folded = column.name.lower()
            if folded in seen:
                is_told = len(self.owners) == len(relation.columns)
                start, end = find_item_place(self.owners[index]) if is_told else (-1, -1)
                message = f'two columns are called "{column.name}"'
                hint = "give one of them another name with AS, or leave it out with * EXCEPT"
                self.typer.report("doubled column", message, start, end, hint, folded)
            seen.add(folded)


def _add_generated_names(items: Sequence[Item], scope: Scope) -> None:
    """The columns of generators can be used before them, and those without an alias have names of their own."""
    generators = [item for item in items if isinstance(item.value, Call) and item.value.name in _GENERATORS]
    if generators:
        scope.aliases.update((alias.lower(), m.UNKNOWN) for item in items for alias in item.aliases)
    for item in generators:
        assert isinstance(item.value, Call)
        if not item.aliases and "explode" in item.value.name and "variant" not in item.value.name:
            scope.aliases.update(dict.fromkeys(("pos", "col", "key", "value"), m.UNKNOWN))
        elif not item.aliases:
            scope.sources.append(Source((), OPEN))


def _find_sources(qualifier: Sequence[str], scope: Scope) -> list[Source]:
    """The sources of a name, here or in the nearest query around that has one."""
    folded = tuple(p.lower() for p in qualifier)
    current: Scope | None = scope
    while current is not None:
        sources = [s for s in current.sources if s.names[-len(folded) :] == folded]
        if sources:
            return sources
        current = current.outer
    return []


def _is_result(value: Expression, scope: Scope) -> bool:
    """Whether ORDER BY sorts by a column of the result."""
    return isinstance(value, Constant) or (isinstance(value, Name) and value.parts[-1].lower() in scope.aliases)


def _derive_name(value: Expression) -> str | None:
    """What Spark calls a column without an alias; None where that is derived from an expression's text."""
    match value:
        case Name(parts):
            return parts[-1]
        case Constant(_, text) if text:
            return text
        case Conversion(Name() | Conversion() | Operation("()") as inner):
            return _derive_name(inner)
        case Operation("()", (inner,)):
            return _derive_name(inner)
        case _:
            return None
