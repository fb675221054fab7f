"""Observing sources: the version of each one's data, in the cheapest way that is exact.

Versions of tables and files are known without Spark. The greatest value of a column is looked for in the statistics of
the table's files; only what these do not hold, and queries, go to Spark. An answer is cached for as long as
the inputs of the answer are the same.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from sqb.build.observe.files import register_listing
from sqb.build.observe.lake import LakeState
from sqb.cache import codec
from sqb.compile.model import Project
from sqb.compile.source_model import DeclaredSource, Watch
from sqb.errors.base import Errors, SqbError
from sqb.errors.sources import ClockBackwards, FreshnessUnknown
from sqb.graph import find_reachable
from sqb.identity import digest
from sqb.lake.port import Lake, NotInStatistics, Pointer
from sqb.lake.state.rows import FreshnessRow
from sqb.names import parse_duration
from sqb.plan.freshness import POLICY, Observation, RecordedFreshness, add_freshness, build_source_version
from sqb.plan.observed import Observed, RelationState, list_inputs_of_names
from sqb.workspace import Workspace

Session = Callable[[], Any]
_MAX_CONCURRENT = 4
# Clocks of two machines differ a little; more than this is a clock that was set back.
_SKEW_SECONDS = 300.0
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ObservationResult:
    """What was observed, and why the rest could not be."""

    observations: Mapping[str, Observation]
    failed: Mapping[str, SqbError]


@dataclass(frozen=True, slots=True)
class _Answer:
    """Spark's answer about a source, and what stands for everything that it depends on."""

    stamp: str
    observation: Observation


def observe_sources(
    workspace: Workspace,
    lake: Lake,
    lake_state: LakeState,
    session: Session,
    selected: Collection[str] | None = None,
) -> LakeState:
    """The look with the freshness of the sources above the selected nodes, and which of them could not be observed."""
    project = workspace.project
    names = _list_sources_above(selected, project)
    lake_state = add_function_versions(workspace, lake_state, names)
    # A table that a loader of this build is about to fill is not judged by its previous rows.
    running = {fills for fills, loader in project.loaders.items() if selected is None or loader in selected}
    names = [name for name in names if name not in running]
    if not _is_freshness_needed(project, names):
        return lake_state
    result = observe_names(project, lake, lake_state, names, session)
    errors = Errors()
    for error in result.failed.values():
        if not isinstance(error, FreshnessUnknown):
            errors.add(error)
    errors.raise_any()
    now = time.time()
    recorded = read_recorded_freshness(project, lake, now)
    observed = add_freshness(project, lake_state.observed, result.observations, recorded, now)
    return replace(lake_state, observed=_add_unknown(observed, result.failed, lake_state))


def _add_unknown(observed: Observed, failed: Mapping[str, SqbError], lake_state: LakeState) -> Observed:
    """What could not be observed may have changed: its readers run. What is not there yet blocks them."""
    if not failed:
        return observed
    why = {name: f"{error.at}: {error.message}" if error.at else error.message for name, error in failed.items()}
    existing = lake_state.externals.keys() | lake_state.files.keys()
    missing = {name: failed[name].message for name in why if name not in existing}
    unknown = {name: text for name, text in why.items() if name in existing}
    return replace(observed, unversioned={**observed.unversioned, **missing}, unknown=unknown)


def _list_sources_above(selected: Collection[str] | None, project: Project) -> list[str]:
    if selected is None:
        return list(project.externals)
    upstream: dict[str, Iterable[str]] = {n.name: n.upstream for n in project}
    upstream |= {s.name: s.expression.reads for s in project.sources.values() if s.expression is not None}
    above = find_reachable(selected, upstream)
    return [name for name in project.externals if name in above]


def _is_freshness_needed(project: Project, names: Iterable[str]) -> bool:
    """Whether the plan depends on freshness at all; versions of data are known without it."""
    if any(_has_duration(n.settings.get(POLICY)) for n in project):
        return True
    watches = (project.sources[n].watch for n in names if n in project.sources)
    return any(w is not None and (w.has_values or w.warn_after or w.error_after) for w in watches)


