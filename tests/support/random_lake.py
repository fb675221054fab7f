"""Random tables, random changes of them and random queries over them, all from one seed.

Values come from small domains, so that joins hit, groups have several rows and rows repeat. Every query has one right
answer: windows are ordered by all columns, and doubles are multiples of 0.25, whose sums are exact in any order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random

from support.random_queries import QueryMaker, find_kind

DOMAINS: dict[str, tuple[str, ...]] = {
    "int": ("NULL", "0", "1", "2", "3"),
    # Two of the last are more than a double adds up exactly.
    "bigint": ("NULL", "1", "2", "3", "4000000000", "4503599627370497"),
    # The last is what Spark would replace if it came by in a text.
    "string": ("NULL", "''", "'a'", "'b'", "'A'", "'it''s'", "concat('$', '{env:HOME}')"),
    "double": ("NULL", "0.25D", "1.5D", "-2.0D", "double('NaN')"),
    "decimal(10,2)": ("NULL", "0.10", "1.25", "-3.00"),
    "date": ("NULL", "DATE '2024-02-29'", "DATE '2024-03-01'", "DATE '1969-12-31'"),
    "timestamp": ("NULL", "TIMESTAMP '2024-03-31 02:30:00'", "TIMESTAMP '2024-10-27 02:30:00.123456'"),
    "boolean": ("NULL", "TRUE", "FALSE"),
    "array<int>": ("NULL", "CAST(array() AS array<int>)", "array(1)", "array(1, 2, 2)", "array(CAST(NULL AS INT), 3)"),
    "struct<a:int,b:string>": (
        "NULL",
        "named_struct('a', 1, 'b', 'a')",
        "named_struct('a', CAST(NULL AS INT), 'b', '')",
    ),
}
EXTRA = (
    ("n", "bigint"),
    ("d", "decimal(10,2)"),
    ("dt", "date"),
    ("ts", "timestamp"),
    ("f", "boolean"),
    ("arr", "array<int>"),
    ("st", "struct<a:int,b:string>"),
    ("k2", "int"),
    ("g2", "string"),
)
LAYOUTS = (
    "",
    "TBLPROPERTIES ('format-version'='3')",
    "TBLPROPERTIES ('write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read', "
    "'write.merge.mode'='merge-on-read', 'format-version'='2')",
    "TBLPROPERTIES ('write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read', "
    "'write.merge.mode'='merge-on-read', 'format-version'='3')",
    "PARTITIONED BY (g)",
    "PARTITIONED BY (bucket(2, k))",
)
# The types of columns by the kinds of `random_queries`, as far as other queries must know them.
_TYPES = {"whole": "bigint", "decimal": "decimal", "string": "string", "double": "double", "average": "approx"}
ORDERED = ("int", "bigint", "string", "double", "decimal", "date", "timestamp", "boolean", "approx")


@dataclass(slots=True)
class Rel:
    """Something that a query can read: its name, and its columns with their types."""

    name: str
    columns: dict[str, str]
    # Tables have a history to roll back to and can be changed.
    is_table: bool = False
    layout: str = ""


@dataclass(slots=True)
class Query:
    """A query with the columns of its result."""

    sql: str
    columns: dict[str, str]
    unique: str | None = None


@dataclass(frozen=True, slots=True)
class LookupJoin:
    """A log of one table's rows, with columns of a lookup: `query` has a place for each of the two."""

    driver: str
    lookup: str
    is_left: bool
    key: str
    query: str

    def at(self, driver: str, lookup: str) -> str:
        return self.query.replace("\x04", driver).replace("\x05", lookup)

    def before(self, versions: dict[str, int]) -> str:
        """The query over the driver of before and the lookup of now; INNER JOINed, only with the keys of before."""
        lookup = self.lookup
        if not self.is_left:
            then = f"(SELECT {self.key} FROM {self.lookup} VERSION AS OF {versions[self.lookup]})"
            lookup = f"(SELECT n.* FROM {self.lookup} n LEFT SEMI JOIN {then} b ON n.{self.key} = b.{self.key})"
        return self.at(f"{self.driver} VERSION AS OF {versions[self.driver]}", lookup)


