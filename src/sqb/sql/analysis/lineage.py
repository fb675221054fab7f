"""Where the columns of a query's result come from: through CTEs, subqueries, joins, unions and stars.

This is for display: nothing is decided by it. What cannot be traced is reported as unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from sqb.sql.analysis.parse import parse_tree
from sqb.sql.analysis.query import QueryProblem
from sqb.sql.text.spans import Reference

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
    # It has no alias: Spark derives its name from the expression.
    is_unnamed: bool = False
    # Its values are those of one column, as they are.
    is_plain: bool = False


@dataclass(frozen=True, slots=True)
class Lineage:
    """The columns of a query's result, and the columns by which its rows are chosen, joined and grouped."""

    outputs: tuple[Output, ...] = ()
    indirect: Origins = _NOTHING
    # Slots with unknown columns that a star passes through.
    open_slots: frozenset[int] = frozenset()
    # Why it could not be followed; empty when it was.
    unknown_reason: str = ""


class _NotTraceable(Exception):
    pass


def trace_lineage(text: str, slots: Sequence[Reference], columns: Sequence[Sequence[str] | None]) -> Lineage:
    """The lineage of a query whose tables have these columns, where they are known."""
    try:
        return _Tracer(slots, columns).trace_query(parse_tree(text), {}, ())
    except QueryProblem as problem:
        return Lineage(unknown_reason=problem.message)
    except _NotTraceable as why:
        return Lineage(unknown_reason=str(why))
    except (AttributeError, KeyError, TypeError, ValueError, IndexError, RecursionError):
        return Lineage(unknown_reason="it is written in a way that is not understood")


@dataclass(slots=True)
class _Source:
    names: tuple[str, ...]
    relation: Lineage

    def find_origins(self, column: str) -> Origins | None:
        """Where a column of it comes from; None when it has no such column."""
        for output in self.relation.outputs:
            if output.name.lower() == column.lower():
                return output.origins
        return frozenset((slot, column) for slot in self.relation.open_slots) or None


@dataclass(slots=True)
class _Block:
    outer: tuple[_Block, ...]
    sources: list[_Source] = field(default_factory=list)
    aliases: dict[str, Origins] = field(default_factory=dict)
    indirect: set[Origin] = field(default_factory=set)

    def find_origins(self, parts: Sequence[str]) -> Origins:
        """Where a column name leads, from here or from a query around."""
        for block in (self, *self.outer):
            origins = block._find_own_origins(parts)
            if origins is not None:
                return origins
        return _NOTHING

    def is_plain(self, item: exp.Expr) -> bool:
        """Whether an expression is one column of one table in the query, and nothing else."""
        if not isinstance(item, exp.Column) or isinstance(item.this, exp.Star) or len(item.parts) > 2:
            return False
        *qualifier, column = [p.name.lower() for p in item.parts]
        sources = [s for s in self.sources if not qualifier or s.names[-1:] == (qualifier[0],)]
        outputs = [o for s in sources for o in s.relation.outputs if o.name.lower() == column]
        return len(outputs) == 1 and outputs[0].is_plain and not any(s.relation.open_slots for s in sources)

    def _find_own_origins(self, parts: Sequence[str]) -> Origins | None:
        for length in range(len(parts) - 1, 0, -1):
            qualifier = tuple(p.lower() for p in parts[:length])
            for source in self.sources:
                if source.names[-length:] == qualifier and (origins := source.find_origins(parts[length])) is not None:
                    return origins
        candidates = [
            origins
            for s in self.sources
            if not s.relation.open_slots and (origins := s.find_origins(parts[0])) is not None
        ]
        # A table whose columns are not known is asked last: the others say what they have.
        candidates = candidates or [origins for s in self.sources if (origins := s.find_origins(parts[0])) is not None]
        if candidates:
            return frozenset().union(*candidates)
        return self.aliases.get(parts[0].lower())


