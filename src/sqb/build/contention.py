"""Two builds that make one table at the same time: the second one looks again, and takes over what the first has made.

Environments share the tables of the versions that they have in common. So that somebody else has written to such a
table since this build looked is no accident there: it is the same work, done once already, or a step of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from sqb.build.events import NodeDone
from sqb.build.observe import standing_of
from sqb.compiled import Node
from sqb.errors import Conflict
from sqb.lake.port import TableState
from sqb.plan.decide import make_plan
from sqb.plan.observed import Standing, versions_read
from sqb.plan.values import PlannedNode

if TYPE_CHECKING:
    from sqb.build.run import Build

_TRIES = 3


def take_turn(build: Build, planned: PlannedNode, take: Callable[[PlannedNode], NodeDone]) -> NodeDone:
    """Let a node have its turn; where another build was faster, with what that one has left."""
    done = take(planned)
    tries = _TRIES if build.workspace.virtual.enabled else 0
    while tries and done.status == "failed" and isinstance(done.error, Conflict):
        tries -= 1
        again = _planned_again(build, planned)
        if again is None:
            break
        if again.action != "run":
            build.tests.renew(planned.name, dict(build.states))
            return NodeDone(planned, "skipped", "skip", "another build has made it meanwhile")
        done = take(again)
    return done


def _planned_again(build: Build, planned: PlannedNode) -> PlannedNode | None:
    """What is to be done with the node now that another build has written to its table; None if nobody can tell."""
    node = build.project.nodes[planned.name]
    state = _there(build, node)
    if state is None or state.drifted or _is_ahead(build, node, standing_of(state)):
        return None
    with build.lock:
        build.states[node.relation] = state
        build.relations[node.relation] = standing_of(state)
        observed = replace(build.look.observed, relations=dict(build.relations))
    options = replace(build.plan.options, selected=frozenset((node.name,)))
    plan = make_plan(build.project, observed, options)
    return next((n for n in plan.nodes if n.name == node.name), None)


def _there(build: Build, node: Node) -> TableState | None:
    pointer = build.lake.pointers().get(node.relation)
    return build.lake.tables([pointer])[node.relation] if pointer is not None else None


def _is_ahead(build: Build, node: Node, standing: Standing) -> bool:
    """Whether the other build has read later versions than this one: nothing goes back to earlier ones."""
    with build.lock:
        relations = dict(build.relations)
    for one, version in versions_read(node, build.project, relations):
        then = standing.sources.get(one.key)
        if one.relation is None or one.view or not then or then[0] == version.snapshot_id:
            continue
        # Newest first.
        order = [s.id for s in build.lake.lineage(build.externals.get(one.name, one.relation))]
        later = order[: order.index(version.snapshot_id)] if version.snapshot_id in order else []
        if then[0] in later:
            return True
    return False
