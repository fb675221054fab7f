"""A node taken over from another target: its rows shared or copied, and then what changed since on top.

The baseline is published by itself: it is exactly what its commit says it was made from, and it has passed its checks.
A build that ends before the changes are on it leaves it so, and the next one goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from sqb.build.checks.run import NO_CHECKS, PassedChecks, check_rows, repeat_passed_checks
from sqb.build.incremental.clone_states import clone_states
from sqb.build.node.context import NodeContext, NodeOutcome
from sqb.build.node.render import format_pinned
from sqb.build.observe.lake import build_relation_state
from sqb.build.state import BuildState
from sqb.compile.model import Node
from sqb.lake.port import TableState, build_conflict
from sqb.names import Relation, quote
from sqb.plan.model import PlannedNode, Reason, Reuse
from sqb.plan.observed import (
    Input,
    RelationState,
    Version,
    is_same_version,
    list_changed_inputs,
    record_sources,
)
from sqb.plan.recorded.commit_identity import CommitIdentity
from sqb.plan.refresh.choose import FOLLOWED_REASONS
from sqb.plan.reuse import has_same_checks
from sqb.project.models.kinds import HISTORY_KINDS


def needs_spark(planned: PlannedNode, node: Node) -> bool:
    """Whether building a node will need Spark, as far as the plan can tell."""
    reuse = planned.reuse
    if planned.prior is not None and planned.run_type == "reuse":
        return not planned.prior.checked or bool(node.hooks)
    if node.type != "model" or reuse is None:
        return node.type == "model"
    return reuse.copied or not reuse.checked or bool(reuse.moved) or bool(node.hooks)


def reuse_node(context: NodeContext, build: Callable[[NodeContext], NodeOutcome], state: BuildState) -> NodeOutcome:
    """Take over what the plan found elsewhere, and build on it where the inputs have moved on."""
    reuse = context.planned.reuse
    assert reuse is not None
    # What was made elsewhere from versions that this build has taken over is made from them here.
    relations, baselines = state.copy_relations(), state.copy_baselines()
    # What a kind has written beside its rows is true of them wherever they are.
    carried = _exclude_run(_get_source_state(context, reuse).identity).exclude(context.build_identity(""))
    as_made = replace(context, inputs=tuple(_list_recorded_inputs(context, reuse, baselines)), additions=(carried,))
    if reuse.copied and (why := _explain_no_copy(as_made, context, reuse, relations)) is not None:
        own_plan = replace(context.planned, run_type="backfill" if context.current is None else "full", reuse=None)
        done = build(replace(context, planned=own_plan))
        return replace(done, run_type=done.run_type or own_plan.run_type, detail=done.detail or f"not copied: {why}")
    baseline_outcome = _copy_rows(as_made, reuse) if reuse.copied else _clone_rows(as_made, reuse, relations)
    assert baseline_outcome.state is not None
    current = build_relation_state(baseline_outcome.state)
    state.adopt_baseline(context.node.relation, current.version)
    changed = list_changed_inputs(context.node, context.project, current, {**relations, context.node.relation: current})
    return _build_on_baseline(context, build, baseline_outcome, changed) if changed else baseline_outcome


def _exclude_run(identity: CommitIdentity) -> CommitIdentity:
    """An identity without what only the run knows that made the rows there."""
    return replace(
        identity,
        content="",
        checks="",
        figures="",
        git="",
        reused_from="",
        post_hooks="",
        replays="",
        replays_seen="",
        # The figures of groups are beside the table there, and are cloned with its rows.
        group_state="",
        timings="",
    )


def _list_recorded_inputs(
    context: NodeContext, reuse: Reuse, baselines: Mapping[Relation, Version]
) -> list[tuple[Input, Version]]:
    """The node's inputs, each at the version that the rows were made from."""
    recorded_inputs = []
    for upstream_input, now in context.inputs:
        recorded = reuse.sources[upstream_input.key]
        baseline = (
            baselines.get(upstream_input.relation)
            if upstream_input.relation is not None and not upstream_input.view
            else None
        )
        # A source may count as unchanged although its rows are not: what is recorded is the version that was read.
        same = now if not upstream_input.external and is_same_version(recorded, now) else Version(recorded=recorded)
        recorded_inputs.append((upstream_input, baseline or same))
    return recorded_inputs


