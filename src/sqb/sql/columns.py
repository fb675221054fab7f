"""Which columns of its tables a query reads, or would read if they existed.

What is not proven counts as everything. A name that no qualifier ties to one table counts for every table that can be
seen from where it stands: a column of that name that is added to one of them may be what the name means from then on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from sqb.sql.lexer import Token
from sqb.sql.reading import ALL, ASKED
from sqb.sql.spans import Reference

# A star in a block with one of these shows more than columns: equal rows are counted or dropped.
_BLURRED = ("distinct", "group", "kind")
# Quoted names with these may be patterns of names, if Spark is told so.
_PATTERN = frozenset("*+?|()[]^$")


@dataclass(slots=True)
class _Relation:
    """Something that has columns: a slot of the query, or a query in it; and those of them that are read."""

    asked: set[str] = field(default_factory=set)
    # Where stars of it lead to, and the names that those stars leave out.
    stars: list[tuple[_Relation, frozenset[str]]] = field(default_factory=list)
    # Only some of its columns can be asked for by name; the others count by their place.
    by_place: bool = False


@dataclass(slots=True)
class _Source:
    names: tuple[str, ...]
    relation: _Relation


@dataclass(slots=True)
class _Block:
    """One SELECT: its sources, and what it can be correlated with."""

    outer: tuple[_Block, ...]
    sources: list[_Source] = field(default_factory=list)
    # The names in it, each with its qualifiers: whose they are is known when all sources are.
    names: list[tuple[str, ...]] = field(default_factory=list)

    def visible(self) -> Iterator[_Source]:
        for block in (self, *self.outer):
            yield from block.sources

    def ask(self, parts: Sequence[str]) -> None:
        """Count a column name for every source that it can be of, however many of its parts are qualifiers."""
        for source in self.visible():
            source.relation.asked.add(parts[0])
            for length in range(1, len(parts)):
                if source.names[-length:] == tuple(parts[:length]):
                    source.relation.asked.add(parts[length])


def columns_read(tree: exp.Expr, slots: Sequence[Reference], tokens: Sequence[Token]) -> tuple[tuple[str, ...], ...]:
    """For each slot the names that are read of it, in lower case; `ALL` and `ASKED` stand for more than names."""
    everything = tuple((ALL,) for _ in slots)
    try:
        reader = _Reader({slot.start: _Relation() for slot in slots})
        root = reader.query(tree, {}, ())
        root.asked.add(ASKED)
        words = [(word,) for word in _loose_words(tree, tokens)]
        for block in reader.blocks:
            for parts in (*block.names, *words):
                block.ask(parts)
        _flow(reader.relations)
    except (AttributeError, KeyError, TypeError, ValueError, IndexError):
        return everything
    found = (reader.slots[slot.start] if slot.start in reader.seen else None for slot in slots)
    return tuple(tuple(sorted(r.asked)) if r is not None and ALL not in r.asked else (ALL,) for r in found)


def _loose_words(tree: exp.Expr, tokens: Sequence[Token]) -> frozenset[str]:
    """Words that the tree does not hold as names and that Spark may yet take for a column, such as `current_date`."""
    names = {n.meta["start"] for n in tree.find_all(exp.Identifier) if "start" in n.meta}
    found = set()
    for index, token in enumerate(tokens):
        called = index + 1 < len(tokens) and tokens[index + 1].text == "("
        if token.start not in names and not called and token.kind in ("word", "quoted"):
            found.add(token.text.strip("`").lower())
    return frozenset(found)


def _flow(relations: Iterable[_Relation]) -> None:
    """Let what is asked of a query with a star be asked of what the star stands for, until nothing is new."""
    known = list(relations)
    moved = True
    while moved:
        moved = False
        for relation in known:
            asked = {ALL} if relation.by_place and relation.asked else relation.asked
            for source, hidden in relation.stars:
                before = len(source.asked)
                source.asked |= asked | hidden
                moved = moved or len(source.asked) > before


class _Reader:
    """Goes through a query once and notes who asks whom for what."""

    def __init__(self, slots: Mapping[int, _Relation]) -> None:
        self.slots = slots
        self.seen: set[int] = set()
        self.relations: list[_Relation] = list(slots.values())
        self.blocks: list[_Block] = []

    def query(self, node: exp.Expr, ctes: Mapping[str, _Relation], outer: tuple[_Block, ...]) -> _Relation:
        """A query with everything in it."""
        known = dict(ctes)
        with_ = node.args.get("with_")
        recursive = with_ is not None and bool(with_.args.get("recursive"))
        for cte in with_.expressions if with_ is not None else ():
            own = self._new()
            if recursive:
                known[cte.alias.lower()] = own
            body = self.query(cte.this, known, outer)
            own.stars.append((body, frozenset()))
            own.by_place = recursive or bool(cte.args["alias"].columns)
            known[cte.alias.lower()] = own
        match node:
            case exp.Select():
                return self._select(node, known, outer)
            case exp.SetOperation():
                found = self._new()
                found.by_place = True
                for side in (node.left, node.right):
                    branch = self.query(side, known, outer)
                    branch.asked.add(ALL)
                    found.stars.append((branch, frozenset()))
            case exp.Subquery() if isinstance(node.this, exp.Query):
                found = self.query(node.this, known, outer)
            case _:
                raise ValueError(type(node).__name__)
        self._expressions(node, self._block(outer), known, ("this", "expression", "with_", "alias"))
        return found

    def _block(self, outer: tuple[_Block, ...]) -> _Block:
        self.blocks.append(_Block(outer))
        return self.blocks[-1]

    def _new(self) -> _Relation:
        self.relations.append(_Relation())
        return self.relations[-1]

    # --- one SELECT -----------------------------------------------------------------------------------------------

    def _select(self, select: exp.Select, ctes: Mapping[str, _Relation], outer: tuple[_Block, ...]) -> _Relation:
        block, found = self._block(outer), self._new()
        from_ = select.args.get("from_")
        if from_ is not None:
            self._source(from_.this, block, ctes)
        self._joins(select, block, ctes)
        for lateral in select.args.get("laterals") or ():
            self._lateral(lateral, block, ctes)
        self._expressions(select, block, ctes, ("from_", "joins", "laterals", "with_", "expressions"))
        blurred = any(select.args.get(key) for key in _BLURRED)
        for item in select.expressions:
            stars = self._stars(item, block)
            if stars is None:
                self._expression(item, block, ctes)
                continue
            for source, hidden in stars:
                found.stars.append((source.relation, hidden))
                if blurred:
                    source.relation.asked.add(ALL)
        return found

    def _stars(self, item: exp.Expr, block: _Block) -> list[tuple[_Source, frozenset[str]]] | None:
        """The sources that a star in the list stands for; None when the item is no star of sources."""
        star = item.this if isinstance(item, exp.Column) else item
        if not isinstance(star, exp.Star):
            return None
        hidden = frozenset(c.name.lower() for c in star.args.get("except_") or ())
        if any(value and key != "except_" for key, value in star.args.items()):
            raise ValueError("a star that is not Spark's")
        if not isinstance(item, exp.Column):
            return [(source, hidden) for source in block.sources]
        parts = tuple(p.name.lower() for p in item.parts[:-1])
        # What stands before the dot may be a column with fields, too.
        block.names.append(parts)
        return [(s, hidden) for s in block.visible() if s.names[-len(parts) :] == parts]

    # --- sources --------------------------------------------------------------------------------------------------

    def _joins(self, node: exp.Expr, block: _Block, ctes: Mapping[str, _Relation]) -> None:
        for join in node.args.get("joins") or ():
            self._join(join, block, ctes)

    def _join(self, join: exp.Join, block: _Block, ctes: Mapping[str, _Relation]) -> None:
        self._source(join.this, block, ctes)
        for name in join.args.get("using") or ():
            block.names.append((name.name.lower(),))
        if join.args.get("method"):
            block.names.append((ALL,))
        self._expressions(join, block, ctes, ("this", "using"))

    def _lateral(self, lateral: exp.Expr, block: _Block, ctes: Mapping[str, _Relation]) -> None:
        if isinstance(lateral.this, exp.Query):
            inner = self.query(lateral.this, ctes, (block, *block.outer))
            block.sources.append(_Source((lateral.alias_or_name.lower(),), inner))
        else:
            self._expression(lateral.this, block, ctes)

    def _source(self, node: exp.Expr, block: _Block, ctes: Mapping[str, _Relation]) -> None:
        names: tuple[str, ...]
        match node:
            case exp.Subquery() if isinstance(node.this, exp.Query):
                names, relation = (node.alias_or_name.lower(),), self.query(node, ctes, block.outer)
            case exp.Subquery() if not node.args.get("alias"):
                # Joined tables in brackets: the names of the tables in them stay visible.
                self._source(node.this, block, ctes)
                return self._joins(node, block, ctes)
            case exp.Table() if isinstance(node.this, exp.Identifier):
                names, relation = self._table(node, ctes)
            case exp.Lateral():
                return self._lateral(node, block, ctes)
            case exp.Subquery():
                raise ValueError("joined tables under one name")
            case _:
                return self._expressions(node, block, ctes, ("alias",))
        block.sources.append(_Source(names, relation))
        self._joins(node, block, ctes)
        alias = node.args.get("alias")
        renamed = isinstance(alias, exp.TableAlias) and bool(alias.columns)
        if renamed or node.args.get("pivots") or node.args.get("sample"):
            relation.asked.add(ALL)
        self._expressions(node, block, ctes, ("this", "db", "catalog", "alias", "joins", "with_", "order", "limit"))

    def _table(self, table: exp.Table, ctes: Mapping[str, _Relation]) -> tuple[tuple[str, ...], _Relation]:
        alias = table.args.get("alias")
        given = alias.name.lower() if isinstance(alias, exp.TableAlias) and alias.this is not None else ""
        names = (given,) if given else tuple(p.name.lower() for p in table.parts)
        own = ctes.get(table.name.lower()) if table.args.get("db") is None else None
        if own is not None:
            # Each mention of a CTE asks for its own columns, and the CTE for all of them.
            seen = self._new()
            seen.stars.append((own, frozenset()))
            return names, seen
        start = table.parts[0].meta["start"]
        self.seen.add(start)
        return names, self.slots[start]

    # --- expressions ----------------------------------------------------------------------------------------------

    def _expressions(self, node: exp.Expr, block: _Block, ctes: Mapping[str, _Relation], but: tuple[str, ...]) -> None:
        for key, value in node.args.items():
            if key not in but:
                for child in value if isinstance(value, list) else [value]:
                    if isinstance(child, exp.Expr):
                        self._expression(child, block, ctes)

    def _expression(self, root: exp.Expr, block: _Block, ctes: Mapping[str, _Relation]) -> None:
        stack = [root]
        while stack:
            node = stack.pop()
            match node:
                case exp.Query():
                    inner = self.query(node, ctes, (block, *block.outer))
                    if not isinstance(node.parent, exp.Exists):
                        inner.asked.add(ALL)
                    continue
                case exp.Column() if not isinstance(node.this, exp.Star):
                    self._column(node, block)
                case exp.Hint():
                    continue
                case exp.Star() if not isinstance(node.parent, exp.Count):
                    block.names.append((ALL,))
            stack.extend(node.iter_expressions())

    def _column(self, column: exp.Column, block: _Block) -> None:
        parts = column.parts
        if any(p.args.get("quoted") and _PATTERN & set(p.name) for p in parts):
            raise ValueError("a pattern of names")
        block.names.append(tuple(p.name.lower() for p in parts))
