"""What methods of the API take, named as the options of the command line."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

from sqb.errors.call import CallError
from sqb.names import suggest_nearest

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from sqb.events import Event

Listen = Callable[["Event"], object]
# A session of Spark's own classes or of Spark Connect's, which have no common one; pyspark is not loaded for its name.
SparkSession = Any

_O = TypeVar("_O", bound="DataclassInstance")
_MAX_CONCURRENCY = 256
# Options that take one word or several.
_LISTS = ("select", "exclude", "key", "names", "resource_types", "exclude_resource_types", "more")


class PlanKeywords(TypedDict, total=False):
    """What to plan: the same that `sqb plan` takes."""

    select: str | Iterable[str]
    exclude: str | Iterable[str]
    force: bool
    full_refresh: bool
    start_cursor: str | None
    end_cursor: str | None
    virtual_env: str | None
    include_stale_upstreams: bool
    changes_only: bool
    allow_breaking: bool
    selector: str | None


class RunKeywords(TypedDict, total=False):
    """How to build: the same that `sqb build` takes, a session to do it on, and an event that stops it."""

    concurrency: int | None
    fail_fast: bool
    store_failures: bool
    allow_data_loss: bool
    take_over: bool
    spark: SparkSession | None
    listen: Listen | None
    stop: threading.Event | None


class BuildKeywords(PlanKeywords, RunKeywords, total=False):
    """What to build, and how."""


class LoadKeywords(TypedDict, total=False):
    """How to run loaders: the same that `sqb load` takes."""

    concurrency: int | None
    fail_fast: bool
    virtual_env: str | None
    take_over: bool


class DiffKeywords(TypedDict, total=False):
    """What to compare: the same that `sqb diff` takes; `source` is --from."""

    source: str | None
    to: str | None
    against: str | None
    snapshot: str | None
    to_snapshot: str | None
    key: str | Iterable[str]
    limit: int
    rows: bool
    cost: bool


class PromoteKeywords(TypedDict, total=False):
    """How to promote: the same that `sqb promote` takes."""

    select: str | Iterable[str]
    exclude: str | Iterable[str]
    selector: str | None
    allow_partial_promotion: bool
    include_stale_upstreams: bool
    merged: bool
    dry_run: bool
    take_over: bool


class DbtKeywords(TypedDict, total=False):
    """What dbt is to do: the same that `sqb dbt` takes; `more` are options of dbt's that go to it as they are."""

    select: str | Iterable[str]
    exclude: str | Iterable[str]
    selector: str | None
    indirect_selection: str | None
    state: str | None
    resource_types: str | Iterable[str]
    exclude_resource_types: str | Iterable[str]
    target: str | None
    profile: str | None
    vars: Mapping[str, Any] | None
    defer: bool
    favor_state: bool
    defer_state: str | None
    full_refresh: bool
    empty: bool
    threads: int | None
    fail_fast: bool
    more: str | Iterable[str]


@dataclass(frozen=True, slots=True)
class Caller:
    """What the caller brings along: a session to work on, who hears of what happens, and an event that stops it."""

    spark: SparkSession | None = None
    listen: Listen | None = None
    stop: threading.Event | None = None

    def override(self, other: Caller) -> Caller:
        """What another one brings, and else the same."""
        return Caller(other.spark or self.spark, other.listen or self.listen, other.stop or self.stop)


CALLER_NAMES = frozenset(f.name for f in fields(Caller))


def parse_options(kind: type[_O], options: Mapping[str, Any], function: str, also: Collection[str] = ()) -> _O:
    """The options value of an operation; `also` are names that the method takes besides."""
    known = {f.name for f in fields(kind)}
    for name in options:
        if name not in known and name not in also:
            hint = suggest_nearest(name, sorted({*known, *also}))
            raise TypeError(f"{function}() has no option {name!r}" + (f": {hint}" if hint else ""))
    values = {name: value for name, value in options.items() if name in known}
    values |= {name: parse_words(values[name]) for name in _LISTS if name in values}
    concurrency = values.get("concurrency")
    if concurrency is not None and not 1 <= concurrency <= _MAX_CONCURRENCY:
        raise CallError(f"concurrency must be from 1 to {_MAX_CONCURRENCY}, and is {concurrency}")
    return kind(**values)


def parse_words(value: str | Iterable[str]) -> tuple[str, ...]:
    """One word or several, such as selectors."""
    return (value,) if isinstance(value, str) else tuple(value)
