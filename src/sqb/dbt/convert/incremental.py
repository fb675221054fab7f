"""Incremental models of dbt's: which kind they are here, and what their `is_incremental()` says about a cursor.

The condition is what a later run adds to the text of the first run. In the usual form,
`WHERE x > (SELECT max(x) FROM {{ this }})`, it names the cursor, and the kind `incremental` does the rest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqb.dbt.convert.marks import Mark, is_mark_of_this
from sqb.sql.text.lexer import Token, tokenize_code

_UNITS = {"minute": "m", "hour": "h", "day": "d", "week": "w"}
_PERIODS = {"hour": "1h", "day": "1d", "month": "31d", "year": "366d"}
_WHOLE_NUMBER = re.compile(r"(?:^|_)(?:id|key|number|no|num|seq|sequence|version|offset|epoch)$", re.IGNORECASE)
_TIME = re.compile(
    r"(?:^|_)(?:at|on|date|day|time|ts|timestamp|datetime|dt|month|hour|updated|created|modified|loaded|week|year)$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Cursor:
    """The column that a condition of `is_incremental()` compares with the table, and how far it looks back."""

    column: str
    compared: str
    lookback: str = ""


@dataclass(frozen=True, slots=True)
class IncrementalKind:
    """The entries of a header for an incremental model, and what the user should know of it."""

    header: dict[str, Any]
    notes: list[tuple[str, str]] = field(default_factory=list)


def find_cursor(first: str, later: str, marks: Sequence[Mark]) -> Cursor | None:
    """The cursor of a condition that a later run adds to the text of a first run, if it has the usual form."""
    before, after = tokenize_code(first), tokenize_code(later)
    start = 0
    while start < min(len(before), len(after)) and before[start].text == after[start].text:
        start += 1
    end = 0
    while end < min(len(before), len(after)) - start and before[-1 - end].text == after[-1 - end].text:
        end += 1
    if start + end != len(before):
        return None
    added = after[start : len(after) - end]
    return _read_condition(added, marks)


def _read_condition(added: Sequence[Token], marks: Sequence[Mark]) -> Cursor | None:
    words = [token.text.lower() for token in added]
    if not words or words[0] not in ("where", "and"):
        return None
    sign = next((i for i, word in enumerate(words) if word in (">", ">=")), None)
    if sign is None or sign < 2 or any(word in ("and", "or", "where", "(", ")") for word in words[1:sign]):
        return None
    question = list(added[sign + 1 :])
    if len(question) < 6 or question[0].text != "(" or question[-1].text != ")":
        return None
    words = [token.text.lower() for token in question]
    if words[1] != "select" or "from" not in words:
        return None
    origin = len(words) - 1 - words[::-1].index("from")
    rest = question[origin + 1 : -1]
    if not rest or not is_mark_of_this(rest[0].text, marks) or len(rest) > 3 or any(t.kind != "word" for t in rest):
        return None
    value = _read_maximum(question[2:origin])
    return None if value is None else Cursor(value[0], added[sign - 1].text.strip("`"), value[1])


def _read_maximum(tokens: Sequence[Token]) -> tuple[str, str] | None:
    """The column and the way back of `max(x)`, `coalesce(max(x), …)`, `max(x) - interval 3 days`, `date_sub(…)`."""
    tokens = list(tokens)
    if len(tokens) > 2 and tokens[-2].text.lower() == "as":
        tokens = tokens[:-2]
    words = [token.text.lower() for token in tokens]
    if words[:2] == ["coalesce", "("] and words[-1] == ")":
        comma = _find_comma(words)
        return None if comma is None else _read_maximum(tokens[2:comma])
    plain = [token.text.strip("`") for token in tokens]
    match words:
        case ["max", "(", _, ")"]:
            return plain[2], ""
        case ["max", "(", _, ")", "-", "interval", number, unit]:
            return _with_lookback(plain[2], number, unit)
        case ["max", "(", _, ")", "-", "interval", text] if " " in text:
            number, _, unit = text.strip("'\"").partition(" ")
            return _with_lookback(plain[2], number, unit)
        case ["max", "(", _, ")", "-", number] if number.isdigit():
            return plain[2], number
        case ["date_sub" | "date_add" as function, "(", "max", "(", _, ")", ",", *count, ")"]:
            number = "".join(count)
            is_back = number.isdigit() if function == "date_sub" else number[:1] == "-" and number[1:].isdigit()
            return _with_lookback(plain[4], number.lstrip("-"), "day") if is_back else None
        case ["dateadd" | "timestampadd", "(", unit, ",", "-", number, ",", "max", "(", _, ")", ")"]:
            return _with_lookback(plain[9], number, unit)
    return None


def _find_comma(words: Sequence[str]) -> int | None:
    depth = 0
    for index, word in enumerate(words):
        depth += {"(": 1, ")": -1}.get(word, 0)
        if word == "," and depth == 1:
            return index
    return None


def _with_lookback(column: str, number: str, unit: str) -> tuple[str, str] | None:
    short = _UNITS.get(unit.lower().strip("'\"").removesuffix("s"))
    number = number.strip("'\"")
    return (column, f"{number}{short}") if short and number.isdigit() else None


def translate_incremental(
    settings: Mapping[str, Any], cursor: Cursor | None, has_condition: bool, partition: Sequence[str]
) -> IncrementalKind:
    """The kind of an incremental model, from its configuration and the cursor of its condition."""
    strategy = str(settings.get("incremental_strategy") or "").replace("-", "_").replace("+", "_")
    key = settings.get("unique_key")
    if strategy == "microbatch":
        return _translate_microbatch(settings)
    if cursor is not None and (strategy != "insert_overwrite" or list(partition) == [cursor.column]):
        return _translate_with_cursor(settings, cursor, strategy)
    notes: list[tuple[str, str]] = []
    if key and strategy not in ("append", "insert_overwrite"):
        if has_condition:
            why = "it is left out, as sqb reads only what changed; rows that it would pass over are updated too"
            notes.append(("the condition of is_incremental()", why))
        return IncrementalKind({"kind": "merge", "unique_key": key, "on_source_delete": "keep"}, notes)
    if strategy == "insert_overwrite":
        why = "it replaces partitions in dbt; a table holds what the query gives now, without rows that sources lost"
        return IncrementalKind({"kind": "table"}, [("insert_overwrite", why)])
    why = (
        "the kind append adds the rows that are new in the result; the condition is left out"
        if has_condition
        else "dbt adds all rows of the result in every run; the kind append adds those that are new"
    )
    return IncrementalKind({"kind": "append", **_schema_change(settings)}, [("incremental without a unique_key", why)])


def _translate_with_cursor(settings: Mapping[str, Any], cursor: Cursor, strategy: str) -> IncrementalKind:
    key = settings.get("unique_key")
    header: dict[str, Any] = {"kind": "incremental", "cursor": cursor.column}
    notes = [("is_incremental()", f"rows whose `{cursor.column}` is NULL are in no window of the cursor")]
    if _WHOLE_NUMBER.search(cursor.column) or cursor.lookback.isdigit():
        header["cursor_type"] = "integer"
    elif not _TIME.search(cursor.column):
        notes.append((f"the cursor `{cursor.column}`", "if it is a whole number, add `cursor_type integer`"))
    if cursor.compared.lower() != cursor.column.lower():
        why = f"it compares `{cursor.compared}`; here the window is that of `{cursor.column}` in the result"
        notes.append(("the condition of is_incremental()", why))
    if cursor.lookback:
        header["lookback"] = cursor.lookback
    if strategy == "insert_overwrite":
        header["incremental_strategy"] = "delete_insert"
    elif key and strategy != "append":
        header["unique_key"] = key
    else:
        header["incremental_strategy"] = "append"
    return IncrementalKind(header | _schema_change(settings), notes)


def _translate_microbatch(settings: Mapping[str, Any]) -> IncrementalKind:
    period = str(settings.get("batch_size") or "day")
    header: dict[str, Any] = {"kind": "incremental", "cursor": settings.get("event_time")}
    if settings.get("begin"):
        header["cursor_start"] = str(settings["begin"])
    header["cursor_grain"] = _PERIODS.get(period, "1d")
    count = int(settings.get("lookback", 1))
    if count:
        amount, unit = int(_PERIODS.get(period, "1d")[:-1]), _PERIODS.get(period, "1d")[-1]
        header["lookback"] = f"{count * amount}{unit}"
    header["incremental_strategy"] = "delete_insert"
    why = f"windows are those of the cursor `{settings.get('event_time')}`, which must be a column of the result"
    return IncrementalKind(header | _schema_change(settings), [("microbatch", why)])


def _schema_change(settings: Mapping[str, Any]) -> dict[str, Any]:
    """dbt ignores new columns unless a setting says otherwise; sqb adds them."""
    return {"on_schema_change": settings.get("on_schema_change") or "ignore"}
