"""A build and what follows it: nodes that other builds overtook are looked at again, with the versions of that time.

A build reads every source at one version. Where another build has made a table from newer ones, that table stays, and
what is below it would mix versions: both are left. When all else is done, one more round looks at them again: mostly
the other build has made them by then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqb.build.contention import OVERTAKEN
from sqb.build.events import NodeDone, Notice
from sqb.build.observe import Look
from sqb.build.result import BuildResult
from sqb.build.run import Build
from sqb.build.run_id import new_run_id
from sqb.errors import SqbError
from sqb.plan.values import Plan

# Looks at the lake again and plans these nodes.
LookAgain = Callable[[frozenset[str]], tuple[Look, Plan]]

# Every round that leaves something was overtaken by a build that began later than it.
_ROUNDS = 5


def run_rounds(build: Build, look_again: LookAgain) -> tuple[BuildResult, Build]:
    """Carry a build out, and again for what other builds overtook; also the build whose states are the latest."""
    result = build.run()
    for _ in range(_ROUNDS):
        left = frozenset(build.left)
        if not left or build.is_stopping():
            break
        try:
            seen, plan = look_again(left)
            settings = replace(build.settings, run_id=new_run_id(), continues=True)
            again = Build(build.workspace, build.lake, seen, plan, build.engine, settings, build.listen)
            result = _joined(result, again.run(), left)
        except SqbError as error:
            build.listen(Notice(f"what other builds have overtaken could not be looked at again: {error.message}"))
            break
        again.states = {**build.states, **again.states}
        build = again
    for done in result.nodes:
        if done.name in build.left:
            build.listen(done)
    return result, build


def _joined(first: BuildResult, second: BuildResult, left: frozenset[str]) -> BuildResult:
    """What became of all nodes: of those that were left, what the second round made of them."""
    later = {n.name: _told(n) for n in second.nodes if n.name in left}
    return replace(
        first,
        nodes=tuple(later.get(n.name, n) for n in first.nodes),
        seconds=first.seconds + second.seconds,
        spark_started=first.spark_started or second.spark_started,
        interrupted=first.interrupted or second.interrupted,
    )


def _told(done: NodeDone) -> NodeDone:
    """A node that the second look finds made already was made by the build that overtook this one."""
    return replace(done, detail=OVERTAKEN) if done.status == "skipped" and done.planned.action == "skip" else done
