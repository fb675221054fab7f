"""Results of nodes as JSON, such that what is read back is what was recorded.

Taken are None, booleans, numbers, texts, lists and mappings with texts as keys. Tuples become lists, NumPy's numbers
those of Python. All else is refused, with its place in the value: a date that came back as a text would be another one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

from sqb.errors.python import BadReturn
from sqb.names import format_bytes

_MAX_BYTES = 8_000_000


def encode_payload(value: Any, name: str) -> str:
    """A value as JSON text; `name` is what an error calls it."""
    try:
        text = json.dumps(_to_json_value(value, name, set()), allow_nan=False)
    except RecursionError:
        raise BadReturn(f"{name} is nested too deeply", hint="record plain values, a few levels deep") from None
    if len(text) > _MAX_BYTES:
        raise BadReturn(
            f"{name} has {format_bytes(len(text))} as JSON, and at most {format_bytes(_MAX_BYTES)} are kept",
            hint="results are for small facts; rows belong in a table",
        )
    return text


def _to_json_value(value: Any, path: str, ancestors: set[int]) -> Any:
    match value:
        case Enum():
            raise _build_refusal(value, path, "record its value: .value")
        case None | bool():
            return value
        case int():
            return int(value)
        case str():
            return str(value)
        case float():
            return _check_finite(value, path)
    if type(value).__module__ == "numpy" and not getattr(value, "shape", None) and hasattr(value, "item"):
        return _to_json_value(value.item(), path, ancestors)
    if not isinstance(value, list | tuple | Mapping):
        raise _build_refusal(value, path, _choose_hint(value))
    if id(value) in ancestors:
        raise BadReturn(f"{path} contains itself", hint="JSON has no circles: record plain values")
    ancestors.add(id(value))
    if isinstance(value, Mapping):
        converted: Any = {
            _check_key(k, path): _to_json_value(v, _format_path(path, k), ancestors) for k, v in value.items()
        }
    else:
        converted = [_to_json_value(item, f"{path}[{number}]", ancestors) for number, item in enumerate(value)]
    ancestors.discard(id(value))
    return converted


def _check_finite(value: float, path: str) -> float:
    if not math.isfinite(value):
        raise BadReturn(f"{path} is {value}, which JSON does not have", hint="record None or a text instead")
    return float(value)


def _check_key(key: Any, path: str) -> str:
    if not isinstance(key, str):
        raise BadReturn(f"{path} has the key {key!r}, and keys are texts in JSON", hint="write it as text: str(key)")
    return str(key)


def _format_path(path: str, key: Any) -> str:
    return f"{path}.{key}" if isinstance(key, str) and key.isidentifier() else f"{path}[{key!r}]"


def _build_refusal(value: Any, path: str, hint: str) -> BadReturn:
    return BadReturn(f"{path} is {describe_value(value)}, which JSON does not have", hint=hint)


def describe_value(value: Any) -> str:
    """What a value is, with its article: `a datetime`, `a pandas DataFrame`."""
    kind = type(value)
    module = kind.__module__.partition(".")[0]
    known = {"pandas": "pandas ", "pyarrow": "pyarrow ", "pyspark": "Spark ", "numpy": "NumPy "}
    name = known.get(module, "") + kind.__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def _choose_hint(value: Any) -> str:
    match value:
        case datetime() | date() | time():
            return "write it as text, .isoformat(), and read it back with fromisoformat()"
        case timedelta():
            return "write it as a number: .total_seconds()"
        case Decimal() | UUID():
            return f"write it as text, str(…), and read it back with {type(value).__name__}(…)"
        case set() | frozenset():
            return "write it as a list: sorted(…)"
        case bytes() | bytearray():
            return "write it as text: .hex()"
    if type(value).__name__ in ("DataFrame", "Table", "Series", "RecordBatch"):
        return "results are for small facts; rows are returned by a loader, or written to a table"
    return "record None, booleans, numbers, texts, lists and mappings"
