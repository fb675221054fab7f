"""How a node is brought up to date, as a plan shows it: the class of its query, why, and how much changed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from sqb.compile.model import Node, Project
from sqb.plan.model import PlannedNode, RunType
from sqb.plan.observed import Observed
from sqb.plan.refresh.choose import Refresh, build_case, can_follow, choose_refresh
from sqb.plan.refresh.states import list_additive_operators
from sqb.project.config.settings import CostGate

if TYPE_CHECKING:
    from sqb.plan.refresh.describe_operators import OperatorLine
    from sqb.sql.delta.facts import Facts
    from sqb.sql.delta.proposal import Proposal

# Changes pass through or are added up; the keys, groups or partitions that they touch are evaluated again; neither.
Class = Literal["delta", "groups", "opaque"]
_GROUP_RULES = frozenset({"groups", "partitions", "distinct", "compare"})
_PASSES = "only changed rows flow through"


def plan_refresh(decided: PlannedNode, node: Node, project: Project, observed: Observed, gate: CostGate) -> PlannedNode:
    """The decision about a node, with how it is brought up to date; what waits for others has the class alone."""
    query = observed.queries.get(node.name)
    if query is None or not can_follow(decided, node):
        return decided
    if decided.pending:
        return replace(decided, incremental=describe_class(query.facts)) if query.facts is not None else decided
    refresh = choose_refresh(build_case(node, project, observed, decided.reason, gate))
    run_type: RunType = "full" if refresh.way == "rebuild" else "incremental"
    return replace(decided, run_type=run_type, incremental=describe_refresh(refresh))


def describe_class(facts: Facts | None) -> dict[str, str]:
    """The class of a query, whatever changes."""
    if facts is None:
        return {"class": "opaque"}
    if facts.kind == "linear":
        return {"class": "delta", "why": _PASSES}
    if facts.keys:
        return {"class": "groups", "why": facts.why, "key": ", ".join(list_shown_keys(facts))}
    proposal = _propose_any(facts)
    if proposal is None:
        return {"class": "opaque", "why": facts.why}
    return _describe_proposal(facts, proposal)


def find_class_offset(facts: Facts) -> int | None:
    """Where in the query the reason for its class is, when something in its text is the reason."""
    if facts.kind == "linear" or facts.keys:
        return facts.offset
    proposal = _propose_any(facts)
    if proposal is None:
        return facts.offset
    return proposal.obstacle.offset if proposal.obstacle is not None else None


def _propose_any(facts: Facts) -> Proposal | None:
    """How changes of all tables would be followed, with figures of all groups that add up."""
    from sqb.sql.delta.proposal import propose  # only plans that have something to follow

    if facts.tree is None:
        return None
    slots = frozenset(o.slot for o in facts.tree.operators if o.kind == "table")
    return propose(facts.tree, slots, list_additive_operators(facts), by_target=True)


def _describe_proposal(facts: Facts, proposal: Proposal) -> dict[str, str]:
    if proposal.obstacle is not None:
        return {"class": "opaque", "why": proposal.obstacle.why}
    assert facts.tree is not None
    chosen = proposal.rules.get(facts.tree.root)
    if chosen is None:
        return {"class": "delta", "why": _PASSES}
    return {"class": "groups" if chosen.rule in _GROUP_RULES else "delta", "why": chosen.says}


def list_shown_keys(facts: Facts) -> tuple[str, ...]:
    """The keys of a query as people write them."""
    from sqb.sql.delta.facts import format_key_expression  # only plans that have something to follow

    if facts.kind != "keyed":
        return ()
    return tuple(dict.fromkeys(format_key_expression(e) for key in facts.keys[:3] for _, e in key.slots))


def describe_refresh(refresh: Refresh) -> dict[str, Any]:
    """How a node will be brought up to date, and how much changed; or why it is rebuilt."""
    expected = _describe_expected(refresh)
    if refresh.obstacle is not None:
        return {**describe_class(refresh.facts), "why": refresh.obstacle.why, **expected}
    described = {**_describe_way(refresh), "size": str(refresh.size), **expected}
    if refresh.way == "operators" and refresh.estimate is not None:
        read, rebuilt = refresh.estimate.refresh, refresh.estimate.rebuild
        described["cost"] = f"reads about {read:,} rows, a rebuild {rebuilt:,}"
        described["operators"] = [line.to_data() for line in _list_operators(refresh)]
    return described


def _describe_expected(refresh: Refresh) -> dict[str, float]:
    """The seconds of both ways by the model's own past, where it has one."""
    expected = refresh.expected
    if expected is None:
        return {}
    return {"refresh_seconds": round(expected.refresh, 1), "rebuild_seconds": round(expected.rebuild, 1)}


def _list_operators(refresh: Refresh) -> list[OperatorLine]:
    from sqb.plan.refresh.describe_operators import list_operator_lines  # only plans that follow changes by operators

    facts, proposal, estimate = refresh.facts, refresh.proposal, refresh.estimate
    assert facts is not None and facts.tree is not None and proposal is not None and estimate is not None
    return list_operator_lines(facts.tree, proposal, estimate, {t.index: str(t.relation) for t in refresh.tables})


def _describe_way(refresh: Refresh) -> dict[str, str]:
    facts, proposal = refresh.facts, refresh.proposal
    if facts is not None and refresh.way == "keyed":
        return {"class": "groups", "why": facts.why, "key": ", ".join(list_shown_keys(facts))}
    if facts is not None and proposal is not None and refresh.way == "operators":
        return _describe_proposal(facts, proposal)
    return {"class": "delta", "why": _PASSES}
