"""The places where a block reads what changed: whether its rows follow from the change, or which of them it touches.

A place is linear when each row read there makes rows of the block by itself: the change, put in its place, gives the
change. At other places (what an outer join may fill with NULL, what EXISTS or IN ask) the change tells which rows of
the rest it touches; for those the block is evaluated as it is now and as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from sqb.names import quote
from sqb.sql.delta.operators.model import InnerQuery, JoinedSource, Operator, Origin, Place, Select, Subquery
from sqb.sql.delta.rules.base import MULTIPLICITY, Obstacle
from sqb.sql.delta.skeleton.model import Edit, Span, apply_edits
from sqb.sql.delta.skeleton.read import tokens_within

Version = Literal["new", "old", "delta"]
# The text of an operator at a version.
Fill = Callable[[int, Version], str]


class Reader(Protocol):
    """What terms ask of an evaluation."""

    def fill(self, index: int, version: Version) -> str: ...

    def find_bounds(self, column: str, origin: Origin, by: int) -> str:
        """A condition on a column that holds where it equals what an operator's changed rows hand on of another one;
        "" where such bounds are not known."""
        ...


How = Literal["linear", "outer", "full", "chain", "correlated", "in", "scalar", "value"]

_OUTER = ("RIGHT", "FULL")


def find_way(operator: Operator, number: int) -> How | Obstacle:
    """How a change at a place becomes a change of the block's rows, before they are grouped."""
    block, place = operator.block, operator.places[number]
    assert block is not None
    if any(s.clause == "other" for s in block.subqueries):
        return Obstacle("a subquery in a join's condition", operator.span.start)
    match place.role:
        case "source":
            return _find_source_way(block, place)
        case "value":
            return _find_value_way(block, place)
        case "correlated":
            return _find_correlated_way(operator, number)
        case _:
            return _find_nested_way(operator, number)


def _find_source_way(block: Select, place: Place) -> How | Obstacle:
    number, joins = place.number, [source.join for source in block.sources]
    source = block.sources[number]
    later = [i for i in range(number + 1, len(joins)) if joins[i] in _OUTER]
    if _is_full_of_two(block, number):
        return "full"
    is_right = len(joins) > 1 and joins[1] == "RIGHT" and bool(block.sources[1].condition or block.sources[1].on)
    if later == [1] and number == 0 and is_right:
        # The left side of a RIGHT JOIN: the rows of the right side that it touches.
        return _find_name_obstacle(block.sources[1], place) or "outer"
    if later or joins[number] == "FULL":
        return _find_chain_way(block, place, later)
    if joins[number] in ("FROM", "INNER", "CROSS", "RIGHT"):
        return Obstacle("a star inside an expression", place.span.start) if block.has_inner_star else "linear"
    return _find_name_obstacle(source, place) or "outer"


def _find_name_obstacle(source: JoinedSource, place: Place) -> Obstacle | None:
    """Why the columns by which a source is joined cannot be named behind all joins."""
    if source.is_natural:
        return Obstacle(f"NATURAL {source.join} JOIN whose right side changed", place.span.start)
    if source.using and not source.using_keys and not source.on:
        return Obstacle(f"{source.join} JOIN USING columns that a later source may have too", place.span.start)
    if source.condition is not None and not source.on:
        return Obstacle(
            f"names in the condition of a {source.join} JOIN may mean other columns elsewhere", place.span.start
        )
    return None


def _has_outer(joins: Sequence[str]) -> bool:
    return any(join in _OUTER for join in joins)


def _is_full_of_two(block: Select, number: int) -> bool:
    """Whether a source is one of the two sides of a FULL JOIN by equal values that no other outer join follows."""
    if number > 1 or len(block.sources) < 2:
        return False
    right = block.sources[1]
    is_last = not _has_outer([s.join for s in block.sources[2:]])
    return right.join == "FULL" and bool(right.equal) and is_last and all(s.alias for s in block.sources[:2])


