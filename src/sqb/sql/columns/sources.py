"""What is in FROM: the relations, under which names they are seen, and what joining makes of their columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from sqb.names import suggest_nearest
from sqb.sql.columns.functions.operators import Misfit, find_common_type
from sqb.sql.columns.numbers_of_columns import check_names, check_rows, find_list_place
from sqb.sql.columns.outline import Call, Derived, Expression, Generated, Join, Name, Opaque, Query, Table
from sqb.sql.columns.places import find_place
from sqb.sql.columns.scope import OPEN, Column, Relation, Scope, Source
from sqb.sql.columns.types_of_expressions import ExpressionTyper
from sqb.types import model as m
from sqb.types.model import Type

# A column by its name and type, as others see a table; the name is None where only Spark can tell it.
NamedColumn = tuple[str | None, Type]


class SourceReader:
    """Adds the sources of a SELECT to its scope, one after the other."""

    def __init__(
        self,
        tables: Mapping[int, Sequence[NamedColumn] | None],
        typer: ExpressionTyper,
        evaluate: Callable[[Query, Scope], Relation],
        read_cte: Callable[[str], Relation | None],
        keys: Iterator[int],
    ) -> None:
        self.tables, self.typer, self.evaluate, self.read_cte, self.keys = tables, typer, evaluate, read_cte, keys

    def add_join(self, join: Join, scope: Scope) -> None:
        """Add one source, joined to those before it."""
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
            self.typer.check_condition(join.on, scope, "ON")

    def _merge(self, join: Join, left: list[Source], right: Source, scope: Scope) -> None:
        """Make one column of two for every name of USING, or for those that both sides have."""
        is_left_open = any(s.relation.is_open for s in left)
        if join.is_natural:
            names = [c.name.lower() for s in left for c in s.relation.columns if c.name is not None]
            shared = [c.name.lower() for c in right.relation.columns if c.name is not None and c.name.lower() in names]
            if is_left_open or right.relation.is_open or _has_doubles(names, shared):
                scope.sources.append(Source((), OPEN))
                scope.has_open_star = True
        else:
            shared = [name.parts[0].lower() for name in join.using]
            checked = [self._check_using(name, left, is_left_open, right) for name in join.using]
            if not all(checked):
                # What USING was to make one is not known: nothing is ambiguous because of it.
                shared += [c.name.lower() for c in right.relation.columns if c.name is not None]
        for source in (*left, right):
            source.merged |= frozenset(shared)
        if join.keeps_source:
            self._join_keys(shared, (*left, right), scope)
        if join.kind in ("semi", "anti"):
            return
        keys = [c for c in scope.star if c.name is not None and c.name.lower() in shared]
        firsts = {c.name.lower(): c for c in reversed(keys) if c.name is not None}
        rest = [c for c in scope.star if c.name is None or c.name.lower() not in shared]
        more = [c for c in right.relation.columns if c.name is None or c.name.lower() not in shared]
        scope.star = [*(firsts[name] for name in shared if name in firsts), *rest, *more]
        scope.has_open_star = scope.has_open_star or is_left_open or right.relation.is_open

    def _join_keys(self, shared: Sequence[str], sources: Sequence[Source], scope: Scope) -> None:
        """Note that columns of several sources may be one, and forget their types where these differ."""
        for name in shared:
            columns = [column for source in sources for column in source.relation.find(name)]
            scope.joined_keys |= {column.key: scope.identify(columns[0]) for column in columns[1:]}
            if len({column.type for column in columns}) > 1:
                for source in sources:
                    kept = source.relation
                    changed = (c._replace(type=m.UNKNOWN) if c in columns else c for c in kept.columns)
                    source.relation = Relation(changed, kept.is_open)
                scope.star = [c._replace(type=m.UNKNOWN) if c in columns else c for c in scope.star]

    def _check_using(self, name: Name, left: list[Source], is_left_open: bool, right: Source) -> bool:
        folded = name.parts[0].lower()
        sides = [(is_left_open, [s.relation for s in left]), (right.relation.is_open, [right.relation])]
        for is_open, relations in sides:
            if not is_open and not any(r.find(folded) or r.may_have(folded) for r in relations):
                names = [c.name for r in relations for c in r.columns if c.name is not None]
                message = f'USING names "{name.parts[0]}", which is not a column of both sides'
                hint = suggest_nearest(folded, names)
                self.typer.report("unknown column", message, name.start, name.end, hint, folded)
                return False
        return True

    def _read_source(self, join: Join, scope: Scope) -> Source:
        match join.source:
            case Table() as table:
                return self._read_table(table, scope)
            case Derived(query, alias, columns, is_lateral, is_changed, pivoted):
                seen = scope if is_lateral else scope.outer or Scope()
                made = self.evaluate(query, seen)
                self._check_pivot(pivoted, Source((alias.lower(),) if alias else (), made), scope)
                if not is_changed:
                    check_names(columns, made, find_list_place(query), self.typer.report)
                relation = OPEN if is_changed else rename_columns(made, columns, self.keys)
                return Source((alias.lower(),) if alias else (), relation)
            case Generated() as generated:
                return self._read_generated(generated, scope)
            case _:
                return Source((), OPEN)

    def _read_table(self, table: Table, scope: Scope) -> Source:
        names = (table.alias.lower(),) if table.alias else tuple(p.lower() for p in table.parts)
        cte = self.read_cte(table.parts[0].lower()) if len(table.parts) == 1 else None
        if cte is not None:
            relation = self._renew(cte)
        else:
            columns = self.tables.get(table.slot)
            relation = OPEN if columns is None else Relation(Column(n, t, self._key()) for n, t in columns)
        self._check_pivot(table.pivoted, Source(names, relation), scope)
        return Source(names, OPEN if table.is_changed else rename_columns(relation, table.columns, self.keys))

    def _check_pivot(self, pivoted: Sequence[Expression], source: Source, scope: Scope) -> None:
        """Look up what PIVOT reads of its source; behind JOIN it reads what is before that, too."""
        for value in pivoted if not scope.sources else ():
            self.typer.type(value, Scope(None, [source]))

    def _read_generated(self, generated: Generated, scope: Scope) -> Source:
        names = (generated.alias.lower(),) if generated.alias else ()
        if generated.rows is not None:
            return Source(names, self._read_values(generated.rows, generated.columns, scope))
        if isinstance(generated.value, Call):
            for argument in generated.value.arguments:
                self.typer.type(argument, scope)
        columns = self.tables.get(generated.slot)
        relation = OPEN if columns is None else Relation(Column(n, t, self._key()) for n, t in columns)
        if isinstance(generated.value, Call) and generated.value.name == "range" and not generated.is_view:
            relation = Relation([Column("id", m.BIGINT, self._key())])
        return Source(names, rename_columns(relation, generated.columns, self.keys))

    def _read_values(self, rows: Sequence[Sequence[Expression]], names: Sequence[str], scope: Scope) -> Relation:
        types = [[self.typer.type(value, scope) for value in row] for row in rows]
        is_even = check_rows(rows, self.typer.report)
        kinds = types[0]
        if is_even:
            columns = [Opaque(tuple(column)) for column in zip(*rows, strict=True)]
            kinds = [self._find_value_type(t, c) for t, c in zip(zip(*types, strict=True), columns, strict=True)]
        made = Relation(Column(f"col{i + 1}", kind, self._key()) for i, kind in enumerate(kinds))
        if is_even and not (len(kinds) == 1 and isinstance(rows[0][0], Opaque)):
            place = (find_place(rows[0][0])[0], find_place(rows[0][-1])[1])
            check_names(names, made, place, self.typer.report)
        return rename_columns(made, names, self.keys)

    def _find_value_type(self, types: Sequence[Type], column: Expression) -> Type:
        try:
            return find_common_type(types)
        except Misfit as misfit:
            self.typer.report("wrong type", f"in one column of VALUES {misfit.message}", *find_place(column))
            return m.UNKNOWN

    def _renew(self, relation: Relation) -> Relation:
        """The columns once more, as others than those of another mention."""
        keys = {column.key: self._key() for column in relation.columns}
        return Relation((c._replace(key=keys[c.key]) for c in relation.columns), relation.is_open)

    def _key(self) -> int:
        return next(self.keys)


def rename_columns(relation: Relation, names: Sequence[str], keys: Iterator[int]) -> Relation:
    """A relation under the names of a column list."""
    if not names:
        return relation
    if relation.is_open or len(relation.columns) != len(names):
        return Relation(Column(name, m.UNKNOWN, next(keys)) for name in names)
    return Relation(c._replace(name=name) for name, c in zip(names, relation.columns, strict=True))


def _has_doubles(left: Sequence[str], shared: Sequence[str]) -> bool:
    """Whether one side has a name twice, so that it cannot be told which columns are made one."""
    return any(left.count(name) > 1 or shared.count(name) > 1 for name in shared)