def _explain_no_copy(
    as_made: NodeContext, context: NodeContext, reuse: Reuse, relations: Mapping[Relation, RelationState]
) -> str | None:
    """Why the rows are not written once more to be taken over: they would be made again, or follow from those here."""
    from sqb.build.incremental.refresh import decide_refresh

    if context.current is not None and context.planned.reason in FOLLOWED_REASONS:
        return "what changed is followed here" if decide_refresh(context).way != "rebuild" else None
    if context.node.kind in HISTORY_KINDS or context.node.settings.get("on_source_delete") == "keep":
        return None
    source_state = _get_source_state(context, reuse)
    begun = replace(source_state, identity=replace(source_state.identity, sources=record_sources(as_made.inputs)))
    changed = list_changed_inputs(context.node, context.project, build_relation_state(begun), relations)
    if not changed:
        return None
    planned = replace(context.planned, reason=Reason.SOURCE_CHANGED, reuse=None)
    refresh = decide_refresh(replace(context, current=begun, planned=planned))
    if refresh.way == "rebuild":
        return f"it is made again, as {changed[0].name} has moved on ({refresh.obstacle})"
    return None


def _clone_rows(context: NodeContext, reuse: Reuse, relations: Mapping[Relation, RelationState]) -> NodeOutcome:
    source_state = _get_source_state(context, reuse)
    passed = _verify_checks(context, reuse, source_state, relations)
    passed_identity = replace(passed.identity, reused_from=f"{reuse.relation} {reuse.snapshot_id}")
    identity = context.build_identity(source_state.identity.content, "reuse", passed_identity).to_properties()
    base = context.current.base if context.current is not None else None
    states = clone_states(context.lake, reuse.relation, source_state.identity, context.node.relation, context.run_id)
    identity |= CommitIdentity(group_state=states).to_properties()
    context.announce("before publish", context.node.name)
    clone = context.lake.clone(reuse.relation, reuse.snapshot_id, context.node.relation, identity, base, context.run_id)
    context.announce("published", context.node.name)
    return NodeOutcome(
        clone.state.rows or 0,
        clone.snapshot_id,
        clone.state,
        run_type="reuse",
        notices=passed.notices,
        findings=passed.findings,
    )


def _copy_rows(context: NodeContext, reuse: Reuse) -> NodeOutcome:
    """Write the rows once more, and publish them as if they had been computed."""
    from sqb.build.kinds.table import rebuild_table
    from sqb.spark.data import frames

    session = context.session()
    frame = session.sql(f"SELECT * FROM {_format_source_rows(context, reuse)}")
    return replace(rebuild_table(context, session, frame, frames.list_columns(frame)), run_type="reuse")


def _verify_checks(
    context: NodeContext, reuse: Reuse, source_state: TableState, relations: Mapping[Relation, RelationState]
) -> PassedChecks:
    """The checks, as they passed where the rows are from; else they are asked of the very rows that are taken over."""
    if not context.checks_token:
        return NO_CHECKS
    if has_same_checks(context.node, context.project, relations):
        return repeat_passed_checks(context, source_state)
    return check_rows(context, _format_source_rows(context, reuse))


def _get_source_state(context: NodeContext, reuse: Reuse) -> TableState:
    state = context.states(reuse.relation)
    if state is None or state.snapshot_id != reuse.snapshot_id:
        raise build_conflict(reuse.relation)
    return state


def _format_source_rows(context: NodeContext, reuse: Reuse) -> str:
    table = quote(context.catalog, reuse.relation.schema, reuse.relation.name)
    return format_pinned(table, _get_source_state(context, reuse))


def _build_on_baseline(
    context: NodeContext,
    build: Callable[[NodeContext], NodeOutcome],
    baseline_outcome: NodeOutcome,
    changed: tuple[Input, ...],
) -> NodeOutcome:
    """Build the node on the baseline, as any node is built whose inputs have changed."""
    reason = Reason.SOURCE_CHANGED if any(i.external for i in changed) else Reason.UPSTREAM_CHANGED
    planned = replace(context.planned, run_type="full", reason=reason, reuse=None)
    done = build(replace(context, current=baseline_outcome.state, planned=planned, replay=None))
    is_incremental = done.identical or done.run_type == "incremental" or context.node.kind in HISTORY_KINDS
    return replace(
        done,
        rows=baseline_outcome.rows + done.rows if is_incremental else done.rows,
        # These are not the rows that the table had before.
        identical=False,
        run_type="reuse" if is_incremental else done.run_type or "full",
        detail=done.detail or context.planned.detail,
        notices=(*baseline_outcome.notices, *done.notices),
        findings=(*baseline_outcome.findings, *done.findings),
    )
