"""Cursors of `incremental` models: what their keys say, as values. Points on a cursor are whole numbers.

A timestamp is counted in microseconds since 1970, an integer is itself, so that windows are plain arithmetic. What a
point looks like in a query depends on the type of the column, which is only known when Spark has seen the query.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Literal

from sqb.errors import BadValue, Contradiction, Errors, MissingKey
from sqb.names import At, duration_seconds
from sqb.project.values import Setting

CursorType = Literal["timestamp", "integer"]
Strategy = Literal["append", "delete_insert", "merge"]
# What a column of a cursor may be: a moment, a time on the wall, a day, a whole number.
Form = Literal["timestamp", "timestamp_ntz", "date", "integer"]

DAY = 86_400_000_000
_INTEGER = re.compile(r"[+-]?\d+")
_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
_FIRST, _LAST = ((moment - _EPOCH) // _MICROSECOND for moment in (datetime.min, datetime.max))
# Beyond every value that a cursor has, with room for arithmetic on them.
LOWEST: Mapping[CursorType, int] = {"timestamp": _FIRST, "integer": -(2**62)}
HIGHEST: Mapping[CursorType, int] = {"timestamp": _LAST, "integer": 2**62}


@dataclass(frozen=True, slots=True)
class Cursor:
    """The cursor of an `incremental` model."""

    column: str
    type: CursorType
    strategy: Strategy
    # Where the first run begins, as written; None: at the smallest value that there is.
    start: str | None = None
    # The smallest step between two values; None: the smallest that the column's type has.
    grain: int | None = None
    lookback: int = 0
    unique_key: tuple[str, ...] = ()

    def step(self, form: Form) -> int:
        """What is added to the largest value to get the end of a window."""
        return self.grain or (DAY if form == "date" else 1)


def cursor_of(settings: Mapping[str, Any]) -> Cursor:
    """The cursor that a model's settings describe; they have been checked."""
    kind = type_of(settings)
    unique_key = tuple(settings.get("unique_key", ()))
    grain = settings.get("cursor_grain")
    return Cursor(
        settings["cursor"],
        kind,
        settings.get("incremental_strategy", "merge" if unique_key else "delete_insert"),
        settings.get("cursor_start"),
        length_of(grain, kind) if grain is not None else None,
        length_of(settings.get("lookback", "0"), kind) or 0,
        unique_key,
    )


def type_of(settings: Mapping[str, Any]) -> CursorType:
    """The declared type of a cursor; without one, what its start looks like, and else a timestamp."""
    declared = settings.get("cursor_type")
    if declared is not None:
        return "integer" if declared == "integer" else "timestamp"
    return "integer" if _INTEGER.fullmatch(settings.get("cursor_start", "")) else "timestamp"


def length_of(text: str, kind: CursorType) -> int | None:
    """The length of a stretch of a cursor, such as `14d` or, of integers, `1000`; None when it is not one."""
    if kind == "integer" or text == "0":
        return int(text) if text.isdecimal() else None
    seconds = duration_seconds(text)
    return round(seconds * 1_000_000) if seconds is not None else None


def is_point(text: str, kind: CursorType) -> bool:
    """Whether a text is a value of a cursor."""
    if kind == "integer":
        return _INTEGER.fullmatch(text) is not None
    return _moment(text) is not None


def point(text: str, form: Form, zone: tzinfo) -> int:
    """The point that a text means; a moment without a zone is one of the session's."""
    if form == "integer":
        return int(text)
    found = _moment(text)
    assert found is not None
    if form == "timestamp":
        found = (found if found.tzinfo else found.replace(tzinfo=zone)).astimezone(UTC).replace(tzinfo=None)
    else:
        found = found.replace(tzinfo=None)
    micros = (found - _EPOCH) // _MICROSECOND
    return micros // DAY * DAY if form == "date" else micros


