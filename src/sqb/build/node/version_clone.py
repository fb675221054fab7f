"""A new version of a node that begins as the version before it: a clone, adopted as it is or built upon.

In a virtual environment a changed definition is a table of its own. It starts with the rows of the version that the
environment shows until now, so that everything is done to it as to a table whose definition changed in its place:
rows of a log stay, an incremental refresh works, and identical rows are not written again.
"""

from __future__ import annotations

from dataclasses import replace

from sqb.build.checks.run import NO_CHECKS, PassedChecks, check_rows, repeat_passed_checks
from sqb.build.incremental.clone_states import clone_states
from sqb.build.node.context import NodeContext, NodeOutcome
from sqb.build.node.render import format_pinned
from sqb.build.observe.lake import read_passed_checks
from sqb.lake.port import TableState, build_conflict
from sqb.names import quote
from sqb.plan.recorded.commit_identity import CommitIdentity


def begin_version(context: NodeContext) -> NodeContext:
    """Clone the prior version as the current table; the node is then built on it like any other."""
    prior, prior_state = context.planned.prior, _get_prior_state(context)
    assert prior is not None
    states = clone_states(context.lake, prior.relation, prior_state.identity, context.node.relation, context.run_id)
    # What was recorded of checks since the commit of the rows is in the commit of the clone.
    identity = replace(prior_state.identity, group_state=states).merge(read_passed_checks(prior_state)).to_properties()
    clone = context.lake.clone(prior.relation, prior.snapshot_id, context.node.relation, identity, None, context.run_id)
    context.announce("version begun", context.node.name)
    return replace(context, current=clone.state)


def adopt_version(context: NodeContext) -> NodeOutcome:
    """Take the rows of the version before as those of the new one: what they are made from is the same."""
    prior, prior_state = context.planned.prior, _get_prior_state(context)
    assert prior is not None
    before = replace(context, current=prior_state)
    # What the kind wrote beside its rows stays true of them; the figures of groups are cloned with the rows.
    lasting = replace(prior_state.identity, content="", checks="", figures="", group_state="")
    carried = lasting.exclude(before.build_identity(""))
    passed = _verify_checks(before)
    adopted = replace(before, additions=(carried,))
    states = clone_states(context.lake, prior.relation, prior_state.identity, context.node.relation, context.run_id)
    made = adopted.build_identity(prior_state.identity.content, "reuse", passed.identity)
    identity = made.merge(CommitIdentity(group_state=states)).to_properties()
    context.announce("before publish", context.node.name)
    clone = context.lake.clone(prior.relation, prior.snapshot_id, context.node.relation, identity, None, context.run_id)
    context.announce("published", context.node.name)
    return NodeOutcome(
        0,
        clone.snapshot_id,
        clone.state,
        identical=True,
        run_type="reuse",
        detail=f"same rows as {prior.relation}",
        notices=passed.notices,
        findings=passed.findings,
    )


def _verify_checks(context: NodeContext) -> PassedChecks:
    prior_state = context.current
    assert prior_state is not None and context.planned.prior is not None
    if not context.checks_token:
        return NO_CHECKS
    if read_passed_checks(prior_state).checks == context.checks_token:
        return repeat_passed_checks(context, prior_state)
    relation = context.planned.prior.relation
    return check_rows(context, format_pinned(quote(context.catalog, relation.schema, relation.name), prior_state))


def _get_prior_state(context: NodeContext) -> TableState:
    """The version before, as the plan has seen it, with what it was made from under the names of today."""
    prior = context.planned.prior
    assert prior is not None
    state = context.states(prior.relation)
    if state is None or state.snapshot_id != prior.snapshot_id:
        raise build_conflict(prior.relation)
    return state
