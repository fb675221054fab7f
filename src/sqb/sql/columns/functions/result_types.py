"""The types of Spark's functions whose results follow from their arguments; UNKNOWN where that is not certain."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sqb.sql.columns.functions.operators import find_common_type
from sqb.types import model as m
from sqb.types.model import MAX_PRECISION, ArrayType, DecimalType, MapType, Type

Rule = Callable[[Sequence[Type]], Type]


def _get_first(types: Sequence[Type]) -> Type:
    return types[0] if types else m.UNKNOWN


def _get_first_array(types: Sequence[Type]) -> Type:
    return types[0] if types and isinstance(types[0], ArrayType) else m.UNKNOWN


def _get_first_map(types: Sequence[Type]) -> Type:
    return types[0] if types and isinstance(types[0], MapType) else m.UNKNOWN


def _get_first_number(types: Sequence[Type]) -> Type:
    """The type of a number that stays what it is: a decimal may get other digits."""
    return types[0] if types and m.is_number(types[0]) and not isinstance(types[0], DecimalType) else m.UNKNOWN


def _get_first_integer(types: Sequence[Type]) -> Type:
    return types[0] if types and m.is_integer(types[0]) else m.UNKNOWN


def _get_same_number(types: Sequence[Type]) -> Type:
    """The type of a computation with numbers of one type, which is that type."""
    return _get_first_number(types) if len(types) == 2 and types[0] == types[1] else m.UNKNOWN


def _get_same_array(types: Sequence[Type]) -> Type:
    """The type of arrays that are all alike; others are made alike first."""
    return _get_first_array(types) if len(set(types)) == 1 else m.UNKNOWN


def _get_array_with(types: Sequence[Type]) -> Type:
    """The type of an array with a value that is one of its elements."""
    match types:
        case [ArrayType(element) as array, *_, value] if value == element:
            return array
        case _:
            return m.UNKNOWN


def _get_element(types: Sequence[Type]) -> Type:
    match types[0] if types else m.UNKNOWN:
        case ArrayType(element):
            return element
        case MapType(_, value):
            return value
        case _:
            return m.UNKNOWN


def _get_array_element(types: Sequence[Type]) -> Type:
    return types[0].element if types and isinstance(types[0], ArrayType) else m.UNKNOWN


def _list_keys(types: Sequence[Type]) -> Type:
    return ArrayType(types[0].key) if types and isinstance(types[0], MapType) else m.UNKNOWN


def _list_values(types: Sequence[Type]) -> Type:
    return ArrayType(types[0].value) if types and isinstance(types[0], MapType) else m.UNKNOWN


def _reverse(types: Sequence[Type]) -> Type:
    return m.STRING if types and m.is_text(types[0]) else _get_first_array(types)


def _round_up(types: Sequence[Type]) -> Type:
    """`ceil` and `floor` of one number that is no decimal."""
    return m.BIGINT if len(types) == 1 and _get_first_number(types) != m.UNKNOWN else m.UNKNOWN


def _make_map(types: Sequence[Type]) -> Type:
    match types:
        case [ArrayType(key), ArrayType(value)]:
            return MapType(key, value)
        case _:
            return m.UNKNOWN


def _make_sequence(types: Sequence[Type]) -> Type:
    is_plain = len(types) >= 2 and types[0] == types[1] and (m.is_integer(types[0]) or types[0] == m.DATE)
    return ArrayType(types[0]) if is_plain else m.UNKNOWN


def _join_texts(types: Sequence[Type]) -> Type:
    return m.STRING if types and m.is_text(types[0]) else m.UNKNOWN


def _find_median(types: Sequence[Type]) -> Type:
    return m.DOUBLE if types and m.is_number(types[0]) else m.UNKNOWN


def _decode(types: Sequence[Type]) -> Type:
    return m.STRING if len(types) == 2 else m.UNKNOWN


def _sum(types: Sequence[Type]) -> Type:
    match types[0] if types else m.UNKNOWN:
        case DecimalType(precision, scale):
            return DecimalType(min(MAX_PRECISION, precision + 10), scale)
        case kind if m.is_integer(kind):
            return m.BIGINT
        case kind:
            return m.DOUBLE if m.is_fraction(kind) or m.is_text(kind) else m.UNKNOWN


def _average(types: Sequence[Type]) -> Type:
    kind = types[0] if types else m.UNKNOWN
    is_plain = m.is_integer(kind) or m.is_fraction(kind) or m.is_text(kind)
    return m.DOUBLE if is_plain else m.UNKNOWN


def _common(types: Sequence[Type]) -> Type:
    return find_common_type(types)


def _list_of_first(types: Sequence[Type]) -> Type:
    return ArrayType(types[0]) if types and types[0] != m.UNKNOWN else m.UNKNOWN


def _list_of_common(types: Sequence[Type]) -> Type:
    kind = find_common_type(types)
    return ArrayType(kind) if kind != m.UNKNOWN else m.UNKNOWN


def _concat(types: Sequence[Type]) -> Type:
    return m.STRING if types and all(m.is_text(kind) for kind in types) else m.UNKNOWN


def _always(kind: Type, words: str) -> dict[str, Rule]:
    return dict.fromkeys(words.split(), lambda types: kind)


def _by(rule: Rule, words: str) -> dict[str, Rule]:
    return dict.fromkeys(words.split(), rule)


RULES: Mapping[str, Rule] = {
    **_by(_sum, "sum try_sum"),
    **_by(_average, "avg mean try_avg"),
    **_by(_get_first, "min max first last any_value first_value last_value lag lead nth_value"),
    **_by(_get_first, "max_by min_by nullif nullifzero mode"),
    **_by(_common, "coalesce ifnull nvl greatest least"),
    **_by(_list_of_first, "collect_list collect_set array_agg array_repeat"),
    **_by(_get_first_array, "array_distinct array_sort sort_array array_compact slice filter shuffle"),
    **_by(_get_same_array, "array_union array_except array_intersect"),
    **_by(_get_array_with, "array_append array_prepend array_remove array_insert"),
    **_by(_get_first_number, "abs negative positive round bround"),
    **_by(_get_first_integer, "bit_and bit_or bit_xor"),
    **_by(_get_same_number, "mod pmod"),
    **_by(_get_element, "element_at try_element_at"),
    **_by(_get_array_element, "get array_max array_min flatten"),
    **_by(_get_first_map, "map_filter"),
    **_by(_round_up, "ceil ceiling floor"),
    **_by(_join_texts, "listagg string_agg"),
    **_always(m.INT, "row_number rank dense_rank ntile int xpath_int"),
    **_always(m.DOUBLE, "cume_dist percent_rank double xpath_double xpath_number"),
    **_always(m.BIGINT, "grouping_id bigint xpath_long"),
    **_always(m.TINYINT, "grouping tinyint"),
    **_always(m.SMALLINT, "smallint xpath_short"),
    **_always(m.FLOAT, "float xpath_float"),
    **_always(m.BOOLEAN, "boolean is_variant_null xpath_boolean"),
    **_always(m.STRING, "schema_of_json schema_of_csv schema_of_variant schema_of_xml"),
    **_always(m.STRING, "java_method reflect xpath_string"),
    **_always(m.DATE, "date"),
    **_always(m.TIMESTAMP, "timestamp make_timestamp_ltz try_make_timestamp_ltz"),
    **_always(m.TIMESTAMP_NTZ, "make_timestamp_ntz try_make_timestamp_ntz"),
    **_always(m.BINARY, "binary"),
    **_always(ArrayType(m.STRING), "xpath"),
    **_always(DecimalType(10, 0), "decimal"),
    "map_keys": _list_keys,
    "map_values": _list_values,
    "map_from_arrays": _make_map,
    "sequence": _make_sequence,
    "reverse": _reverse,
    "median": _find_median,
    "decode": _decode,
    "if": lambda types: find_common_type(types[1:]),
    "nvl2": lambda types: find_common_type(types[1:]),
    "array": _list_of_common,
    "concat": _concat,
}