def _find_chain_way(block: Select, place: Place, later: Sequence[int]) -> How | Obstacle:
    """Whether it is known which rows of each outer join behind a source belong to rows that changed before it."""
    source = block.sources[place.number]
    if source.join in ("LEFT", "SEMI", "ANTI") and (obstacle := _find_name_obstacle(source, place)):
        return obstacle
    for number in (place.number, *later):
        outer = block.sources[number]
        if outer.join not in _OUTER or (outer is source and outer.join == "RIGHT"):
            continue
        if outer.before is None:
            return Obstacle(f"{outer.join} JOIN behind a comma", place.span.start)
        if outer.join == "FULL" and not outer.equal:
            return Obstacle("FULL JOIN by something other than equal values", place.span.start)
        if outer.join == "RIGHT" and outer.condition is None and not outer.on:
            return Obstacle("RIGHT JOIN without ON after what changed", place.span.start)
        if outer.join == "RIGHT" and (obstacle := _find_name_obstacle(outer, place)):
            return obstacle
    return "chain"


def _find_value_way(block: Select, place: Place) -> How:
    subquery = block.subqueries[place.number]
    concerns_rows = subquery.clause == "where" or not (block.is_grouping or block.windows)
    if concerns_rows and subquery.use == "in" and subquery.tested:
        return "in"
    if subquery.clause == "where" and subquery.use == "scalar":
        return "scalar"
    # One value for all rows: if it is another one now, all of them are concerned.
    return "value"


def _find_correlated_way(operator: Operator, number: int) -> How | Obstacle:
    block, place = operator.block, operator.places[number]
    assert block is not None
    return _find_inner_way(block.subqueries[place.number], _find_position(operator, number), place)


def _find_inner_way(subquery: Subquery, position: int, place: Place) -> How | Obstacle:
    source, joins = subquery.sources[position], [s.join for s in subquery.sources]
    if source.join in _OUTER or _has_outer(joins):
        return Obstacle(f"{next(j for j in joins if j in _OUTER)} JOIN in a subquery", place.span.start)
    if source.join in ("LEFT", "SEMI", "ANTI") and (obstacle := _find_name_obstacle(source, place)):
        return obstacle
    return "correlated"


def _find_nested_way(operator: Operator, number: int) -> How | Obstacle:
    """Whether it is known which rows of a subquery read what changed in a query inside of it."""
    block, place = operator.block, operator.places[number]
    assert block is not None
    around = block.subqueries[place.number]
    if place.nested < 0 or _has_outer([s.join for s in around.sources]):
        return Obstacle("a subquery in a subquery", place.span.start)
    nested = around.nested[place.nested]
    if not nested.is_correlated:
        return "correlated"
    position = _find_position(operator, number)
    is_linear = nested.sources[position].join in ("FROM", "INNER", "CROSS")
    if not is_linear or _has_outer([s.join for s in nested.sources]):
        return Obstacle("a subquery in a subquery", place.span.start)
    return "correlated"


def _find_position(operator: Operator, number: int) -> int:
    """Which of the sources of its subquery a place is."""
    place = operator.places[number]
    same = [
        i
        for i, p in enumerate(operator.places)
        if (p.role, p.number, p.nested) == (place.role, place.number, place.nested)
    ]
    return same.index(number)


# --- rendering --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Term:
    """A part of the change of a block's rows: which version is read at each place, and what else restricts the rows."""

    versions: tuple[Version, ...]
    # What is put in the place of a source instead, by the number of the place.
    sources: Mapping[int, str]
    condition: str = ""
    # The multiplicity of each row: a column of the change, or a literal.
    weight: str = MULTIPLICITY