class _Tracer:
    def __init__(self, slots: Sequence[Reference], columns: Sequence[Sequence[str] | None]) -> None:
        self.slots = {slot.start: index for index, slot in enumerate(slots)}
        self.columns = columns

    def trace_query(self, node: exp.Expr, ctes: Mapping[str, Lineage], outer: tuple[_Block, ...]) -> Lineage:
        """The lineage of a query with everything in it."""
        visible_ctes = dict(ctes)
        with_ = node.args.get("with_")
        for cte in with_.expressions if with_ is not None else ():
            if with_ is not None and with_.args.get("recursive"):
                first = cte.this.left if isinstance(cte.this, exp.SetOperation) else cte.this
                visible_ctes[cte.alias.lower()] = _rename_outputs(
                    self.trace_query(first, visible_ctes, outer), cte.args["alias"]
                )
            visible_ctes[cte.alias.lower()] = _rename_outputs(
                self.trace_query(cte.this, visible_ctes, outer), cte.args["alias"]
            )
        match node:
            case exp.Select():
                return self._trace_select(node, visible_ctes, outer)
            case exp.SetOperation():
                return _combine(
                    node,
                    self.trace_query(node.left, visible_ctes, outer),
                    self.trace_query(node.right, visible_ctes, outer),
                )
            case exp.Subquery() if isinstance(node.this, exp.Query):
                return self.trace_query(node.this, visible_ctes, outer)
            case _:
                raise _NotTraceable(f"{type(node).__name__.upper()} is not followed")

    def _trace_select(self, select: exp.Select, ctes: Mapping[str, Lineage], outer: tuple[_Block, ...]) -> Lineage:
        block = _Block(outer)
        from_ = select.args.get("from_")
        if from_ is not None:
            self._trace_source(from_.this, block, ctes)
        self._trace_joins(select, block, ctes)
        for lateral in select.args.get("laterals") or ():
            self._trace_lateral(lateral, block, ctes)
        outputs: list[Output] = []
        open_slots: set[int] = set()
        for item in select.expressions:
            star = item.this if isinstance(item, exp.Column) else item
            if isinstance(star, exp.Star):
                for source in _iter_star_sources(item, block):
                    hidden = {c.name.lower() for c in star.args.get("except_") or ()}
                    outputs += [o for o in source.relation.outputs if o.name.lower() not in hidden]
                    open_slots |= source.relation.open_slots
                continue
            origins = self._find_origins(item, block, ctes)
            name = item.alias_or_name
            plain = block.is_plain(item.unalias())
            outputs.append(Output(name or item.sql(dialect="spark"), origins, is_unnamed=not name, is_plain=plain))
            if item.alias:
                block.aliases.setdefault(item.alias.lower(), origins)
        for key in _INDIRECT:
            if select.args.get(key) is not None:
                block.indirect |= self._find_origins(select.args[key], block, ctes)
        return Lineage(tuple(outputs), frozenset(block.indirect), frozenset(open_slots))

    # --- sources --------------------------------------------------------------------------------------------------

    def _trace_joins(self, node: exp.Expr, block: _Block, ctes: Mapping[str, Lineage]) -> None:
        for join in node.args.get("joins") or ():
            self._trace_source(join.this, block, ctes)
            for name in join.args.get("using") or ():
                for source in block.sources:
                    block.indirect |= source.find_origins(name.name) or _NOTHING
            if join.args.get("on") is not None:
                block.indirect |= self._find_origins(join.args["on"], block, ctes)

    def _trace_source(self, node: exp.Expr, block: _Block, ctes: Mapping[str, Lineage]) -> None:
        if node.args.get("pivots"):
            raise _NotTraceable("PIVOT is not followed")
        names: tuple[str, ...]
        match node:
            case exp.Subquery() if isinstance(node.this, exp.Query):
                names, relation = (node.alias_or_name.lower(),), self.trace_query(node, ctes, block.outer)
            case exp.Subquery():
                self._trace_source(node.this, block, ctes)
                return self._trace_joins(node, block, ctes)
            case exp.Table() if isinstance(node.this, exp.Identifier):
                names, relation = self._trace_table(node, ctes)
            case exp.Lateral():
                return self._trace_lateral(node, block, ctes)
            case _:
                names, relation = (node.alias_or_name.lower(),), self._trace_generator(node, block, ctes)
        block.indirect |= relation.indirect
        block.sources.append(_Source(names, _rename_outputs(relation, node.args.get("alias"))))
        self._trace_joins(node, block, ctes)

    def _trace_table(self, table: exp.Table, ctes: Mapping[str, Lineage]) -> tuple[tuple[str, ...], Lineage]:
        alias = table.args.get("alias")
        alias_name = alias.name.lower() if isinstance(alias, exp.TableAlias) and alias.this is not None else ""
        names = (alias_name,) if alias_name else tuple(p.name.lower() for p in table.parts)
        if table.args.get("db") is None and table.name.lower() in ctes:
            return names, ctes[table.name.lower()]
        slot = self.slots[table.parts[0].meta["start"]]
        column_names = self.columns[slot]
        if column_names is None:
            return names, Lineage(open_slots=frozenset({slot}))
        return names, Lineage(tuple(Output(c, frozenset({(slot, c)}), is_plain=True) for c in column_names))

    def _trace_lateral(self, lateral: exp.Expr, block: _Block, ctes: Mapping[str, Lineage]) -> None:
        if isinstance(lateral.this, exp.Query):
            relation = self.trace_query(lateral.this, ctes, (block, *block.outer))
            block.indirect |= relation.indirect
        else:
            relation = self._trace_generator(lateral.this, block, ctes)
            block.indirect |= relation.indirect
        block.sources.append(
            _Source(
                (lateral.alias_or_name.lower(),),
                _rename_outputs(relation, lateral.args.get("alias"), relation.open_slots),
            )
        )

    def _trace_generator(self, node: exp.Expr, block: _Block, ctes: Mapping[str, Lineage]) -> Lineage:
        """The rows that a function or VALUES makes: each of its columns is made of all that goes in."""
        origins = self._find_origins(node, block, ctes)
        function = node.this if isinstance(node, exp.Table) else node
        slot = self.slots.get(function.meta.get("start", -1))
        if slot is not None:
            # A table function: its columns are its own, and what it is given decides which rows there are.
            column_names = self.columns[slot] or ()
            return Lineage(tuple(Output(c, frozenset({(slot, c)})) for c in column_names), origins)
        names = _GENERATED.get(function.key.lower(), ())
        alias = node.args.get("alias")
        if isinstance(alias, exp.TableAlias) and alias.columns:
            names = tuple(c.name for c in alias.columns)
        parent = node.parent
        if isinstance(parent, exp.Lateral) and isinstance(parent.args.get("alias"), exp.TableAlias):
            names = tuple(c.name for c in parent.args["alias"].columns) or names
        return Lineage(tuple(Output(name, origins) for name in names))

    # --- expressions ----------------------------------------------------------------------------------------------

    def _find_origins(self, root: exp.Expr, block: _Block, ctes: Mapping[str, Lineage]) -> Origins:
        origins: set[Origin] = set()
        stack = [root]
        while stack:
            node = stack.pop()
            match node:
                case exp.Query():
                    inner = self.trace_query(node, ctes, (block, *block.outer))
                    block.indirect |= inner.indirect
                    if not isinstance(node.parent, exp.Exists):
                        origins |= {o for output in inner.outputs for o in output.origins}
                    continue
                case exp.Column() if not isinstance(node.this, exp.Star):
                    origins |= block.find_origins([p.name for p in node.parts])
                    continue
                case exp.Star() if not isinstance(node.parent, exp.Count):
                    origins |= {o for s in block.sources for output in s.relation.outputs for o in output.origins}
                case exp.Hint():
                    continue
            stack.extend(node.iter_expressions())
        return frozenset(origins)


