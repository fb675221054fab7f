"""Words that other tools have for what is written here in other words: dbt's settings, SQLMesh's kinds and keys."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_MATERIALIZED = {"ephemeral": "view", "materialized_view": "view", "snapshot": "scd2"}
_KEPT = ("unique_key", "tags", "schema", "alias", "description", "group", "enabled", "partitioned_by")
_RENAMED = {"partition_by": "partitioned_by", "cluster_by": "sorted_by"}
# dbt's settings that have no counterpart, and why they need none.
_DROPPED = {
    "incremental_strategy": "how rows are written follows from the kind",
    "file_format": "tables are Iceberg tables",
    "location_root": "where tables are is a setting of the connection",
    "persist_docs": "descriptions are written to the tables",
    "on_schema_change": "columns follow the query",
    "full_refresh": "`sqb build --full-refresh` recomputes",
}

# SQLMesh's kinds, and how they are written here; what is in brackets there stands beside `kind` here.
_KINDS = {
    "full": "kind table",
    "embedded": "kind view",
    "incremental_by_time_range": "kind incremental, cursor {time_column}",
    "incremental_by_unique_key": "kind merge, unique_key {unique_key}",
    "incremental_by_partition": "kind tracked, group_key {partitioned_by}",
    "incremental_unmanaged": "kind append",
    "incremental": "kind incremental, cursor {time_column}",
    "scd_type_2": "kind scd2, unique_key {unique_key}",
    "scd_type_2_by_time": "kind scd2, unique_key {unique_key}",
    "scd_type_2_by_column": "kind scd2, unique_key {unique_key}",
    "materialized_view": "kind table",
    "ephemeral": "kind view",
}
_PLACES = {
    "seed": "a CSV file in seeds/ is a seed, without a model",
    "external": "a table that something else writes is a source: declare it in sources/*.yml",
    "managed": "sqb builds every table itself; declare what something else writes in sources/*.yml",
}
_OPTION = re.compile(r"(\w+)\s+(\([^()]*\)|\[[^\[\]]*\]|[^,\s()]+)")
# Keys of SQLMesh's and dbt's headers.
_KEYS = {
    "name": "a model is called by its file: models/<schema>/<name>.sql; `schema` and `alias` change its table",
    "cron": "sqb runs what changed whenever it is called: let your scheduler call `sqb build`",
    "grain": "`unique_key` names the columns that identify a row; the check unique(…) tests them",
    "grains": "`unique_key` names the columns that identify a row; the check unique(…) tests them",
    "dialect": "models are written in Spark SQL",
    "start": "the first value of an incremental model's cursor is `cursor_start`",
    "interval_unit": "the steps of an incremental model's cursor are `cursor_grain`",
    "time_column": "`cursor` names the column that says how far an incremental model has got",
    "partition_by": "write `partitioned_by`",
    "cluster_by": "write `sorted_by`",
    "clustered_by": "write `sorted_by`",
    "physical_properties": "write `table_properties`",
    "tblproperties": "write `table_properties`",
    "column_descriptions": "write `columns (name 'its description', …)`",
    "meta": "`config` may hold values of your own",
    "tests": "checks are `constraints`, `audits` and `warnings`",
    "data_tests": "checks are `constraints`, `audits` and `warnings`",
    "docs": "write `description`",
}
_WINDOW = (
    "a model of the kind incremental runs by windows of its `cursor`: leave the condition out, or let it "
    "use __cursor_start() and __cursor_end()"
)
_MACROS = dict.fromkeys(
    ("start_date", "end_date", "start_ds", "end_ds", "start_ts", "end_ts", "start_dt", "end_dt"), _WINDOW
)


def explain_kind(text: str) -> str | None:
    """How a kind of another tool is written here."""
    name, _, options = text.strip().partition("(")
    word = name.strip().lower()
    if word in _PLACES:
        return _PLACES[word]
    if word not in _KINDS:
        return None
    given = {key.lower(): _strip_brackets(value) for key, value in _OPTION.findall(options)}
    written = re.sub(r"\{(\w+)\}", lambda m: given.get(m[1], f"<its {m[1].replace('_', ' ')}>"), _KINDS[word])
    return f"write `{written}`"


def explain_key(word: str) -> str | None:
    """What stands here for a key of another tool's headers."""
    return _KEYS.get(word.lower())


def explain_macro(name: str) -> str | None:
    """What stands here for a macro that another tool has built in."""
    return _MACROS.get(name.lower())


def translate_config(settings: Mapping[str, Any]) -> tuple[dict[str, str], list[str]]:
    """dbt's `config(…)` as the entries of a header, and what is to be said of the rest."""
    known: dict[str, str] = {}
    notes: list[str] = []
    for key, value in settings.items():
        name = _RENAMED.get(key, key)
        if key == "materialized":
            known["kind"] = _translate_materialized(str(value), settings)
        elif key in ("pre_hook", "post_hook"):
            notes += [f"{key}: write `{key}s ({value})`" if isinstance(value, str) else f"{key}: write `{key}s (…)`"]
        elif name in _KEPT or name == "sorted_by":
            known[name] = format_value(value)
        elif key in _DROPPED:
            notes.append(f"{key} is left out: {_DROPPED[key]}")
        else:
            notes.append(f"{key} is left out: there is no such key here; `config` may hold values of your own")
    return known, notes


def _translate_materialized(value: str, settings: Mapping[str, Any]) -> str:
    if value == "incremental":
        return "merge" if settings.get("unique_key") else "append"
    return _MATERIALIZED.get(value, value)


def format_value(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case list() | tuple():
            return f"[{', '.join(format_value(item) for item in value)}]"
        case str() if re.fullmatch(r"[\w.]+", value):
            return value
        case str():
            return "'" + value.replace("'", "''") + "'"
        case other:
            return str(other)


def _strip_brackets(text: str) -> str:
    inner = text.strip("()[] ")
    return f"[{inner}]" if "," in inner else inner
