"""A node taken over from another target: its rows shared or copied, and then what changed since on top.

The baseline is published by itself: it is exactly what its commit says it was made from, and it has passed its checks.
A build that ends before the changes are on it leaves it so, and the next one goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from sqb.build.checking import NONE, Passed, check_rows
from sqb.build.observe import said_of, standing_of
from sqb.build.render import pinned
from sqb.build.turn import Outcome, Turn
from sqb.compiled import Node
from sqb.lake.port import TableState, conflict
from sqb.names import Relation, quote
from sqb.plan.cascade import REPLAYS, SEEN
from sqb.plan.observed import (
    HOOKS,
    Input,
    Standing,
    Version,
    changed_inputs,
    record_sources,
    recorded_version,
    same_version,
)
from sqb.plan.reuse import checks_hold
from sqb.plan.values import PlannedNode, Reason, Reuse

# Kinds whose rows of before stay, however the changes since were found.
_KEEPS_ROWS = frozenset({"append", "scd2", "incremental"})

# What a commit says of its own run and place.
_OF_ITS_RUN = frozenset({"sqb.checks", "sqb.figures", "sqb.git", "sqb.reused_from", HOOKS, REPLAYS, SEEN})


def needs_spark(planned: PlannedNode, node: Node) -> bool:
    """Whether a node's turn will need Spark, as far as the plan can tell."""
    reuse = planned.reuse
    if planned.prior is not None and planned.run_type == "reuse":
        return not planned.prior.checked or bool(node.hooks)
    if node.type != "model" or reuse is None:
        return node.type == "model"
    return reuse.copied or not reuse.checked or bool(reuse.moved) or bool(node.hooks)


def build_reused(
    turn: Turn,
    build: Callable[[Turn], Outcome],
    relations: Mapping[Relation, Standing],
    baselines: dict[Relation, Version],
) -> Outcome:
    """Take over what the plan found elsewhere, and build on it where the inputs have moved on.

    `baselines` holds the versions that this build has taken over: what was made from them elsewhere is made from them
    here.
    """
    reuse = turn.planned.reuse
    assert reuse is not None
    # What a kind has written beside its rows is true of them wherever they are.
    own = _OF_ITS_RUN | turn.identity("").keys()
    said = {k: v for k, v in _state_there(turn, reuse).identity.items() if k not in own}
    as_made = replace(turn, inputs=tuple(_made_from(turn, reuse, baselines)), said=said)
    if reuse.copied and (why := _why_not_copied(as_made, turn, reuse, relations)) is not None:
        own_plan = replace(turn.planned, run_type="backfill" if turn.standing is None else "full", reuse=None)
        done = build(replace(turn, planned=own_plan))
        return replace(done, run_type=done.run_type or own_plan.run_type, detail=done.detail or f"not copied: {why}")
    taken = _copied(as_made, reuse) if reuse.copied else _cloned(as_made, reuse, relations)
    assert taken.state is not None
    standing = standing_of(taken.state)
    baselines[turn.node.relation] = standing.version
    changed = changed_inputs(turn.node, turn.project, standing, {**relations, turn.node.relation: standing})
    return _brought_up_to_date(turn, build, taken, changed) if changed else taken


def _made_from(turn: Turn, reuse: Reuse, baselines: Mapping[Relation, Version]) -> list[tuple[Input, Version]]:
    """The node's inputs, each at the version that the rows were made from."""
    found = []
    for one, now in turn.inputs:
        recorded = reuse.sources[one.key]
        taken = baselines.get(one.relation) if one.relation is not None and not one.view else None
        # A source counts as unchanged also where its rows are not: what was read of it is what is said.
        same = now if not one.external and same_version(recorded, now) else recorded_version(recorded)
        found.append((one, taken or same))
    return found


