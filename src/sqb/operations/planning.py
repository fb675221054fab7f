"""A plan and everything that it was made from; what `sqb plan` shows of it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqb.build.asking import Asker
from sqb.build.freshness import observed_sources
from sqb.build.noticed import settings_notice
from sqb.build.observe import Look, look, open_lake
from sqb.build.recovery import unrecorded
from sqb.compiled import Project
from sqb.graph import select
from sqb.lake.iceberg import IcebergLake
from sqb.lake.port import TableState
from sqb.names import Relation, human_age
from sqb.operations.environment import Narrowed, look_at, reckoning, refuse_conflicts, versioned
from sqb.operations.window import refuse_bad_window
from sqb.plan.decide import make_plan
from sqb.plan.defer import deferred
from sqb.plan.values import Options, Plan
from sqb.workspace import Workspace

# Machines that set their clocks by the network differ by far less.
_CLOCKS_AGREE = 60.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be planned: the nodes as they were selected, and how much of them."""

    select: Sequence[str] = ()
    exclude: Sequence[str] = ()
    force: bool = False
    full_refresh: bool = False
    start_cursor: str | None = None
    end_cursor: str | None = None

    def names(self, project: Project) -> frozenset[str] | None:
        """The names of the nodes that are selected; None for all of them."""
        edges = project.edges() if project.python else None
        chosen = select(project.graph, project.externals, self.select, self.exclude, edges)
        return None if chosen.everything else chosen.names

    def of(self, names: frozenset[str] | None) -> Options:
        """The same of nodes that have been found."""
        return Options(names, self.force, self.full_refresh, self.start_cursor, self.end_cursor)


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, and everything that it was made from."""

    workspace: Workspace
    lake: IcebergLake
    seen: Look
    plan: Plan
    asker: Asker
    # The look in which new versions stand as what they begin as.
    reckoned: Look


def plan_workspace(workspace: Workspace, wanted: Wanted, asker: Asker, narrowed: Narrowed = Narrowed()) -> Planned:
    """Plan what is wanted; `asker` is Spark for questions that nothing cheaper answers, and is stopped on errors."""
    entered = narrowed.entered
    try:
        if entered is not None:
            workspace = entered.workspace
        project = workspace.project
        names = narrowed.names(wanted.names(project))
        refuse_conflicts(entered, names)
        lake: IcebergLake = entered.lake if entered is not None else open_lake(workspace)
        seen, priors = look_at(entered, workspace, lake)
        seen = with_dbt_contents(seen, lake, project)
        seen = observed_sources(workspace, lake, seen, asker.session, names)
        options = wanted.of(names)
        refuse_bad_window(project, options)
        workspace = replace(workspace, project=deferred(project, seen.observed, options.selected))
        plan = versioned(entered, make_plan(workspace.project, seen.observed, options), seen, priors)
        said = (*clock_warnings(seen.states, time.time()), *settings_notice(workspace, seen, plan))
        plan = replace(plan, warnings=(*plan.warnings, *said))
        reckoned = reckoning(entered, seen, priors)
        if not plan.nothing_to_do:
            from sqb.build.sizing import sized  # reads queries, which nothing unchanged needs

            plan = sized(plan, workspace, lake, reckoned)
    except BaseException:
        asker.stop_asked.set()
        asker.stop()
        raise
    return Planned(workspace, lake, seen, plan, asker, reckoned)


def plan_again(made: Planned, names: frozenset[str]) -> tuple[Look, Plan]:
    """Plan some of the nodes again, after another look at the lake; not for environments."""
    workspace, lake, project = made.workspace, made.lake, made.workspace.project
    seen = with_dbt_contents(look(workspace, lake), lake, project)
    seen = observed_sources(workspace, lake, seen, made.asker.session, names)
    return seen, make_plan(project, seen.observed, replace(made.plan.options, selected=names))


def with_dbt_contents(seen: Look, lake: IcebergLake, project: Project) -> Look:
    """What stands, with what is known of the rows that dbt left in tables that the project reads."""
    names = {e.name: e.name for e in project.externals.values() if e.dbt}
    if not names:
        return seen
    from sqb.dbt.contents import with_contents  # only projects beside dbt need it

    return with_contents(seen, lake, names)


def clock_warnings(states: Mapping[Relation, TableState], now: float) -> list[str]:
    """What is to be said where tables were written later than it is here: then ages and windows of time are wrong."""
    ahead = [(s.made_ms / 1000 - now, relation) for relation, s in states.items() if s.made_ms is not None]
    most, relation = max(ahead, default=(0.0, None), key=lambda one: one[0])
    if most <= _CLOCKS_AGREE:
        return []
    return [f"{relation} was written {human_age(most)} from now by the clock of whoever wrote it: check the clocks"]


def to_be_shown(made: Planned) -> Plan:
    """The plan with what only readers of it need: how much data changed, and the history that a kill left out."""
    workspace, lake, plan = made.workspace, made.lake, made.plan
    if missing := unrecorded(workspace, lake, made.seen.states).text:
        plan = replace(plan, warnings=(*plan.warnings, f"{missing}; the next build writes it"))
    if not plan.nothing_to_do:
        from sqb.build.cursor_origin import with_lost_history
        from sqb.build.data_changes import with_changes  # reads metadata files, which nothing unchanged needs

        plan = with_changes(plan, workspace.project, lake, made.reckoned)
        plan = with_lost_history(plan, workspace.project, lake, made.reckoned)
    return plan