@dataclass(slots=True)
class Model:
    """A model of the random project."""

    name: str
    kind: str
    query: Query
    reads: tuple[str, ...] = ()
    lookup: LookupJoin | None = None
    # "incremental": changes are followed wherever that is exact; "auto": where it seems to pay.
    refresh: str = "incremental"
    keeps_figures: bool = True

    @property
    def text(self) -> str:
        head = [f"-- @kind: {self.kind}"]
        if self.lookup is not None:
            head.append(f"-- @lookups: {self.lookup.lookup}")
        if self.kind != "view":
            head.append(f"-- @refresh: {self.refresh}")
        if not self.keeps_figures and self.kind in ("table", "merge"):
            head.append("-- @aggregate_state: false")
        if self.kind in ("merge", "scd2"):
            head.append(f"-- @unique_key: {self.query.unique}")
        if self.kind == "tracked":
            head.append(f"-- @group_key: {next(iter(self.query.columns))}")
        return "\n".join([*head, with_qualify(self.query.sql), ""])


@dataclass(slots=True)
class Item:
    """Something in a FROM: its text without alias, the alias, and its columns."""

    text: str
    alias: str
    columns: dict[str, str]

    @property
    def sql(self) -> str:
        return f"{self.text} AS {self.alias}"


_QUALIFIED = re.compile("\x01([^\x01\x02\x03]*)\x03([^\x01\x02\x03]*)\x03([^\x01\x02\x03]*)\x03([^\x01\x02\x03]*)\x02")


def qualified(values: str, names: Iterable[str], from_: str, over: str) -> str:
    """The first row of each part, in a form that `with_qualify` and `without_qualify` can write."""
    return f"\x01{values}\x03{', '.join(names)}\x03{from_}\x03{over}\x02"


def with_qualify(text: str) -> str:
    """The query as people write it."""
    return _written(text, "SELECT {0}\nFROM {2}\nQUALIFY row_number() {3} = 1")


def without_qualify(text: str) -> str:
    """The query as Spark runs it."""
    return _written(text, "SELECT {1} FROM (SELECT {0}, row_number() {3} AS rn_\nFROM {2}) WHERE rn_ = 1")


def _written(text: str, form: str) -> str:
    while (match := _QUALIFIED.search(text)) is not None:
        text = text[: match.start()] + form.format(*match.groups()) + text[match.end() :]
    return text


def base(kind: str) -> str:
    """A type without its size."""
    return kind.split("(")[0].split("<")[0]


