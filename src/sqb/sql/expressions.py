"""Reading a SQL expression with sqlglot: the columns that it uses."""

from __future__ import annotations

from sqlglot import exp

from sqb.sql.parse import read_query, tree_of
from sqb.sql.query import QueryProblem, check_text

_LEAD = "SELECT 1 WHERE ("


def expression_columns(text: str) -> tuple[str, ...]:
    """The columns of a row that a condition uses, each once; a `QueryProblem` when the text is not one condition."""
    check_text(text)
    whole = f"{_LEAD}{text}\n)"
    if read_query(whole, {}).references:
        raise QueryProblem(
            "references", "it reads another table", 0, 1, "write it as a query in audits/, with the rows that are wrong"
        )
    tree = tree_of(whole)
    if not isinstance(tree.args["where"].this, exp.Paren):
        raise QueryProblem("parse", "its brackets do not pair", 0, 1)
    if tree.find(exp.AggFunc, exp.Window):
        raise QueryProblem(
            "aggregate",
            "it looks at more than one row",
            0,
            1,
            "write it as a query in audits/, with the rows that are wrong",
        )
    names: dict[str, str] = {}
    for column in tree.find_all(exp.Column):
        if _is_name_of_argument(column):
            continue
        # What stands before a dot is the column; the rest are fields in it.
        first = column.parts[0]
        names.setdefault(first.name.lower(), first.name)
    return tuple(names.values())


def _is_name_of_argument(column: exp.Expression) -> bool:
    """Whether it is the parameter of a lambda such as `x -> x > 0`."""
    name = column.name.lower()
    above = column.find_ancestor(exp.Lambda)
    while above is not None:
        if any(argument.name.lower() == name for argument in above.expressions):
            return True
        above = above.find_ancestor(exp.Lambda)
    return False