def _has_duration(policy: object) -> bool:
    return isinstance(policy, str) and parse_duration(policy) is not None


def read_recorded_freshness(project: Project, lake: Lake, now: float) -> dict[str, RecordedFreshness]:
    """The latest recorded observation of each source, whichever schema it was recorded in."""
    latest: dict[str, FreshnessRow] = {}
    for row in lake.state.read_freshness(project.schemas).values():
        latest_row = latest.get(row.source_name)
        if latest_row is None or row.observed_at > latest_row.observed_at:
            latest[row.source_name] = row
    recorded = {
        name: RecordedFreshness(r.strategy, r.value_kind, r.data_version, r.observed_at.timestamp(), r.run_id)
        for name, r in latest.items()
    }
    for name, last in recorded.items():
        if last.observed_at > now + _SKEW_SECONDS:
            then, here = _format_iso(last.observed_at), _format_iso(now)
            raise ClockBackwards(
                f"{name} was last observed at {then}, but the clock of this machine says {here}",
                hint="set the clock right; the age of a source is unknown after a clock went backwards",
            )
    return recorded


def observe_names(
    project: Project, lake: Lake, lake_state: LakeState, names: Iterable[str], session: Session
) -> ObservationResult:
    """The version of the data of each source that is observed; expressions are not, what they read is."""
    observations: dict[str, Observation] = {}
    failed: dict[str, SqbError] = {}
    questions: dict[str, Watch] = {}
    for name in names:
        source = project.sources.get(name)
        if source is not None and not source.is_observed:
            continue
        if name in project.loaders and name not in lake_state.externals:
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
        observation = _observe_version(name, watch, lake_state)
        if observation is not None:
            observations[name] = observation
        elif source is not None and source.watch is not None:
            failed[name] = _build_unversioned_error(source)
    answered, unanswered = _observe_values(project, lake, lake_state, questions, session)
    return ObservationResult({**observations, **answered}, {**failed, **unanswered})


def _observe_version(name: str, watch: Watch, lake_state: LakeState) -> Observation | None:
    """The version of a table or of files, and since when it has been so; None where it has none."""
    if name in lake_state.files:
        listing = lake_state.files[name]
        kind, value, moment = "listing", listing.version, listing.modified_at
    else:
        state = lake_state.states[lake_state.externals[name]]
        if state.is_view:
            return None
        rows_from = state.same_rows[-1] if state.same_rows else state.snapshot_id
        kind, value = "snapshot", str(rows_from) if rows_from is not None else "empty"
        moment = state.rows_ms / 1000 if state.rows_ms is not None else None
    if watch.kind == "timestamp":
        return Observation("adapter", "timestamp", _format_iso(moment), moment) if moment is not None else None
    return Observation("adapter", kind, value, moment)


def _build_unversioned_error(source: DeclaredSource) -> FreshnessUnknown:
    return FreshnessUnknown(
        f"sqb cannot see how fresh {source.name} is: it is empty, or a view that sqb did not build",
        at=source.at,
        hint="use the strategy `column` or `sql`",
    )


# --- values -----------------------------------------------------------------------------------------------------------


def _observe_values(
    project: Project, lake: Lake, lake_state: LakeState, questions: Mapping[str, Watch], session: Session
) -> tuple[dict[str, Observation], dict[str, SqbError]]:
    stamps = {name: _compute_stamp(watch, project, lake_state) for name, watch in questions.items()}
    observations = _read_cached(lake, stamps)
    failed: dict[str, SqbError] = {}
    raw = {}
    for name in questions.keys() - observations.keys():
        with_bounds = _read_statistics(name, questions[name], project, lake, lake_state)
        if with_bounds is not None:
            raw[name] = with_bounds
    open_ = [name for name in questions if name not in observations and name not in raw]
    raw |= _query_spark(open_, questions, project, lake_state, session) if open_ else {}
    for name, answer in raw.items():
        try:
            observations[name] = _parse_observation(name, questions[name], answer)
        except SqbError as error:
            failed[name] = error
    _write_cached(lake, {name: observations[name] for name in raw if name in observations}, stamps)
    return {name: observations[name] for name in questions if name in observations}, failed


