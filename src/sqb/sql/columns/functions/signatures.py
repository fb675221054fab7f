"""The functions that a query can call: how many arguments they take, and the types of their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

from sqb.names import suggest_nearest
from sqb.sql.columns.functions.result_types import RULES
from sqb.sql.columns.functions.spark_functions import TABLE
from sqb.sql.columns.outline import Call
from sqb.sql.columns.problems import Problem
from sqb.sql.functions.builtins import BUILT_IN
from sqb.types import model as m
from sqb.types.model import Type
from sqb.types.parse import parse_type

# Written like calls, and read by Spark's own grammar.
_GRAMMAR = frozenset("timestampadd timestampdiff cast try_cast extract struct named_struct".split())
# They take a unit such as MONTH before their two arguments.
_WITH_UNIT = frozenset("dateadd date_add datediff date_diff".split())
# Functions of other databases, and what does the same in Spark.
_ELSEWHERE = {
    "array_concat": "concat(…)",
    "array_length": "size(…)",
    "date_parse": "to_timestamp(…, 'pattern')",
    "datetime_diff": "timestampdiff(unit, …)",
    "from_iso8601_date": "to_date(…)",
    "generate_series": "sequence(…), and explode(…) for rows",
    "getdate": "current_timestamp()",
    "group_concat": "string_agg(…, ',')",
    "iif": "if(…)",
    "isnumeric": "try_cast(… AS double) IS NOT NULL",
    "json_extract": "get_json_object(…, '$.path')",
    "json_extract_scalar": "get_json_object(…, '$.path')",
    "json_extract_path_text": "get_json_object(…, '$.path')",
    "json_value": "get_json_object(…, '$.path')",
    "object_construct": "named_struct(…) or map(…)",
    "regexp_contains": "regexp_like(…)",
    "regexp_matches": "regexp_extract_all(…)",
    "safe_divide": "try_divide(…)",
    "strftime": "date_format(…)",
    "string_to_array": "split(…)",
    "strpos": "instr(…)",
    "sysdate": "current_timestamp()",
    "to_timestamp_tz": "to_timestamp(…)",
    "unnest": "explode(…)",
}


class Signature(NamedTuple):
    """The numbers of arguments that a function takes, and the type of its result where that is always the same."""

    counts: frozenset[int]
    # It takes any number from the largest of `counts` on.
    is_unbounded: bool
    result: Type

    def takes(self, count: int) -> bool:
        """Whether the function takes so many arguments."""
        return count in self.counts or (self.is_unbounded and count > max(self.counts))


class Signatures:
    """Spark's functions and the project's; `is_complete` where no one else can have added any."""

    def __init__(self, own: Mapping[str, str] = {}, is_complete: bool = True) -> None:
        self.own = {name.lower(): parse_type(returns) or m.UNKNOWN for name, returns in own.items()}
        self.is_complete = is_complete

    def find_result(self, name: str, types: Sequence[Type]) -> Type:
        """The type of a call's result, UNKNOWN where it is not known; a `Misfit` for arguments that Spark refuses."""
        if name in self.own:
            return self.own[name]
        rule = RULES.get(name)
        if rule is not None:
            return rule(types)
        signature = _load_table().get(name)
        if signature is None or (signature.result == m.STRING and m.BINARY in types):
            return m.UNKNOWN
        return signature.result

    def find_problem(self, call: Call) -> Problem | None:
        """What is surely wrong with a call: there is no such function, or it takes other numbers of arguments."""
        name, table = call.name, _load_table()
        # What begins with two underscores is sqb's own, and replaced before the query runs: __cursor_start().
        if not name or name.startswith("__") or name in self.own or name in _GRAMMAR:
            return None
        signature = table.get(name)
        if signature is None:
            if not self.is_complete or name in BUILT_IN:
                return None
            hint = suggest_nearest(name, (*table, *self.own)) if name not in _ELSEWHERE else f"write {_ELSEWHERE[name]}"
            return Problem("unknown function", f'unknown function "{name}"', call.start, call.end, hint)
        if call.written_count < 0 or signature.takes(call.written_count):
            return None
        if name in _WITH_UNIT and call.written_count == 3:
            return None
        return Problem(
            "wrong arguments", _format_wrong_count(name, signature, call.written_count), call.start, call.end, None
        )

    def is_known(self, name: str) -> bool:
        """Whether a function is one of Spark's."""
        return name in _load_table()


def _format_wrong_count(name: str, signature: Signature, count: int) -> str:
    numbers = sorted(signature.counts)
    if signature.is_unbounded:
        expected = f"at least {numbers[0]}"
    elif len(numbers) > 2 and numbers == list(range(numbers[0], numbers[-1] + 1)):
        expected = f"{numbers[0]} to {numbers[-1]}"
    else:
        expected = " or ".join(map(str, numbers)) if numbers != [0] else "no"
    plural = "" if expected in ("1", "at least 1") else "s"
    return f"{name} takes {expected} argument{plural}, not {count}"


@cache
def _load_table() -> Mapping[str, Signature]:
    table = {}
    for line in TABLE.split("\n"):
        if line:
            name, counts, result = line.split(" ", 2)
            numbers = frozenset(int(n) for n in counts.rstrip("+").split(","))
            kind = m.UNKNOWN if result == "?" else parse_type(result) or m.UNKNOWN
            table[name] = Signature(numbers, counts.endswith("+"), kind)
    return table


def list_spark_functions() -> Mapping[str, Signature]:
    """Spark's functions by name."""
    return _load_table()