@dataclass(slots=True)
class Maker:
    """Makes queries over relations."""

    random: Random
    rels: list[Rel]
    # Which of the shapes below; all of them where nothing is said.
    shapes: Sequence[Callable[[Maker, int], Query]] = ()
    counter: int = 0
    used: set[str] = field(default_factory=set)

    # --- pieces ---------------------------------------------------------------------------------------------------

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def alias(self) -> str:
        self.counter += 1
        return f"a{self.counter}"

    def item(self, depth: int) -> Item:
        if depth > 0 and self.chance(0.3):
            query = self.query(depth - 1)
            return Item(f"({query.sql})", self.alias(), query.columns)
        rel = self.random.choice(self.rels)
        self.used.add(rel.name)
        return Item(rel.name, self.alias(), dict(rel.columns))

    def column(self, items: Sequence[Item], bases: Sequence[str] = ()) -> tuple[str, str] | None:
        result = [(f"{i.alias}.{c}", t) for i in items for c, t in i.columns.items() if not bases or base(t) in bases]
        return self.random.choice(result) if result else None

    def literal(self, kind: str) -> str:
        kind = {"approx": "double"}.get(base(kind), base(kind))
        domain = next((d for t, d in DOMAINS.items() if base(t) == kind), DOMAINS["int"])
        return self.random.choice([v for v in domain if v != "NULL"])

    def predicate(self, items: Sequence[Item], depth: int = 1) -> str:
        roll = self.random.random()
        if depth and roll < 0.2:
            word = self.random.choice(("AND", "OR"))
            return f"({self.predicate(items, 0)} {word} {self.predicate(items, 0)})"
        columns = self.column(items, ORDERED)
        if columns is None:
            return "TRUE"
        name, kind = columns
        if roll < 0.35:
            return f"{name} IS {self.random.choice(('NULL', 'NOT NULL'))}"
        if roll < 0.45:
            return f"{name} IN ({self.literal(kind)}, {self.literal(kind)})"
        operator = self.random.choice(("=", "<>", "<", ">=", "<=>"))
        text = f"{name} {operator} {self.literal(kind)}"
        return f"NOT ({text})" if self.chance(0.1) else text

    def value(self, items: Sequence[Item]) -> tuple[str, str]:
        """An expression and its type."""
        columns = self.column(items)
        assert columns is not None
        name, kind = columns
        if self.chance(0.7):
            return name, kind
        match base(kind):
            case "int" | "bigint":
                return self.random.choice(((f"{name} + 1", kind), (f"coalesce({name}, 0)", kind)))
            case "string":
                return self.random.choice(((f"upper({name})", kind), (f"coalesce({name}, '')", kind)))
            case "double":
                return f"{name} * 2D", kind
            case "boolean":
                return f"NOT {name}", kind
            case "struct" if kind == "struct<a:int,b:string>":
                return self.random.choice(((f"{name}.a", "int"), (f"{name}.b", "string")))
            case "array":
                return f"size({name})", "int"
            case _ if self.chance(0.5):
                return f"CASE WHEN {self.predicate(items, 0)} THEN {name} END", kind
            case _:
                return name, kind

    def listed(self, values: Sequence[tuple[str, str]], prefix: str = "c") -> tuple[str, dict[str, str]]:
        columns = {f"{prefix}{i}": kind for i, (_, kind) in enumerate(values)}
        text = ", ".join(f"{v} AS {c}" for (v, _), c in zip(values, columns, strict=True))
        return text, columns

    def equality(self, left: Sequence[Item], right: Item, same: bool = False) -> str | None:
        """An equality between a column of some items and one of another."""
        rights = [(c, t) for c, t in right.columns.items() if base(t) in ("int", "bigint", "string", "date", "double")]
        self.random.shuffle(rights)
        numbers = ("int", "bigint")
        for name, kind in rights:
            bases = numbers if base(kind) in numbers and not same and self.chance(0.5) else (base(kind),)
            columns = self.column(left, bases)
            if columns is not None:
                operator = "<=>" if self.chance(0.12) else "="
                return f"{columns[0]} {operator} {right.alias}.{name}"
        return None

    # --- shapes ---------------------------------------------------------------------------------------------------

    def query(self, depth: int) -> Query:
        return self.random.choice(self.shapes or SHAPES)(self, depth)

    def joined(self, depth: int, most: int, kinds: Sequence[str]) -> tuple[str, list[Item]]:
        """A FROM with joins; the items whose columns can be seen."""
        first = self.item(depth)
        text, seen = first.sql, [first]
        for _ in range(self.random.randint(1, most)):
            kind = self.random.choice(kinds)
            other = self.item(depth)
            if self.chance(0.25):
                other = Item(first.text, self.alias(), first.columns)
            on = self.equality(seen, other)
            if on is None:
                continue
            if self.chance(0.2):
                on += f" AND {self.predicate([*seen, other], 0)}"
            if self.chance(0.15) and (second := self.equality(seen, other)):
                on += f" AND {second}"
            text += f"\n{kind} {other.sql} ON {on}"
            if kind not in ("LEFT SEMI JOIN", "LEFT ANTI JOIN"):
                seen.append(other)
        return text, seen

    def where(self, items: Sequence[Item], share: float = 0.4) -> str:
        return f"\nWHERE {self.predicate(items)}" if self.chance(share) else ""


def simple(make: Maker, depth: int) -> Query:
    item = make.item(depth)
    text, columns = make.listed([make.value([item]) for _ in range(make.random.randint(1, 5))])
    distinct = "DISTINCT " if make.chance(0.25) else ""
    return Query(f"SELECT {distinct}{text}\nFROM {item.sql}{make.where([item], 0.6)}", columns)


