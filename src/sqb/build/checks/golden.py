"""Comparing a relation with a golden file: as multisets, in the file's columns, by the relation's own types."""

from __future__ import annotations

from collections.abc import Mapping

from sqb.names import quote
from sqb.project.values import Golden
from sqb.types.format import format_sql_type
from sqb.types.literals import format_literal
from sqb.types.model import Type

_TIMES = "number of rows"


def build_golden_query(golden: Golden, types: Mapping[str, Type], whole: str) -> tuple[str, str]:
    """The query of rows that are missing or unexpected, and its column that says how often.

    A text that is not a value of its column's type equals nothing, not even NULL, and is shown as it stands.
    """
    by_name = {name.lower(): (name, format_sql_type(kind)) for name, kind in types.items()}
    columns = [by_name.get(name.lower(), (name, "STRING")) for name in golden.columns]
    indexes = range(len(columns))
    here = [f"{quote(name)} AS v{i}, CAST(NULL AS STRING) AS x{i}" for i, (name, _) in enumerate(columns)]
    there = [
        f"try_cast(g{i} AS {kind}) AS v{i}, CASE WHEN try_cast(g{i} AS {kind}) IS NULL THEN g{i} END AS x{i}"
        for i, (_, kind) in enumerate(columns)
    ]
    keys = ", ".join(f"v{i}, x{i}" for i in indexes)
    output_columns = ", ".join(f"coalesce(CAST(v{i} AS STRING), x{i}) AS {quote(columns[i][0])}" for i in indexes)
    return (
        f"SELECT if(sum(n) > 0, 'unexpected', 'missing') AS `difference`, {output_columns},"
        f" abs(sum(n)) AS {quote(_TIMES)}"
        f" FROM (SELECT {', '.join(here)}, 1 AS n FROM {whole}"
        f" UNION ALL SELECT {', '.join(there)}, -1 AS n FROM {_format_values(golden)})"
        f" GROUP BY {keys} HAVING sum(n) <> 0",
        _TIMES,
    )


def _format_values(golden: Golden) -> str:
    names = ", ".join(f"g{i}" for i in range(len(golden.columns)))
    if not golden.rows:
        nothing = ", ".join(f"CAST(NULL AS STRING) AS g{i}" for i in range(len(golden.columns)))
        return f"(SELECT {nothing} WHERE FALSE)"
    rows = (
        ", ".join("CAST(NULL AS STRING)" if text is None else format_literal(text) for text in row)
        for row in golden.rows
    )
    return f"(SELECT * FROM VALUES {', '.join(f'({row})' for row in rows)} AS g({names}))"
