"""Calls of the project's own functions in a text: where they stand, what they are given, and the columns they leave
without a name.

Calls are found on tokens, so that a text that sqlglot does not read is no special case; the tree only says which words
before a bracket are no calls, and which columns of a SELECT have no name.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sqb.sql.lexer import Token, closing, code
from sqb.sql.spans import Reference
from sqb.sql.table_names import called_tables

# The kind of a reference that is the name of a table function.
FUNCTION = "function"
# Words before a name that is no call, whatever bracket follows.
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
    # It is no value: `*` or DISTINCT.
    bare: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a function: its name in lower case, its span, and its arguments."""

    name: str
    start: int
    end: int
    arguments: tuple[Argument, ...]
    # It stands where a table does.
    as_table: bool = False


@dataclass(frozen=True, slots=True)
class Calls:
    """The calls in a text by where they begin, and where a column without a name ends, with the name it should have."""

    calls: tuple[Call, ...] = ()
    unnamed: tuple[tuple[int, str], ...] = ()

    def to_json(self) -> str:
        calls = [
            [c.name, c.start, c.end, [[a.start, a.end, a.name, a.bare] for a in c.arguments], c.as_table]
            for c in self.calls
        ]
        return json.dumps([calls, self.unnamed])

    @classmethod
    def from_json(cls, text: str) -> Calls:
        calls, unnamed = json.loads(text)
        return cls(
            tuple(Call(n, s, e, tuple(Argument(*a) for a in given), table) for n, s, e, given, table in calls),
            tuple((at, name) for at, name in unnamed),
        )


def mentions(text: str, names: Collection[str]) -> bool:
    """Whether a text may call one of these functions; cheap, and sometimes wrong in that direction."""
    folded = text.lower()
    return any(name in folded for name in names)


def bare_name(token: Token) -> str:
    """A name without its quotes."""
    return token.text[1:-1].replace("``", "`") if token.kind == "quoted" else token.text


def calls_in(found: Sequence[Token], names: Collection[str]) -> Iterator[Call]:
    """The calls of these functions (lower case) in the tokens of a text, by where they begin."""
    for index, token in enumerate(found[:-1]):
        if token.kind not in ("word", "quoted") or found[index + 1].text != "(":
            continue
        name = bare_name(token).lower()
        before = found[index - 1].text.upper() if index else ""
        lateral = before == "VIEW" and index > 1 and found[index - 2].text.upper() == "LATERAL"
        if name not in names or before == "." or (before in _NAMING and not lateral):
            continue
        end = closing(list(found), index + 1)
        if end is not None:
            yield Call(name, token.start, found[end].end, tuple(_arguments(found[index + 2 : end])))


def with_calls(
    references: Sequence[Reference], found: Sequence[Token], forced: Mapping[int, str]
) -> tuple[Reference, ...]:
    """The references of a query, with the names of table functions among them where `forced` says that they stand.

    Only the name is replaced when the query is run; what the function is given stays as it is written.
    """
    marked = [t for t in found if forced.get(t.start) == FUNCTION]
    calls = [Reference((bare_name(t),), t.start, t.end, kind=FUNCTION) for t in marked]
    return tuple(sorted((*references, *calls), key=lambda r: r.start)) if calls else tuple(references)


def marks_of(found: Sequence[Token], names: Collection[str]) -> dict[int, str]:
    """Where these table functions (lower case) are called, as places for `with_calls`."""
    return {call.start: FUNCTION for call in calls_in(found, names)}


def _arguments(found: Sequence[Token]) -> Iterator[Argument]:
    depth, begin = 0, 0
    for index, token in enumerate(found):
        depth += (token.text in ("(", "[", "{")) - (token.text in (")", "]", "}"))
        if token.text == "," and depth == 0:
            yield _argument(found[begin:index], token.start)
            begin = index + 1
    if found:
        yield _argument(found[begin:], found[-1].end)


def _argument(found: Sequence[Token], at: int) -> Argument:
    if not found:
        return Argument(at, at, bare="nothing")
    name = None
    if len(found) > 2 and found[1].text == "=>" and found[0].kind in ("word", "quoted"):
        name, found = bare_name(found[0]).lower(), found[2:]
    first = found[0].text.upper()
    bare = first if (first == "*" and len(found) == 1) or (first == "DISTINCT" and len(found) > 1) else ""
    return Argument(found[0].start, found[-1].end, name, bare)


def read_calls(text: str, names: Collection[str]) -> Calls:
    """The calls in a query, and its columns that would be called by what a function holds."""
    found = code(text)
    calls = list(calls_in(found, names))
    if not calls:
        return Calls()
    from sqb.sql.call_places import call_places  # loads sqlglot, which only texts with calls need

    places = call_places(text)
    if places is None:
        tables = called_tables(found)
        return Calls(tuple(replace(c, as_table=c.start in tables) for c in calls))
    calls = [
        Call(c.name, c.start, c.end, c.arguments, c.start in places.tables)
        for c in calls
        if c.start not in places.names
    ]
    unnamed = {c.start for c in calls} & places.unnamed
    return Calls(tuple(calls), tuple(_unnamed_items(text, found, unnamed)))


def _unnamed_items(text: str, found: Sequence[Token], calls: Collection[int]) -> Iterator[tuple[int, str]]:
    """The ends of the columns that hold these calls, each in the nearest list around it."""
    items = [item for index, token in enumerate(found) if _is_select(found, index) for item in _items(found, index)]
    chosen: dict[int, tuple[int, int]] = {}
    for at in calls:
        around = [(first, last) for first, last in items if found[first].start <= at < found[last].end]
        if around:
            first, last = min(around, key=lambda span: span[1] - span[0])
            chosen[found[last].end] = (first, last)
    for end, (first, last) in sorted(chosen.items()):
        yield end, as_one_line(found[first : last + 1])


def as_one_line(found: Sequence[Token]) -> str:
    """Tokens as they are written, with a blank wherever there was white space between them."""
    parts: list[str] = []
    for index, token in enumerate(found):
        apart = index > 0 and token.start > found[index - 1].end
        parts.append((" " if apart else "") + token.text)
    return "".join(parts)


def _is_select(found: Sequence[Token], index: int) -> bool:
    before = found[index - 1].text if index else ""
    return found[index].kind == "word" and found[index].text.upper() == "SELECT" and before != "."


def _items(found: Sequence[Token], select: int) -> Iterator[tuple[int, int]]:
    """The columns of the list after a SELECT, as indexes of their first and last tokens."""
    index = select + 1
    while index < len(found) and (found[index].kind == "hint" or found[index].text.upper() in ("DISTINCT", "ALL")):
        index += 1
    begin, depth = index, 0
    while index < len(found):
        token = found[index]
        depth += (token.text in ("(", "[", "{")) - (token.text in (")", "]", "}"))
        if depth < 0 or (depth == 0 and (token.text == ";" or _ends_list(found, index))):
            break
        if depth == 0 and token.text == ",":
            if index > begin:
                yield begin, index - 1
            begin = index + 1
        index += 1
    if index > begin:
        yield begin, index - 1


def _ends_list(found: Sequence[Token], index: int) -> bool:
    word = found[index].text.upper()
    if found[index].kind != "word" or word not in _ENDS_LIST:
        return False
    before = [t.text.upper() for t in found[max(0, index - 2) : index]]
    if word == "FROM":
        return not (before[-1:] == ["DISTINCT"] and before[0] in ("IS", "NOT"))
    return before[-1:] not in (["WITHIN"], ["*"], ["."])