def list_terms(text: str, operator: Operator, changed: tuple[int, ...], reader: Reader) -> list[Term]:
    """The change of a block's rows as a telescoped sum: places before the changed one are new, those after it old."""
    terms, fill = [], reader.fill
    for number in changed:
        way = find_way(operator, number)
        assert not isinstance(way, Obstacle), way
        base: tuple[Version, ...] = tuple("new" if i < number else "old" for i in range(len(operator.places)))
        bound = _bound_sources(operator, number, way, reader)
        if way == "linear":
            terms.append(Term(_with(base, number, "delta"), {i: write(base[i]) for i, write in bound.items()}))
            continue
        condition, sources = _restrict(text, operator, number, way, base, fill)
        sources = {**bound, **sources}
        for version, weight in (("new", "1L"), ("old", "-1L")):
            versions = _with(base, number, version)
            filled = {i: write(versions[i]) for i, write in sources.items()}
            terms.append(Term(versions, filled, condition, weight))
    return terms


def repeat(version: Version, operator: Operator) -> tuple[Version, ...]:
    """The same version at every place of an operator."""
    return (version,) * len(operator.places)


def _with(versions: tuple[Version, ...], number: int, version: str) -> tuple[Version, ...]:
    return (*versions[:number], version, *versions[number + 1 :])  # type: ignore[arg-type]


_Write = Callable[[Version], str]


def _restrict(
    text: str, operator: Operator, number: int, way: How, versions: tuple[Version, ...], fill: Fill
) -> tuple[str, dict[int, _Write]]:
    """The condition that touched rows fulfil, and sources that hold nothing but touched rows."""
    block, place = operator.block, operator.places[number]
    assert block is not None
    delta = fill(place.input, "delta")
    match way:
        case "outer":
            return _restrict_outer(block, place, delta), {}
        case "full":
            return "", _restrict_full(operator, place, delta, fill)
        case "chain":
            return _restrict_chain(text, operator, number, versions, fill), {}
        case "value":
            return f"EXISTS (SELECT 1 FROM {delta})", {}
        case "correlated":
            return _restrict_correlated(text, operator, number, versions, fill), {}
        case "in":
            return _restrict_in(block.subqueries[place.number], delta), {}
        case _:
            return _restrict_scalar(text, operator, number, versions, fill), {}


def _bound_sources(operator: Operator, number: int, way: How, reader: Reader) -> dict[int, _Write]:
    """Sources without rows that cannot belong to a change, as far as bounds tell: so that files are not read.

    Where a change tells which rows it touches, what changed is itself read between the same bounds.
    """
    block, place = operator.block, operator.places[number]
    assert block is not None
    if way not in ("linear", "outer", "correlated"):
        return {}
    is_touching = way != "linear"
    conditions: dict[int, list[str]] = {}
    for link in block.links:
        if link.by == number and link.only_matched == is_touching:
            bounds = reader.find_bounds(link.column, link.by_origin, place.input)
        elif is_touching and link.source == number:
            bounds = reader.find_bounds(link.column, link.origin, place.input)
        else:
            continue
        if bounds:
            conditions.setdefault(link.source, []).append(bounds)
    return {
        i: _write_bounded(reader.fill, operator.places[i].input, " AND ".join(dict.fromkeys(parts)))
        for i, parts in conditions.items()
    }


def _write_bounded(fill: Fill, index: int, condition: str) -> _Write:
    return lambda version: f"(SELECT * FROM {fill(index, version)} WHERE {condition})"


def _restrict_outer(block: Select, place: Place, delta: str) -> str:
    """The rows of the other side that a changed row matches."""
    source = block.sources[place.number] if place.number else block.sources[1]
    return _match_side(source, block.sources[place.number].alias, delta)


def _match_side(source: JoinedSource, alias: str, delta: str) -> str:
    """The rows that a join's condition holds for with a changed row of the source of an alias."""
    if source.on:
        named = f" AS {quote(alias)}" if alias else ""
        return f"EXISTS (SELECT 1 FROM {delta}{named} WHERE {source.on})"
    if not source.using:
        # Every row of the one side is joined with every row of the other.
        return f"EXISTS (SELECT 1 FROM {delta})"
    columns = ", ".join(f"{quote(c)} AS __sqb_u{i}" for i, c in enumerate(source.using))
    same = " AND ".join(f"__sqb_t.__sqb_u{i} = {key}" for i, key in enumerate(source.using_keys))
    return f"EXISTS (SELECT 1 FROM (SELECT {columns} FROM {delta}) AS __sqb_t WHERE {same})"


