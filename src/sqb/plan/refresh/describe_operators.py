"""The operators of a query as lines for people: what each is, and by which rule it follows what changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sqb.plan.refresh.cost import CostEstimate

if TYPE_CHECKING:
    from sqb.sql.delta.operators.model import Operator, OperatorTree
    from sqb.sql.delta.proposal import Proposal

_LONGEST = 60
# What an author could write instead of what no rule follows, by the words that the obstacle begins with.
_AS_CTE = "join both tables in a CTE, and ask for its rows"
_ADVICE = {
    **{f"{join} JOIN in a subquery": _AS_CTE for join in ("RIGHT", "FULL")},
    "LIMIT": "leave ORDER BY and LIMIT to the readers of the table, or rank rows by a window with PARTITION BY",
    "a window function without PARTITION BY": "PARTITION BY a column, so that only touched partitions are ranked again",
    "an aggregate over all rows": "aggregate_state keeps its figures: remove aggregate_state false",
    "a subquery in a join's condition": "join what the subquery reads as a CTE, or ask for it in WHERE",
    "grouping sets without figures": "use aggregates that add up, or UNION ALL a query for each set",
    "this source is not understood": "write joins in brackets as a derived table: (SELECT … FROM a JOIN b ON …) AS q",
    "a table whose columns get other names": "rename them in a derived table: (SELECT a AS x FROM t) AS q",
    "a derived table that reads columns": "join it as a CTE, by the columns that it reads",
    "a named window that": "write the window out behind OVER",
    "TABLESAMPLE": "choose rows by a column: WHERE pmod(xxhash64(id), 100) < 5",
    "COLLATE": "compare lower(x), which gives one text for all that are equal",
    "NATURAL": "write the join's columns with USING",
    "FULL JOIN behind a comma": "write CROSS JOIN instead of the comma",
    "RIGHT JOIN behind a comma": "write CROSS JOIN instead of the comma",
    "FULL JOIN": "join by equal values: ON a.k = b.k",
    "RIGHT JOIN without ON": "write the condition of the join with ON",
    "a subquery in a subquery": "give the inner subquery a CTE of its own",
    "to follow changes, tables would be read": "make a table of a view or CTE that is read several times",
    "a correlated subquery": "join the subquery as a CTE, grouped by the columns that it is correlated by",
}
# The same for obstacles that begin with the name of a function or a call.
_ADVICE_BY_END = {
    "is volatile": "take the value from a variable, or compute it where the table is read",
    "is not known to be the same each time": "declare the function in the project, if it always gives the same",
    "depends on the order of rows": "group at the top of the query, and show all columns of GROUP BY in the list",
    "adds up fractions": "group at the top of the query, and show all columns of GROUP BY in the list",
    "may give another value for the same rows": "group at the top, and show all columns of GROUP BY in the list",
    "adds up values of type": "cast what is added up to DECIMAL, which comes out the same in any order",
    "may choose otherwise among rows": "order by columns that tell all rows of a partition apart",
}


@dataclass(frozen=True, slots=True)
class OperatorLine:
    """One operator in the tree of a query."""

    depth: int
    what: str
    # The name of the rule, and what it does; "" for an operator that did not change.
    rule: str
    says: str
    # The tables beneath it that changed.
    changed: tuple[str, ...]
    # How many rows are read for it, and how many of its own may change.
    rows_read: int
    rows_changed: int
    # Why no better rule applies, and where in the text; what could be written instead.
    why: str = ""
    offset: int | None = None
    advice: str = ""

    def to_data(self) -> dict[str, Any]:
        data: dict[str, Any] = {
            "depth": self.depth,
            "operator": self.what,
            "rule": self.rule or None,
            "changed": list(self.changed),
            "rows_read": self.rows_read,
            "rows_changed": self.rows_changed,
        }
        return {**data, **({"why": self.why} if self.why else {})}


def list_operator_lines(
    tree: OperatorTree, proposal: Proposal, estimate: CostEstimate, names: Mapping[int, str], text: str = ""
) -> list[OperatorLine]:
    """The operators from the root down, each with its rule; where one is read again, what is beneath it is left out.

    Without the `text` of the query, grouping sets are described by their columns.
    """
    lines: list[OperatorLine] = []
    stack, shown = [(tree.root, 0)], set[int]()
    while stack:
        index, depth = stack.pop()
        line = _describe_line(tree, proposal, estimate, names, text, index, depth)
        places = tree.operators[index].places
        if index in shown and places:
            lines.append(replace(line, says="as above", why="", offset=None, advice="", rows_read=0))
            continue
        shown.add(index)
        lines.append(line)
        stack += [(place.input, depth + 1) for place in reversed(places)]
    return lines


def _describe_line(
    tree: OperatorTree,
    proposal: Proposal,
    estimate: CostEstimate,
    names: Mapping[int, str],
    text: str,
    index: int,
    depth: int,
) -> OperatorLine:
    operator, chosen = tree.operators[index], proposal.rules.get(index)
    beneath = (tree.operators[i] for i in sorted(tree.iter_beneath(index)) if i in proposal.changed)
    obstacle = chosen.obstacle if chosen is not None else None
    if index == tree.root and obstacle is None:
        obstacle = proposal.obstacle
    return OperatorLine(
        depth,
        describe_operator(operator, names, text),
        chosen.rule if chosen is not None else "",
        chosen.says if chosen is not None else "unchanged",
        tuple(dict.fromkeys(names[o.slot] for o in beneath if o.kind == "table")),
        estimate.estimate_rule(index) if chosen is not None else 0,
        estimate.estimate_change(index),
        obstacle.why if obstacle is not None else "",
        obstacle.offset if obstacle is not None else None,
        find_advice(obstacle.why) if obstacle is not None else "",
    )


def find_advice(why: str) -> str:
    """What could be written instead of what no rule follows; "" where there is nothing to say."""
    by_start = next((advice for words, advice in _ADVICE.items() if why.startswith(words)), "")
    return by_start or next((advice for words, advice in _ADVICE_BY_END.items() if words in why), "")


def describe_operator(operator: Operator, names: Mapping[int, str], text: str) -> str:
    """An operator in the words of SQL."""
    match operator.kind:
        case "table":
            return names[operator.slot]
        case "union":
            return "UNION ALL"
        case "set":
            return f"{operator.operator}{' ALL' if operator.keeps_duplicates else ''}"
        case "distinct":
            return "DISTINCT"
        case "limit":
            return _shorten(operator.operator)
    block = operator.block
    assert block is not None
    if block.windows:
        partitionings = (block.partitions,) if block.partitions else block.partitionings
        named = " and ".join(f"PARTITION BY {', '.join(p)}" for p in partitionings)
        return _shorten(f"window {named}".rstrip())
    if text and block.by_sets and block.group_clause is not None:
        return _shorten(block.group_clause.cut(text))
    if block.is_grouping:
        return _shorten(f"GROUP BY {', '.join(block.groups)}" if block.groups else "aggregate over all rows")
    if len(block.sources) > 1:
        joins = (f"{s.join} JOIN {s.alias}" if s.join != "FROM" else s.alias for s in block.sources)
        return _shorten(" ".join(joins))
    return "SELECT"


def _shorten(text: str) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= _LONGEST else plain[: _LONGEST - 1] + "…"
