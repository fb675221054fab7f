"""A query in two parts: the columns of its list that stand alone, and everything else.

A column stands alone when the query without it gives the same rows with the same other columns. Whoever reads a view by
the names of some columns is not concerned by those. What is not proven to stand alone is part of everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sqlglot import exp

from sqb.sql.analysis.query import SelectList
from sqb.sql.functions.builtins import AGGREGATES, SCALAR, WINDOW
from sqb.sql.text.lexer import Token, find_closing
from sqb.sql.text.spans import Reference
from sqb.sql.text.table_names import find_top_level_ctes

# Words with the first and the last place where each is.
Places = Mapping[str, tuple[int, int]]
_OPEN, _CLOSE = ("(", "[", "{"), (")", "]", "}")
# Words in which the place of a column counts, or which look at whole rows.
_REFUSED = frozenset({"UNION", "EXCEPT", "INTERSECT", "MINUS", "QUALIFY", "DISTINCT", "PIVOT", "UNPIVOT", "TRANSFORM"})
_ORDERING = frozenset({"GROUP", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE"})
# Words before a bracket that are not functions.
_PLAIN = frozenset({"and", "or", "not", "in", "case", "when", "then", "else", "over", "by", "as", "between", "filter"})


def split_select_list(
    text: str,
    tree: exp.Expr,
    tokens: Sequence[Token],
    references: Sequence[Reference],
    canonicalize: Callable[[Token], str],
) -> SelectList | None:
    """A query taken apart, or None when that cannot be done; `word` makes a token canonical."""
    items = _find_items(text, tokens)
    if items is None or not isinstance(tree, exp.Select) or len(items) != len(tree.expressions):
        return None
    first, last = items[0][0], items[-1][1]
    grouped = any(t.text.upper() == "GROUP" for t in _list_outer_tokens(tokens[last:]))
    places = _map_names(tokens)
    independent: dict[str, tuple[int, int]] = {}
    for (start, end), node in zip(items, tree.expressions, strict=True):
        name = node.alias_or_name.lower()
        if name and _is_independent(node, tokens, places, start, end, grouped):
            if name in independent:
                return None
            independent[name] = (start, end)
    removed_indexes = {i for start, end in independent.values() for i in range(start, end)}
    commas = {start - 1 for start, _ in items[1:]}
    begins = {start for start, _ in items}
    spans = {r.start: r.end for r in references}
    rest: list[list[str]] = [[]]
    skip_to = 0
    for index, token in enumerate(tokens):
        if index in removed_indexes or index in commas or token.start < skip_to:
            continue
        if token.start in spans:
            skip_to = spans[token.start]
            rest.append([])
            continue
        if index in begins and first <= index < last:
            rest[-1].append("\1")
        rest[-1].append(canonicalize(token))
    texts = tuple(
        (name, " ".join(canonicalize(t) for t in tokens[start:end]))
        for name, (start, end) in sorted(independent.items())
    )
    return SelectList(tuple(" ".join(words) for words in rest), texts)


def _find_items(text: str, tokens: Sequence[Token]) -> list[tuple[int, int]] | None:
    """The items of the outermost list as ranges of tokens; None when their places count."""
    body_start = find_top_level_ctes(text).end
    begin = next((i for i, t in enumerate(tokens) if t.start >= body_start), None)
    if begin is None or tokens[begin].text.upper() != "SELECT":
        return None
    items: list[tuple[int, int]] = []
    depth, start, index = 0, begin + 1, begin + 1
    while index < len(tokens):
        token = tokens[index].text
        depth += (token in _OPEN) - (token in _CLOSE)
        if depth == 0 and token.upper() == "FROM" and tokens[index].kind == "word":
            break
        if depth == 0 and token == ",":
            items.append((start, index))
            start = index + 1
        index += 1
    else:
        return None
    items.append((start, index))
    return None if _is_positional(tokens[begin + 1 : items[0][0] + 1], tokens[index:]) else items


def _is_positional(leading: Sequence[Token], after: Sequence[Token]) -> bool:
    if any(t.kind == "hint" or t.text.upper() in ("DISTINCT", "ALL") for t in leading):
        return True
    outer = _list_outer_tokens(after)
    words = [t.text.upper() for t in outer if t.kind == "word"]
    if _REFUSED & set(words):
        return True
    ordering = next((i for i, t in enumerate(outer) if t.text.upper() in _ORDERING), len(outer))
    # `GROUP BY 1` means the first item of the list, whichever that is.
    return any(t.kind == "number" or t.text.upper() == "ALL" for t in outer[ordering:])


def _list_outer_tokens(tokens: Sequence[Token]) -> list[Token]:
    """The tokens outside of brackets."""
    depth, outer = 0, []
    for token in tokens:
        depth -= token.text in _CLOSE
        if depth == 0:
            outer.append(token)
        depth += token.text in _OPEN
    return outer


def _is_independent(
    node: exp.Expr, tokens: Sequence[Token], places: Places, start: int, end: int, grouped: bool
) -> bool:
    column = node.this if isinstance(node, exp.Alias) else node
    if isinstance(column, exp.Star) or (isinstance(column, exp.Column) and isinstance(column.this, exp.Star)):
        return False
    if not isinstance(node, exp.Alias | exp.Column) or not _has_known_functions(tokens, start, end, grouped):
        return False
    name = node.alias_or_name.lower()
    if isinstance(column, exp.Column) and len(column.parts) == 1 and column.name.lower() == name:
        return True
    # Its name may be used elsewhere, and then mean it.
    first_use, last_use = places.get(name, (start, start))
    return start <= first_use and last_use < end


def _has_known_functions(tokens: Sequence[Token], start: int, end: int, grouped: bool) -> bool:
    """Whether an item calls nothing but functions of one row, or of its group or window where there is one."""
    words = {t.text.lower() for t in tokens[start:end] if t.kind == "word"}
    if "select" in words:
        return False
    for index in range(start, end):
        token, name = tokens[index], tokens[index].text.lower()
        if index + 1 >= len(tokens) or tokens[index + 1].text != "(" or token.kind not in ("word", "quoted"):
            continue
        if token.kind == "quoted" or tokens[index - 1].text == ".":
            return False
        # An aggregate that is not of a group or window would make the whole query one row.
        is_grouped_call = name in AGGREGATES | WINDOW and (grouped or _is_over(tokens, index + 1))
        if name not in SCALAR and name not in _PLAIN and not is_grouped_call:
            return False
    return True


def _is_over(tokens: Sequence[Token], opening: int) -> bool:
    end = find_closing(list(tokens), opening)
    return end is not None and end + 1 < len(tokens) and tokens[end + 1].text.upper() == "OVER"


def _map_names(tokens: Sequence[Token]) -> dict[str, tuple[int, int]]:
    """Every word without a qualifier, with the first and the last place where it is."""
    places: dict[str, tuple[int, int]] = {}
    for index, token in enumerate(tokens):
        if token.kind in ("word", "quoted") and (not index or tokens[index - 1].text != "."):
            name = token.text.strip("`").lower()
            places[name] = (places[name][0] if name in places else index, index)
    return places
