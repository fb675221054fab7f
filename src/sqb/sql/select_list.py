"""A query in two parts: the columns of its list that stand alone, and everything else.

A column stands alone when the query without it gives the same rows with the same other columns. Whoever reads a view by
the names of some columns is not concerned by those. What is not proven to stand alone is part of everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from sqlglot import exp

from sqb.sql.ctes import top_level_ctes
from sqb.sql.functions import AGGREGATES, SCALAR, WINDOW
from sqb.sql.lexer import Token, closing
from sqb.sql.query import SelectList
from sqb.sql.spans import Reference

_OPEN, _CLOSE = ("(", "[", "{"), (")", "]", "}")
# Words in which the place of a column counts, or which look at whole rows.
_REFUSED = frozenset({"UNION", "EXCEPT", "INTERSECT", "MINUS", "QUALIFY", "DISTINCT", "PIVOT", "UNPIVOT", "TRANSFORM"})
_ORDERING = frozenset({"GROUP", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE"})
# Words before a bracket that are no functions.
_PLAIN = frozenset({"and", "or", "not", "in", "case", "when", "then", "else", "over", "by", "as", "between", "filter"})


def select_list(
    text: str, tree: exp.Expr, found: Sequence[Token], references: Sequence[Reference], word: Callable[[Token], str]
) -> SelectList | None:
    """A query taken apart, or None when that cannot be done; `word` makes a token canonical."""
    items = _items(text, found)
    if items is None or not isinstance(tree, exp.Select) or len(items) != len(tree.expressions):
        return None
    first, last = items[0][0], items[-1][1]
    grouped = any(t.text.upper() == "GROUP" for t in _outer(found[last:]))
    alone: dict[str, tuple[int, int]] = {}
    for (start, end), node in zip(items, tree.expressions, strict=True):
        name = node.alias_or_name.lower()
        if name and _stands_alone(node, found, start, end, grouped):
            if name in alone:
                return None
            alone[name] = (start, end)
    gone = {i for start, end in alone.values() for i in range(start, end)}
    commas = {start - 1 for start, _ in items[1:]}
    begins = {start for start, _ in items}
    spans = {r.start: r.end for r in references}
    rest: list[list[str]] = [[]]
    skip_to = 0
    for index, token in enumerate(found):
        if index in gone or index in commas or token.start < skip_to:
            continue
        if token.start in spans:
            skip_to = spans[token.start]
            rest.append([])
            continue
        if index in begins and first <= index < last:
            rest[-1].append("\1")
        rest[-1].append(word(token))
    texts = tuple((name, " ".join(word(t) for t in found[start:end])) for name, (start, end) in sorted(alone.items()))
    return SelectList(tuple(" ".join(words) for words in rest), texts)


def _items(text: str, found: Sequence[Token]) -> list[tuple[int, int]] | None:
    """The items of the outermost list as ranges of tokens; None when their places count."""
    proper = top_level_ctes(text).end
    begin = next((i for i, t in enumerate(found) if t.start >= proper), None)
    if begin is None or found[begin].text.upper() != "SELECT":
        return None
    items: list[tuple[int, int]] = []
    depth, start, index = 0, begin + 1, begin + 1
    while index < len(found):
        token = found[index].text
        depth += (token in _OPEN) - (token in _CLOSE)
        if depth == 0 and token.upper() == "FROM" and found[index].kind == "word":
            break
        if depth == 0 and token == ",":
            items.append((start, index))
            start = index + 1
        index += 1
    else:
        return None
    items.append((start, index))
    return None if _place_counts(found[begin + 1 : items[0][0] + 1], found[index:]) else items


def _place_counts(leading: Sequence[Token], after: Sequence[Token]) -> bool:
    if any(t.kind == "hint" or t.text.upper() in ("DISTINCT", "ALL") for t in leading):
        return True
    outer = _outer(after)
    words = [t.text.upper() for t in outer if t.kind == "word"]
    if _REFUSED & set(words):
        return True
    ordering = next((i for i, t in enumerate(outer) if t.text.upper() in _ORDERING), len(outer))
    # `GROUP BY 1` means the first item of the list, whichever that is.
    return any(t.kind == "number" or t.text.upper() == "ALL" for t in outer[ordering:])


def _outer(found: Sequence[Token]) -> list[Token]:
    """The tokens outside of brackets."""
    depth, outer = 0, []
    for token in found:
        depth -= token.text in _CLOSE
        if depth == 0:
            outer.append(token)
        depth += token.text in _OPEN
    return outer


def _stands_alone(node: exp.Expr, found: Sequence[Token], start: int, end: int, grouped: bool) -> bool:
    column = node.this if isinstance(node, exp.Alias) else node
    if isinstance(column, exp.Star) or (isinstance(column, exp.Column) and isinstance(column.this, exp.Star)):
        return False
    if not isinstance(node, exp.Alias | exp.Column) or not _is_known(found, start, end, grouped):
        return False
    name = node.alias_or_name.lower()
    if isinstance(column, exp.Column) and len(column.parts) == 1 and column.name.lower() == name:
        return True
    # Its name may be used elsewhere, and then mean it.
    return name not in _names_beside(found, start, end)


def _is_known(found: Sequence[Token], start: int, end: int, grouped: bool) -> bool:
    """Whether an item calls nothing but functions of one row, or of its group or window where there is one."""
    words = {t.text.lower() for t in found[start:end] if t.kind == "word"}
    if "select" in words:
        return False
    for index in range(start, end):
        token, name = found[index], found[index].text.lower()
        if index + 1 >= len(found) or found[index + 1].text != "(" or token.kind not in ("word", "quoted"):
            continue
        if token.kind == "quoted" or found[index - 1].text == ".":
            return False
        # An aggregate that is not of a group or window would make the whole query one row.
        of_rows = name in AGGREGATES | WINDOW and (grouped or _is_over(found, index + 1))
        if name not in SCALAR and name not in _PLAIN and not of_rows:
            return False
    return True


def _is_over(found: Sequence[Token], opening: int) -> bool:
    end = closing(list(found), opening)
    return end is not None and end + 1 < len(found) and found[end + 1].text.upper() == "OVER"


def _names_beside(found: Sequence[Token], start: int, end: int) -> Collection[str]:
    """Every word outside of a range of tokens that no qualifier stands before."""
    return {
        token.text.strip("`").lower()
        for index, token in enumerate(found)
        if not start <= index < end and token.kind in ("word", "quoted") and (not index or found[index - 1].text != ".")
    }