def _iter_star_sources(item: exp.Expr, block: _Block) -> Iterator[_Source]:
    """The sources that a star stands for."""
    if not isinstance(item, exp.Column):
        yield from block.sources
        return
    parts = tuple(p.name.lower() for p in item.parts[:-1])
    sources = [s for s in block.sources if s.names[-len(parts) :] == parts]
    if not sources:
        raise _NotTraceable(f"the fields in {'.'.join(parts)}.* are not followed")
    yield from sources


def _rename_outputs(relation: Lineage, alias: exp.Expr | None, keep: Iterable[int] = ()) -> Lineage:
    """A relation under the names of a column list."""
    names = [c.name for c in alias.columns] if isinstance(alias, exp.TableAlias) else []
    if not names:
        return relation
    if relation.open_slots and not keep:
        raise _NotTraceable("a column list over columns that are not known")
    pairs = zip(names, relation.outputs, strict=False)
    return replace(relation, outputs=tuple(replace(old, name=name, is_unnamed=False) for name, old in pairs))


def _combine(node: exp.SetOperation, left: Lineage, right: Lineage) -> Lineage:
    """Both branches by place, or by name; what EXCEPT takes away decides about rows only."""
    indirect, open_slots = left.indirect | right.indirect, left.open_slots | right.open_slots
    if isinstance(node, exp.Except):
        removed = frozenset(o for output in right.outputs for o in output.origins)
        return Lineage(left.outputs, indirect | removed, left.open_slots)
    by_name = {o.name.lower(): o for o in right.outputs}
    outputs: list[Output] = []
    for index, left_output in enumerate(left.outputs):
        by_place = right.outputs[index] if index < len(right.outputs) else None
        right_output = by_name.get(left_output.name.lower()) if node.args.get("by_name") or open_slots else by_place
        outputs.append(
            Output(
                left_output.name, left_output.origins | right_output.origins if right_output else left_output.origins
            )
        )
    if node.args.get("by_name") or (open_slots and not left.outputs):
        names = {o.name.lower() for o in outputs}
        outputs += [o for o in right.outputs if o.name.lower() not in names]
    return Lineage(tuple(outputs), indirect, open_slots)
