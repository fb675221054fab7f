"""Which columns of its tables a query reads, or would read if they existed.

What is not proven counts as everything. A name that no qualifier ties to one table counts for every table that can be
seen from where it is: a column of that name that is added to one of them may be what the name means from then on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from sqb.sql.text.columns_read import ALL, ASKED
from sqb.sql.text.lexer import Token
from sqb.sql.text.spans import Reference

# A star in a block with one of these shows more than columns: equal rows are counted or dropped.
_ROW_CLAUSES = ("distinct", "group", "kind")
# Quoted names with these may be patterns of names, if Spark is told so.
_PATTERN = frozenset("*+?|()[]^$")


@dataclass(slots=True)
class _Relation:
    """Something that has columns: a slot of the query, or a query in it; and those of them that are read."""

    requested: set[str] = field(default_factory=set)
    # Where stars of it lead to, and the names that those stars leave out.
    stars: list[tuple[_Relation, frozenset[str]]] = field(default_factory=list)
    # Only some of its columns can be asked for by name; the others count by their place.
    is_positional: bool = False


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

    def iter_visible(self) -> Iterator[_Source]:
        for block in (self, *self.outer):
            yield from block.sources

    def request(self, parts: Sequence[str]) -> None:
        """Count a column name for every source that it can be of, however many of its parts are qualifiers."""
        for source in self.iter_visible():
            source.relation.requested.add(parts[0])
            for length in range(1, len(parts)):
                if source.names[-length:] == tuple(parts[:length]):
                    source.relation.requested.add(parts[length])


def list_columns_read(
    tree: exp.Expr, slots: Sequence[Reference], tokens: Sequence[Token]
) -> tuple[tuple[str, ...], ...]:
    """For each slot the names that are read of it, in lower case; `ALL` and `ASKED` stand for more than names."""
    all_columns = tuple((ALL,) for _ in slots)
    try:
        reader = _Reader({slot.start: _Relation() for slot in slots})
        root = reader.read_query(tree, {}, ())
        root.requested.add(ASKED)
        words = [(word,) for word in _find_loose_words(tree, tokens)]
        for block in reader.blocks:
            for parts in (*block.names, *words):
                block.request(parts)
        _propagate_requests(reader.relations)
    except (AttributeError, KeyError, TypeError, ValueError, IndexError):
        return all_columns
    relations = (reader.slots[slot.start] if slot.start in reader.seen_slots else None for slot in slots)
    return tuple(tuple(sorted(r.requested)) if r is not None and ALL not in r.requested else (ALL,) for r in relations)


def _find_loose_words(tree: exp.Expr, tokens: Sequence[Token]) -> frozenset[str]:
    """Words that the tree does not hold as names and that Spark may yet take for a column, such as `current_date`."""
    names = {n.meta["start"] for n in tree.find_all(exp.Identifier) if "start" in n.meta}
    words = set()
    for index, token in enumerate(tokens):
        called = index + 1 < len(tokens) and tokens[index + 1].text == "("
        if token.start not in names and not called and token.kind in ("word", "quoted"):
            words.add(token.text.strip("`").lower())
    return frozenset(words)


def _propagate_requests(relations: Iterable[_Relation]) -> None:
    """Let what is asked of a query with a star be asked of what the star stands for, until nothing is new."""
    all_relations = list(relations)
    has_changed = True
    while has_changed:
        has_changed = False
        for relation in all_relations:
            requested = {ALL} if relation.is_positional and relation.requested else relation.requested
            for source, hidden in relation.stars:
                before = len(source.requested)
                source.requested |= requested | hidden
                has_changed = has_changed or len(source.requested) > before


class _Reader:
    """Walks a query once and records which relation requests which columns of which."""

    def __init__(self, slots: Mapping[int, _Relation]) -> None:
        self.slots = slots
        self.seen_slots: set[int] = set()
        self.relations: list[_Relation] = list(slots.values())
        self.blocks: list[_Block] = []

    def read_query(self, node: exp.Expr, ctes: Mapping[str, _Relation], outer: tuple[_Block, ...]) -> _Relation:
        """A query with everything in it."""
        visible_ctes = dict(ctes)
        with_ = node.args.get("with_")
        recursive = with_ is not None and bool(with_.args.get("recursive"))
        for cte in with_.expressions if with_ is not None else ():
            cte_relation = self._add_relation()
            if recursive:
                visible_ctes[cte.alias.lower()] = cte_relation
            body = self.read_query(cte.this, visible_ctes, outer)
            cte_relation.stars.append((body, frozenset()))
            cte_relation.is_positional = recursive or bool(cte.args["alias"].columns)
            visible_ctes[cte.alias.lower()] = cte_relation
        match node:
            case exp.Select():
                return self._read_select(node, visible_ctes, outer)
            case exp.SetOperation():
                result = self._add_relation()
                result.is_positional = True
                for side in (node.left, node.right):
                    branch = self.read_query(side, visible_ctes, outer)
                    branch.requested.add(ALL)
                    result.stars.append((branch, frozenset()))
            case exp.Subquery() if isinstance(node.this, exp.Query):
                result = self.read_query(node.this, visible_ctes, outer)
            case _:
                raise ValueError(type(node).__name__)
        self._read_expressions(node, self._add_block(outer), visible_ctes, ("this", "expression", "with_", "alias"))
        return result

    def _add_block(self, outer: tuple[_Block, ...]) -> _Block:
        self.blocks.append(_Block(outer))
        return self.blocks[-1]

    def _add_relation(self) -> _Relation:
        self.relations.append(_Relation())
        return self.relations[-1]

    # --- one SELECT -----------------------------------------------------------------------------------------------

    def _read_select(self, select: exp.Select, ctes: Mapping[str, _Relation], outer: tuple[_Block, ...]) -> _Relation:
        block, result = self._add_block(outer), self._add_relation()
        from_ = select.args.get("from_")
        if from_ is not None:
            self._read_source(from_.this, block, ctes)
        self._read_joins(select, block, ctes)
        for lateral in select.args.get("laterals") or ():
            self._read_lateral(lateral, block, ctes)
        self._read_expressions(select, block, ctes, ("from_", "joins", "laterals", "with_", "expressions"))
        compares_rows = any(select.args.get(key) for key in _ROW_CLAUSES)
        for item in select.expressions:
            stars = self._find_stars(item, block)
            if stars is None:
                self._read_expression(item, block, ctes)
                continue
            for source, hidden in stars:
                result.stars.append((source.relation, hidden))
                if compares_rows:
                    source.relation.requested.add(ALL)
        return result

    def _find_stars(self, item: exp.Expr, block: _Block) -> list[tuple[_Source, frozenset[str]]] | None:
        """Find the sources that a star in the list expands; None when the item is not a star."""
        star = item.this if isinstance(item, exp.Column) else item
        if not isinstance(star, exp.Star):
            return None
        hidden = frozenset(c.name.lower() for c in star.args.get("except_") or ())
        if any(value and key != "except_" for key, value in star.args.items()):
            raise ValueError("a star that is not Spark's")
        if not isinstance(item, exp.Column):
            return [(source, hidden) for source in block.sources]
        parts = tuple(p.name.lower() for p in item.parts[:-1])
        # What is before the dot may be a column with fields, too.
        block.names.append(parts)
        return [(s, hidden) for s in block.iter_visible() if s.names[-len(parts) :] == parts]

    # --- sources --------------------------------------------------------------------------------------------------

    def _read_joins(self, node: exp.Expr, block: _Block, ctes: Mapping[str, _Relation]) -> None:
        for join in node.args.get("joins") or ():
            self._read_join(join, block, ctes)

    def _read_join(self, join: exp.Join, block: _Block, ctes: Mapping[str, _Relation]) -> None:
        self._read_source(join.this, block, ctes)
        for name in join.args.get("using") or ():
            block.names.append((name.name.lower(),))
        if join.args.get("method"):
            block.names.append((ALL,))
        self._read_expressions(join, block, ctes, ("this", "using"))

    def _read_lateral(self, lateral: exp.Expr, block: _Block, ctes: Mapping[str, _Relation]) -> None:
        if isinstance(lateral.this, exp.Query):
            inner = self.read_query(lateral.this, ctes, (block, *block.outer))
            block.sources.append(_Source((lateral.alias_or_name.lower(),), inner))
        else:
            self._read_expression(lateral.this, block, ctes)

    def _read_source(self, node: exp.Expr, block: _Block, ctes: Mapping[str, _Relation]) -> None:
        names: tuple[str, ...]
        match node:
            case exp.Subquery() if isinstance(node.this, exp.Query):
                names, relation = (node.alias_or_name.lower(),), self.read_query(node, ctes, block.outer)
            case exp.Subquery() if not node.args.get("alias"):
                # Joined tables in brackets: the names of the tables in them stay visible.
                self._read_source(node.this, block, ctes)
                return self._read_joins(node, block, ctes)
            case exp.Table() if isinstance(node.this, exp.Identifier):
                names, relation = self._read_table(node, ctes)
            case exp.Lateral():
                return self._read_lateral(node, block, ctes)
            case exp.Subquery():
                raise ValueError("joined tables under one name")
            case _:
                return self._read_expressions(node, block, ctes, ("alias",))
        block.sources.append(_Source(names, relation))
        self._read_joins(node, block, ctes)
        alias = node.args.get("alias")
        renamed = isinstance(alias, exp.TableAlias) and bool(alias.columns)
        if renamed or node.args.get("pivots") or node.args.get("sample"):
            relation.requested.add(ALL)
        self._read_expressions(
            node, block, ctes, ("this", "db", "catalog", "alias", "joins", "with_", "order", "limit")
        )

    def _read_table(self, table: exp.Table, ctes: Mapping[str, _Relation]) -> tuple[tuple[str, ...], _Relation]:
        alias = table.args.get("alias")
        alias_name = alias.name.lower() if isinstance(alias, exp.TableAlias) and alias.this is not None else ""
        names = (alias_name,) if alias_name else tuple(p.name.lower() for p in table.parts)
        cte_relation = ctes.get(table.name.lower()) if table.args.get("db") is None else None
        if cte_relation is not None:
            # Each mention of a CTE asks for its own columns, and the CTE for all of them.
            mention = self._add_relation()
            mention.stars.append((cte_relation, frozenset()))
            return names, mention
        start = table.parts[0].meta["start"]
        self.seen_slots.add(start)
        return names, self.slots[start]

    # --- expressions ----------------------------------------------------------------------------------------------

    def _read_expressions(
        self, node: exp.Expr, block: _Block, ctes: Mapping[str, _Relation], excluded: tuple[str, ...]
    ) -> None:
        for key, value in node.args.items():
            if key not in excluded:
                for child in value if isinstance(value, list) else [value]:
                    if isinstance(child, exp.Expr):
                        self._read_expression(child, block, ctes)

    def _read_expression(self, root: exp.Expr, block: _Block, ctes: Mapping[str, _Relation]) -> None:
        stack = [root]
        while stack:
            node = stack.pop()
            match node:
                case exp.Query():
                    inner = self.read_query(node, ctes, (block, *block.outer))
                    if not isinstance(node.parent, exp.Exists):
                        inner.requested.add(ALL)
                    continue
                case exp.Column() if not isinstance(node.this, exp.Star):
                    self._read_column(node, block)
                case exp.Hint():
                    continue
                case exp.Star() if not isinstance(node.parent, exp.Count):
                    block.names.append((ALL,))
            stack.extend(node.iter_expressions())

    def _read_column(self, column: exp.Column, block: _Block) -> None:
        parts = column.parts
        if any(p.args.get("quoted") and _PATTERN & set(p.name) for p in parts):
            raise ValueError("a pattern of names")
        block.names.append(tuple(p.name.lower() for p in parts))
