"""The sources of a block: their columns as far as they are known, and joins as conditions that can be repeated."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from sqb.names import quote
from sqb.sql.delta.operators.column_sources import ColumnSources
from sqb.sql.delta.operators.column_types import SourceTypes, find_type, have_one_type
from sqb.sql.delta.operators.model import JoinedSource, Operator, Place
from sqb.sql.delta.skeleton.model import Block, Edit, Span, apply_edits
from sqb.sql.delta.skeleton.read import tokens_within
from sqb.sql.delta.tree import is_plain_star
from sqb.sql.text.lexer import Token, find_closing

_JOIN_WORDS = frozenset("NATURAL LEFT RIGHT FULL INNER CROSS OUTER SEMI ANTI JOIN".split())
_HIDDEN = ("SEMI", "ANTI")
_EQUAL = ("=", "==", "<=>")
_COMPARISONS = (*_EQUAL, "<", ">", "<=", ">=", "<>", "!=", "!")
# What makes something else of an equality before or behind it.
_PREDICATES = frozenset("OR NOT BETWEEN IS IN LIKE ILIKE RLIKE REGEXP".split())
# Types whose values have parts that a name behind a dot can mean.
_WITH_FIELDS = ("struct", "array", "map", "variant")


@dataclass(frozen=True, slots=True)
class KnownColumns:
    """What is known of the columns of operators: their names and types, as far as the columns of tables tell."""

    schemas: Sequence[Mapping[str, str]]
    operators: Sequence[Operator]
    names: Mapping[int, tuple[str, ...] | None]
    types: Mapping[int, Mapping[str, str]]


class BlockSources:
    """The sources in FROM of one block."""

    def __init__(
        self,
        text: str,
        block: Block,
        node: exp.Select,
        places: Sequence[Place],
        known: KnownColumns,
        sources: ColumnSources,
    ) -> None:
        self.text, self.block, self.node, self.places = text, block, node, places
        self.known, self.sources = known, sources
        # The columns by which each source is joined, by USING or as a NATURAL JOIN; None where they are not known.
        self._using: list[tuple[str, ...] | None] = []
        for number in range(len(block.sources)):
            self._using.append(self._find_using(number))

    # --- columns ------------------------------------------------------------------------------------------------------

    def list_columns(self, number: int) -> tuple[str, ...] | None:
        """The names of the columns of one source; None where they are not known."""
        from_ = self.node.args.get("from_")
        nodes = [from_.this, *(join.this for join in self.node.args.get("joins") or ())] if from_ is not None else []
        if number >= len(nodes):
            return None
        alias = nodes[number].args.get("alias")
        renamed = tuple(c.name.lower() for c in alias.columns) if isinstance(alias, exp.TableAlias) else ()
        return renamed or self.known.names.get(self.places[number].input)

    def list_all_columns(self) -> tuple[str, ...] | None:
        """The names of the columns of all sources; None where they are not known."""
        if self.block.laterals is not None:
            return None
        listed = [self.list_columns(number) for number in range(len(self.block.sources))]
        return None if None in listed else tuple(name for columns in listed for name in columns or ())

    def list_item_columns(self, node: exp.Expr) -> tuple[str, ...] | None:
        """The names of the columns that an item of the select list makes; None where they are not known."""
        if not node.is_star:
            return (node.alias_or_name.lower(),)
        if not is_plain_star(node) or self.block.laterals is not None:
            return None
        if isinstance(node, exp.Column):
            numbers = [i for i, source in enumerate(self.block.sources) if source.alias == node.table.lower()]
            return self.list_columns(numbers[0]) if len(numbers) == 1 else None
        names: list[str] = []
        for number, source in enumerate(self.block.sources):
            columns = self.list_columns(number)
            if columns is None or (source.by_name and not source.using):
                return None
            if source.join not in _HIDDEN:
                names += [c for c in columns if c not in {u.lower() for u in source.using}]
        return tuple(names)

    def list_types(self) -> list[SourceTypes]:
        """The types of the columns of each source; None of those that are not known."""
        types = [(source.alias, self._list_types(number)) for number, source in enumerate(self.block.sources)]
        # A name without an alias may be one that LATERAL VIEW gives.
        return types if self.block.laterals is None else [*types, ("", None)]

    def _list_types(self, number: int) -> Mapping[str, str] | None:
        index = self.places[number].input
        operator = self.known.operators[index]
        if operator.kind == "table" and not operator.columns:
            return {name.lower(): kind.lower() for name, kind in self.known.schemas[operator.slot].items()}
        types, names = self.known.types.get(index), self.known.names.get(index)
        return types if types is not None and names is not None and set(names) <= types.keys() else None

    def list_item_types(self) -> dict[str, str]:
        """The types of the items of the select list that are plain columns; "" for the others, by their names."""
        types, columns = self.list_types(), [node.unalias() for node in self.node.expressions]
        texts = [".".join(quote(p.name) for p in c.parts) if isinstance(c, exp.Column) else "" for c in columns]
        names = (node.alias_or_name.lower() for node in self.node.expressions)
        return {name: find_type(text, types) if text else "" for name, text in zip(names, texts, strict=True)}

    # --- joins --------------------------------------------------------------------------------------------------------

    def read_join(self, number: int) -> JoinedSource:
        source, using = self.block.sources[number], self._using[number]
        equal = self._list_equalities(number)
        joined = JoinedSource(
            source.join,
            source.alias,
            source.condition,
            self._write_condition(number, equal),
            using or (),
            self._list_using_keys(number, using or ()),
            using is None,
        )
        if source.join not in ("RIGHT", "FULL"):
            return joined
        has_one_type = have_one_type(equal, self.list_types())
        return replace(joined, equal=equal, has_one_type=has_one_type, before=self._find_before(number))

    def _find_using(self, number: int) -> tuple[str, ...] | None:
        """The columns by which a source is joined to those before it; None where it is not known which ones are."""
        source = self.block.sources[number]
        if source.using or not source.by_name:
            return source.using
        known = [self.list_columns(i) for i in range(number + 1)]
        if None in known:
            return None
        left = {c for i in range(number) if self.block.sources[i].join not in _HIDDEN for c in known[i] or ()}
        using = tuple(name for name in known[number] or () if name in left)
        return using if all(self._find_merged(name, number) for name in using) or number == 1 else None

    def _find_merged(self, name: str, number: int) -> str:
        """A column of USING by the sources before a join: what joins before it made of theirs; "" where not known."""
        merged = ""
        for i, source in enumerate(self.block.sources[:number]):
            columns, using = self.list_columns(i), self._using[i]
            if columns is None or using is None:
                return ""
            if source.join in _HIDDEN or name.lower() not in columns:
                continue
            own, is_joined = f"{quote(source.alias)}.{quote(name)}", name.lower() in {u.lower() for u in using}
            if not self._has_alias(i) or (merged and not is_joined):
                return ""
            if not merged or source.join == "RIGHT":
                merged = own
            elif source.join == "FULL":
                merged = f"coalesce({merged}, {own})"
        return merged

    def _has_alias(self, number: int) -> bool:
        """Whether a source can be named, and nothing else by the same name."""
        aliases = [source.alias for source in self.block.sources]
        return bool(aliases[number]) and aliases.count(aliases[number]) == 1

    def _write_condition(self, number: int, equal: Sequence[tuple[str, str]]) -> str:
        """The condition of a join as it can be repeated behind all joins; "" where names may mean something else."""
        source = self.block.sources[number]
        if source.condition is not None:
            return self._name_sources(number, source.condition) or ""
        is_known = bool(self._using[number]) and len(equal) == len(self._using[number] or ())
        return " AND ".join(f"{left} = {right}" for left, right in equal) if is_known else ""

    def _name_sources(self, number: int, span: Span) -> str | None:
        """A part of a join's condition as it can be repeated behind all joins: the columns that a later source may
        have too are written with their source. None where it is not known which one that is."""
        block = self.block
        known = [self.list_columns(i) for i in range(len(block.sources))]
        visible = [s.join not in _HIDDEN for s in block.sources]
        later = [columns for i, columns in enumerate(known) if i > number and visible[i]]
        aliases = {source.alias for source in block.sources}
        if self._is_alias_hidden(number, known):
            return None
        edits = []
        on = self.node.args["joins"][number - 1].args["on"]
        for first in (column.parts[0] for column in on.find_all(exp.Column)):
            name, start = first.name.lower(), first.meta.get("start")
            if start is None:
                return None
            is_named = len(first.parent.parts) > 1 and name in aliases if isinstance(first.parent, exp.Column) else True
            if is_named or not span.start <= start < span.end:
                continue
            if block.laterals is None and all(columns is not None and name not in columns for columns in later):
                continue
            before = [i for i in range(number + 1) if visible[i] or i == number]
            owners = [block.sources[i].alias for i in before if name in (known[i] or ())]
            if any(known[i] is None for i in before) or len(owners) != 1 or not owners[0]:
                return None
            edits.append(Edit(Span(start, start), f"{quote(owners[0])}."))
        return apply_edits(self.text, edits, span)

    def _is_alias_hidden(self, number: int, known: Sequence[tuple[str, ...] | None]) -> bool:
        """Whether `a.b` may mean a field of a source's column `a` where that source is read alone, and not another's
        column `b`."""
        for own in range(number + 1):
            others = {self.block.sources[i].alias for i in range(number + 1) if i != own}
            operator, columns = self.known.operators[self.places[own].input], known[own]
            if columns is None:
                return True
            schema = self.known.schemas[operator.slot] if operator.kind == "table" else {}
            kinds = {n.lower(): k for n, k in schema.items()}
            if any(kinds.get(name, "struct").lower().startswith(_WITH_FIELDS) for name in others & set(columns)):
                return True
        return False

    def _list_using_keys(self, number: int, using: Sequence[str]) -> tuple[str, ...]:
        """The columns of USING by names that mean nothing else behind all joins; none where that is not known."""
        block = self.block
        if number == 1 and block.sources[0].alias:
            return tuple(f"{quote(block.sources[0].alias)}.{quote(c)}" for c in using)
        merged = [self._find_merged(c, number) for c in using]
        if all(merged) and number > 1:
            return tuple(merged)
        is_known = all(self.list_columns(i) is not None for i in range(number))
        if block.laterals is not None or (is_known and number > 1):
            # Several of the sources before have such a column.
            return ()
        for later in range(number + 1, len(block.sources)):
            source = block.sources[later]
            if source.join in _HIDDEN or (source.by_name and not source.using):
                continue
            columns, joined = self.list_columns(later), {c.lower() for c in source.using}
            if columns is None or ({c.lower() for c in using} - joined) & set(columns):
                return ()
        return tuple(quote(c) for c in using)

    def _list_equalities(self, number: int) -> tuple[tuple[str, str], ...]:
        """The parts `left = right` of a condition, one side over columns of sources before it, one over its own."""
        source, before = self.block.sources[number], {s.alias for s in self.block.sources[:number]}
        if source.condition is None:
            return self._list_using_equalities(number)
        pairs = []
        for left, right in _split_equalities(self.text, source.condition):
            sides = [{alias for _, alias in self.sources.list_columns(span)} for span in (left, right)]
            if sides[0] == {source.alias} and sides[1] <= before:
                left, right, sides = right, left, sides[::-1]
            if sides[0] and sides[0] <= before and sides[1] == {source.alias}:
                one, other = (self._name_sources(number, span) for span in (left, right))
                if one is not None and other is not None:
                    pairs.append((one, other))
        return tuple(pairs)

    def _list_using_equalities(self, number: int) -> tuple[tuple[str, str], ...]:
        """The columns of USING on both sides, as they can be named behind all joins."""
        source, using = self.block.sources[number], self._using[number] or ()
        first = self.block.sources[0].alias
        if number == 1:
            merged = [f"{quote(first)}.{quote(c)}" if first else "" for c in using]
        else:
            merged = [self._find_merged(c, number) for c in using]
        if not self._has_alias(number) or not all(merged):
            return ()
        return tuple((left, f"{quote(source.alias)}.{quote(c)}") for left, c in zip(merged, using, strict=True))

    def _find_before(self, number: int) -> Span | None:
        """The sources before a join, with their own joins; None where a comma, which binds less, stands among them."""
        block = self.block
        assert block.from_clause is not None
        end = 0
        for one, other in zip(block.sources[:number], block.sources[1:], strict=False):
            tokens = tokens_within(self.text, Span(one.span.end, other.span.start))
            if tokens and tokens[-1].text == ",":
                return None
            while tokens and tokens[-1].text.upper() in _JOIN_WORDS:
                tokens.pop()
            end = tokens[-1].end if tokens else one.span.end
        return Span(block.from_clause.start, end)


def _split_equalities(text: str, span: Span) -> list[tuple[Span, Span]]:
    """The two sides of each equality without which a condition does not hold."""
    pairs = []
    for part in _split_conjuncts(tokens_within(text, span)):
        outer = _list_outer(part)
        compared = [i for i in outer if part[i].text in _COMPARISONS]
        is_equality = len(compared) == 1 and part[compared[0]].text in _EQUAL and 0 < compared[0] < len(part) - 1
        if is_equality and not any(_is_word(part, i, _PREDICATES) for i in outer):
            left, right = part[: compared[0]], part[compared[0] + 1 :]
            pairs.append((Span(left[0].start, left[-1].end), Span(right[0].start, right[-1].end)))
    return pairs


def _split_conjuncts(tokens: list[Token]) -> list[list[Token]]:
    """The parts of a condition that must all hold, out of the brackets around them; one part where OR binds them."""
    while len(tokens) > 2 and tokens[0].text == "(" and find_closing(tokens, 0) == len(tokens) - 1:
        tokens = tokens[1:-1]
    outer = _list_outer(tokens)
    if any(_is_word(tokens, i, {"OR"}) for i in outer):
        return [tokens]
    begin, pending, parts = 0, 0, []
    for index in outer:
        if _is_word(tokens, index, {"BETWEEN"}):
            pending += 1
        elif _is_word(tokens, index, {"AND"}) and pending:
            pending -= 1
        elif _is_word(tokens, index, {"AND"}):
            parts.append(tokens[begin:index])
            begin = index + 1
    return [part for one in (*parts, tokens[begin:]) for part in _split_conjuncts(one)] if parts else [tokens]


def _list_outer(tokens: Sequence[Token]) -> list[int]:
    """The places of tokens outside of brackets and of CASE … END, with those that open these."""
    outer: list[int] = []
    stack: list[str] = []
    for index, token in enumerate(tokens):
        if not stack:
            outer.append(index)
        if token.text in ("(", "[", "{") or _is_word(tokens, index, {"CASE"}):
            stack.append(token.text.upper())
        elif stack and (token.text in (")", "]", "}") or (stack[-1] == "CASE" and _is_word(tokens, index, {"END"}))):
            stack.pop()
    return outer


def _is_word(tokens: Sequence[Token], index: int, words: Collection[str]) -> bool:
    """Whether a token is one of some words, and not the name of a column behind a dot."""
    is_field = index > 0 and tokens[index - 1].text == "."
    return tokens[index].kind == "word" and tokens[index].text.upper() in words and not is_field
