"""The types of columns, and of what aggregates are given, as far as the types of tables tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from sqlglot import exp
from sqlglot.errors import SqlglotError

from sqb.sql.columns.call_types import find_call_types
from sqb.sql.columns.read_outline import read_outline
from sqb.sql.delta.skeleton.model import SLOT
from sqb.sql.text.lexer import tokenize_code
from sqb.types import model as m
from sqb.types.parse import parse_type

_AVERAGES = ("avg", "mean", "try_avg")
# What adds up exactly, in whatever order; averages of larger numbers are sums of doubles.
_WHOLE = ("tinyint", "smallint", "int")

# The alias of a source, and the types of its columns; None where not all of its columns are known.
SourceTypes = tuple[str, Mapping[str, str] | None]


class ArgumentTypes:
    """The types of what the calls of a query are given, found when the first one is asked for."""

    def __init__(self, text: str, tree: exp.Expr, schemas: Sequence[Mapping[str, str]]) -> None:
        self._text, self._tree, self._schemas = text, tree, schemas

    def find(self, start: int) -> str:
        """The type of the first argument of the call that begins at a place; "" where it is not known."""
        return self._types.get(start, "")

    @cached_property
    def _types(self) -> Mapping[int, str]:
        tokens = tokenize_code(self._text)
        known = [[(name, parse_type(kind) or m.UNKNOWN) for name, kind in schema.items()] for schema in self._schemas]
        tables = {
            token.start: known[int(token.text.removeprefix(SLOT))]
            for token in tokens
            if token.kind == "word" and token.text.startswith(SLOT)
        }
        try:
            types = find_call_types(read_outline(self._tree, self._text, tokens), tables)
        except (SqlglotError, RecursionError, KeyError, ValueError, AttributeError, TypeError, IndexError):
            # Spark tells them when it runs.
            return {}
        return {start: str(kind) for start, kind in types.items()}


def find_type(text: str, sources: Sequence[SourceTypes]) -> str:
    """The type of a plain column; "" where it is something else, or not certain."""
    match [token.text.strip("`").lower() for token in tokenize_code(text)]:
        case [name]:
            if any(types is None for _, types in sources):
                return ""
            kinds = {types[name] for _, types in sources if types is not None and name in types}
            return kinds.pop() if len(kinds) == 1 else ""
        case [alias, ".", name]:
            types = dict(sources).get(alias)
            return types.get(name, "") if types is not None else ""
        case _:
            return ""


def have_one_type(pairs: Sequence[tuple[str, str]], sources: Sequence[SourceTypes]) -> bool:
    """Whether both sides of each equality are columns of one type, so that nothing is cast when they are compared."""
    kinds = [[find_type(side, sources) for side in pair] for pair in pairs]
    return all(one and one == other for one, other in kinds)


def adds_up_exactly(call: str, kind: str) -> bool:
    """Whether a sum or average of values of a type is the same in whatever order they come."""
    whole = _WHOLE if call.lower().startswith(_AVERAGES) else (*_WHOLE, "bigint")
    return kind in whole or kind.startswith("decimal")
