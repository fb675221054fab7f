"""What plans and builds take, named as the options of the command line."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypedDict

from sqb.errors import CallError
from sqb.names import did_you_mean
from sqb.operations.building import HowToBuild
from sqb.operations.environment import Narrowed
from sqb.operations.planning import Wanted

if TYPE_CHECKING:
    from sqb.environments.entering import Entered
    from sqb.events import Event

Listen = Callable[["Event"], object]
# A session of Spark's own classes or of Spark Connect's, which have no common one; pyspark is not loaded for its name.
SparkSession = Any

_MOST_AT_ONCE = 256


class PlanOptions(TypedDict, total=False):
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


class RunOptions(TypedDict, total=False):
    """How to build: the same that `sqb build` takes, a session to do it on, and an event that stops it."""

    concurrency: int | None
    fail_fast: bool
    store_failures: bool
    allow_data_loss: bool
    take_over: bool
    spark: SparkSession | None
    listen: Listen | None
    stop: threading.Event | None


class BuildOptions(PlanOptions, RunOptions, total=False):
    """What to build, and how."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be planned, checked."""

    select: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    force: bool = False
    full_refresh: bool = False
    start_cursor: str | None = None
    end_cursor: str | None = None
    virtual_env: str | None = None
    include_stale_upstreams: bool = False
    changes_only: bool = False

    @property
    def wanted(self) -> Wanted:
        return Wanted(self.select, self.exclude, self.force, self.full_refresh, self.start_cursor, self.end_cursor)

    def narrowed(self, entered: Entered | None) -> Narrowed:
        """How an environment narrows or widens what is selected."""
        return Narrowed(entered, self.include_stale_upstreams, self.changes_only)


@dataclass(frozen=True, slots=True)
class How:
    """How a build is to go about it, and who hears of it."""

    concurrency: int | None = None
    fail_fast: bool = False
    store_failures: bool = False
    allow_data_loss: bool = False
    take_over: bool = False
    spark: SparkSession | None = None
    listen: Listen | None = None
    stop: threading.Event | None = None

    @property
    def building(self) -> HowToBuild:
        return HowToBuild(self.concurrency, self.fail_fast, self.store_failures, self.allow_data_loss)


_ASKED = frozenset(f.name for f in fields(Asked))
_HOW = frozenset(f.name for f in fields(How))


def read_options(options: Mapping[str, Any], function: str, of_run: frozenset[str] = _HOW) -> tuple[Asked, How]:
    """The options of a call, told apart; `of_run` are those of a build that the call takes."""
    known = _ASKED | of_run
    for name in options:
        if name not in known:
            hint = did_you_mean(name, sorted(known))
            raise TypeError(f"{function}() has no option {name!r}" + (f": {hint}" if hint else ""))
    asked = {name: value for name, value in options.items() if name in _ASKED}
    for name in ("select", "exclude"):
        if name in asked:
            asked[name] = _selectors(asked[name])
    how = How(**{name: value for name, value in options.items() if name in of_run})
    if how.concurrency is not None and not 1 <= how.concurrency <= _MOST_AT_ONCE:
        raise CallError(f"concurrency must be from 1 to {_MOST_AT_ONCE}, and is {how.concurrency}")
    return Asked(**asked), how


def _selectors(given: str | Iterable[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)