def star(make: Maker, depth: int) -> Query:
    item = make.item(0)
    return Query(f"SELECT * FROM {item.sql}{make.where([item], 0.7)}", dict(item.columns))


def inner_join(make: Maker, depth: int) -> Query:
    from_, seen = make.joined(depth, 3, ("JOIN", "JOIN", "INNER JOIN"))
    text, columns = make.listed([make.value(seen) for _ in range(make.random.randint(1, 5))])
    return Query(f"SELECT {text}\nFROM {from_}{make.where(seen)}", columns)


def comma_join(make: Maker, depth: int) -> Query:
    one, two = make.item(depth), make.item(0)
    on = make.equality([one], two) or "FALSE"
    text, columns = make.listed([make.value([one, two]) for _ in range(3)])
    return Query(f"SELECT {text}\nFROM {one.sql}, {two.sql}\nWHERE {on} AND {make.predicate([one, two])}", columns)


def outer_join(make: Maker, depth: int) -> Query:
    kinds = (
        "LEFT JOIN",
        "LEFT JOIN",
        "RIGHT JOIN",
        "FULL OUTER JOIN",
        "JOIN",
        "LEFT SEMI JOIN",
        "LEFT ANTI JOIN",
    )
    from_, seen = make.joined(depth, 3, kinds)
    text, columns = make.listed([make.value(seen) for _ in range(make.random.randint(1, 5))])
    distinct = "DISTINCT " if make.chance(0.15) else ""
    return Query(f"SELECT {distinct}{text}\nFROM {from_}{make.where(seen)}", columns)


def aggregate(make: Maker, items: Sequence[Item]) -> tuple[str, str]:
    """An aggregate that has one right answer, and its type."""
    roll = make.random.random()
    exact = make.column(items, ("int", "bigint", "double", "decimal"))
    if roll < 0.2 or exact is None:
        return "count(*)", "bigint"
    name, kind = exact
    if roll < 0.45:
        result = {"int": "bigint", "decimal": "decimal"}.get(base(kind), base(kind))
        return make.random.choice((f"sum({name})", f"coalesce(sum({name}), 0)")), result
    if roll < 0.55:
        return f"avg({name})", "decimal" if base(kind) == "decimal" else "approx"
    any_ = make.column(items, ORDERED)
    assert any_ is not None
    if roll < 0.7:
        return f"count(DISTINCT {any_[0]})", "bigint"
    if roll < 0.78:
        return f"count({any_[0]}) FILTER (WHERE {make.predicate(items, 0)})", "bigint"
    return f"{make.random.choice(('min', 'max'))}({any_[0]})", any_[1]


def _term(make: Maker, name: str, kind: str) -> tuple[str, str]:
    """An expression to group by, and its type."""
    forms: dict[str, tuple[tuple[str, str], ...]] = {
        "int": (("{} % 2", "int"), ("coalesce({}, 0)", "int"), ("CAST({} AS STRING)", "string")),
        "bigint": (("{} % 2", "bigint"), ("{} DIV 2", "bigint")),
        "string": (("lower({})", "string"), ("substring({}, 1, 1)", "string"), ("concat({}, 'x')", "string")),
        "date": (("trunc({}, 'MM')", "date"), ("year({})", "int"), ("date_trunc('MONTH', {})", "timestamp")),
        "timestamp": (("CAST({} AS DATE)", "date"), ("date_trunc('day', {})", "timestamp"), ("hour({})", "int")),
    }
    if kind not in forms:
        return name, kind
    form, result = make.random.choice(forms[kind])
    return form.format(name), result


