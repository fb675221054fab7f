"""A build and what follows it: nodes that other builds overtook are looked at again, with the versions of that time.

A build reads every source at one version. Where another build has made a table from newer ones, that table stays, and
what is below it would mix versions: both are left. When all else is done, one more round looks at them again: mostly
the other build has made them by then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqb.build.events import NodeDone, Notice
from sqb.build.node.concurrent_builds import OVERTAKEN
from sqb.build.observe.lake import LakeState
from sqb.build.result import BuildResult, generate_run_id
from sqb.build.scheduler import Build
from sqb.errors.base import SqbError
from sqb.lake.port import build_conflict
from sqb.plan.model import Plan, Reason

# Looks at the lake again and plans these nodes.
Replan = Callable[[frozenset[str]], tuple[LakeState, Plan]]

# Every round that leaves something was overtaken by a build that began later than it.
_ROUNDS = 5


def run_rounds(build: Build, replan: Replan) -> tuple[BuildResult, Build]:
    """Carry a build out, and again for what other builds overtook; also the build whose states are the latest."""
    result = build.run()
    for _ in range(_ROUNDS):
        overtaken = build.state.overtaken
        if not overtaken or build.is_stopping():
            break
        try:
            lake_state, plan = replan(overtaken)
            settings = replace(build.settings, run_id=generate_run_id(), continues=True)
            again = Build(build.workspace, build.lake, lake_state, plan, build.engine, settings, build.listen)
            result = _merge_results(result, again.run(), overtaken)
        except SqbError as error:
            build.listen(Notice(f"nodes that other builds overtook could not be checked again: {error.message}"))
            break
        again.state.inherit_states(build.state)
        build = again
    if build.workspace.virtual.enabled and build.state.overtaken:
        # What an environment shows fits together: it waits for a build that is not overtaken.
        result = replace(
            result,
            nodes=tuple(_mark_given_up(n, build) if n.name in build.state.overtaken else n for n in result.nodes),
        )
    for done in result.nodes:
        if done.name in build.state.overtaken:
            build.listen(done)
    return result, build


def _mark_given_up(done: NodeDone, build: Build) -> NodeDone:
    """A node of an environment that other builds have overtaken until the end."""
    if done.detail != OVERTAKEN:
        planned = replace(done.planned, reason=Reason.UPSTREAM_FAILED)
        return replace(done, planned=planned, status="blocked", skip="")
    relation = build.project.nodes[done.name].relation
    error = build_conflict(relation, "other builds have made it from newer versions than this one has read")
    return replace(done, status="failed", run_type=done.planned.run_type, error=error, skip="")


def _merge_results(first: BuildResult, second: BuildResult, overtaken: frozenset[str]) -> BuildResult:
    """What became of all nodes: of those that were left, what the second round made of them."""
    later = {n.name: _mark_overtaken(n) for n in second.nodes if n.name in overtaken}
    return replace(
        first,
        nodes=tuple(later.get(n.name, n) for n in first.nodes),
        seconds=first.seconds + second.seconds,
        spark_started=first.spark_started or second.spark_started,
        interrupted=first.interrupted or second.interrupted,
    )


def _mark_overtaken(done: NodeDone) -> NodeDone:
    """A node that the second look finds made already was made by the build that overtook this one."""
    return replace(done, detail=OVERTAKEN) if done.status == "skipped" and done.planned.action == "skip" else done
