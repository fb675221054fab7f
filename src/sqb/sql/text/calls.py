"""Calls of the project's own functions in a text: their places, their arguments, and the columns that they leave
without a name.

Calls are found on tokens, so a text that sqlglot does not parse needs no special case; the tree only says which words
before a bracket are not calls, and which columns of a SELECT have no name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from sqb.light_dataclass import dataclass
from sqb.sql.text.lexer import Token, find_closing, strip_quotes, tokenize_code
from sqb.sql.text.spans import Reference
from sqb.sql.text.table_names import find_called_tables

# The kind of a reference that is the name of a table function.
FUNCTION = "function"
# Words before a name that is not a call, whatever bracket follows.
_NAMING = frozenset(["AS", "WITH", "RECURSIVE", "TABLE", "INTO", "VIEW", "EXISTS"])
# What ends a list of columns.
_ENDS_LIST = frozenset(
    """
    FROM WHERE GROUP HAVING ORDER SORT CLUSTER DISTRIBUTE LIMIT OFFSET UNION INTERSECT EXCEPT MINUS LATERAL WINDOW
    QUALIFY
    """.split()
)


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a call: the half-open span of its value, and its name where it was given by name."""

    start: int
    end: int
    name: str | None = None
    # Set when it is not a value: `*` or DISTINCT.
    bare: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a function: its name in lower case, its span, and its arguments."""

    name: str
    start: int
    end: int
    arguments: tuple[Argument, ...]
    # It is read as a table.
    as_table: bool = False


@dataclass(frozen=True, slots=True)
class Calls:
    """The calls in a text by where they begin, and where a column without a name ends, with the name it should have."""

    calls: tuple[Call, ...] = ()
    unnamed: tuple[tuple[int, str], ...] = ()


def may_mention(text: str, names: Collection[str]) -> bool:
    """Whether a text may call one of these functions; cheap, and sometimes wrong in that direction."""
    folded = text.lower()
    return any(name in folded for name in names)


def iter_calls(tokens: Sequence[Token], names: Collection[str]) -> Iterator[Call]:
    """The calls of these functions (lower case) in the tokens of a text, by where they begin."""
    for index, token in enumerate(tokens[:-1]):
        if token.kind not in ("word", "quoted") or tokens[index + 1].text != "(":
            continue
        name = strip_quotes(token).lower()
        before = tokens[index - 1].text.upper() if index else ""
        lateral = before == "VIEW" and index > 1 and tokens[index - 2].text.upper() == "LATERAL"
        if name not in names or before == "." or (before in _NAMING and not lateral):
            continue
        end = find_closing(list(tokens), index + 1)
        if end is not None:
            yield Call(name, token.start, tokens[end].end, tuple(_iter_arguments(tokens[index + 2 : end])))


def add_function_calls(
    references: Sequence[Reference], tokens: Sequence[Token], forced: Mapping[int, str]
) -> tuple[Reference, ...]:
    """The references of a query, with the names of table functions among them at the places that `forced` gives.

    Only the name is replaced when the query runs; the arguments stay as written.
    """
    marked = [t for t in tokens if forced.get(t.start) == FUNCTION]
    calls = [Reference((strip_quotes(t),), t.start, t.end, kind=FUNCTION) for t in marked]
    return tuple(sorted((*references, *calls), key=lambda r: r.start)) if calls else tuple(references)


def mark_function_calls(tokens: Sequence[Token], names: Collection[str]) -> dict[int, str]:
    """Where these table functions (lower case) are called, as places for `with_calls`."""
    return {call.start: FUNCTION for call in iter_calls(tokens, names)}


def _iter_arguments(tokens: Sequence[Token]) -> Iterator[Argument]:
    depth, begin = 0, 0
    for index, token in enumerate(tokens):
        depth += (token.text in ("(", "[", "{")) - (token.text in (")", "]", "}"))
        if token.text == "," and depth == 0:
            yield _parse_argument(tokens[begin:index], token.start)
            begin = index + 1
    if tokens:
        yield _parse_argument(tokens[begin:], tokens[-1].end)


def _parse_argument(tokens: Sequence[Token], at: int) -> Argument:
    if not tokens:
        return Argument(at, at, bare="nothing")
    name = None
    if len(tokens) > 2 and tokens[1].text == "=>" and tokens[0].kind in ("word", "quoted"):
        name, tokens = strip_quotes(tokens[0]).lower(), tokens[2:]
    first = tokens[0].text.upper()
    bare = first if (first == "*" and len(tokens) == 1) or (first == "DISTINCT" and len(tokens) > 1) else ""
    return Argument(tokens[0].start, tokens[-1].end, name, bare)


def read_calls(text: str, names: Collection[str]) -> Calls:
    """The calls in a query, and its columns that would be called by what a function holds."""
    tokens = tokenize_code(text)
    calls = list(iter_calls(tokens, names))
    if not calls:
        return Calls()
    from sqb.sql.functions.call_places import find_call_places  # loads sqlglot, which only texts with calls need

    places = find_call_places(text)
    if places is None:
        tables = find_called_tables(tokens)
        return Calls(tuple(replace(c, as_table=c.start in tables) for c in calls))
    calls = [
        Call(c.name, c.start, c.end, c.arguments, c.start in places.tables)
        for c in calls
        if c.start not in places.names
    ]
    unnamed = {c.start for c in calls} & places.unnamed
    return Calls(tuple(calls), tuple(_find_unnamed_items(text, tokens, unnamed)))


def _find_unnamed_items(text: str, tokens: Sequence[Token], calls: Collection[int]) -> Iterator[tuple[int, str]]:
    """The ends of the columns that hold these calls, each in the nearest list around it."""
    items = [
        item for index, token in enumerate(tokens) if _is_select(tokens, index) for item in _iter_items(tokens, index)
    ]
    item_spans: dict[int, tuple[int, int]] = {}
    for at in calls:
        around = [(first, last) for first, last in items if tokens[first].start <= at < tokens[last].end]
        if around:
            first, last = min(around, key=lambda span: span[1] - span[0])
            item_spans[tokens[last].end] = (first, last)
    for end, (first, last) in sorted(item_spans.items()):
        yield end, join_tokens(tokens[first : last + 1])


def join_tokens(tokens: Sequence[Token]) -> str:
    """Tokens as they are written, with a blank wherever there was white space between them."""
    parts: list[str] = []
    for index, token in enumerate(tokens):
        apart = index > 0 and token.start > tokens[index - 1].end
        parts.append((" " if apart else "") + token.text)
    return "".join(parts)


def _is_select(tokens: Sequence[Token], index: int) -> bool:
    before = tokens[index - 1].text if index else ""
    return tokens[index].kind == "word" and tokens[index].text.upper() == "SELECT" and before != "."


def _iter_items(tokens: Sequence[Token], select: int) -> Iterator[tuple[int, int]]:
    """The columns of the list after a SELECT, as indexes of their first and last tokens."""
    index = select + 1
    while index < len(tokens) and (tokens[index].kind == "hint" or tokens[index].text.upper() in ("DISTINCT", "ALL")):
        index += 1
    begin, depth = index, 0
    while index < len(tokens):
        token = tokens[index]
        depth += (token.text in ("(", "[", "{")) - (token.text in (")", "]", "}"))
        if depth < 0 or (depth == 0 and (token.text == ";" or _is_list_end(tokens, index))):
            break
        if depth == 0 and token.text == ",":
            if index > begin:
                yield begin, index - 1
            begin = index + 1
        index += 1
    if index > begin:
        yield begin, index - 1


def _is_list_end(tokens: Sequence[Token], index: int) -> bool:
    word = tokens[index].text.upper()
    if tokens[index].kind != "word" or word not in _ENDS_LIST:
        return False
    before = [t.text.upper() for t in tokens[max(0, index - 2) : index]]
    if word == "FROM":
        return not (before[-1:] == ["DISTINCT"] and before[0] in ("IS", "NOT"))
    return before[-1:] not in (["WITHIN"], ["*"], ["."])
