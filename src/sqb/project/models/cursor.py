"""Cursors of `incremental` models: what their keys say, as values. Points on a cursor are whole numbers.

A timestamp is counted in microseconds since 1970, an integer is itself, so that windows are plain arithmetic. What a
point looks like in a query depends on the type of the column, which is only known when Spark has seen the query.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Literal

from sqb.errors.base import Errors
from sqb.errors.project import BadValue, Contradiction, MissingKey
from sqb.light_dataclass import dataclass
from sqb.names import At, parse_duration
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

    def get_step(self, form: Form) -> int:
        """What is added to the largest value to get the end of a window."""
        return self.grain or (DAY if form == "date" else 1)


def build_cursor(settings: Mapping[str, Any]) -> Cursor:
    """The cursor that a model's settings describe; they have been checked."""
    kind = get_cursor_type(settings)
    unique_key = tuple(settings.get("unique_key", ()))
    grain = settings.get("cursor_grain")
    return Cursor(
        settings["cursor"],
        kind,
        settings.get("incremental_strategy", "merge" if unique_key else "delete_insert"),
        settings.get("cursor_start"),
        parse_length(grain, kind) if grain is not None else None,
        parse_length(settings.get("lookback", "0"), kind) or 0,
        unique_key,
    )


def get_cursor_type(settings: Mapping[str, Any]) -> CursorType:
    """The declared type of a cursor; without one, what its start looks like, and else a timestamp."""
    declared = settings.get("cursor_type")
    if declared is not None:
        return "integer" if declared == "integer" else "timestamp"
    return "integer" if _INTEGER.fullmatch(settings.get("cursor_start", "")) else "timestamp"


def parse_length(text: str, kind: CursorType) -> int | None:
    """The length of a stretch of a cursor, such as `14d` or, of integers, `1000`; None when it is not one."""
    if kind == "integer" or text == "0":
        return int(text) if text.isdecimal() else None
    seconds = parse_duration(text)
    return round(seconds * 1_000_000) if seconds is not None else None


def is_point(text: str, kind: CursorType) -> bool:
    """Whether a text is a value of a cursor."""
    if kind == "integer":
        return _INTEGER.fullmatch(text) is not None
    return _parse_moment(text) is not None


def parse_point(text: str, form: Form, zone: tzinfo) -> int:
    """The point that a text means; a moment without a zone is one of the session's."""
    if form == "integer":
        return int(text)
    moment = _parse_moment(text)
    assert moment is not None
    if form == "timestamp":
        moment = (moment if moment.tzinfo else moment.replace(tzinfo=zone)).astimezone(UTC).replace(tzinfo=None)
    else:
        moment = moment.replace(tzinfo=None)
    micros = (moment - _EPOCH) // _MICROSECOND
    return micros // DAY * DAY if form == "date" else micros


def _parse_moment(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def format_point(value: int, form: Form) -> str:
    """A point as people write it, and as `point` reads it."""
    if form == "integer":
        return str(value)
    moment = _to_datetime(value)
    match form:
        case "date":
            return moment.date().isoformat()
        case "timestamp_ntz":
            return moment.isoformat(" ")
        case _:
            return f"{moment.isoformat(' ')}Z"


def _to_datetime(value: int) -> datetime:
    """A point as a moment; one grain after the last day that can be written is that day."""
    return _EPOCH + min(max(value, _FIRST), _LAST) * _MICROSECOND


def format_literal(value: int, form: Form) -> str:
    """A point as a typed literal of SQL; all are of one length, so that places in a query do not depend on values."""
    match form:
        case "integer":
            text = f"CAST({value} AS BIGINT)"
        case "date":
            text = f"DATE '{format_point(value, form)}'"
        case _:
            moment = _to_datetime(value).isoformat(" ", "microseconds")
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


def check_cursor(settings: Mapping[str, Setting], header: Mapping[str, Setting], at: At, errors: Errors) -> None:
    """Report keys of an `incremental` model whose values do not fit its cursor, or each other."""
    values = {name: setting.value for name, setting in settings.items()}
    kind = get_cursor_type(values)
    stretch = "a duration such as 90m, 24h or 14d" if kind == "timestamp" else "a whole number"

    def wrong(key: str, expected: str) -> None:
        problem = BadValue(
            f"`{key}` must be {expected}, not {values[key]!r}",
            at=settings[key].at,
            hint=f"the cursor is {_describe_type(kind)}",
        )
        # A value that many models inherit is wrong once.
        if str(problem) not in (str(error) for error in errors.found):
            errors.add(problem)

    if "cursor_start" in values and not is_point(values["cursor_start"], kind):
        wrong("cursor_start", "a date or timestamp such as 2024-01-31" if kind == "timestamp" else "a whole number")
    if "lookback" in values and parse_length(values["lookback"], kind) is None:
        wrong("lookback", stretch)
    if "cursor_grain" in values and not parse_length(values["cursor_grain"], kind):
        wrong("cursor_grain", f"{stretch} greater than zero")
    policy = Policy.parse(values.get("replay_on_change", "forward"))
    if policy is None or (policy.scope == "bounded" and not parse_length(policy.length, kind)):
        wrong("replay_on_change", f"forward, full or bounded-<{'duration' if kind == 'timestamp' else 'number'}>")
    _check_strategy(settings, header, at, errors)


def _describe_type(kind: CursorType) -> str:
    other = "set `cursor_type` if it is another"
    return f"a timestamp; {other}: integer" if kind == "timestamp" else f"an integer; {other}: timestamp"


def _check_strategy(settings: Mapping[str, Setting], header: Mapping[str, Setting], at: At, errors: Errors) -> None:
    strategy = settings.get("incremental_strategy")
    if strategy is not None and strategy.value == "merge" and "unique_key" not in settings:
        errors.add(
            MissingKey(
                "the strategy merge needs `unique_key`",
                at=strategy.at if "incremental_strategy" in header else at,
                hint="add `unique_key` with its columns, or take the strategy delete_insert",
            )
        )
    if strategy is not None and strategy.value != "merge" and "unique_key" in header:
        message = f"`unique_key` has no meaning for the strategy {strategy.value}"
        hint = "remove it, or make the strategy `merge`; `unique(…)` under `constraints` checks a key"
        errors.add(Contradiction(message, at=header["unique_key"].at, hint=hint))
    if "refresh" in header:
        message = "`refresh` has no meaning for the kind incremental"
        errors.add(Contradiction(message, at=header["refresh"].at, hint="its windows say what is computed"))
