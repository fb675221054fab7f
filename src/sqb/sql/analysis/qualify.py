"""QUALIFY, which Spark does not have, as a filter around a subquery.

The condition becomes a column of the inner query, where it sees what QUALIFY sees: the columns of the sources, and the
aliases of the list where no column has their name. sqlglot's own rewrite puts an alias in place of a column of that
name, even of a qualified one, which is another query.
"""

from __future__ import annotations

from typing import ClassVar

from sqlglot import exp
from sqlglot.generators.spark import SparkGenerator

_CONDITION = "__sqb_qualified"
# What happens after QUALIFY, and so around the filter.
_OUTER_CLAUSES = ("with_", "distinct", "order", "limit", "offset", "sort", "distribute", "cluster")


class _Writer(SparkGenerator):
    """Leaves a WITH where it is: at the top its names could meet others, or hide tables that are read there."""

    EXPRESSIONS_WITHOUT_NESTED_CTES: ClassVar[set[type[exp.Expr]]] = set()


def render_without_qualify(tree: exp.Query) -> str:
    """The text of the same query without QUALIFY."""
    return _Writer(dialect="spark", comments=False).generate(rewrite_qualify(tree), copy=False)


def rewrite_qualify(tree: exp.Query) -> exp.Query:
    """The same query without QUALIFY."""
    copy = tree.copy()
    # Inner ones first: a query that is moved into another takes what is in it along.
    for select in reversed(list(copy.find_all(exp.Select))):
        if select.args.get("qualify") is not None:
            outer = _wrap_in_filter(select.copy())
            if select is copy:
                copy = outer
            else:
                select.replace(outer)
    return copy


def _wrap_in_filter(select: exp.Select) -> exp.Select:
    condition = select.args["qualify"].this
    select.set("qualify", None)
    after = {key: select.args[key] for key in _OUTER_CLAUSES if select.args.get(key) is not None}
    for key in after:
        select.set(key, None)
    outer = exp.Select(expressions=_list_visible_columns(select), **after)
    select.append("expressions", exp.alias_(exp.paren(condition), _CONDITION))
    inner = exp.Subquery(this=select, alias=exp.TableAlias(this=exp.to_identifier("__sqb_rows")))
    outer.set("from_", exp.From(this=inner))
    outer.set("where", exp.Where(this=exp.column(_CONDITION)))
    return outer


def _list_visible_columns(select: exp.Select) -> list[exp.Expr]:
    """The columns of the list: by name where all have one, and otherwise all but the one that is added."""
    names = [item.alias_or_name for item in select.expressions]
    all_named = all(isinstance(item, exp.Alias | exp.Column) and not item.is_star for item in select.expressions)
    if all_named and len({name.lower() for name in names}) == len(names):
        return [exp.column(exp.to_identifier(name, quoted=True)) for name in names]
    return [exp.Star(except_=[exp.to_identifier(_CONDITION)])]
