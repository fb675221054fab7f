"""A new version of a node that begins as the version before it: a clone, adopted as it is or built upon.

In a virtual environment a changed definition is a table of its own. It starts with the rows of the version that the
environment shows until now, so that everything is done to it as to a table whose definition changed in its place:
what is kept is kept, what can be followed is followed, and what turns out the same is not written again.
"""

from __future__ import annotations

from dataclasses import replace

from sqb.build.checking import Passed, check_rows
from sqb.build.observe import passed_checks, said_of
from sqb.build.render import pinned
from sqb.build.turn import Outcome, Turn
from sqb.lake.port import TableState, conflict
from sqb.names import quote

# What is said of rows, in their commit or since; a clone has it all in its commit.
_SAID = ("sqb.checks", "sqb.figures")


def as_before(turn: Turn) -> Turn:
    """The turn with the rows of the version before as what stands; from there it goes on as any other."""
    prior, there = turn.planned.prior, _there(turn)
    assert prior is not None
    summary = {**there.identity, **{k: said_of(there, k) for k in _SAID if said_of(there, k)}}
    made = turn.lake.clone(prior.relation, prior.snapshot_id, turn.node.relation, summary, None, turn.run_id)
    turn.announce("version begun", turn.node.name)
    return replace(turn, standing=made.state)


def adopted(turn: Turn) -> Outcome:
    """Take the rows of the version before as those of the new one: what they are made from is the same."""
    prior, there = turn.planned.prior, _there(turn)
    assert prior is not None
    before = replace(turn, standing=there)
    # What the kind wrote beside its rows stays true of them.
    own = before.identity("").keys()
    said = {k: v for k, v in there.identity.items() if k not in own and k not in _SAID}
    passed = _passed(before)
    identity = replace(before, said=said).identity(there.identity["sqb.content"], "reuse", passed.summary)
    turn.announce("before publish", turn.node.name)
    made = turn.lake.clone(prior.relation, prior.snapshot_id, turn.node.relation, identity, None, turn.run_id)
    turn.announce("published", turn.node.name)
    return Outcome(
        0,
        made.snapshot_id,
        made.state,
        identical=True,
        run_type="reuse",
        detail=f"same rows as {prior.relation}",
        notices=passed.notices,
        findings=passed.findings,
    )


def _passed(turn: Turn) -> Passed:
    there = turn.standing
    assert there is not None and turn.planned.prior is not None
    if not turn.checks_token:
        return Passed({})
    if passed_checks(there) == turn.checks_token:
        return Passed({"sqb.checks": turn.checks_token, "sqb.figures": said_of(there, "sqb.figures") or "{}"})
    relation = turn.planned.prior.relation
    return check_rows(turn, pinned(quote(turn.catalog, relation.schema, relation.name), there))


def _there(turn: Turn) -> TableState:
    """The version before, as the plan has seen it, with what it was made from under the names of today."""
    prior = turn.planned.prior
    assert prior is not None
    state = turn.states(prior.relation)
    if state is None or state.snapshot_id != prior.snapshot_id:
        raise conflict(prior.relation)
    return state