def _restrict_full(operator: Operator, place: Place, delta: str, fill: Fill) -> dict[int, _Write]:
    """Both sides of a FULL JOIN with the keys that changed alone: rows of other keys are what they were.

    Where values are cast to be compared, as 1 = '01', those of one side that equal a value of the other may differ:
    the rows that such a value joins come or go together.
    """
    block = operator.block
    assert block is not None
    left, right = block.sources[:2]
    own, by = (left, 0) if place.number == 0 else (right, 1)
    keys = ", ".join(f"{pair[by]} AS __sqb_k{i}" for i, pair in enumerate(right.equal))
    wanted = f"(SELECT DISTINCT {keys} FROM {delta} AS {quote(own.alias)})"
    places = {p.number: i for i, p in enumerate(operator.places) if p.role == "source"}

    def read(number: int, version: Version) -> str:
        return f"{fill(operator.places[places[number]].input, version)} AS {quote(block.sources[number].alias)}"

    def match(number: int) -> str:
        return " AND ".join(f"__sqb_k.__sqb_k{i} <=> ({pair[number]})" for i, pair in enumerate(right.equal))

    def restrict(number: int) -> _Write:
        alias = quote(block.sources[number].alias)
        return lambda version: (
            f"(SELECT {alias}.* FROM {read(number, version)} LEFT SEMI JOIN {wanted} AS __sqb_k ON {match(number)})"
        )

    def restrict_own(other: Version) -> _Write:
        one, alias = 1 - by, quote(own.alias)
        others = ", ".join(f"{pair[one]} AS __sqb_k{i}" for i, pair in enumerate(right.equal))
        joined = f"SELECT {others} FROM {read(one, other)} LEFT SEMI JOIN {wanted} AS __sqb_k ON {match(one)}"
        same = " OR ".join(
            f"EXISTS (SELECT 1 FROM ({keys}) AS __sqb_k WHERE {match(by)})"
            for keys in (f"SELECT * FROM {wanted} AS __sqb_t", joined)
        )
        return lambda version: f"(SELECT {alias}.* FROM {read(by, version)} WHERE {same})"

    if right.has_one_type:
        return {places[0]: restrict(0), places[1]: restrict(1)}
    # The other side is there in the version that it has in this term.
    other: Version = "new" if places[1 - by] < places[by] else "old"
    return {places[1 - by]: restrict(1 - by), places[by]: restrict_own(other)}


def _restrict_chain(text: str, operator: Operator, number: int, versions: tuple[Version, ...], fill: Fill) -> str:
    """The rows of several outer joins that a changed row is part of, from one join to the next.

    Of the sources before a join, rows that changed are known: the change itself, or those that fulfil a condition.
    The rows of the join that belong to these are those that its own condition, or its keys, find for them.
    """
    block, place = operator.block, operator.places[number]
    assert block is not None
    source, delta = block.sources[place.number], fill(place.input, "delta")
    touched = ""
    if source.join == "FULL":
        keys = ", ".join(f"{own} AS __sqb_k{i}" for i, (_, own) in enumerate(source.equal))
        touched = _match_keys(source, f"SELECT {keys} FROM {delta} AS {quote(source.alias)}")
    elif source.join in ("LEFT", "SEMI", "ANTI"):
        touched = _restrict_outer(block, place, delta)
    for outer in block.sources[place.number + 1 :]:
        if outer.join not in _OUTER:
            continue
        assert outer.before is not None
        changed: tuple[Version, ...] = ("new", "old") if touched else ("delta",)
        edits = (edit_places(operator, _with(versions, number, version), {}, fill) for version in changed)
        sources = [apply_edits(text, edit, outer.before) for edit in edits]
        if outer.join == "FULL":
            keys = ", ".join(f"{other} AS __sqb_k{i}" for i, (other, _) in enumerate(outer.equal))
            where = f" WHERE {touched}" if touched else ""
            touched = _match_keys(outer, " UNION ALL ".join(f"SELECT {keys} FROM {s}{where}" for s in sources))
        else:
            where = f"({outer.on})" + (f" AND {touched}" if touched else "")
            touched = f"({' OR '.join(f'EXISTS (SELECT 1 FROM {s} WHERE {where})' for s in sources)})"
    return touched


