"""Observing sources: the version of each one's data, as cheaply as it can be told exactly.

Versions of tables and files are known without Spark. The greatest value of a column is looked for in the statistics of
the table's files; only what these do not tell, and queries, are asked of Spark. What was told is kept for as long as
what it was told of is the same.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

from sqb.build.function_versions import with_function_versions
from sqb.build.observe import Look
from sqb.build.source_files import name_listing
from sqb.compiled import Project
from sqb.compiled_sources import DeclaredSource, Watch
from sqb.errors import ClockBackwards, Errors, FreshnessUnknown, SqbError
from sqb.graph import closure
from sqb.identity import digest
from sqb.lake.iceberg import IcebergLake
from sqb.lake.port import Pointer
from sqb.lake.state import FreshnessRow
from sqb.names import duration_seconds
from sqb.plan.freshness import POLICY, Observation, Recorded, with_freshness
from sqb.plan.observed import Observed, inputs_of_names
from sqb.workspace import Workspace

Session = Callable[[], Any]
_AT_ONCE = 4
# Clocks of two machines differ a little; more than this is a clock that was set back.
_SKEW_SECONDS = 300.0
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Told:
    """What was observed, and why the rest could not be."""

    seen: Mapping[str, Observation]
    failed: Mapping[str, SqbError]


def observed_sources(
    workspace: Workspace, lake: IcebergLake, look: Look, session: Session, selected: Collection[str] | None = None
) -> Look:
    """The look with the freshness of the sources above the selected nodes, and which of them could not be observed."""
    project = workspace.project
    names = _above(selected, project)
    look = with_function_versions(workspace, look, names)
    # What a loader of this build is about to fill is not judged by what stood before.
    running = {fills for fills, loader in project.loaders.items() if selected is None or loader in selected}
    names = [name for name in names if name not in running]
    if not _matters(project, names):
        return look
    told = observe(project, lake, look, names, session)
    errors = Errors()
    for error in told.failed.values():
        if not isinstance(error, FreshnessUnknown):
            errors.add(error)
    errors.raise_any()
    now = time.time()
    recorded = recorded_freshness(project, lake, now)
    observed = with_freshness(project, look.observed, told.seen, recorded, now)
    return replace(look, observed=_with_unknown(observed, told.failed, look))


def _with_unknown(observed: Observed, failed: Mapping[str, SqbError], look: Look) -> Observed:
    """What could not be observed may have changed: its readers run. What is not there yet blocks them."""
    if not failed:
        return observed
    why = {name: f"{error.at}: {error.message}" if error.at else error.message for name, error in failed.items()}
    there = look.externals.keys() | look.files.keys()
    missing = {name: failed[name].message for name in why if name not in there}
    unknown = {name: text for name, text in why.items() if name in there}
    return replace(observed, untold={**observed.untold, **missing}, unknown=unknown)


def _above(selected: Collection[str] | None, project: Project) -> list[str]:
    if selected is None:
        return list(project.externals)
    upstream: dict[str, Iterable[str]] = {n.name: n.upstream for n in project}
    upstream |= {s.name: s.expression.reads for s in project.sources.values() if s.expression is not None}
    above = closure(selected, upstream)
    return [name for name in project.externals if name in above]


def _matters(project: Project, names: Iterable[str]) -> bool:
    """Whether the plan depends on freshness at all; versions of data are known without it."""
    if any(_has_duration(n.settings.get(POLICY)) for n in project):
        return True
    watches = (project.sources[n].watch for n in names if n in project.sources)
    return any(w is not None and (w.has_values or w.warn_after or w.error_after) for w in watches)


def _has_duration(policy: object) -> bool:
    return isinstance(policy, str) and duration_seconds(policy) is not None


def recorded_freshness(project: Project, lake: IcebergLake, now: float) -> dict[str, Recorded]:
    """The latest recorded observation of each source, whichever schema it was recorded in."""
    latest: dict[str, FreshnessRow] = {}
    for row in lake.freshness(project.schemas).values():
        known = latest.get(row.source_name)
        if known is None or row.observed_at > known.observed_at:
            latest[row.source_name] = row
    found = {
        name: Recorded(r.strategy, r.value_kind, r.data_version, r.observed_at.timestamp(), r.run_id)
        for name, r in latest.items()
    }
    for name, last in found.items():
        if last.observed_at > now + _SKEW_SECONDS:
            then, here = _iso(last.observed_at), _iso(now)
            raise ClockBackwards(
                f"{name} was last observed at {then}, but the clock of this machine says {here}",
                hint="set the clock right; with a clock that went backwards nobody can tell how old a source is",
            )
    return found


def observe(project: Project, lake: IcebergLake, look: Look, names: Iterable[str], session: Session) -> Told:
    """The version of the data of each source that is observed; expressions are not, what they read is."""
    seen: dict[str, Observation] = {}
    failed: dict[str, SqbError] = {}
    questions: dict[str, Watch] = {}
    for name in names:
        source = project.sources.get(name)
        if source is not None and not source.is_observed:
            continue
        if name in project.loaders and name not in look.externals:
            failed[name] = FreshnessUnknown(
                f"{name} is not there yet: its loader {project.loaders[name]} has not filled it",
                at=source.at if source is not None else None,
                hint=f"run `sqb load {project.loaders[name]}`",
            )
            continue
        watch = (source.watch if source is not None else None) or Watch()
        if watch.strategy != "adapter":
            questions[name] = watch
            continue
        found = _version(name, watch, look)
        if found is not None:
            seen[name] = found
        elif source is not None and source.watch is not None:
            failed[name] = _unversioned(source)
    answered, unanswered = _answers(project, lake, look, questions, session)
    return Told({**seen, **answered}, {**failed, **unanswered})


def _version(name: str, watch: Watch, look: Look) -> Observation | None:
    """The version of a table or of files, and since when it has been so; None where it has none."""
    if name in look.files:
        listing = look.files[name]
        kind, value, moment = "listing", listing.version, listing.modified_at
    else:
        state = look.states[look.externals[name]]
        if state.is_view:
            return None
        rows_from = state.same_rows[-1] if state.same_rows else state.snapshot_id
        kind, value = "snapshot", str(rows_from) if rows_from is not None else "empty"
        moment = state.rows_ms / 1000 if state.rows_ms is not None else None
    if watch.kind == "timestamp":
        return Observation("adapter", "timestamp", _iso(moment), moment) if moment is not None else None
    return Observation("adapter", kind, value, moment)


def _unversioned(source: DeclaredSource) -> FreshnessUnknown:
    return FreshnessUnknown(
        f"{source.name} has no version that tells how fresh it is: it is empty, or a view of somebody else's",
        at=source.at,
        hint="use the strategy `column` or `sql`",
    )


# --- values -----------------------------------------------------------------------------------------------------------


def _answers(
    project: Project, lake: IcebergLake, look: Look, questions: Mapping[str, Watch], session: Session
) -> tuple[dict[str, Observation], dict[str, SqbError]]:
    stamps = {name: _stamp(watch, project, look) for name, watch in questions.items()}
    found = _kept(lake, stamps)
    failed: dict[str, SqbError] = {}
    raw = {}
    for name in questions.keys() - found.keys():
        with_bounds = _from_statistics(name, questions[name], project, lake, look)
        if with_bounds is not None:
            raw[name] = with_bounds
    open_ = [name for name in questions if name not in found and name not in raw]
    raw |= _from_spark(open_, questions, project, look, session) if open_ else {}
    for name, answer in raw.items():
        try:
            found[name] = _observation(name, questions[name], answer)
        except SqbError as error:
            failed[name] = error
    _keep(lake, {name: found[name] for name in raw if name in found}, stamps)
    return {name: found[name] for name in questions if name in found}, failed


# The kind of a value, and how many columns and which values came: times as microseconds, all else as text.
Raw = tuple[str, int, tuple[Any, ...]] | SqbError


def _stamp(watch: Watch, project: Project, look: Look) -> str | None:
    """What an answer depends on; None when it may change by itself."""
    if watch.query is None or watch.query.volatile:
        return None
    parts = [watch.token]
    for found in inputs_of_names(watch.query.reads, project):
        if found.name in look.files:
            parts.append(look.files[found.name].version)
        elif found.name in look.locations and not look.states[look.externals[found.name]].is_view:
            parts.append(look.locations[found.name])
        elif found.name in project.sources and project.sources[found.name].expression is not None:
            parts.append(project.sources[found.name].token)
        else:
            return None
    return digest(*parts)


def _kept(lake: IcebergLake, stamps: Mapping[str, str | None]) -> dict[str, Observation]:
    found: dict[str, Observation] = {}
    for name, text in lake.cache.answers(stamps).items() if lake.cache is not None else ():
        try:
            stamp, *values = json.loads(text)
            if stamp is not None and stamp == stamps[name]:
                found[name] = Observation(*values)
        except (TypeError, ValueError):
            continue
    return found


def _keep(lake: IcebergLake, found: Mapping[str, Observation], stamps: Mapping[str, str | None]) -> None:
    if lake.cache is not None and found:
        lake.cache.keep_answers(
            {n: json.dumps([stamps[n], o.strategy, o.kind, o.value, o.moment]) for n, o in found.items()}
        )


def _from_statistics(name: str, watch: Watch, project: Project, lake: IcebergLake, look: Look) -> Raw | None:
    """The greatest value of a column where the statistics of the table's files tell it; None where they do not."""
    if watch.strategy != "column" or watch.column is None or name not in look.locations:
        return None
    if look.states[look.externals[name]].is_view:
        return None
    from sqb.lake.statistics import Untold  # pyiceberg is only loaded when something is not known yet

    try:
        pointer = Pointer(look.externals[name], look.locations[name])
        value = lake.column_maximum(pointer, watch.column, watch.filter)
    except Untold:
        return None
    match value:
        case datetime():
            moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
            return "timestamp", 1, ((moment - _EPOCH) // timedelta(microseconds=1),)
        case date():
            return "timestamp", 1, ((value - _EPOCH.date()).days * 86_400_000_000,)
        case int():
            return "integer", 1, (str(value),)
        case _:
            return "", 1, (None,)


def _from_spark(
    names: list[str], questions: Mapping[str, Watch], project: Project, look: Look, session: Session
) -> dict[str, Raw]:
    """The answers of Spark, several at once."""
    from concurrent.futures import ThreadPoolExecutor  # what nothing unchanged needs

    from sqb.build.render import pinned_names, query_text

    session()  # what keeps Spark from starting is told once
    text_of = pinned_names(project, look.catalog, look.externals, look.states.get, look.files)

    def answer(name: str) -> Raw:
        from sqb.spark.answers import ask  # Spark is there by now
        from sqb.spark.failures import explain

        watch = questions[name]
        assert watch.query is not None
        sql = query_text(watch.query, text_of)
        try:
            for found in inputs_of_names(watch.query.reads, project):
                if found.name in look.files:
                    name_listing(session(), look.files[found.name])
            came = ask(session(), sql)
        except SqbError as error:
            error.at = error.at or watch.at
            return error
        except Exception as error:
            failure = explain(error, sql)
            return FreshnessUnknown(
                f"the question how fresh {name} is fails: {failure.message}", at=watch.at, hint=failure.hint
            )
        return came.kind, came.columns, came.values

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return dict(zip(names, pool.map(answer, names), strict=True))


def _observation(name: str, watch: Watch, raw: Raw) -> Observation:
    """An answer as an observation; raises when it is not one value of the declared type."""
    if isinstance(raw, SqbError):
        raise raw
    kind, columns, values = raw
    if columns != 1:
        raise _unknown(name, watch, f"its query returns {columns} columns", "select one value, such as max(ts)")
    if len(values) != 1:
        came = "no row" if not values else "more than one row"
        raise _unknown(name, watch, f"its query returns {came}", "it must return one row: aggregate it, with max()")
    value = values[0]
    if value is None:
        asked = f"max({watch.column}) is NULL" if watch.strategy == "column" else "its query returns NULL"
        hint = "it has no rows, or none with a value, that the filter lets through" if watch.filter else None
        raise _unknown(
            name, watch, asked, hint or "there is no row with a value yet: fill it, or use the strategy adapter"
        )
    wanted = watch.kind or kind
    if wanted != "string" and wanted != kind:
        message = f"`type` is {wanted}, but the value is of the type {kind}"
        raise _unknown(name, watch, message, f"write `type: {kind}`, or cast it in a query with the strategy sql")
    if kind != "timestamp":
        return Observation(watch.strategy, wanted, str(value))
    try:
        text = (_EPOCH + timedelta(microseconds=value)).isoformat(timespec="microseconds")
    except OverflowError:
        raise _unknown(name, watch, "its value is no time of this age", "look at the rows: one is wrong") from None
    return Observation(watch.strategy, wanted, text, value / 1_000_000 if wanted == "timestamp" else None)


def _unknown(name: str, watch: Watch, what: str, hint: str) -> FreshnessUnknown:
    return FreshnessUnknown(f"nobody can tell how fresh {name} is: {what}", at=watch.at, hint=hint)


def _iso(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="microseconds")
