"""What plans and builds take, named as the options of the command line."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypedDict

from sqb.errors.call import CallError
from sqb.names import suggest_nearest
from sqb.operations.build import BuildOptions
from sqb.operations.environment import EnvironmentSelection
from sqb.operations.plan import PlanRequest

if TYPE_CHECKING:
    from sqb.environments.session import EnvironmentSession
    from sqb.events import Event

Listen = Callable[["Event"], object]
# A session of Spark's own classes or of Spark Connect's, which have no common one; pyspark is not loaded for its name.
SparkSession = Any

_MAX_CONCURRENCY = 256


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


@dataclass(frozen=True, slots=True)
class PlanArguments:
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
    def request(self) -> PlanRequest:
        return PlanRequest(self.select, self.exclude, self.force, self.full_refresh, self.start_cursor, self.end_cursor)

    def build_selection(self, session: EnvironmentSession | None) -> EnvironmentSelection:
        """How an environment narrows or widens what is selected."""
        return EnvironmentSelection(session, self.include_stale_upstreams, self.changes_only)


@dataclass(frozen=True, slots=True)
class RunArguments:
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
    def build_options(self) -> BuildOptions:
        return BuildOptions(self.concurrency, self.fail_fast, self.store_failures, self.allow_data_loss)


_PLAN_ARGUMENTS = frozenset(f.name for f in fields(PlanArguments))
_RUN_ARGUMENTS = frozenset(f.name for f in fields(RunArguments))


def parse_options(
    options: Mapping[str, Any], function: str, run_names: frozenset[str] = _RUN_ARGUMENTS
) -> tuple[PlanArguments, RunArguments]:
    """Split the options of a call into plan and run arguments; `run_names` are the latter that the call takes."""
    known = _PLAN_ARGUMENTS | run_names
    for name in options:
        if name not in known:
            hint = suggest_nearest(name, sorted(known))
            raise TypeError(f"{function}() has no option {name!r}" + (f": {hint}" if hint else ""))
    plan_values = {name: value for name, value in options.items() if name in _PLAN_ARGUMENTS}
    for name in ("select", "exclude"):
        if name in plan_values:
            plan_values[name] = parse_selectors(plan_values[name])
    run_arguments = RunArguments(**{name: value for name, value in options.items() if name in run_names})
    if run_arguments.concurrency is not None and not 1 <= run_arguments.concurrency <= _MAX_CONCURRENCY:
        raise CallError(f"concurrency must be from 1 to {_MAX_CONCURRENCY}, and is {run_arguments.concurrency}")
    return PlanArguments(**plan_values), run_arguments


def parse_selectors(value: str | Iterable[str]) -> tuple[str, ...]:
    """One selector or several."""
    return (value,) if isinstance(value, str) else tuple(value)