def _match_keys(full: JoinedSource, keys: str) -> str:
    """The rows of a FULL JOIN either side of which has one of some keys."""
    sides = zip(*full.equal, strict=True)
    same = [" AND ".join(f"__sqb_k.__sqb_k{i} <=> ({e})" for i, e in enumerate(side)) for side in sides]
    return f"({' OR '.join(f'EXISTS (SELECT 1 FROM ({keys}) AS __sqb_k WHERE {s})' for s in same)})"


def _restrict_correlated(text: str, operator: Operator, number: int, versions: tuple[Version, ...], fill: Fill) -> str:
    """The rows whose subquery reads a changed row."""
    block, place = operator.block, operator.places[number]
    assert block is not None
    subquery = block.subqueries[place.number]
    if place.role == "nested":
        touched = _restrict_nested(text, operator, number, versions, fill)
        edits = edit_places(operator, versions, {}, fill)
        return _ask_subquery(text, subquery, [*edits, *_drop_conjunct(text, subquery, place.nested)], touched)
    source = subquery.sources[_find_position(operator, number)]
    if source.join in ("FROM", "INNER", "CROSS"):
        return _ask_subquery(text, subquery, edit_places(operator, _with(versions, number, "delta"), {}, fill))
    # The rows of the subquery that a change of the other side of its join touches, as they are now and as they were.
    touched = _match_side(source, source.alias, fill(place.input, "delta"))
    asked = (
        _ask_subquery(text, subquery, edit_places(operator, _with(versions, number, version), {}, fill), touched)
        for version in ("new", "old")
    )
    return f"({' OR '.join(asked)})"


def _ask_subquery(text: str, subquery: Subquery | InnerQuery, edits: list[Edit], touched: str = "") -> str:
    """Whether a subquery reads a row, with these edits, that fulfils a condition too."""
    assert subquery.from_clause is not None
    condition = apply_edits(text, edits, subquery.where) if subquery.where is not None else ""
    # A name in brackets is no condition to Spark: in `t WHERE (flag)`, WHERE is an alias of `t`.
    condition = f"({condition}) AND {touched}" if condition and touched else condition or touched
    where = f" WHERE {condition}" if condition else ""
    return f"EXISTS (SELECT 1 FROM {apply_edits(text, edits, subquery.from_clause)}{where})"


def _restrict_nested(text: str, operator: Operator, number: int, versions: tuple[Version, ...], fill: Fill) -> str:
    """The rows of a subquery for which a query inside of it reads a changed row."""
    block, place = operator.block, operator.places[number]
    assert block is not None
    nested = block.subqueries[place.number].nested[place.nested]
    if not nested.is_correlated:
        return f"EXISTS (SELECT 1 FROM {fill(place.input, 'delta')})"
    return _ask_subquery(text, nested, edit_places(operator, _with(versions, number, "delta"), {}, fill))


def _drop_conjunct(text: str, subquery: Subquery, nested: int) -> list[Edit]:
    """The edit by which the part of a subquery's condition that a query inside of it decides holds always."""
    inside = subquery.nested[nested].span
    if subquery.where is None or not subquery.where.covers(inside):
        return []
    return [Edit(_find_conjunct(text, subquery.where, inside), " true ")]