def _why_not_copied(as_made: Turn, turn: Turn, reuse: Reuse, relations: Mapping[Relation, Standing]) -> str | None:
    """Why the rows are not written once more to be taken over: they would be made again, or follow from those here."""
    from sqb.build.incremental import WhyNot, worth_following

    if turn.standing is not None and turn.planned.reason in (Reason.SOURCE_CHANGED, Reason.UPSTREAM_CHANGED):
        try:
            worth_following(turn)
            return "what changed is followed here"
        except WhyNot:
            return None
    if turn.node.kind in _KEEPS_ROWS or turn.node.settings.get("on_source_delete") == "keep":
        return None
    there = _state_there(turn, reuse)
    begun = replace(there, identity={**there.identity, "sqb.sources": record_sources(as_made.inputs)})
    changed = changed_inputs(turn.node, turn.project, standing_of(begun), relations)
    if not changed:
        return None
    planned = replace(turn.planned, reason=Reason.SOURCE_CHANGED, reuse=None)
    try:
        worth_following(replace(turn, standing=begun, planned=planned))
    except WhyNot as why:
        return f"it is made again, as {changed[0].name} has moved on ({why})"
    return None


def _cloned(turn: Turn, reuse: Reuse, relations: Mapping[Relation, Standing]) -> Outcome:
    there = _state_there(turn, reuse)
    passed = _passed(turn, reuse, there, relations)
    summary = {**passed.summary, "sqb.reused_from": f"{reuse.relation} {reuse.snapshot_id}"}
    identity = turn.identity(there.identity["sqb.content"], "reuse", summary)
    base = turn.standing.base if turn.standing is not None else None
    turn.announce("before publish", turn.node.name)
    made = turn.lake.clone(reuse.relation, reuse.snapshot_id, turn.node.relation, identity, base, turn.run_id)
    turn.announce("published", turn.node.name)
    return Outcome(
        made.state.rows or 0,
        made.snapshot_id,
        made.state,
        run_type="reuse",
        notices=passed.notices,
        findings=passed.findings,
    )


def _copied(turn: Turn, reuse: Reuse) -> Outcome:
    """Write the rows once more, and publish them as if they had been computed."""
    from sqb.build.kinds.table import rebuild
    from sqb.spark import frames

    session = turn.session()
    frame = session.sql(f"SELECT * FROM {_rows_there(turn, reuse)}")
    return replace(rebuild(turn, session, frame, frames.columns_of(frame)), run_type="reuse")


def _passed(turn: Turn, reuse: Reuse, there: TableState, relations: Mapping[Relation, Standing]) -> Passed:
    """The checks, as they passed where the rows are from; else they are asked of the very rows that are taken over."""
    if not turn.checks_token:
        return NONE
    if checks_hold(turn.node, turn.project, relations):
        return Passed({"sqb.checks": turn.checks_token, "sqb.figures": said_of(there, "sqb.figures") or "{}"})
    return check_rows(turn, _rows_there(turn, reuse))


def _state_there(turn: Turn, reuse: Reuse) -> TableState:
    state = turn.states(reuse.relation)
    if state is None or state.snapshot_id != reuse.snapshot_id:
        raise conflict(reuse.relation)
    return state


def _rows_there(turn: Turn, reuse: Reuse) -> str:
    table = quote(turn.catalog, reuse.relation.schema, reuse.relation.name)
    return pinned(table, _state_there(turn, reuse))


def _brought_up_to_date(
    turn: Turn, build: Callable[[Turn], Outcome], taken: Outcome, changed: tuple[Input, ...]
) -> Outcome:
    """Build the node on the baseline, as any node is built whose inputs have changed."""
    reason = Reason.SOURCE_CHANGED if any(i.external for i in changed) else Reason.UPSTREAM_CHANGED
    planned = replace(turn.planned, run_type="full", reason=reason, reuse=None)
    done = build(replace(turn, standing=taken.state, planned=planned, replay=None))
    kept = done.identical or done.run_type == "incremental" or turn.node.kind in _KEEPS_ROWS
    return replace(
        done,
        rows=taken.rows + done.rows if kept else done.rows,
        # The rows are not those that stood here before.
        identical=False,
        run_type="reuse" if kept else done.run_type or "full",
        detail=done.detail or turn.planned.detail,
        notices=(*taken.notices, *done.notices),
        findings=(*taken.findings, *done.findings),
    )
