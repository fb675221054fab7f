"""Random queries for the rules of following changes, and rows in which rare things are frequent.

Stars, snowflakes, aggregates over aggregates, every join, set operation and subquery, over tables with few values,
NULLs, duplicates and no rows at all. Spark and DuckDB agree on what is made here: sums are of whole numbers and
decimals, an average is read by nothing but comparisons, and every order that a result depends on is total.
Over other tables than those here (`random_lake` has some of every type), the queries are for Spark alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from random import Random

Row = tuple[object, ...]
Data = Mapping[str, Sequence[Row]]

TABLES: dict[str, dict[str, str]] = {
    "f": {"k": "int", "g": "int", "n": "bigint", "d": "decimal(6,2)"},
    "e": {"k": "int", "g": "int", "n": "bigint", "s": "string"},
    "a": {"k": "int", "g": "int", "s": "string"},
    "b": {"k": "int", "n": "bigint", "s": "string"},
    "c": {"g": "int", "n": "bigint", "d": "decimal(6,2)"},
    "z": {"g": "int", "s": "string"},
}
_VALUES: dict[str, tuple[object, ...]] = {
    "int": (None, 0, 1, 1, 2, 2),
    "bigint": (None, 0, 1, 1, 2, 2, 3, -1),
    "decimal(6,2)": (None, Decimal("0.00"), Decimal("1.50"), Decimal("-0.25")),
    "string": (None, "", "x", "x", "y"),
}
# Columns of other types are not read.
_KINDS = {
    "int": "whole",
    "bigint": "whole",
    "decimal": "decimal",
    "string": "string",
    "double": "double",
    "approx": "average",
}
_LITERALS = {
    "whole": ("0", "1", "2"),
    "decimal": ("1.5", "0.0"),
    "string": ("'x'", "''"),
    "double": ("1.5D", "-2.0D"),
    "average": ("1", "0.5"),
}
_CASTS = {
    "whole": "BIGINT",
    "decimal": "DECIMAL(38,2)",
    "string": "STRING",
    "double": "DOUBLE",
    "average": "DOUBLE",
}


def find_kind(type_: str) -> str:
    """What kind of values a type has; "" for one that queries do not read."""
    return _KINDS.get(type_.partition("(")[0], "")


def make_rows(random: Random, table: str, most: int = 9) -> list[Row]:
    """Rows of a table: often none, often the same."""
    kinds = TABLES[table].values()
    count = 0 if random.random() < 0.08 else random.randint(most // 2, most)
    rows = [tuple(random.choice(_VALUES[kind]) for kind in kinds) for _ in range(count)]
    return rows + [random.choice(rows) for _ in range(random.randint(0, 2)) if rows]


def change_rows(random: Random, table: str, rows: Sequence[Row]) -> list[Row]:
    """Another version of a table: some rows went, some came; now and then all of them."""
    if random.random() < 0.1:
        return make_rows(random, table)
    remaining = [row for row in rows if random.random() < 0.7]
    return remaining + make_rows(random, table, 4)


@dataclass(frozen=True, slots=True)
class Column:
    """A column that can be read: its text, and what kind of values it has."""

    text: str
    kind: str


@dataclass(frozen=True, slots=True)
class Made:
    """A query, or what stands in FROM: its text, and its columns by name."""

    sql: str
    columns: tuple[Column, ...]


Scope = tuple[Column, ...]


class QueryMaker:
    """Makes one query; the same randomness makes the same query."""

    def __init__(
        self,
        random: Random,
        tables: Mapping[str, Mapping[str, str]] | None = None,
        is_bare: bool = False,
        is_varied: bool = False,
    ) -> None:
        self.random = random
        # Whether conditions of joins have brackets and OR now and then, and more queries are set operations.
        self.is_varied = is_varied
        # Whether columns are often written without their source, and derived tables name their columns.
        self.is_bare = is_bare
        # Relations by their full names, with their columns and types.
        self.tables = tables or {f"raw.{name}": columns for name, columns in TABLES.items()}
        self.used: set[str] = set()
        self._ctes: list[Made] = []
        self._aliases = 0

    # --- whole queries ------------------------------------------------------------------------------------------------

    def make(self) -> Made:
        """A query over the tables."""
        texts = []
        for number in range(self.random.choice((0, 0, 0, 1, 1, 2))):
            made = self._make_query(1)
            columns, name = made.columns, f"w{number}"
            names = ""
            if self._happens(0.2):
                columns = tuple(Column(f"y{i}", c.kind) for i, c in enumerate(columns))
                names = f" ({', '.join(c.text for c in columns)})"
            texts.append(f"{name}{names} AS ({made.sql})")
            self._ctes.append(Made(name, columns))
        body = self._make_query(2)
        return Made(f"WITH {', '.join(texts)} {body.sql}", body.columns) if texts else body

    def _make_query(self, depth: int) -> Made:
        forms: list[tuple[float, Callable[[int], Made]]] = [
            (6, self._make_rows),
            (5, self._make_groups),
            (1, self._make_distinct),
            (1, self._make_grouping_sets),
            (1, self._make_total),
            (2, self._make_windows),
            (1, self._make_group_windows),
        ]
        if depth > 0:
            forms += [
                (2.5 if self.is_varied else 2, self._make_set_operation),
                (1.5, self._make_first_rows),
                (1.5, self._make_chain),
            ]
        weights = [weight for weight, _ in forms]
        return self.random.choices([form for _, form in forms], weights)[0](depth)

    def _make_rows(self, depth: int) -> Made:
        source = self._make_sources(depth)
        items = [self._make_item(source.columns, depth) for _ in range(self.random.randint(1, 3))]
        return self._select(items, f"{source.sql}{self._make_where(source.columns, depth)}")

    def _make_distinct(self, depth: int) -> Made:
        made = self._make_rows(depth)
        return Made(f"SELECT DISTINCT {made.sql.removeprefix('SELECT ')}", made.columns)

    def _make_groups(self, depth: int) -> Made:
        source = self._make_sources(depth)
        groups = [self._make_group(source.columns) for _ in range(self.random.choice((1, 1, 2)))]
        calls = [self._make_aggregate(source.columns) for _ in range(self.random.randint(1, 3))]
        shown = groups if self._happens(0.8) else groups[1:]
        items = [*shown, *(self._decorate(call, depth) for call in calls)]
        by = ", ".join(g.text for g in groups)
        having = self._make_having(source.columns, depth)
        where = self._make_where(source.columns, depth)
        return self._select(items, f"{source.sql}{where} GROUP BY {by}{having}")

    def _make_grouping_sets(self, depth: int) -> Made:
        source = self._make_sources(depth)
        # DuckDB has no column twice in CUBE.
        one, two = self._choose_two(source.columns)
        calls = [self._make_aggregate(source.columns, distinct=False) for _ in range(self.random.randint(1, 2))]
        by = self.random.choice(
            (
                f"ROLLUP ({one.text}, {two.text})",
                f"CUBE ({one.text}, {two.text})",
                f"GROUPING SETS (({one.text}, {two.text}), ({two.text}), ())",
                f"GROUPING SETS (({one.text}), ({two.text}))",
            )
        )
        items = [one, two, *calls]
        if self._happens(0.4):
            items.append(Column(f"grouping({one.text})", "whole"))
        where = self._make_where(source.columns, depth)
        # Over no rows, DuckDB has a row for the set of no columns, and Spark has none.
        having = self._make_having(source.columns, depth).replace(" HAVING ", " AND ")
        return self._select(items, f"{source.sql}{where} GROUP BY {by} HAVING count(*) > 0{having}")

    def _make_total(self, depth: int) -> Made:
        source = self._make_sources(depth)
        calls = [self._make_aggregate(source.columns) for _ in range(self.random.randint(1, 3))]
        having = self._make_having(source.columns, depth) if self._happens(0.3) else ""
        where = self._make_where(source.columns, depth)
        return self._select([self._decorate(c, depth) for c in calls], f"{source.sql}{where}{having}")

    def _make_windows(self, depth: int) -> Made:
        source = self._make_sources(depth)
        partition = self._choose(source.columns)
        windows = [self._make_window(source.columns, partition) for _ in range(self.random.choice((1, 1, 2)))]
        items = [*([partition] if self._happens(0.7) else []), self._choose(source.columns), *windows]
        return self._select(items, f"{source.sql}{self._make_where(source.columns, depth)}")

    def _make_group_windows(self, depth: int) -> Made:
        """Windows over groups: what is partitioned by a group, or by nothing."""
        source = self._make_sources(depth)
        one, two = self._choose_two(source.columns)
        call = self._make_aggregate(source.columns, distinct=False)
        by = f"PARTITION BY {one.text} " if self._happens(0.8) else ""
        window = Column(f"rank() OVER ({by}ORDER BY {call.text})", "whole")
        share = Column(f"sum(count(*)) OVER ({by.strip()})", "whole")
        items = [one, two, call, self.random.choice((window, share))]
        where = self._make_where(source.columns, depth)
        return self._select(items, f"{source.sql}{where} GROUP BY {one.text}, {two.text}")

    def _make_first_rows(self, depth: int) -> Made:
        """What QUALIFY is written for: the first rows of each partition."""
        made = self._make_windows(depth - 1)
        number = made.columns[-1]
        remaining = made.columns[: self.random.randint(1, len(made.columns))]
        alias = self._name()
        listed = [Column(f"{alias}.{c.text}", c.kind) for c in remaining]
        return self._select(listed, f"({made.sql}) AS {alias} WHERE {alias}.{number.text} <= 2")

    def _make_chain(self, depth: int) -> Made:
        """An aggregate over an aggregate, perhaps over another one."""
        made, alias = self._make_groups(depth - 1), self._name()
        scope = _qualify(made, alias)
        groups = [self._make_group(scope)] if self._happens(0.7) else []
        calls = [self._make_aggregate(scope) for _ in range(self.random.randint(1, 2))]
        by = f" GROUP BY {groups[0].text}" if groups else ""
        having = self._make_having(scope, depth)
        return self._select([*groups, *calls], f"({made.sql}) AS {alias}{self._make_where(scope, 0)}{by}{having}")

    def _make_set_operation(self, depth: int) -> Made:
        kinds = [self.random.choice(("whole", "whole", "string")) for _ in range(self.random.randint(1, 2))]
        text = self._make_side(kinds, depth)
        for _ in range(self.random.choice((1, 1, 2))):
            operator = self.random.choice(
                ("UNION ALL", "UNION ALL", "UNION", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL")
            )
            text = f"({text}) {operator} {self._make_side(kinds, depth)}"
        return Made(text, tuple(Column(f"x{i}", kind) for i, kind in enumerate(kinds)))

    def _make_side(self, kinds: Sequence[str], depth: int) -> str:
        source = self._make_sources(depth - 1)
        items = []
        for kind in kinds:
            fitting = [c for c in source.columns if c.kind == kind]
            items.append(self._choose(fitting) if fitting else Column(self._make_literal(kind), kind))
        made = self._select(items, f"{source.sql}{self._make_where(source.columns, depth - 1)}")
        return made.sql.replace("SELECT ", "SELECT DISTINCT ", 1) if self._happens(0.15) else made.sql

    def _select(self, items: Sequence[Column], rest: str) -> Made:
        listed = ", ".join(f"{item.text} AS x{i}" for i, item in enumerate(items))
        return Made(f"SELECT {listed} FROM {rest}", tuple(Column(f"x{i}", item.kind) for i, item in enumerate(items)))

    # --- what is read -------------------------------------------------------------------------------------------------

    def _make_relation(self, depth: int) -> Made:
        """A table, a CTE or a derived table."""
        if self._ctes and self._happens(0.45):
            return self.random.choice(self._ctes)
        if depth > 0 and self._happens(0.25):
            made = self._make_query(depth - 1)
            return Made(f"({made.sql})", made.columns)
        table = self.random.choice(list(self.tables))
        self.used.add(table)
        kinds = ((name, find_kind(kind)) for name, kind in self.tables[table].items())
        return Made(table, tuple(Column(name, kind) for name, kind in kinds if kind))

    def _make_sources(self, depth: int) -> Made:
        """FROM with its joins: stars around the first source, or snowflakes from each to the next."""
        relation, alias = self._make_relation(depth), self._name()
        text, relation = self._write_source(relation, alias)
        scope = _qualify(relation, alias)
        hub, taken = scope, [relation]
        is_snowflake = self._happens(0.4)
        for _ in range(self.random.choice((0, 0, 1, 1, 1, 2, 2, 3)) if depth > 0 else self.random.choice((0, 0, 1))):
            added, alias = self._make_relation(depth - 1), self._name()
            source, added = self._write_source(added, alias)
            own = _qualify(added, alias)
            join = self.random.choices(
                ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN", "CROSS JOIN"),
                (5, 5, 2, 2, 2, 2, 1),
            )[0]
            shared = [c.text for c in added.columns if c.text in {o.text for o in relation.columns}]
            seen = self._bare((*scope, *own))
            left, right = (
                tuple(c for c, q in zip(seen, (*scope, *own), strict=True) if q in side) for side in (hub, own)
            )
            condition = f" ON {self._make_join_condition(left, right)}"
            if join == "CROSS JOIN":
                condition = ""
            elif len(taken) == 1 and shared and self._happens(0.25):
                condition = f" USING ({', '.join(sorted({self.random.choice(shared) for _ in range(2)}))})"
            text += f" {join} {source}{condition}"
            taken.append(added)
            if join not in ("LEFT SEMI JOIN", "LEFT ANTI JOIN"):
                scope += own
                hub = own if is_snowflake else hub
        # What USING names is one column of two sources.
        return Made(text, scope if " USING (" in text else self._bare(scope))

    def _write_source(self, relation: Made, alias: str) -> tuple[str, Made]:
        """A relation with its alias, which may give other names to the columns of a derived table."""
        if not self.is_bare or not relation.sql.startswith("(") or self._happens(0.5):
            return f"{relation.sql} AS {alias}", relation
        columns = tuple(Column(f"r{i}", c.kind) for i, c in enumerate(relation.columns))
        return f"{relation.sql} AS {alias} ({', '.join(c.text for c in columns)})", Made(relation.sql, columns)

    def _bare(self, scope: Scope) -> Scope:
        """Columns, many of them without their source where no other source has one of that name."""
        if not self.is_bare:
            return scope
        names = [c.text.rpartition(".")[2] for c in scope]
        bare = (names.count(name) == 1 and self._happens(0.6) for name in names)
        return tuple(Column(n, c.kind) if b else c for c, n, b in zip(scope, names, bare, strict=True))

    def _make_join_condition(self, left: Scope, right: Scope) -> str:
        pairs = [(a, b) for a in left for b in right if a.kind == b.kind and a.kind in ("whole", "string")]
        if not pairs:
            return self._make_comparison((*left, *right))
        one, other = self.random.choice(pairs)
        sign = self.random.choices(("=", "<", ">=", "<=>"), (12, 1, 1, 1))[0]
        text = f"{one.text} {sign} {other.text}"
        if self._happens(0.2):
            one, other = self.random.choice(pairs)
            text += f" AND {one.text} = {other.text}"
        if self._happens(0.2):
            text += f" AND {self._make_comparison(right if self._happens(0.6) else left)}"
        if self.is_varied and self._happens(0.06):
            text += f" OR {self._make_comparison((*left, *right))}"
        return f"({text})" if self.is_varied and self._happens(0.1) else text

    # --- conditions ---------------------------------------------------------------------------------------------------

    def _make_where(self, scope: Scope, depth: int) -> str:
        parts = []
        if self._happens(0.2):
            parts.append(self._make_condition(scope))
        if self._happens(0.4 if depth > 0 else 0.1):
            parts.append(self._make_subquery_condition(scope))
        if self._happens(0.05):
            parts.append(self._make_subquery_condition(scope))
        self.random.shuffle(parts)
        word = " OR " if self._happens(0.15) else " AND "
        return f" WHERE {word.join(parts)}" if parts else ""

    def _make_condition(self, scope: Scope) -> str:
        one, two = self._make_comparison(scope), self._make_comparison(scope)
        return self.random.choices((one, f"({one} OR {two})", f"NOT ({one})", f"{one} AND {two}"), (5, 2, 1, 1))[0]

    def _make_comparison(self, scope: Scope) -> str:
        column = self._choose(scope)
        literal = self.random.choice(_LITERALS[column.kind])
        same = [c for c in scope if c.kind == column.kind]
        sign = self.random.choice(("=", "<", "<=", "<>", ">"))
        forms = [
            f"{column.text} {sign} {literal}",
            f"{column.text} {sign} {self._choose(same).text}",
            f"{column.text} IS {self.random.choice(('', 'NOT '))}NULL",
        ]
        if column.kind == "whole":
            forms += [f"{column.text} BETWEEN 0 AND 1", f"{column.text} IN (1, 2)"]
        return self.random.choice(forms)

    def _make_subquery_condition(self, scope: Scope) -> str:
        """EXISTS, IN and comparisons with a value: as a condition of its own, or a part of another one."""
        text = self._make_predicate(scope)
        other = self._make_comparison(scope)
        return self.random.choices(
            (
                text,
                f"({text} OR {other})",
                f"NOT ({text})",
                f"CASE WHEN {text} THEN {other} ELSE {self._make_comparison(scope)} END",
                f"({text}) IS NULL",
                f"coalesce({text}, {other})",
            ),
            (8, 3, 1, 1, 0.7, 0.5),
        )[0]

    def _make_predicate(self, scope: Scope) -> str:
        form = self.random.choice(("exists", "exists", "in", "in", "in", "scalar", "scalar"))
        negated = self.random.choice(("", "", "NOT "))
        if form == "scalar":
            value = self._make_scalar(scope)
            same = [c for c in scope if c.kind == value.kind]
            left = self._choose(same).text if same else self._make_literal(value.kind)
            return f"{left} {self.random.choice(('=', '<', '>=', '<>'))} {value.text}"
        if form == "exists":
            inner, own = self._make_inner(scope, 0.85)
            grouped = f" GROUP BY {self._choose(own).text} HAVING count(*) > 1" if self._happens(0.15) else ""
            return f"{negated}EXISTS (SELECT 1 FROM {inner}{grouped})"
        inner, own = self._make_inner(scope, 0.3)
        pairs = [(a, b) for a in scope for b in own if a.kind == b.kind and a.kind != "average"]
        if not pairs:
            return f"{negated}EXISTS (SELECT 1 FROM {inner})"
        tested, listed = self.random.choice(pairs)
        if self._happens(0.15):
            more, other = self.random.choice(pairs)
            return f"({tested.text}, {more.text}) {negated}IN (SELECT {listed.text}, {other.text} FROM {inner})"
        plus = " + 0" if tested.kind == "whole" and self._happens(0.1) else ""
        return f"{tested.text}{plus} {negated}IN (SELECT {listed.text} FROM {inner})"

    def _make_scalar(self, scope: Scope) -> Column:
        """A subquery with one value: an aggregate, of all rows or of those that belong to the row around it."""
        inner, own = self._make_inner(scope, 0.5)
        call = self._make_aggregate(own, distinct=False, average=False)
        return Column(f"(SELECT {call.text} FROM {inner})", call.kind)

    def _make_inner(self, scope: Scope, correlated: float) -> tuple[str, Scope]:
        """FROM and WHERE of a subquery, with the rows around it or without them."""
        relation, alias = self._make_relation(0), self._name()
        text, own = f"{relation.sql} AS {alias}", _qualify(relation, alias)
        if self._happens(0.25):
            added, alias = self._make_relation(0), self._name()
            joined = _qualify(added, alias)
            join = self.random.choices(("JOIN", "LEFT JOIN"), (4, 1))[0]
            text += f" {join} {added.sql} AS {alias} ON {self._make_join_condition(own, joined)}"
            own += joined
        parts = []
        pairs = [(a, b) for a in own for b in scope if a.kind == b.kind and a.kind in ("whole", "string")]
        if pairs and self._happens(correlated):
            inside, outside = self.random.choice(pairs)
            sign = self.random.choices(("=", "<", "<=>"), (8, 1, 1))[0]
            parts.append(f"{inside.text} {sign} {outside.text}")
        if self._happens(0.3):
            parts.append(self._make_comparison(own))
        if self._happens(0.05):
            deeper = self._make_relation(0)
            if whole := [c for c in deeper.columns if c.kind == "whole"]:
                tested = [c for c in own if c.kind == "whole"]
                if tested:
                    inner = f"SELECT i.{whole[0].text} FROM {deeper.sql} AS i"
                    parts.append(f"{self._choose(tested).text} IN ({inner})")
        return text + (f" WHERE {' AND '.join(parts)}" if parts else ""), own

    # --- expressions --------------------------------------------------------------------------------------------------

    def _make_item(self, scope: Scope, depth: int) -> Column:
        column = self._choose(scope)
        if self._happens(0.08 if depth > 0 else 0.02):
            return self._make_scalar(scope)
        if self._happens(0.04):
            yes, no = self.random.choice((("1", "0"), ("1", "NULL")))
            return Column(f"CASE WHEN {self._make_predicate(scope)} THEN {yes} ELSE {no} END", "whole")
        if column.kind == "whole" and self._happens(0.25):
            return self._make_group((column,))
        return column

    def _make_group(self, scope: Scope) -> Column:
        column = self._choose([c for c in scope if c.kind != "average"] or scope)
        if column.kind != "whole" or self._happens(0.7):
            return column
        text = self.random.choice((f"{column.text} % 2", f"coalesce({column.text}, 0)", f"{column.text} + 1"))
        return Column(text, "whole")

    def _make_aggregate(self, scope: Scope, distinct: bool = True, average: bool = True) -> Column:
        column = self._choose([c for c in scope if c.kind != "average"] or scope)
        test = self._make_comparison(scope)
        summed = self._choose([c for c in scope if c.kind in ("whole", "decimal", "double")] or [Column("1", "whole")])
        only = f" FILTER (WHERE {test})" if self._happens(0.2) else ""
        forms = [
            (2.0, Column(f"count(*){only}", "whole")),
            (1.5, Column(f"count({column.text}){only}", "whole")),
            (4.0, Column(f"sum({summed.text}){only}", summed.kind)),
            (1.0, Column(f"sum(CASE WHEN {test} THEN {summed.text} ELSE 0 END)", summed.kind)),
            (1.0, Column(f"max({column.text}){only}", column.kind)),
            (1.0, Column(f"min({column.text}){only}", column.kind)),
            (0.5, Column(f"CAST(bool_and({test}) AS INT)", "whole")),
            (0.5, Column(f"CAST(bool_or({test}) AS INT)", "whole")),
            (0.5, Column(f"count_if({test})", "whole")),
        ]
        if distinct:
            forms.append((1.5, Column(f"count(DISTINCT {column.text})", "whole")))
        if average and summed.kind == "whole":
            # An average of decimals is one in DuckDB in doubles, and in Spark in decimals.
            forms.append((1.0, Column(f"avg({summed.text})", "average")))
        return self.random.choices([form for _, form in forms], [weight for weight, _ in forms])[0]

    def _decorate(self, call: Column, depth: int) -> Column:
        """An expression over an aggregate, now and then one with a value beside it."""
        if call.kind == "whole" and self._happens(0.15):
            return Column(f"coalesce({call.text}, 0) + 1", "whole")
        if call.kind == "whole" and depth > 0 and self._happens(0.08):
            value = self._make_scalar(())
            if value.kind == "whole":
                return Column(f"{call.text} + coalesce({value.text}, 0)", "whole")
        return call

    def _make_having(self, scope: Scope, depth: int) -> str:
        if not self._happens(0.3):
            return ""
        call = self._make_aggregate(scope, distinct=False)
        if call.kind in ("whole", "decimal") and depth > 0 and self._happens(0.4):
            value = self._make_scalar(())
            if value.kind in ("whole", "decimal"):
                return f" HAVING {call.text} >= {value.text}"
        return f" HAVING {self._make_comparison((call,))}"

    def _make_window(self, scope: Scope, partition: Column) -> Column:
        """A window function; where equal rows could change places, all columns of the rows are its order."""
        order, whole = self._choose(scope), [c for c in scope if c.kind == "whole"]
        summed = self._choose(whole).text if whole else "1"
        by = f"PARTITION BY {partition.text}"
        total = f"{by} ORDER BY {', '.join(c.text for c in scope)}"
        forms = (
            f"rank() OVER ({by} ORDER BY {order.text} DESC)",
            f"dense_rank() OVER ({by} ORDER BY {order.text})",
            f"row_number() OVER ({total})",
            f"sum({summed}) OVER ({by} ORDER BY {order.text})",
            f"sum({summed}) OVER ({total} ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
            f"count(*) OVER ({by})",
            f"max({summed}) OVER ({by})",
            f"lag({summed}) OVER ({total})",
            f"count(*) OVER (PARTITION BY {self._choose(scope).text}, {partition.text})",
            f"max({summed}) OVER (PARTITION BY {self._choose(scope).text})",
        )
        return Column(self.random.choice(forms), "whole")

    # --- choices ------------------------------------------------------------------------------------------------------

    def _happens(self, share: float) -> bool:
        return self.random.random() < share

    def _name(self) -> str:
        self._aliases += 1
        return f"q{self._aliases}"

    def _choose(self, columns: Sequence[Column]) -> Column:
        return self.random.choice(columns)

    def _choose_two(self, scope: Scope) -> tuple[Column, Column]:
        one = self._choose(scope)
        others = [c for c in scope if c.text != one.text]
        return one, self._choose(others) if others else Column("1 + 0", "whole")

    def _make_literal(self, kind: str) -> str:
        value = self.random.choice(("NULL", *_LITERALS[kind]))
        return f"CAST({value} AS {_CASTS[kind]})"


def _qualify(made: Made, alias: str) -> Scope:
    return tuple(Column(f"{alias}.{c.text}", c.kind) for c in made.columns)
