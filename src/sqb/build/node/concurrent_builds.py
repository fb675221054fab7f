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

from sqb.build.context import BuildContext
from sqb.build.events import NodeDone
from sqb.build.observe.lake import build_relation_state
from sqb.compile.model import Node
from sqb.errors.base import SqbError
from sqb.errors.lake import Conflict
from sqb.lake.port import Relations, TableState
from sqb.names import Relation
from sqb.plan.decide import make_plan
from sqb.plan.model import PlannedNode, Reason
from sqb.plan.observed import RelationState, Version, is_same_version, list_versions_read

# Each conflict is a commit of another build, which does not come back to the same table.
MAX_TRIES = 12
# For a moment there may be nothing at a name that another build puts something else at.
_LOOKS, _PAUSE = 5, 0.2

_MADE_MEANWHILE = "another build has made it meanwhile"
OVERTAKEN = "another build has made it from newer versions"


def run_node(build: BuildContext, planned: PlannedNode, run: Callable[[PlannedNode], NodeDone]) -> NodeDone:
    """Build a node; after a conflict with another build, again on the table that the other build has left."""
    done = run(planned)
    node = build.project.nodes[planned.name]
    for _ in range(MAX_TRIES):
        if done.status != "failed" or not isinstance(done.error, Conflict):
            break
        state = reread_state(build.lake, node.relation)
        if state is None or _is_foreign(build, node, state):
            break
        again = _replan_node(build, node, state)
        if again is None:
            break
        if again.action == "skip" or again.reason is Reason.HOOKS_MISSING:
            build.state.adopt_states({node.relation: state})
            build.tests.rerun_changed(planned.name, dict(build.state.states))
            return NodeDone(planned, "skipped", "skip", _MADE_MEANWHILE)
        if _has_read_newer(build, node, build_relation_state(state)):
            return build.state.mark_overtaken(NodeDone(planned, "skipped", "skip", OVERTAKEN, skip="hard"))
        if again.action != "run":
            break
        build.state.adopt_states({node.relation: state})
        done = run(again)
    return done


def reread_state(lake: Relations, relation: Relation) -> TableState | None:
    """Read the current state of a relation; None when there is none, or the lake cannot be read."""
    for attempt in range(_LOOKS):
        try:
            pointer = lake.list_pointers().get(relation)
            if pointer is not None:
                return lake.read_tables([pointer])[relation]
        except SqbError:
            return None
        if attempt + 1 < _LOOKS:
            time.sleep(_PAUSE)
    return None


def _is_foreign(build: BuildContext, node: Node, state: TableState) -> bool:
    """Whether the table was built neither from this definition nor from the one that was current before this build."""
    if state.drifted or not state.identity:
        return True
    if build.workspace.virtual.enabled:
        # The table of a version is that version, or what another environment begins it with.
        return False
    observed = build.lake_state.observed
    other_hash = build_relation_state(state).local_hash
    if node.local_hash in (other_hash, observed.renewed_hashes.get(other_hash)):
        return False
    before = observed.relations.get(node.relation)
    return before is None or before.local_hash != other_hash


def _replan_node(build: BuildContext, node: Node, state: TableState) -> PlannedNode | None:
    """What is to be done with the node now that another build has written to its table."""
    relations = {**build.state.copy_relations(), node.relation: build_relation_state(state)}
    options = replace(build.plan.options, selected=frozenset((node.name,)))
    plan = make_plan(build.project, replace(build.lake_state.observed, relations=relations), options)
    return next((n for n in plan.nodes if n.name == node.name), None)


def _has_read_newer(build: BuildContext, node: Node, current: RelationState) -> bool:
    """Whether the other build has read a later version than this one of anything: nothing goes back to earlier ones."""
    for upstream_input, version in list_versions_read(node, build.project, build.state.copy_relations()):
        then = current.sources.get(upstream_input.key)
        if upstream_input.relation is None or upstream_input.view or then is None or is_same_version(then, version):
            continue
        if version.definition is None and _is_later(build, upstream_input.name, then.snapshot_id, version):
            return True
    return False


def _is_later(build: BuildContext, name: str, other_snapshot: int | None, version: Version) -> bool:
    """Whether a snapshot of a table came after the version that this build reads; also where that is unknown."""
    node = build.project.nodes.get(name)
    relation = (
        node.relation if node is not None else build.state.externals.get(name, build.project.externals[name].relation)
    )
    # Newest first.
    order = [s.id for s in build.lake.read_lineage(relation)]
    if other_snapshot not in order:
        # It was empty then, or what was read is not a past of the table any more.
        return other_snapshot is not None and version.snapshot_id not in order
    return version.snapshot_id not in order or order.index(other_snapshot) < order.index(version.snapshot_id)
