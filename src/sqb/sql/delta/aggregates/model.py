"""A block that groups, taken apart, as values: its groups, its calls of aggregates, and its expressions around them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqb.light_dataclass import dataclass
from sqb.sql.delta.skeleton.model import Edit, Span


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """One call: its text, the function by its usual name, the text of its arguments and of its FILTER."""

    text: str
    function: str
    arguments: str
    filter: str = ""
    # Of count(DISTINCT …): the expressions whose values are counted.
    distinct_values: tuple[str, ...] = ()

    def with_function(self, function: str, arguments: str = "") -> str:
        """The same rows in another function."""
        return f"{function}({arguments or self.arguments}){' ' + self.filter if self.filter else ''}"


@dataclass(frozen=True, slots=True)
class GroupingSet:
    """One of several sets that a block groups by: the numbers of its groups, and how often it is listed."""

    members: tuple[int, ...]
    times: int


@dataclass(frozen=True, slots=True)
class Aggregation:
    """A block that groups, taken apart."""

    select_list: Span
    having_clause: Span | None
    group_clause: Span | None
    # The expressions that make the groups, as SQL over the block's sources; none for one group of all rows.
    groups: tuple[str, ...]
    calls: tuple[AggregateCall, ...]
    # References to columns outside of the calls, as they are written.
    columns: tuple[str, ...]
    # The select list and HAVING, in which calls are `{c0}`, `{c1}` … and columns `{s0}`, `{s1}` ….
    items: tuple[Expression, ...]
    having: Expression | None = None
    # Grouping by sets: a row is part of several groups, which the values of `groups` alone do not tell apart.
    by_sets: bool = False
    # Window functions over the groups: a changed group may change the rows of others.
    has_windows: bool = False
    # The expressions whose distinct values are counted: how often each of them is there adds up.
    distinct: tuple[str, ...] = ()
    # Where a set is listed more than once: all of them. Figures are kept of each once.
    sets: tuple[GroupingSet, ...] = ()

    @property
    def is_global(self) -> bool:
        """One group of all rows, which is there without rows too; GROUP BY ALL of aggregates alone is that as well."""
        return not self.groups

    @property
    def has_extremes(self) -> bool:
        """Whether a smallest or largest value is among what is computed, which may leave with the rows of a change."""
        return any(call.function in ("min", "max") for call in self.calls)

    def edit_groups(self, text: str, end: int, more: Sequence[str] = ()) -> list[Edit]:
        """The edits that keep all groups, told apart by more expressions too; `end` is where the block ends."""
        edits = [Edit(self.having_clause, "")] if self.having_clause is not None else []
        if self.by_sets and self.group_clause is not None:
            listed = (f"({', '.join(self.groups[i] for i in each.members)})" for each in self.sets)
            own = f" GROUP BY GROUPING SETS ({', '.join(listed)})" if self.sets else self.group_clause.cut(text)
            clause = own + "".join(f", {e}" for e in (*self.distinct, *more))
        else:
            expressions = ", ".join([*self.groups, *self.distinct, *more])
            clause = f" GROUP BY {expressions}" if expressions else ""
        return [*edits, Edit(self.group_clause or Span(end, end), clause)]


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression of the author's with holes: the texts between, and what is in each hole, by its kind and number.

    A hole is a call of an aggregate, a column, a subquery or, with grouping sets, a group, whether that is left out of
    a set, or the number of the set.
    """

    texts: tuple[str, ...]
    holes: tuple[tuple[str, int], ...]

    def fill(self, values: Mapping[tuple[str, int], str]) -> str:
        """The expression over other values."""
        pieces = [self.texts[0]]
        for hole, text in zip(self.holes, self.texts[1:], strict=True):
            pieces += [values[hole], text]
        return "".join(pieces)