# The kind of a value, and how many columns and which values it has: times as microseconds, all else as text.
Raw = tuple[str, int, tuple[Any, ...]] | SqbError


def _compute_stamp(watch: Watch, project: Project, lake_state: LakeState) -> str | None:
    """What an answer depends on; None when it may change by itself."""
    if watch.query is None or watch.query.volatile:
        return None
    parts = [watch.token]
    for upstream_input in list_inputs_of_names(watch.query.reads, project):
        if upstream_input.name in lake_state.files:
            parts.append(lake_state.files[upstream_input.name].version)
        elif (
            upstream_input.name in lake_state.locations
            and not lake_state.states[lake_state.externals[upstream_input.name]].is_view
        ):
            parts.append(lake_state.locations[upstream_input.name])
        elif upstream_input.name in project.sources and project.sources[upstream_input.name].expression is not None:
            parts.append(project.sources[upstream_input.name].token)
        else:
            return None
    return digest(*parts)


def _read_cached(lake: Lake, stamps: Mapping[str, str | None]) -> dict[str, Observation]:
    observations: dict[str, Observation] = {}
    for name, text in lake.get_cached_answers(stamps).items():
        with suppress(codec.Undecodable):
            answer = codec.decode(_Answer, text)
            if answer.stamp == stamps[name]:
                observations[name] = answer.observation
    return observations


def _write_cached(lake: Lake, observations: Mapping[str, Observation], stamps: Mapping[str, str | None]) -> None:
    if observations:
        answers = {n: _Answer(stamp, o) for n, o in observations.items() if (stamp := stamps[n]) is not None}
        lake.cache_answers({name: codec.encode(answer) for name, answer in answers.items()})


def _read_statistics(name: str, watch: Watch, project: Project, lake: Lake, lake_state: LakeState) -> Raw | None:
    """The greatest value of a column where the statistics of the table's files tell it; None where they do not."""
    if watch.strategy != "column" or watch.column is None or name not in lake_state.locations:
        return None
    if lake_state.states[lake_state.externals[name]].is_view:
        return None
    try:
        pointer = Pointer(lake_state.externals[name], lake_state.locations[name])
        value = lake.read_column_maximum(pointer, watch.column, watch.filter)
    except NotInStatistics:
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


def _query_spark(
    names: list[str], questions: Mapping[str, Watch], project: Project, lake_state: LakeState, session: Session
) -> dict[str, Raw]:
    """The answers of Spark, several at once."""
    from concurrent.futures import ThreadPoolExecutor  # what nothing unchanged needs

    from sqb.build.node.render import build_pinned_names, format_source_query

    session()  # what keeps Spark from starting is reported once
    text_of = build_pinned_names(
        project, lake_state.catalog, lake_state.externals, lake_state.states.get, lake_state.files
    )

    def answer(name: str) -> Raw:
        from sqb.spark.data.frames import query_scalar  # Spark is there by now
        from sqb.spark.errors import explain_failure

        watch = questions[name]
        assert watch.query is not None
        sql = format_source_query(watch.query, text_of)
        try:
            for item in list_inputs_of_names(watch.query.reads, project):
                if item.name in lake_state.files:
                    register_listing(session(), lake_state.files[item.name])
            answered = query_scalar(session(), sql)
        except SqbError as error:
            error.at = error.at or watch.at
            return error
        except Exception as error:
            failure = explain_failure(error, sql)
            return FreshnessUnknown(
                f"the freshness of {name} cannot be read: {failure.message}", at=watch.at, hint=failure.hint
            )
        return answered.kind, answered.columns, answered.values

    with ThreadPoolExecutor(_MAX_CONCURRENT) as pool:
        return dict(zip(names, pool.map(answer, names), strict=True))


