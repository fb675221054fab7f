"""The types of plain columns, as far as the types of tables tell: those of expressions only Spark knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqb.sql.text.lexer import tokenize_code

_AVERAGES = ("avg", "mean", "try_avg")
# What adds up exactly, in whatever order; averages of larger numbers are sums of doubles.
_WHOLE = ("tinyint", "smallint", "int")

# The alias of a source, and the types of its columns; None where not all of its columns are known.
SourceTypes = tuple[str, Mapping[str, str] | None]


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