def _restrict_in(subquery: Subquery, delta: str) -> str:
    """The rows that IN compares with a changed value: equal to it, or where that is not known."""
    names = ", ".join([*(f"__sqb_u{i}" for i in range(len(subquery.tested))), "__sqb_w"])
    same = " AND ".join(f"{column} = __sqb_u{i}" for i, column in enumerate(subquery.tested))
    # Where only TRUE lets a row through, values that are not equal say nothing; NOT IN asks for what is not known too.
    touched = same if subquery.is_conjunct else f"NOT (({same}) <=> false)"
    return f"EXISTS (SELECT 1 FROM {delta} AS __sqb_t({names}) WHERE {touched})"


def _restrict_scalar(text: str, operator: Operator, number: int, versions: tuple[Version, ...], fill: Fill) -> str:
    """The rows for which the condition with the new value differs from that with the old one."""
    block, place = operator.block, operator.places[number]
    assert block is not None and block.where is not None
    part = _find_conjunct(text, block.where, place.span)
    new = apply_edits(text, edit_places(operator, _with(versions, number, "new"), {}, fill), part)
    old = apply_edits(text, edit_places(operator, _with(versions, number, "old"), {}, fill), part)
    return f"NOT (({new}) <=> ({old}))"


def _find_conjunct(text: str, where: Span, inside: Span) -> Span:
    """The part of a condition between ANDs that holds a subquery; the whole where that cannot be told from tokens."""
    tokens = tokens_within(text, where)
    words = [t.text.upper() if t.kind == "word" else "" for t in tokens]
    if "CASE" in words or "OR" in words:
        return where
    start, depth, pending = where.start, 0, 0
    for token, word in zip(tokens, words, strict=True):
        depth += (token.text in ("(", "[")) - (token.text in (")", "]"))
        if depth or word not in ("BETWEEN", "AND"):
            continue
        if word == "BETWEEN":
            pending += 1
        elif pending:
            pending -= 1
        elif token.start < inside.start:
            start = token.end
        else:
            return Span(start, token.start)
    return Span(start, where.end)


def edit_places(
    operator: Operator, versions: tuple[Version, ...], sources: Mapping[int, str], fill: Fill
) -> list[Edit]:
    """The edits that put operators at these versions in their places."""
    edits = []
    for number, (place, version) in enumerate(zip(operator.places, versions, strict=True)):
        relation = sources.get(number) or fill(place.input, version)
        if place.is_query:
            relation = f"SELECT * FROM {relation}"
        elif place.alias:
            relation = f"{relation} AS {quote(place.alias)}"
        edits.append(Edit(place.span, relation))
    return edits


def edit_term(operator: Operator, term: Term, fill: Fill) -> list[Edit]:
    """The edits of a term: what is read at each place, and which rows are wanted."""
    edits = edit_places(operator, term.versions, term.sources, fill)
    return [*edits, *edit_where(operator, term.condition)]


def edit_where(operator: Operator, condition: str) -> list[Edit]:
    """The edits that add a condition to a block."""
    block = operator.block
    assert block is not None
    if not condition:
        return []
    if block.where is None:
        assert block.from_clause is not None
        end = Span(block.from_clause.end, block.from_clause.end)
        return [Edit(end, f" WHERE {condition}")]
    start, end = Span(block.where.start, block.where.start), Span(block.where.end, block.where.end)
    return [Edit(start, "("), Edit(end, f") AND {condition}")]


def render_block(
    text: str, operator: Operator, edits: list[Edit], select_list: str | None = None, group: bool = True
) -> str:
    """A block with edits, without DISTINCT; with another select list, and without its groups where they are not wanted.

    A select list that begins with a comma is added to the author's own.
    """
    block = operator.block
    assert block is not None
    edits = [*edits, Edit(Span(operator.span.start, block.select_list.start), "SELECT ")]
    if select_list is not None and select_list.startswith(","):
        edits.append(Edit(Span(block.select_list.end, block.select_list.end), select_list))
    elif select_list is not None:
        edits.append(Edit(block.select_list, select_list))
    if not group:
        clauses = (block.group_clause, block.having_clause, block.window_clause)
        edits += [Edit(span, "") for span in clauses if span is not None]
    return apply_edits(text, edits, operator.span)