def _parse_observation(name: str, watch: Watch, raw: Raw) -> Observation:
    """An answer as an observation; raises when it is not one value of the declared type."""
    if isinstance(raw, SqbError):
        raise raw
    kind, columns, values = raw
    if columns != 1:
        raise _build_unknown_error(
            name, watch, f"its query returns {columns} columns", "select one value, such as max(ts)"
        )
    if len(values) != 1:
        row_count = "no row" if not values else "more than one row"
        raise _build_unknown_error(
            name, watch, f"its query returns {row_count}", "it must return one row: aggregate it, with max()"
        )
    value = values[0]
    if value is None:
        problem = f"max({watch.column}) is NULL" if watch.strategy == "column" else "its query returns NULL"
        hint = "it has no rows, or none with a value, that the filter lets through" if watch.filter else None
        raise _build_unknown_error(
            name, watch, problem, hint or "there is no row with a value yet: fill it, or use the strategy adapter"
        )
    expected_kind = watch.kind or kind
    if expected_kind != "string" and expected_kind != kind:
        message = f"`type` is {expected_kind}, but the value is of the type {kind}"
        raise _build_unknown_error(
            name, watch, message, f"write `type: {kind}`, or cast it in a query with the strategy sql"
        )
    if kind != "timestamp":
        return Observation(watch.strategy, expected_kind, str(value))
    try:
        text = (_EPOCH + timedelta(microseconds=value)).isoformat(timespec="microseconds")
    except OverflowError:
        raise _build_unknown_error(
            name, watch, "its value is not a plausible time", "look at the rows: one is wrong"
        ) from None
    return Observation(watch.strategy, expected_kind, text, value / 1_000_000 if expected_kind == "timestamp" else None)


def _build_unknown_error(name: str, watch: Watch, what: str, hint: str) -> FreshnessUnknown:
    return FreshnessUnknown(f"the freshness of {name} is unknown: {what}", at=watch.at, hint=hint)


def _format_iso(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="microseconds")


# The longest that a plan waits for table functions.
WAIT_SECONDS = 60.0


def add_function_versions(workspace: Workspace, lake_state: LakeState, names: Iterable[str]) -> LakeState:
    """Add the versions of the table functions among these sources to the lake state, or why a version is unknown."""
    declared = (workspace.project.sources.get(name) for name in names)
    versioned_sources = [s for s in declared if s is not None and s.function is not None and s.function.versioned]
    if not versioned_sources:
        return lake_state
    relations, unknown_versions = dict(lake_state.observed.relations), dict(lake_state.observed.unversioned)
    for name, answer in read_function_versions(workspace.root, versioned_sources).items():
        if "version" in answer:
            source = workspace.project.sources[name]
            relations[source.relation] = RelationState(version=build_source_version(answer["version"]))
        else:
            unknown_versions[name] = f"the version of {name}() is unknown: {answer['error']}"
    return replace(lake_state, observed=replace(lake_state.observed, relations=relations, unversioned=unknown_versions))


def read_function_versions(
    root: Path, sources: Iterable[DeclaredSource], wait: float = WAIT_SECONDS
) -> dict[str, Mapping[str, str]]:
    """What each table function says: its `version`, or the `error` that kept it from saying it."""
    requests = [[s.name, s.function.file, s.function.symbol] for s in sources if s.function is not None]
    child = subprocess.Popen(
        # The working directory is not a place to import from.
        [sys.executable, "-P", "-m", "sqb.python_runtime.version_worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=root,
        text=True,
        start_new_session=True,
    )
    ended = ""
    try:
        answers, _ = child.communicate(json.dumps({"root": str(root), "functions": requests}), wait)
    except subprocess.TimeoutExpired:
        with suppress(OSError):
            os.killpg(child.pid, signal.SIGKILL)
        answers, _ = child.communicate()
        ended = f"it takes longer than {wait:g} seconds"
    except BaseException:
        with suppress(OSError):
            os.killpg(child.pid, signal.SIGKILL)
        raise
    versions: dict[str, Mapping[str, str]] = {}
    for line in (answers or "").splitlines():
        name, answer = json.loads(line)
        versions[name] = answer
    ended = ended or f"its process ended without an answer (exit code {child.returncode})"
    return {name: versions.get(name, {"error": ended}) for name, _, _ in requests}
