"""What a function returned, as what a node of its type may give."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from sqb.errors_python import BadReturn
from sqb.python_nodes.context import Context, Made, Recorded
from sqb.python_nodes.data import Data, is_arrow, is_pandas, is_spark
from sqb.python_nodes.payload import as_json, described

_SHOWN = 5
Answer = dict[str, Any]


def answer_of(kind: str, returned: Any, context: Context, data: Data) -> Answer:
    """The answer of a node of a type whose function returned a value."""
    if isinstance(returned, Recorded):
        returned = None
    match kind:
        case "loader":
            found = _loaded(returned, data)
        case "check":
            found = _checked(returned)
        case "model":
            found = _queried(returned)
        case "materialization":
            found = _made(returned)
        case _:
            return _recorded(context, _payload(kind, returned, context))
    return {**_recorded(context), **found}


def _recorded(context: Context, payload: str = "") -> Answer:
    recorded = context._recorded or Recorded()
    return {"status": "ok", "payload": payload or recorded.payload, "metadata": recorded.metadata}


def _payload(kind: str, returned: Any, context: Context) -> str:
    """A plain value that a function returns is its result."""
    if returned is None:
        return ""
    if is_spark(returned) or is_pandas(returned) or is_arrow(returned):
        raise BadReturn(
            f"a {kind} returned {described(returned)}",
            hint="a loader or a model returns rows; this returns a small result, or nothing",
        )
    if context._recorded is not None and context._recorded.payload:
        raise BadReturn(
            "a value was returned, and another one recorded with ctx.result", hint="return nothing, or record nothing"
        )
    return as_json(returned, "payload")


def _loaded(returned: Any, data: Data) -> Answer:
    if isinstance(returned, Mapping):
        raise BadReturn(
            "a loader returned a mapping, and not rows",
            hint="return a list of rows, [{…}], or record a result with ctx.result({…})",
        )
    data.write(returned)
    return {"data": True}


def _queried(returned: Any) -> Answer:
    if is_spark(returned):
        return {"frames": [returned]}
    hint = "return a Spark DataFrame, for instance ctx.ref(…).where(…)"
    if is_pandas(returned) or is_arrow(returned) or isinstance(returned, list):
        hint = "make a Spark DataFrame of it: ctx.spark.createDataFrame(…)"
    what = "nothing" if returned is None else described(returned)
    raise BadReturn(f"a model returned {what}, and not a Spark DataFrame", hint=hint)


def _made(returned: Any) -> Answer:
    """What a materialisation did, or the rows that are to be its relation's."""
    if is_spark(returned):
        return {"frames": [returned]}
    if isinstance(returned, Made):
        return {"payload": json.dumps({"written": returned.written, "rows": returned.rows})}
    what = "nothing" if returned is None else described(returned)
    raise BadReturn(
        f"a materialization returned {what}, and does not say what it wrote",
        hint="return ctx.written(rows=…), ctx.unchanged(), or a Spark DataFrame that sqb is to publish",
    )


# --- checks ---------------------------------------------------------------------------------------------------------


def _checked(returned: Any) -> Answer:
    if type(returned).__module__ == "numpy" and type(returned).__name__ in ("bool", "bool_"):
        returned = bool(returned)
    if returned is None or returned is True:
        return {}
    if returned is False:
        return _violated("it returned False", None, [])
    count, shown = _violations(returned)
    return _violated("", count, shown) if count else {}


def _violated(message: str, count: int | None, shown: list[dict[str, str]]) -> Answer:
    names = list(dict.fromkeys(name for row in shown for name in row))
    examples = [{name: row.get(name, "") for name in names} for row in shown]
    return {"status": "failed", "check": {"message": message, "violations": count, "examples": examples}}


def _violations(returned: Any) -> tuple[int, list[dict[str, str]]]:
    """How many rows a check returned, and the first of them as texts."""
    if is_spark(returned):
        first = returned.take(_SHOWN)
        return returned.count() if len(first) == _SHOWN else len(first), [_texts(row.asDict()) for row in first]
    if is_pandas(returned):
        return len(returned), [_texts(row) for row in returned.head(_SHOWN).to_dict("records")]
    if is_arrow(returned):
        import pyarrow as pa  # a value of its kind is here

        table = pa.table(returned)
        return table.num_rows, [_texts(row) for row in table.slice(0, _SHOWN).to_pylist()]
    if isinstance(returned, Iterable) and not isinstance(returned, str | bytes | Mapping):
        rows = iter(returned)
        shown = [_texts(_row(row)) for row in islice(rows, _SHOWN)]
        return len(shown) + _count(rows), shown
    raise BadReturn(
        f"a check returned {described(returned)}",
        hint="a check returns True or nothing when all is well, False when not, or the rows that are wrong",
    )


def _count(rows: Iterator[Any]) -> int:
    return sum(1 for _ in rows)


def _row(row: Any) -> Mapping[str, Any]:
    if isinstance(row, Mapping):
        return row
    if isinstance(row, tuple | list):
        names = getattr(row, "_fields", None) or getattr(row, "__fields__", None)
        return dict(zip(names or (f"#{i}" for i in range(1, len(row) + 1)), row, strict=True))
    return {"value": row}


def _texts(row: Mapping[Any, Any]) -> dict[str, str]:
    return {str(name): "NULL" if value is None else str(value) for name, value in row.items()}
