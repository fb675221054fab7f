"""What a function returned, as what a node of its type may give."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from sqb.errors.python import BadReturn
from sqb.python_runtime.context import Context, Made, Recorded
from sqb.python_runtime.json_payload import describe_value, encode_payload
from sqb.python_runtime.loader.rows import LoaderOutput, is_arrow, is_pandas, is_spark

_MAX_EXAMPLES = 5
Answer = dict[str, Any]


def build_answer(kind: str, returned: Any, context: Context, data: LoaderOutput) -> Answer:
    """The answer of a node of a type whose function returned a value."""
    if isinstance(returned, Recorded):
        returned = None
    match kind:
        case "loader":
            answer = _accept_rows(returned, data)
        case "check":
            answer = _accept_check(returned)
        case "model":
            answer = _accept_model(returned)
        case "materialization":
            answer = _accept_materialization(returned)
        case _:
            return _build_recorded(context, _encode_returned(kind, returned, context))
    return {**_build_recorded(context), **answer}


def _build_recorded(context: Context, payload: str = "") -> Answer:
    recorded = context._recorded or Recorded()
    return {"status": "ok", "payload": payload or recorded.payload, "metadata": recorded.metadata}


def _encode_returned(kind: str, returned: Any, context: Context) -> str:
    """A plain value that a function returns is its result."""
    if returned is None:
        return ""
    if is_spark(returned) or is_pandas(returned) or is_arrow(returned):
        raise BadReturn(
            f"a {kind} returned {describe_value(returned)}",
            hint="a loader or a model returns rows; this returns a small result, or nothing",
        )
    if context._recorded is not None and context._recorded.payload:
        raise BadReturn(
            "a value was returned, and another one recorded with ctx.result", hint="return nothing, or record nothing"
        )
    return encode_payload(returned, "payload")


def _accept_rows(returned: Any, data: LoaderOutput) -> Answer:
    if isinstance(returned, Mapping):
        raise BadReturn(
            "a loader returned a mapping, and not rows",
            hint="return a list of rows, [{…}], or record a result with ctx.result({…})",
        )
    data.write(returned)
    return {"data": True}


def _accept_model(returned: Any) -> Answer:
    if is_spark(returned):
        return {"frames": [returned]}
    hint = "return a Spark DataFrame, for instance ctx.ref(…).where(…)"
    if is_pandas(returned) or is_arrow(returned) or isinstance(returned, list):
        hint = "make a Spark DataFrame of it: ctx.spark.createDataFrame(…)"
    what = "nothing" if returned is None else describe_value(returned)
    raise BadReturn(f"a model returned {what}, and not a Spark DataFrame", hint=hint)


def _accept_materialization(returned: Any) -> Answer:
    """What a materialisation did, or the rows that are to be its relation's."""
    if is_spark(returned):
        return {"frames": [returned]}
    if isinstance(returned, Made):
        return {"payload": json.dumps({"written": returned.written, "rows": returned.rows})}
    what = "nothing" if returned is None else describe_value(returned)
    raise BadReturn(
        f"a materialization returned {what}, and does not say what it wrote",
        hint="return ctx.written(rows=…), ctx.unchanged(), or a Spark DataFrame that sqb is to publish",
    )


# --- checks ---------------------------------------------------------------------------------------------------------


def _accept_check(returned: Any) -> Answer:
    if type(returned).__module__ == "numpy" and type(returned).__name__ in ("bool", "bool_"):
        returned = bool(returned)
    if returned is None or returned is True:
        return {}
    if returned is False:
        return _build_violation("it returned False", None, [])
    count, shown = _collect_violations(returned)
    return _build_violation("", count, shown) if count else {}


def _build_violation(message: str, count: int | None, rows: list[dict[str, str]]) -> Answer:
    names = list(dict.fromkeys(name for row in rows for name in row))
    examples = [{name: row.get(name, "") for name in names} for row in rows]
    return {"status": "failed", "check": {"message": message, "violations": count, "examples": examples}}


def _collect_violations(returned: Any) -> tuple[int, list[dict[str, str]]]:
    """How many rows a check returned, and the first of them as texts."""
    if is_spark(returned):
        first = returned.take(_MAX_EXAMPLES)
        return returned.count() if len(first) == _MAX_EXAMPLES else len(first), [
            _format_values(row.asDict()) for row in first
        ]
    if is_pandas(returned):
        return len(returned), [_format_values(row) for row in returned.head(_MAX_EXAMPLES).to_dict("records")]
    if is_arrow(returned):
        import pyarrow as pa  # a value of its kind is here

        table = pa.table(returned)
        return table.num_rows, [_format_values(row) for row in table.slice(0, _MAX_EXAMPLES).to_pylist()]
    if isinstance(returned, Iterable) and not isinstance(returned, str | bytes | Mapping):
        rows = iter(returned)
        examples = [_format_values(_name_values(row)) for row in islice(rows, _MAX_EXAMPLES)]
        return len(examples) + _count_rows(rows), examples
    raise BadReturn(
        f"a check returned {describe_value(returned)}",
        hint="a check returns True or nothing when all is well, False when not, or the rows that are wrong",
    )


def _count_rows(rows: Iterator[Any]) -> int:
    return sum(1 for _ in rows)


def _name_values(row: Any) -> Mapping[str, Any]:
    if isinstance(row, Mapping):
        return row
    if isinstance(row, tuple | list):
        names = getattr(row, "_fields", None) or getattr(row, "__fields__", None)
        return dict(zip(names or (f"#{i}" for i in range(1, len(row) + 1)), row, strict=True))
    return {"value": row}


def _format_values(row: Mapping[Any, Any]) -> dict[str, str]:
    return {str(name): "NULL" if value is None else str(value) for name, value in row.items()}
