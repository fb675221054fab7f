"""The columns that a query gives over tables with known columns, and what is surely wrong in it.

Spark is the judge: what is not certain is left to it. Starts from the outline of a query, and needs no parser.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from sqb.names import suggest_nearest
from sqb.sql.columns.clauses import check_clauses
from sqb.sql.columns.grouping import check_grouping
from sqb.sql.columns.operators import Misfit, check_condition
from sqb.sql.columns.outline import (
    Call,
    Constant,
    Conversion,
    Cte,
    Derived,
    Expression,
    Generated,
    Item,
    Join,
    Name,
    Operation,
    Query,
    Select,
    SetOperation,
    Star,
    Table,
    UnreadableQuery,
)
from sqb.sql.columns.places import find_place
from sqb.sql.columns.problems import Problem
from sqb.sql.columns.scope import OPEN, Column, Found, Relation, Scope, Source
from sqb.sql.columns.signatures import Signatures
from sqb.sql.columns.types_of_expressions import ExpressionTyper
from sqb.sql.functions.builtins import GENERATORS
from sqb.types import model as m
from sqb.types.common import common_type
from sqb.types.model import StructType, Type

# A column by its name and type, as others see a table.
NamedColumn = tuple[str | None, Type]
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
        self.tables, self.signatures = tables, signatures
        self.problems: list[Problem] = []
        self.keys = count()
        # Of names whose columns are not known, by the scope that they are in.
        self.name_keys: dict[tuple[int, tuple[str, ...]], int] = {}
        self.ctes: Mapping[str, _CteColumns] = {}
        self.typer = ExpressionTyper(signatures, self._evaluate_nested, self.problems)
        # Where the columns of the whole result are written, in their order.
        self.places: list[tuple[int, int]] = []

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
        places = self.places
        relation = self.evaluate(query, scope, self.ctes)
        self.places = places
        return relation

    def _evaluate_ctes(
        self, ctes: Sequence[Cte], outer: Scope | None, around: Mapping[str, _CteColumns]
    ) -> dict[str, _CteColumns]:
        visible = dict(around)
        for cte in ctes:
            problems, self.problems = self.problems, []
            self.typer.problems = self.problems
            if cte.is_recursive:
                first = cte.query.left if isinstance(cte.query, SetOperation) else UnreadableQuery()
                anchor = self._rename(self.evaluate(first, outer, visible), cte.columns)
                columns = (Column(c.name, m.UNKNOWN, c.key) for c in anchor.columns)
                visible[cte.name] = _CteColumns(Relation(columns, anchor.is_open), [])
                self.problems.clear()
            relation = self._rename(self.evaluate(cte.query, outer, visible), cte.columns)
            visible[cte.name] = _CteColumns(relation, self.problems)
            self.problems = self.typer.problems = problems
        return visible

    def _evaluate_set_operation(self, query: SetOperation, outer: Scope | None) -> Relation:
        ctes = self.ctes
        left = self.evaluate(query.left, outer, ctes)
        places = self.places
        right = self.evaluate(query.right, outer, ctes)
        self.places = places
        result = self._combine(query, left, right)
        if query.order:
            scope = Scope(outer, [Source((), result)])
            for value in query.order:
                self.typer.type(value, scope)
        return result

    def _combine(self, query: SetOperation, left: Relation, right: Relation) -> Relation:
        if left.is_open or right.is_open:
            return Relation((Column(c.name, m.UNKNOWN, c.key) for c in left.columns), left.is_open)
        if query.is_by_name:
            return Relation((Column(c.name, m.UNKNOWN, c.key) for c in left.columns), is_open=True)
        items = _list_items(query.right)
        if len(left.columns) != len(right.columns):
            start, end = (items[0].start, items[-1].end) if items else (-1, -1)
            message = f"{query.operator} joins queries of {len(left.columns)} and {len(right.columns)} columns"
            self.typer.report("set operation", message, start, end, "both must have as many columns")
            return Relation((Column(c.name, m.UNKNOWN, c.key) for c in left.columns), is_open=True)
        columns = []
        for index, (one, two) in enumerate(zip(left.columns, right.columns, strict=True)):
            kind = common_type(one.type, two.type)
            if kind is None and m.UNKNOWN not in (one.type, two.type):
                has_places = len(items) == len(right.columns)
                start, end = (items[index].start, items[index].end) if has_places else (-1, -1)
                message = f"column {index + 1} of the {query.operator} is {one.type} before it and {two.type} after it"
                self.typer.report("set operation", message, start, end, "cast one of them to the type of the other")
            columns.append(Column(one.name, kind or m.UNKNOWN, one.key))
        return Relation(columns)

    # --- one SELECT -----------------------------------------------------------------------------------------------

    def _evaluate_select(self, select: Select, outer: Scope | None) -> Relation:
        scope = Scope(outer)
        for join in select.joins:
            self._add_join(join, scope)
        if select.where is not None:
            self._check_condition(select.where, scope, "WHERE")
        columns: list[Column] = []
        places: list[tuple[int, int]] = []
        is_open = False
        if any(isinstance(item.value, Call) and item.value.name in _GENERATORS for item in select.items):
            # The columns of generators can be used before them.
            scope.aliases.update((alias.lower(), m.UNKNOWN) for item in select.items for alias in item.aliases)
        for item in select.items:
            made = self._evaluate_item(item, scope)
            is_open = is_open or made is None
            columns += made or ()
            places += [(item.start, item.end)] * len(made or ())
            for column in made or ():
                # Names that nobody wrote can be used in the rest of the list, too.
                if column.name is not None:
                    scope.aliases.setdefault(column.name.lower(), column.type)
                scope.has_unnamed = scope.has_unnamed or column.name is None
        self.places = places
        for value in (*(select.group or ()), *select.others):
            self.typer.type(value, scope)
        scope.has_unnamed = scope.has_unnamed or bool(select.group)
        scope.has_aliases_first = True
        for value in select.order:
            self.typer.type(value, scope)
        if select.having is not None:
            self._check_condition(select.having, scope, "HAVING")
        check_clauses(select, scope, self.signatures, self.typer.report)
        check_grouping(select, scope, self.signatures, self.typer.report)
        return Relation(columns, is_open)

    def _check_condition(self, value: Expression, scope: Scope, where: str) -> None:
        kind = self.typer.type(value, scope)
        try:
            check_condition(kind, where)
        except Misfit as misfit:
            self.typer.report("wrong type", misfit.message, *find_place(value), misfit.hint)

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
        kind = self.typer.type(value, scope)
        if item.aliases:
            return [Column(item.aliases[0], kind, self._key())]
        if isinstance(value, Name):
            return [Column(value.parts[-1], kind, self._find_key(value, scope))]
        return [Column(_derive_name(value), kind, self._key())]

    def _find_key(self, name: Name, scope: Scope) -> int:
        """The key of a column that is selected as it is: the same name twice is the same column."""
        found = scope.lookup(name.parts)
        if isinstance(found, Found) and not found.fields:
            return found.column.key
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

    # --- sources --------------------------------------------------------------------------------------------------

    def _add_join(self, join: Join, scope: Scope) -> None:
        if join.kind == "none":
            # The condition of joined tables in brackets, which are all here.
            scope.has_open_star = scope.has_open_star or bool(join.using) or join.is_natural
            if join.using or join.is_natural:
                scope.sources.append(Source((), OPEN))
            self._check_on(join, scope)
            return
        source = self._read_source(join, scope)
        left = list(scope.sources)
        scope.sources.append(source)
        if join.using or join.is_natural:
            self._merge(join, left, source, scope)
        elif join.kind not in ("semi", "anti"):
            scope.star += source.relation.columns
            scope.has_open_star = scope.has_open_star or source.relation.is_open
        self._check_on(join, scope)
        if join.kind in ("semi", "anti"):
            scope.sources.pop()

    def _check_on(self, join: Join, scope: Scope) -> None:
        if join.on is not None:
            self._check_condition(join.on, scope, "ON")

    def _merge(self, join: Join, left: list[Source], right: Source, scope: Scope) -> None:
        """Make one column of two for every name of USING, or for those that both sides have."""
        is_left_open = any(s.relation.is_open for s in left)
        if join.is_natural:
            names = [c.name.lower() for s in left for c in s.relation.columns if c.name is not None]
            shared = [c.name.lower() for c in right.relation.columns if c.name is not None and c.name.lower() in names]
            if (
                is_left_open
                or right.relation.is_open
                or any(names.count(name) + shared.count(name) > 2 for name in shared)
            ):
                scope.sources.append(Source((), OPEN))
                scope.has_open_star = True
        else:
            shared = [name.parts[0].lower() for name in join.using]
            for name in join.using:
                self._check_using(name, left, is_left_open, right)
        for source in (*left, right):
            source.merged |= frozenset(shared)
        if join.kind in ("semi", "anti"):
            return
        keys = [c for c in scope.star if c.name is not None and c.name.lower() in shared]
        firsts = {c.name.lower(): c for c in reversed(keys) if c.name is not None}
        rest = [c for c in scope.star if c.name is None or c.name.lower() not in shared]
        more = [c for c in right.relation.columns if c.name is None or c.name.lower() not in shared]
        scope.star = [*(firsts[name] for name in shared if name in firsts), *rest, *more]
        scope.has_open_star = scope.has_open_star or is_left_open or right.relation.is_open

    def _check_using(self, name: Name, left: list[Source], is_left_open: bool, right: Source) -> None:
        folded = name.parts[0].lower()
        sides = [(is_left_open, [s.relation for s in left]), (right.relation.is_open, [right.relation])]
        for is_open, relations in sides:
            if not is_open and not any(r.find(folded) or r.may_have(folded) for r in relations):
                names = [c.name for r in relations for c in r.columns if c.name is not None]
                message = f'USING names "{name.parts[0]}", which is not a column of both sides'
                hint = suggest_nearest(folded, names)
                self.typer.report("unknown column", message, name.start, name.end, hint, folded)
                return

    def _read_source(self, join: Join, scope: Scope) -> Source:
        match join.source:
            case Table() as table:
                return self._read_table(table)
            case Derived(query, alias, columns, is_lateral, is_changed):
                seen = scope if is_lateral else scope.outer
                relation = self.evaluate(query, seen, self.ctes)
                relation = OPEN if is_changed else self._rename(relation, columns)
                return Source((alias.lower(),) if alias else (), relation)
            case Generated() as generated:
                return self._read_generated(generated, scope)
            case _:
                return Source((), OPEN)

    def _read_table(self, table: Table) -> Source:
        names = (table.alias.lower(),) if table.alias else tuple(p.lower() for p in table.parts)
        cte = self.ctes.get(table.parts[0].lower()) if len(table.parts) == 1 else None
        if cte is not None:
            self.problems += cte.problems
            cte.problems = []
            relation = self._renew(cte.relation)
        else:
            columns = self.tables.get(table.slot)
            relation = OPEN if columns is None else Relation(Column(n, t, self._key()) for n, t in columns)
        return Source(names, OPEN if table.is_changed else self._rename(relation, table.columns))

    def _read_generated(self, generated: Generated, scope: Scope) -> Source:
        names = (generated.alias.lower(),) if generated.alias else ()
        if generated.rows is not None:
            types = [[self.typer.type(value, scope) for value in row] for row in generated.rows]
            first = types[0] if types else []
            made = [Column(f"col{i + 1}", m.UNKNOWN, self._key()) for i in range(len(first))]
            return Source(names, self._rename(Relation(made), generated.columns))
        if isinstance(generated.value, Call):
            for argument in generated.value.arguments:
                self.typer.type(argument, scope)
        columns = self.tables.get(generated.slot)
        relation = OPEN if columns is None else Relation(Column(n, t, self._key()) for n, t in columns)
        if isinstance(generated.value, Call) and generated.value.name == "range" and not generated.is_view:
            relation = Relation([Column("id", m.BIGINT, self._key())])
        return Source(names, self._rename(relation, generated.columns))

    def _rename(self, relation: Relation, names: Sequence[str]) -> Relation:
        """A relation under the names of a column list."""
        if not names:
            return relation
        if relation.is_open or len(relation.columns) != len(names):
            return Relation(Column(name, m.UNKNOWN, self._key()) for name in names)
        return Relation(c._replace(name=name) for name, c in zip(names, relation.columns, strict=True))

    def _renew(self, relation: Relation) -> Relation:
        """The columns once more, as others than those of another mention."""
        keys = {column.key: self._key() for column in relation.columns}
        return Relation((c._replace(key=keys[c.key]) for c in relation.columns), relation.is_open)

    def _key(self) -> int:
        return next(self.keys)

    # --- the whole result -----------------------------------------------------------------------------------------

    def check_names(self, relation: Relation) -> None:
        """Report two columns of one name: a table has each name once."""
        seen: set[str] = set()
        for index, column in enumerate(relation.columns):
            if column.name is None:
                continue
            folded = column.name.lower()
            if folded in seen:
                start, end = self.places[index] if len(self.places) == len(relation.columns) else (-1, -1)
                message = f'two columns are called "{column.name}"'
                hint = "give one of them another name with AS, or leave it out with * EXCEPT"
                self.typer.report("doubled column", message, start, end, hint, folded)
            seen.add(folded)


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


def _list_items(query: Query) -> Sequence[Item]:
    """The list of a query's first SELECT; none where a star stands for several columns."""
    while isinstance(query, SetOperation):
        query = query.left
    if isinstance(query, UnreadableQuery):
        return ()
    return () if any(isinstance(item.value, Star) for item in query.items) else query.items
