"""Seeds: the same CSV files, with the types that dbt gives their columns written beside them."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sqb.dbt.convert.project import Property, SourceFile
from sqb.dbt.convert.report import Report
from sqb.types.parse import parse_declared_type
from sqb.types.text import can_parse_text

_INTEGER = re.compile(r"[+-]?\d+")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIMESTAMP = re.compile(r"\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}:\d{2}(?:\.\d+)?")
# In the order in which dbt tries them.
_TYPES: tuple[tuple[str, Callable[[str], object]], ...] = (
    ("bigint", _INTEGER.fullmatch),
    ("double", _NUMBER.fullmatch),
    ("date", _DATE.fullmatch),
    ("timestamp", _TIMESTAMP.fullmatch),
    ("boolean", lambda text: text.lower() in ("true", "false")),
)


def describe_seed(
    seed: SourceFile, settings: Mapping[str, Any], written: Property | None, report: Report
) -> dict[str, Any]:
    """What the `.yml` beside a seed says."""
    delimiter = str(settings.get("delimiter") or ",")
    rows = list(csv.reader(io.StringIO(seed.text), delimiter=delimiter))
    names = [name.strip() for name in rows[0]] if rows else []
    texts = [[row[i] for row in rows[1:] if len(row) == len(names)] for i in range(len(names))]
    declared = {str(k).lower(): str(v) for k, v in (settings.get("column_types") or {}).items()}
    descriptions = _read_descriptions(written)
    columns = []
    for name, values in zip(names, texts, strict=True):
        kind = _choose_type(name, declared.get(name.lower()), values, seed, report)
        column = {"name": name, "type": kind}
        if descriptions.get(name.lower()):
            column["description"] = descriptions[name.lower()]
        columns.append(column)
    document: dict[str, Any] = {}
    if any("description" in column for column in columns):
        document["columns"] = columns
    else:
        document["columns"] = {column["name"]: column["type"] for column in columns}
    if delimiter != ",":
        document["delimiter"] = delimiter.replace("\t", "\\t")
    nulls = sorted({v for column in texts for v in column if v.strip().lower() == "null" or (v and not v.strip())})
    if nulls:
        document["null_values"] = ["", *nulls]
    return document


def _choose_type(name: str, declared: str | None, values: Iterable[str], seed: SourceFile, report: Report) -> str:
    if declared is None:
        return _infer(values)
    kind = parse_declared_type(declared)
    if kind is not None and can_parse_text(kind):
        return str(kind)
    report.note(
        seed.path, 1, f"the type {declared} of `{name}`", "a seed cannot have it here; it follows from the values"
    )
    return _infer(values)


def _infer(values: Iterable[str]) -> str:
    texts = [text.strip() for text in values if text.strip() and text.strip().lower() != "null"]
    if not texts:
        # dbt takes a column without values for whole numbers.
        return "bigint"
    return next((kind for kind, fits in _TYPES if all(fits(text) for text in texts)), "string")


def _read_descriptions(written: Property | None) -> dict[str, str]:
    columns = written.values.get("columns") if written is not None else None
    items = columns if isinstance(columns, list) else []
    return {
        str(c.get("name")).lower(): " ".join(str(c["description"]).split())
        for c in items
        if isinstance(c, dict) and c.get("description")
    }
