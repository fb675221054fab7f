"""Types that functions of one argument surely refuse; tests/spark/test_columns.py asks Spark for each of them."""

from __future__ import annotations

from collections.abc import Mapping

from sqb.sql.columns.functions.operators import Misfit, is_known
from sqb.types import model as m
from sqb.types.model import ArrayType, MapType, StructType, Type

_NESTED = "array map struct"
_ONLY_LISTS = "boolean number string binary date timestamp struct"
# Timestamps are taken for their seconds.
_ONLY_NUMBERS = f"boolean date {_NESTED}"
_REFUSED = {
    "upper lower ucase lcase initcap trim ltrim rtrim btrim ascii soundex": _NESTED,
    "length len char_length character_length octet_length bit_length base64 unbase64 unhex md5 sha1 sha crc32": _NESTED,
    "year month day dayofmonth dayofweek dayofyear weekday weekofyear quarter hour minute second last_day": _NESTED,
    "sum avg mean try_sum try_avg stddev stddev_samp stddev_pop": _ONLY_NUMBERS,
    "variance var_samp var_pop skewness kurtosis": _ONLY_NUMBERS,
    "sqrt cbrt exp ln log10 log2 sin cos tan degrees radians": _ONLY_NUMBERS,
    "size cardinality explode explode_outer posexplode posexplode_outer": _ONLY_LISTS,
    "array_distinct array_max array_min array_compact array_size": f"{_ONLY_LISTS} map",
    "inline inline_outer flatten map_from_entries": f"{_ONLY_LISTS} map",
    "map_keys map_values map_entries": f"{_ONLY_LISTS} array",
    "bool_and bool_or every some any count_if": f"date {_NESTED}",
}
REFUSED: Mapping[str, frozenset[str]] = {
    name: frozenset(kinds.split()) for names, kinds in _REFUSED.items() for name in names.split()
}


def check_single_argument(name: str, kind: Type) -> None:
    """Refuse the only argument of a call if it surely is of a wrong type."""
    if name in REFUSED and is_known(kind) and _get_family(kind) in REFUSED[name]:
        raise Misfit(f"{name} does not take a value of type {kind}")


def _get_family(kind: Type) -> str:
    if m.is_number(kind):
        return "number"
    if m.is_text(kind):
        return "string"
    if m.is_moment(kind):
        return "timestamp"
    match kind:
        case ArrayType():
            return "array"
        case MapType():
            return "map"
        case StructType():
            return "struct"
        case _:
            return str(kind)