def _moment(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def shown(value: int, form: Form) -> str:
    """A point as people write it, and as `point` reads it."""
    if form == "integer":
        return str(value)
    moment = _datetime(value)
    match form:
        case "date":
            return moment.date().isoformat()
        case "timestamp_ntz":
            return moment.isoformat(" ")
        case _:
            return f"{moment.isoformat(' ')}Z"


def _datetime(value: int) -> datetime:
    """A point as a moment; one grain after the last day that can be written is that day."""
    return _EPOCH + min(max(value, _FIRST), _LAST) * _MICROSECOND


def literal(value: int, form: Form) -> str:
    """A point as a typed literal of SQL; all are of one length, so that places in a query do not depend on values."""
    match form:
        case "integer":
            text = f"CAST({value} AS BIGINT)"
        case "date":
            text = f"DATE '{shown(value, form)}'"
        case _:
            moment = _datetime(value).isoformat(" ", "microseconds")
            text = f"TIMESTAMP_NTZ '{moment}'" if form == "timestamp_ntz" else f"TIMESTAMP_LTZ '{moment}Z'"
    return text.ljust(48)


# --- what may be written ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Policy:
    """How much is done again when a definition changed: nothing, a stretch before the end, or everything."""

    scope: Literal["forward", "bounded", "full"]
    # The stretch as written.
    length: str = ""

    def __str__(self) -> str:
        return f"bounded-{self.length}" if self.scope == "bounded" else self.scope

    @classmethod
    def parse(cls, text: str) -> Policy | None:
        """The policy in a text; None when it is not one. Whether its length is one is another question."""
        word = text.strip().lower()
        if word.startswith("bounded-"):
            return cls("bounded", word.removeprefix("bounded-"))
        return cls(word) if word in ("forward", "full") else None  # type: ignore[arg-type]


def check_cursor(settings: Mapping[str, Setting], own: Mapping[str, Setting], at: At, errors: Errors) -> None:
    """Report keys of an `incremental` model whose values do not fit its cursor, or each other."""
    values = {name: setting.value for name, setting in settings.items()}
    kind = type_of(values)
    stretch = "a duration such as 90m, 24h or 14d" if kind == "timestamp" else "a whole number"

    def wrong(key: str, expected: str) -> None:
        found = BadValue(
            f"`{key}` must be {expected}, not {values[key]!r}",
            at=settings[key].at,
            hint=f"the cursor is {_named(kind)}",
        )
        # A value that many models inherit is wrong once.
        if str(found) not in (str(error) for error in errors.found):
            errors.add(found)

    if "cursor_start" in values and not is_point(values["cursor_start"], kind):
        wrong("cursor_start", "a date or timestamp such as 2024-01-31" if kind == "timestamp" else "a whole number")
    if "lookback" in values and length_of(values["lookback"], kind) is None:
        wrong("lookback", stretch)
    if "cursor_grain" in values and not length_of(values["cursor_grain"], kind):
        wrong("cursor_grain", f"{stretch} of more than nothing")
    policy = Policy.parse(values.get("replay_on_change", "forward"))
    if policy is None or (policy.scope == "bounded" and not length_of(policy.length, kind)):
        wrong("replay_on_change", f"forward, full or bounded-<{'duration' if kind == 'timestamp' else 'number'}>")
    _check_strategy(settings, own, at, errors)


def _named(kind: CursorType) -> str:
    other = "set `cursor_type` if it is another"
    return f"a timestamp; {other}: integer" if kind == "timestamp" else f"an integer; {other}: timestamp"


def _check_strategy(settings: Mapping[str, Setting], own: Mapping[str, Setting], at: At, errors: Errors) -> None:
    strategy = settings.get("incremental_strategy")
    if strategy is not None and strategy.value == "merge" and "unique_key" not in settings:
        errors.add(
            MissingKey(
                "the strategy merge needs `unique_key`",
                at=strategy.at if "incremental_strategy" in own else at,
                hint="add `unique_key` with its columns, or take the strategy delete_insert",
            )
        )
    if strategy is not None and strategy.value != "merge" and "unique_key" in own:
        message = f"`unique_key` has no meaning for the strategy {strategy.value}"
        hint = "remove it, or make the strategy `merge`; `unique(…)` under `constraints` checks a key"
        errors.add(Contradiction(message, at=own["unique_key"].at, hint=hint))
    if "refresh" in own:
        message = "`refresh` has no meaning for the kind incremental"
        errors.add(Contradiction(message, at=own["refresh"].at, hint="its windows say what is computed"))
