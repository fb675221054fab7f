"""Where the columns of a query's result come from: through CTEs, subqueries, joins, unions and stars.

This is for people to look at: nothing is decided by it. What cannot be followed is said to be unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from sqb.sql.parse import tree_of
from sqb.sql.query import QueryProblem
from sqb.sql.spans import Reference

# A column of the table in a slot of the query.
Origin = tuple[int, str]
Origins = frozenset[Origin]
_NOTHING: Origins = frozenset()
# What in a SELECT decides which rows there are, and not what is in them.
_INDIRECT = ("where", "having", "group", "qualify", "order", "sort", "distribute", "cluster")
_GENERATED = {"posexplode": ("pos", "col"), "explode": ("col",), "inline": (), "stack": ()}


@dataclass(frozen=True, slots=True)
class Output:
    """A column of a result, and the columns that its values are made of."""

    name: str
    origins: Origins
    # Nobody gave it a name: Spark makes one from the expression.
    unnamed: bool = False
    # Its values are those of one column, as they are.
    is_plain: bool = False


@dataclass(frozen=True, slots=True)
class Lineage:
    """The columns of a query's result, and the columns by which its rows are chosen, joined and grouped."""

    outputs: tuple[Output, ...] = ()
    indirect: Origins = _NOTHING
    # Slots with columns nobody knows that a star hands on.
    open: frozenset[int] = frozenset()
    # Why it could not be followed; empty when it was.
    unknown: str = ""


class _NotFollowed(Exception):
    pass


def lineage_of(text: str, slots: Sequence[Reference], columns: Sequence[Sequence[str] | None]) -> Lineage:
    """The lineage of a query whose tables have these columns, where they are known."""
    try:
        return _Follower(slots, columns).query(tree_of(text), {}, ())
    except QueryProblem as problem:
        return Lineage(unknown=problem.message)
    except _NotFollowed as why:
        return Lineage(unknown=str(why))
    except (AttributeError, KeyError, TypeError, ValueError, IndexError, RecursionError):
        return Lineage(unknown="it is written in a way that is not understood")


@dataclass(slots=True)
class _Source:
    names: tuple[str, ...]
    relation: Lineage

    def origins(self, column: str) -> Origins | None:
        """Where a column of it comes from; None when it has no such column."""
        for output in self.relation.outputs:
            if output.name.lower() == column.lower():
                return output.origins
        return frozenset((slot, column) for slot in self.relation.open) or None


@dataclass(slots=True)
class _Block:
    outer: tuple[_Block, ...]
    sources: list[_Source] = field(default_factory=list)
    aliases: dict[str, Origins] = field(default_factory=dict)
    indirect: set[Origin] = field(default_factory=set)

    def find(self, parts: Sequence[str]) -> Origins:
        """Where a column name leads, from here or from a query around."""
        for block in (self, *self.outer):
            found = block._find_here(parts)
            if found is not None:
                return found
        return _NOTHING

    def is_plain(self, item: exp.Expr) -> bool:
        """Whether an expression is one column of one table in the query, and nothing else."""
        if not isinstance(item, exp.Column) or isinstance(item.this, exp.Star) or len(item.parts) > 2:
            return False
        *qualifier, column = [p.name.lower() for p in item.parts]
        meant = [s for s in self.sources if not qualifier or s.names[-1:] == (qualifier[0],)]
        found = [o for s in meant for o in s.relation.outputs if o.name.lower() == column]
        return len(found) == 1 and found[0].is_plain and not any(s.relation.open for s in meant)

    def _find_here(self, parts: Sequence[str]) -> Origins | None:
        for length in range(len(parts) - 1, 0, -1):
            meant = tuple(p.lower() for p in parts[:length])
            for source in self.sources:
                if source.names[-length:] == meant and (found := source.origins(parts[length])) is not None:
                    return found
        having = [found for s in self.sources if not s.relation.open and (found := s.origins(parts[0])) is not None]
        # A table whose columns are not known is asked last: the others say what they have.
        having = having or [found for s in self.sources if (found := s.origins(parts[0])) is not None]
        if having:
            return frozenset().union(*having)
        return self.aliases.get(parts[0].lower())


