"""Two builds that make one table at the same time: the one that comes second looks again at what the first has made.

What the other build made from the same versions is taken over. What it made from older ones is where this build goes
on from. What it made from newer ones stays: this build leaves the table, and what is below it, and `sqb.build.rounds`
looks at those again with the versions of that time. Only what no build of this project made is a conflict: rows that
something else wrote, or a definition that this build does not know.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from sqb.build.events import NodeDone
from sqb.build.observe import standing_of
from sqb.compiled import Node
from sqb.errors import Conflict, SqbError
from sqb.lake.port import TableState
from sqb.plan.decide import make_plan
from sqb.plan.observed import Standing, Version, same_version, versions_read
from sqb.plan.values import PlannedNode, Reason

if TYPE_CHECKING:
    from sqb.build.run import Build

# Each conflict is a commit of another build, which does not come back to the same table.
_TRIES = 12
# For a moment there may be nothing at a name that another build puts something else at.
_LOOKS, _PAUSE = 5, 0.2

_MADE = "another build has made it meanwhile"
OVERTAKEN = "another build has made it from newer versions"


def take_turn(build: Build, planned: PlannedNode, take: Callable[[PlannedNode], NodeDone]) -> NodeDone:
    """Let a node have its turn; where another build was faster, with what that one has left."""
    done = take(planned)
    node = build.project.nodes[planned.name]
    for _ in range(_TRIES):
        if done.status != "failed" or not isinstance(done.error, Conflict):
            break
        state = _look_again(build, node)
        if state is None or _is_foreign(build, node, state):
            break
        again = _plan_again(build, node, state)
        if again is None:
            break
        if again.action == "skip" or again.reason is Reason.HOOKS_MISSING:
            _take_over(build, node, state)
            build.tests.renew(planned.name, dict(build.states))
            return NodeDone(planned, "skipped", "skip", _MADE)
        if _is_ahead(build, node, standing_of(state)):
            if build.workspace.virtual.enabled:
                break
            return build.leave(NodeDone(planned, "skipped", "skip", OVERTAKEN, skip="hard"))
        if again.action != "run":
            break
        _take_over(build, node, state)
        done = take(again)
    return done


def _look_again(build: Build, node: Node) -> TableState | None:
    """What stands at the node's relation now; None when there is nothing, or the lake does not tell."""
    for look in range(_LOOKS):
        try:
            pointer = build.lake.pointers().get(node.relation)
            if pointer is not None:
                return build.lake.tables([pointer])[node.relation]
        except SqbError:
            return None
        if look + 1 < _LOOKS:
            time.sleep(_PAUSE)
    return None


def _is_foreign(build: Build, node: Node, state: TableState) -> bool:
    """Whether what stands was not left by a build of this definition, or of the one that stood before this build."""
    if state.drifted or not state.identity:
        return True
    observed = build.look.observed
    theirs = standing_of(state).local_hash
    if node.local_hash in (theirs, observed.renewed.get(theirs)):
        return False
    before = observed.relations.get(node.relation)
    return before is None or before.local_hash != theirs


def _plan_again(build: Build, node: Node, state: TableState) -> PlannedNode | None:
    """What is to be done with the node now that another build has written to its table."""
    with build.lock:
        relations = {**build.relations, node.relation: standing_of(state)}
    options = replace(build.plan.options, selected=frozenset((node.name,)))
    plan = make_plan(build.project, replace(build.look.observed, relations=relations), options)
    return next((n for n in plan.nodes if n.name == node.name), None)


def _take_over(build: Build, node: Node, state: TableState) -> None:
    with build.lock:
        build.states[node.relation] = state
        build.relations[node.relation] = standing_of(state)


def _is_ahead(build: Build, node: Node, standing: Standing) -> bool:
    """Whether the other build has read a later version than this one of anything: nothing goes back to earlier ones."""
    with build.lock:
        relations = dict(build.relations)
    for one, version in versions_read(node, build.project, relations):
        then = standing.sources.get(one.key)
        if one.relation is None or one.view or not then or same_version(then, version):
            continue
        if version.definition is None and _is_later(build, one.name, then[0], version):
            return True
    return False


def _is_later(build: Build, name: str, theirs: int | None, version: Version) -> bool:
    """Whether a snapshot of a table came after the version that this build reads; also where that cannot be told."""
    node = build.project.nodes.get(name)
    relation = node.relation if node is not None else build.externals.get(name, build.project.externals[name].relation)
    # Newest first.
    order = [s.id for s in build.lake.lineage(relation)]
    if theirs not in order:
        # It was empty then, or what was read is not a past of the table any more.
        return theirs is not None and version.snapshot_id not in order
    return version.snapshot_id not in order or order.index(theirs) < order.index(version.snapshot_id)
