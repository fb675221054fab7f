"""The header of a converted model: its entries in the order in which people read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqb.names import quote
from sqb.project.models.other_tools import format_value

_ORDER = (
    *("kind", "unique_key", "cursor", "cursor_type", "cursor_start", "cursor_grain", "lookback"),
    *("incremental_strategy", "on_schema_change", "on_source_delete", "enabled", "schema", "alias"),
    *("partitioned_by", "sorted_by", "table_properties", "description", "group", "tags"),
    *("columns", "contract", "pre_hooks", "post_hooks", "constraints", "audits", "warnings"),
)
_LISTS = ("pre_hooks", "post_hooks", "constraints", "audits", "warnings")


def write_header(entries: Mapping[str, Any]) -> str:
    """The `MODEL (…);` of a model, or nothing where there is nothing to say."""
    lines = [line for key in _ORDER if key in entries for line in _write_entry(key, entries[key])]
    return f"MODEL (\n{''.join(lines)});\n\n" if lines else ""


def _write_entry(key: str, value: Any) -> list[str]:
    match key, value:
        case ("columns", dict()):
            rows = [f"    {quote_column(name)}: {quote_text(text)},\n" for name, text in value.items()]
            return ["  columns (\n", *rows, "  ),\n"]
        case ("contract", list()):
            return ["  contract (\n", *(f"    {line},\n" for line in value), "  ),\n"]
        case ("pre_hooks" | "post_hooks", list()):
            return [f"  {key} [\n", *(f"    {quote_text(text)},\n" for text in value), "  ],\n"]
        case (_, list()) if key in _LISTS and len(value) > 1:
            return [f"  {key} [\n", *(f"    {text},\n" for text in value), "  ],\n"]
        case (_, list()) if key in _LISTS:
            return [f"  {key} [{value[0]}],\n"] if value else []
        case ("description", str()):
            return [f"  description {quote_text(value)},\n"]
        case ("partitioned_by" | "sorted_by", list()):
            return [f"  {key} [{', '.join(str(item) for item in value)}],\n"]
        case (_, dict()):
            inside = ", ".join(f"{quote_text(str(name))}: {quote_text(str(text))}" for name, text in value.items())
            return [f"  {key} {{{inside}}},\n"]
    return [f"  {key} {format_value(value)},\n"]


def quote_text(text: str) -> str:
    """A text in quotes, on one line."""
    escaped = " ".join(text.split()).replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def quote_column(name: str) -> str:
    """A column as checks and headers take it."""
    return name if name.replace("_", "a").isalnum() and not name[:1].isdigit() else quote(name)


def write_comment(lines: Sequence[str]) -> str:
    """Lines as comments."""
    return "".join(f"-- {line}".rstrip() + "\n" for line in lines)
