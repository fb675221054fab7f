"""Python functions in a session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from sqb.names import quote
from sqb.spark.engine import is_connect_session
from sqb.types import model as m
from sqb.types.model import DecimalType, Type
from sqb.types.parse import parse_type

# What Python values a column of a type takes; for others Spark itself decides.
_VALUES: Mapping[Type, tuple[type, ...]] = {
    **dict.fromkeys(m.INTEGER_BITS, (int,)),
    m.FLOAT: (float,),
    m.DOUBLE: (float,),
    m.STRING: (str,),
    m.BOOLEAN: (bool,),
    m.BINARY: (bytes, bytearray),
    m.DATE: (date,),
    m.TIMESTAMP: (datetime,),
    m.TIMESTAMP_NTZ: (datetime,),
}


def register_function(
    session: SparkSession, name: str, function: Callable[..., Any], returns: str, deterministic: bool
) -> None:
    """Let SQL of a session call a Python function."""
    kind: Any = returns
    if is_connect_session(session):
        # There a type's name would be looked up in whatever session this thread used before.
        kind = session.sql(f"SELECT CAST(NULL AS {returns}) AS c").schema[0].dataType
    # Said outright, or Spark would look at the annotations for what they say of batches of rows.
    udf: Any = F.udf(function, kind, useArrow=False)
    session.udf.register(name, udf if deterministic else udf.asNondeterministic())


def register_table_function(
    session: SparkSession, name: str, implementation: Callable[..., Any], columns: Sequence[tuple[str, str]]
) -> None:
    """Let SQL of a session read the rows that a generator function, or a class with `eval`, makes."""
    if hasattr(implementation, "__sqb__"):
        # What it said of itself stays here: Spark's workers need not have sqb.
        delattr(implementation, "__sqb__")
    schema = ", ".join(f"{quote(column)} {kind}" for column, kind in columns)
    udtf: Any = F.udtf(build_rows_class(name, implementation, columns), returnType=schema, useArrow=False)
    session.udtf.register(name, udtf)


def _list_python_types(kind: Type | None) -> tuple[type, ...] | None:
    if kind is None:
        return None
    return (Decimal,) if isinstance(kind, DecimalType) else _VALUES.get(kind)


def build_rows_class(name: str, implementation: Any, columns: Sequence[tuple[str, str]]) -> type:
    """The class that Spark asks for rows: each fits the columns, or what is wrong with it is said.

    Spark would take a value of another type for NULL, or for what Java writes in its place. All of it is made here, so
    that it goes to the workers by value: they need nothing but Python.
    """
    names = [column for column, _ in columns]
    types = [kind for _, kind in columns]
    fitting = [_list_python_types(parse_type(kind)) for kind in types]
    whole, decimal, floating, boolean, moment, day = int, Decimal, float, bool, datetime, date

    def convert_value(index: int, raw: Any) -> Any:
        accepted = fitting[index]
        if raw is None or accepted is None:
            return raw
        if type(raw) is whole and accepted in ((floating,), (decimal,)):
            return accepted[0](raw)
        swapped = isinstance(raw, boolean) != (accepted == (boolean,))
        swapped = swapped or (accepted == (day,) and isinstance(raw, moment))
        if isinstance(raw, accepted) and not swapped:
            return raw
        kind = type(raw).__name__
        raise TypeError(f'{name}: the column "{names[index]}" is {types[index]}, and the row has {raw!r} ({kind})')

    def convert_row(row: Any) -> tuple[Any, ...]:
        if isinstance(row, dict):
            unknown = [key for key in row if key not in names]
            if unknown:
                raise TypeError(f"{name}: it has no column {unknown[0]!r}; its columns are {', '.join(names)}")
            row = [row.get(column) for column in names]
        elif not isinstance(row, (tuple, list)):
            if len(names) > 1:
                raise TypeError(f"{name}: a row is a tuple, a list or a dict, and this is {row!r}")
            row = [row]
        if len(row) != len(names):
            raise TypeError(f"{name}: a row has {len(row)} values, and there are {len(names)} columns")
        return tuple(convert_value(index, given) for index, given in enumerate(row))

    def iter_rows(rows: Any) -> Any:
        for row in rows if rows is not None else ():
            yield convert_row(row)

    if not isinstance(implementation, type):
        return type(name, (), {"eval": lambda self, *given, **named: iter_rows(implementation(*given, **named))})
    methods: Any = implementation
    members: dict[str, Any] = {"eval": lambda self, *given, **named: iter_rows(methods.eval(self, *given, **named))}
    if hasattr(implementation, "terminate"):
        members["terminate"] = lambda self: iter_rows(methods.terminate(self))
    return type(name, (implementation,), members)