class _Follower:
    def __init__(self, slots: Sequence[Reference], columns: Sequence[Sequence[str] | None]) -> None:
        self.slots = {slot.start: index for index, slot in enumerate(slots)}
        self.columns = columns

    def query(self, node: exp.Expr, ctes: Mapping[str, Lineage], outer: tuple[_Block, ...]) -> Lineage:
        """The lineage of a query with everything in it."""
        known = dict(ctes)
        with_ = node.args.get("with_")
        for cte in with_.expressions if with_ is not None else ():
            if with_ is not None and with_.args.get("recursive"):
                first = cte.this.left if isinstance(cte.this, exp.SetOperation) else cte.this
                known[cte.alias.lower()] = _renamed(self.query(first, known, outer), cte.args["alias"])
            known[cte.alias.lower()] = _renamed(self.query(cte.this, known, outer), cte.args["alias"])
        match node:
            case exp.Select():
                return self._select(node, known, outer)
            case exp.SetOperation():
                return _combined(node, self.query(node.left, known, outer), self.query(node.right, known, outer))
            case exp.Subquery() if isinstance(node.this, exp.Query):
                return self.query(node.this, known, outer)
            case _:
                raise _NotFollowed(f"{type(node).__name__.upper()} is not followed")

    def _select(self, select: exp.Select, ctes: Mapping[str, Lineage], outer: tuple[_Block, ...]) -> Lineage:
        block = _Block(outer)
        from_ = select.args.get("from_")
        if from_ is not None:
            self._source(from_.this, block, ctes)
        self._joins(select, block, ctes)
        for lateral in select.args.get("laterals") or ():
            self._lateral(lateral, block, ctes)
        outputs: list[Output] = []
        opened: set[int] = set()
        for item in select.expressions:
            star = item.this if isinstance(item, exp.Column) else item
            if isinstance(star, exp.Star):
                for source in _meant(item, block):
                    hidden = {c.name.lower() for c in star.args.get("except_") or ()}
                    outputs += [o for o in source.relation.outputs if o.name.lower() not in hidden]
                    opened |= source.relation.open
                continue
            origins = self._origins(item, block, ctes)
            name = item.alias_or_name
            plain = block.is_plain(item.unalias())
            outputs.append(Output(name or item.sql(dialect="spark"), origins, unnamed=not name, is_plain=plain))
            if item.alias:
                block.aliases.setdefault(item.alias.lower(), origins)
        for key in _INDIRECT:
            if select.args.get(key) is not None:
                block.indirect |= self._origins(select.args[key], block, ctes)
        return Lineage(tuple(outputs), frozenset(block.indirect), frozenset(opened))

    # --- sources --------------------------------------------------------------------------------------------------

    def _joins(self, node: exp.Expr, block: _Block, ctes: Mapping[str, Lineage]) -> None:
        for join in node.args.get("joins") or ():
            self._source(join.this, block, ctes)
            for name in join.args.get("using") or ():
                for source in block.sources:
                    block.indirect |= source.origins(name.name) or _NOTHING
            if join.args.get("on") is not None:
                block.indirect |= self._origins(join.args["on"], block, ctes)

    def _source(self, node: exp.Expr, block: _Block, ctes: Mapping[str, Lineage]) -> None:
        if node.args.get("pivots"):
            raise _NotFollowed("PIVOT is not followed")
        names: tuple[str, ...]
        match node:
            case exp.Subquery() if isinstance(node.this, exp.Query):
                names, relation = (node.alias_or_name.lower(),), self.query(node, ctes, block.outer)
            case exp.Subquery():
                self._source(node.this, block, ctes)
                return self._joins(node, block, ctes)
            case exp.Table() if isinstance(node.this, exp.Identifier):
                names, relation = self._table(node, ctes)
            case exp.Lateral():
                return self._lateral(node, block, ctes)
            case _:
                names, relation = (node.alias_or_name.lower(),), self._generated(node, block, ctes)
        block.indirect |= relation.indirect
        block.sources.append(_Source(names, _renamed(relation, node.args.get("alias"))))
        self._joins(node, block, ctes)

    def _table(self, table: exp.Table, ctes: Mapping[str, Lineage]) -> tuple[tuple[str, ...], Lineage]:
        alias = table.args.get("alias")
        given = alias.name.lower() if isinstance(alias, exp.TableAlias) and alias.this is not None else ""
        names = (given,) if given else tuple(p.name.lower() for p in table.parts)
        if table.args.get("db") is None and table.name.lower() in ctes:
            return names, ctes[table.name.lower()]
        slot = self.slots[table.parts[0].meta["start"]]
        known = self.columns[slot]
        if known is None:
            return names, Lineage(open=frozenset({slot}))
        return names, Lineage(tuple(Output(c, frozenset({(slot, c)}), is_plain=True) for c in known))

    def _lateral(self, lateral: exp.Expr, block: _Block, ctes: Mapping[str, Lineage]) -> None:
        if isinstance(lateral.this, exp.Query):
            relation = self.query(lateral.this, ctes, (block, *block.outer))
            block.indirect |= relation.indirect
        else:
            relation = self._generated(lateral.this, block, ctes)
            block.indirect |= relation.indirect
        block.sources.append(
            _Source((lateral.alias_or_name.lower(),), _renamed(relation, lateral.args.get("alias"), relation.open))
        )

    def _generated(self, node: exp.Expr, block: _Block, ctes: Mapping[str, Lineage]) -> Lineage:
        """The rows that a function or VALUES makes: each of its columns is made of all that goes in."""
        origins = self._origins(node, block, ctes)
        function = node.this if isinstance(node, exp.Table) else node
        slot = self.slots.get(function.meta.get("start", -1))
        if slot is not None:
            # A table function: its columns are its own, and what it is given decides which rows there are.
            known = self.columns[slot] or ()
            return Lineage(tuple(Output(c, frozenset({(slot, c)})) for c in known), origins)
        names = _GENERATED.get(function.key.lower(), ())
        alias = node.args.get("alias")
        if isinstance(alias, exp.TableAlias) and alias.columns:
            names = tuple(c.name for c in alias.columns)
        parent = node.parent
        if isinstance(parent, exp.Lateral) and isinstance(parent.args.get("alias"), exp.TableAlias):
            names = tuple(c.name for c in parent.args["alias"].columns) or names
        return Lineage(tuple(Output(name, origins) for name in names))

    # --- expressions ----------------------------------------------------------------------------------------------

    def _origins(self, root: exp.Expr, block: _Block, ctes: Mapping[str, Lineage]) -> Origins:
        found: set[Origin] = set()
        stack = [root]
        while stack:
            node = stack.pop()
            match node:
                case exp.Query():
                    inner = self.query(node, ctes, (block, *block.outer))
                    block.indirect |= inner.indirect
                    if not isinstance(node.parent, exp.Exists):
                        found |= {o for output in inner.outputs for o in output.origins}
                    continue
                case exp.Column() if not isinstance(node.this, exp.Star):
                    found |= block.find([p.name for p in node.parts])
                    continue
                case exp.Star() if not isinstance(node.parent, exp.Count):
                    found |= {o for s in block.sources for output in s.relation.outputs for o in output.origins}
                case exp.Hint():
                    continue
            stack.extend(node.iter_expressions())
        return frozenset(found)