def grouped(make: Maker, depth: int) -> Query:
    if make.chance(0.5):
        one = make.item(depth)
        from_, seen = one.sql, [one]
    else:
        from_, seen = make.joined(depth, 2, ("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
    keys = [k for k in (make.column(seen, ORDERED) for _ in range(make.random.randint(1, 2))) if k]
    keys = list(dict.fromkeys(_term(make, *key) if make.chance(0.3) else key for key in keys))
    values = [*keys, *(aggregate(make, seen) for _ in range(make.random.randint(1, 3)))]
    if make.chance(0.15) and len(keys) > 1:
        values = values[1:]
    text, columns = make.listed(values)
    by = ", ".join(name for name, _ in keys)
    if make.chance(0.2) and len(values) > len(keys):
        by = make.random.choice(("1", "c0")) if len(keys) == 1 else by
    having = (
        f"\nHAVING {make.random.choice(('count(*) > 1', 'count(*) <= 2', 'min(1) = 1'))}" if make.chance(0.35) else ""
    )
    # Of columns that cannot be ordered nothing is grouped by: then all rows are one group.
    groups = f"\nGROUP BY {by}" if by else ""
    return Query(f"SELECT {text}\nFROM {from_}{make.where(seen)}{groups}{having}", columns)


def global_aggregate(make: Maker, depth: int) -> Query:
    item = make.item(depth)
    text, columns = make.listed([aggregate(make, [item]) for _ in range(2)])
    return Query(f"SELECT {text}\nFROM {item.sql}{make.where([item])}", columns)


def windowed(make: Maker, depth: int) -> Query:
    item = make.item(depth)
    parts = [c for c in (make.column([item], ORDERED) for _ in range(make.random.randint(1, 2))) if c]
    by = ", ".join(dict.fromkeys(name for name, _ in parts)) or f"{item.alias}.{next(iter(item.columns))}"
    order = ", ".join(f"{item.alias}.{c}" for c in item.columns)
    over = f"OVER (PARTITION BY {by} ORDER BY {order})"
    number = make.column([item], ("int", "bigint", "double", "decimal"))
    shown = make.column([item], ORDERED) or (f"{item.alias}.{next(iter(item.columns))}", "int")
    functions = [
        (f"row_number() {over}", "int"),
        (f"rank() {over}", "int"),
        (f"lag({shown[0]}) {over}", shown[1]),
        (f"count(*) OVER (PARTITION BY {by})", "bigint"),
        (f"max({shown[0]}) OVER (PARTITION BY {by})", shown[1]),
    ]
    if number:
        functions.append((f"sum({number[0]}) {over}", "bigint" if base(number[1]) == "int" else number[1]))
    chosen = make.random.choice(functions)
    values = [make.value([item]) for _ in range(make.random.randint(1, 3))]
    text, columns = make.listed([*values, chosen])
    if make.chance(0.3):
        text, columns = make.listed(values)
        return Query(qualified(text, columns, f"{item.sql}{make.where([item])}", over), columns)
    return Query(f"SELECT {text}\nFROM {item.sql}{make.where([item])}", columns)


def set_operation(make: Maker, depth: int) -> Query:
    words = ("UNION ALL", "UNION ALL", "UNION", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL")
    one = make.item(depth)
    other = Item(one.text, make.alias(), one.columns) if make.chance(0.2) else make.item(depth)
    shared = [
        (c, d)
        for c, t in one.columns.items()
        for d, u in other.columns.items()
        if base(t) == base(u) or {base(t), base(u)} == {"int", "bigint"}
    ]
    if not shared:
        return simple(make, depth)
    pairs = make.random.sample(shared, min(len(shared), make.random.randint(1, 3)))
    left, columns = make.listed([(f"{one.alias}.{c}", one.columns[c]) for c, _ in pairs])
    for (c, d), name in zip(pairs, list(columns), strict=True):
        if "bigint" in (one.columns[c], other.columns[d]):
            columns[name] = "bigint"
    right, _ = make.listed([(f"{other.alias}.{d}", other.columns[d]) for _, d in pairs], make.random.choice(("c", "z")))
    first = f"SELECT {left} FROM {one.sql}{make.where([one])}"
    second = f"SELECT {right} FROM {other.sql}{make.where([other])}"
    sql = f"{first}\n{make.random.choice(words)}\n{second}"
    if make.chance(0.2):
        sql += f"\n{make.random.choice(words)}\n{first}"
    return Query(sql, columns)


def with_subquery(make: Maker, depth: int) -> Query:
    item, inner = make.item(depth), make.item(0)
    text, columns = make.listed([make.value([item]) for _ in range(make.random.randint(1, 3))])
    link = make.equality([item], inner) or "TRUE"
    extra = f" AND {make.predicate([inner], 0)}" if make.chance(0.4) else ""
    if make.chance(0.15):
        extra += f" OR {make.predicate([inner], 0)}"
    roll = make.random.random()
    if roll < 0.5:
        no = make.random.choice(("", "NOT "))
        test = f"{no}EXISTS (SELECT 1 FROM {inner.sql} WHERE {link}{extra})"
    else:
        column = make.column([inner], ("int", "string"))
        mine = make.column([item], (base(column[1]),)) if column is not None else None
        if column is None or mine is None:
            return simple(make, depth)
        no = make.random.choice(("", "", "NOT "))
        within = f" WHERE {make.predicate([inner], 0)}" if make.chance(0.5) else ""
        test = f"{mine[0]} {no}IN (SELECT {column[0]} FROM {inner.sql}{within})"
    if make.chance(0.3):
        test += f" AND {make.predicate([item])}"
    return Query(f"SELECT {text}\nFROM {item.sql}\nWHERE {test}", columns)


def scalar_subquery(make: Maker, depth: int) -> Query:
    item, inner = make.item(depth), make.item(0)
    values = [make.value([item]) for _ in range(2)]
    link = make.equality([item], inner)
    if link is None or "<=>" in link:
        return simple(make, depth)
    function, kind = aggregate(make, [inner])
    text, columns = make.listed([*values, (f"(SELECT {function} FROM {inner.sql} WHERE {link})", kind)])
    return Query(f"SELECT {text}\nFROM {item.sql}{make.where([item])}", columns)


def exploded(make: Maker, depth: int) -> Query:
    rels = [r for r in make.rels if "array<int>" in r.columns.values()]
    if not rels:
        return simple(make, depth)
    rel = make.random.choice(rels)
    make.used.add(rel.name)
    item = Item(rel.name, make.alias(), dict(rel.columns))
    name = next(c for c, t in rel.columns.items() if t == "array<int>")
    outer = make.random.choice(("", "OUTER "))
    text, columns = make.listed([*(make.value([item]) for _ in range(2)), ("e.v", "int")])
    view = f"LATERAL VIEW {outer}explode({item.alias}.{name}) e AS v"
    if make.chance(0.4):
        text, columns = make.listed([(make.column([item], ORDERED) or ("e.v", "int")), ("count(e.v)", "bigint")])
        by = text.split(" AS ")[0]
        return Query(f"SELECT {text}\nFROM {item.sql}\n{view}\nGROUP BY {by}", columns)
    return Query(f"SELECT {text}\nFROM {item.sql}\n{view}", columns)


def with_cte(make: Maker, depth: int) -> Query:
    query = make.query(max(depth - 1, 0))
    name = f"w{make.alias()}"
    one = Item(name, make.alias(), query.columns)
    if make.chance(0.4):
        text, columns = make.listed([make.value([one]) for _ in range(2)])
        return Query(f"WITH {name} AS ({query.sql})\nSELECT {text} FROM {one.sql}{make.where([one])}", columns)
    two = Item(name, make.alias(), query.columns)
    if make.chance(0.3):
        text, columns = make.listed([make.value([one]) for _ in range(2)])
        word = make.random.choice(("UNION ALL", "UNION", "EXCEPT ALL", "INTERSECT"))
        again = text.replace(f"{one.alias}.", f"{two.alias}.")
        sql = f"SELECT {text} FROM {one.sql}\n{word}\nSELECT {again} FROM {two.sql}{make.where([two])}"
        return Query(f"WITH {name} AS ({query.sql})\n{sql}", columns)
    on = make.equality([one], two)
    if on is None:
        return query
    kind = make.random.choice(("JOIN", "LEFT JOIN", "LEFT ANTI JOIN", "FULL JOIN"))
    seen = [one] if "ANTI" in kind else [one, two]
    text, columns = make.listed([make.value(seen) for _ in range(3)])
    return Query(f"WITH {name} AS ({query.sql})\nSELECT {text}\nFROM {one.sql} {kind} {two.sql} ON {on}", columns)


def join_of_groups(make: Maker, depth: int) -> Query:
    """A dimension with an aggregate of facts: the shape that people write most."""
    item, facts = make.item(0), make.item(depth)
    key = make.column([facts], ("int", "string"))
    if key is None or (mine := make.column([item], (base(key[1]),))) is None:
        return simple(make, depth)
    function, kind = aggregate(make, [facts])
    alias = make.alias()
    inner = f"(SELECT {key[0]} AS j, {function} AS v FROM {facts.sql}{make.where([facts])} GROUP BY {key[0]}) {alias}"
    text, columns = make.listed([make.value([item]), mine, (f"{alias}.v", kind)])
    join = make.random.choice(("JOIN", "LEFT JOIN", "FULL JOIN"))
    return Query(f"SELECT {text}\nFROM {item.sql} {join} {inner} ON {alias}.j = {mine[0]}", columns)


def composed(make: Maker, depth: int) -> Query:
    """Stars, snowflakes, aggregates over aggregates, grouping sets and subqueries, one in the other."""
    chosen = {rel.name: rel.columns for rel in make.rels if any(map(find_kind, rel.columns.values()))}
    if not chosen:
        return simple(make, depth)
    names = make.random.sample(list(chosen), min(len(chosen), make.random.randint(1, 6)))
    maker = QueryMaker(make.random, {name: chosen[name] for name in names})
    made = maker.make()
    make.used |= maker.used
    return Query(made.sql, {column.text: _TYPES[column.kind] for column in made.columns})


FLAT_SHAPES: tuple[Callable[[Maker, int], Query], ...] = (
    simple,
    star,
    inner_join,
    inner_join,
    comma_join,
    outer_join,
    outer_join,
    grouped,
    grouped,
    global_aggregate,
    windowed,
    windowed,
    set_operation,
    set_operation,
    with_subquery,
    with_subquery,
    scalar_subquery,
    exploded,
    with_cte,
    with_cte,
    join_of_groups,
)
SHAPES = (*FLAT_SHAPES, *[composed] * len(FLAT_SHAPES))


def unique_query(make: Maker) -> Query:
    """A query with a key: one row for each value, and never NULL."""
    query = make.query(1)
    alias = make.alias()
    item = Item(f"({query.sql})", alias, query.columns)
    key = make.column([item], ORDERED)
    if key is None:
        return unique_query(make)
    name = key[0].split(".")[1]
    if make.chance(0.5):
        function, kind = aggregate(make, [item])
        other, other_kind = aggregate(make, [item])
        sql = (
            f"SELECT {key[0]} AS id, {function} AS v, {other} AS w\nFROM {item.sql}\n"
            f"WHERE {key[0]} IS NOT NULL\nGROUP BY {key[0]}"
        )
        return Query(sql, {"id": key[1], "v": kind, "w": other_kind}, "id")
    order = ", ".join(f"{alias}.{c}" for c in item.columns)
    text = ", ".join(f"{alias}.{c} AS {c}" for c in item.columns)
    from_ = f"{item.sql}\nWHERE {key[0]} IS NOT NULL"
    over = f"OVER (PARTITION BY {key[0]} ORDER BY {order})"
    return Query(qualified(text, item.columns, from_, over), dict(item.columns), name)


def lookup_query(make: Maker) -> tuple[Query, LookupJoin]:
    """A log of a table's rows, with columns of another table that drives nothing."""
    driver, lookup = make.random.sample([r for r in {r.name: r for r in make.rels}.values() if r.is_table], 2)
    make.used |= {driver.name, lookup.name}
    one, other = Item("\x04", "d", dict(driver.columns)), Item("\x05", "l", dict(lookup.columns))
    key = make.random.choice(("k", "g"))
    is_left = make.chance(0.5)
    items = [make.column([one]), make.column([one]), make.column([other]), make.column([other], ORDERED)]
    text, columns = make.listed([c for c in items if c is not None])
    join = "LEFT JOIN" if is_left else "JOIN"
    query = f"SELECT {text}\nFROM {one.sql} {join} {other.sql} ON d.{key} = l.{key}{make.where([one])}"
    joined = LookupJoin(driver.name, lookup.name, is_left, key, query)
    return Query(joined.at(driver.name, lookup.name), columns), joined


# --- tables and their changes -----------------------------------------------------------------------------------------


def make_tables(random: Random) -> list[Rel]:
    """One to six tables; what they have in common is what joins hit."""
    items = []
    for number in range(random.randint(1, 6)):
        extra = random.sample(EXTRA, random.randint(2, 5))
        columns = {"k": "int", "g": "string", "x": "double", **dict(extra)}
        items.append(Rel(f"raw.t{number}", columns, True, random.choice(LAYOUTS)))
    return items


def create(table: Rel) -> str:
    columns = ", ".join(f"{c} {t}" for c, t in table.columns.items())
    return f"CREATE TABLE {table.name} ({columns}) USING iceberg {table.layout}".strip()


def row(random: Random, table: Rel) -> str:
    values = (random.choice(DOMAINS[t]) for t in table.columns.values())
    cast = (f"CAST({v} AS {t}) AS {c}" for v, (c, t) in zip(values, table.columns.items(), strict=True))
    return f"SELECT {', '.join(cast)}"


def rows(random: Random, table: Rel, most: int) -> str:
    made = [row(random, table) for _ in range(random.randint(1, most))]
    if random.random() < 0.3:
        made.append(made[0])
    return " UNION ALL ".join(made)


def condition(random: Random, table: Rel) -> str:
    name = random.choice(("k", "g", "x"))
    value = random.choice(DOMAINS[table.columns[name]])
    return f"{name} IS NULL" if value == "NULL" else f"{name} = {value}"


def change(random: Random, table: Rel) -> list[str]:
    """One batch of changes of a table, as statements; what begins with ROLLBACK or ADD is for the caller to do."""
    name = table.name
    assigned = random.choice(list(table.columns))
    value = f"CAST({random.choice(DOMAINS[table.columns[assigned]])} AS {table.columns[assigned]})"
    roll = random.random()
    if roll < 0.34:
        return [f"INSERT INTO {name} {rows(random, table, 3)}"]
    if roll < 0.52:
        return [f"UPDATE {name} SET {assigned} = {value} WHERE {condition(random, table)}"]
    if roll < 0.66:
        return [f"DELETE FROM {name} WHERE {condition(random, table)}"]
    if roll < 0.76:
        return [
            f"MERGE INTO {name} t USING (SELECT * FROM (SELECT s.*, row_number() OVER (PARTITION BY k ORDER BY g) rn "
            f"FROM ({rows(random, table, 3)}) s) WHERE rn = 1) s ON t.k = s.k "
            f"WHEN MATCHED AND t.g = 'a' THEN DELETE WHEN MATCHED THEN UPDATE SET t.{assigned} = s.{assigned} "
            f"WHEN NOT MATCHED THEN INSERT ({', '.join(table.columns)}) "
            f"VALUES ({', '.join(f's.{c}' for c in table.columns)})"
        ]
    if roll < 0.79:
        return [f"TRUNCATE TABLE {name}", f"INSERT INTO {name} {rows(random, table, 4)}"]
    if roll < 0.83:
        return [f"INSERT OVERWRITE {name} {rows(random, table, 4)}"]
    if roll < 0.89:
        return [f"CALL lake.system.rewrite_data_files(table => '{name}', options => map('rewrite-all','true'))"]
    if roll < 0.93:
        return [f"UPDATE {name} SET x = x + 1 WHERE k = 1", f"UPDATE {name} SET x = x - 1 WHERE k = 1"]
    if roll < 0.97:
        return [f"ROLLBACK {name}"]
    return [f"ADD COLUMN {name}"]