def _meant(item: exp.Expr, block: _Block) -> Iterator[_Source]:
    """The sources that a star stands for."""
    if not isinstance(item, exp.Column):
        yield from block.sources
        return
    parts = tuple(p.name.lower() for p in item.parts[:-1])
    found = [s for s in block.sources if s.names[-len(parts) :] == parts]
    if not found:
        raise _NotFollowed(f"the fields in {'.'.join(parts)}.* are not followed")
    yield from found


def _renamed(relation: Lineage, alias: exp.Expr | None, keep: Iterable[int] = ()) -> Lineage:
    """A relation under the names of a column list."""
    names = [c.name for c in alias.columns] if isinstance(alias, exp.TableAlias) else []
    if not names:
        return relation
    if relation.open and not keep:
        raise _NotFollowed("a column list over columns that are not known")
    pairs = zip(names, relation.outputs, strict=False)
    return replace(relation, outputs=tuple(replace(old, name=name, unnamed=False) for name, old in pairs))


def _combined(node: exp.SetOperation, left: Lineage, right: Lineage) -> Lineage:
    """Both branches by place, or by name; what EXCEPT takes away decides about rows only."""
    indirect, opened = left.indirect | right.indirect, left.open | right.open
    if isinstance(node, exp.Except):
        taken = frozenset(o for output in right.outputs for o in output.origins)
        return Lineage(left.outputs, indirect | taken, left.open)
    by_name = {o.name.lower(): o for o in right.outputs}
    outputs: list[Output] = []
    for index, one in enumerate(left.outputs):
        by_place = right.outputs[index] if index < len(right.outputs) else None
        other = by_name.get(one.name.lower()) if node.args.get("by_name") or opened else by_place
        outputs.append(Output(one.name, one.origins | other.origins if other else one.origins))
    if node.args.get("by_name") or (opened and not left.outputs):
        have = {o.name.lower() for o in outputs}
        outputs += [o for o in right.outputs if o.name.lower() not in have]
    return Lineage(tuple(outputs), indirect, opened)
