"""Whether a node that would be built anew can take over what another target has: decided from values alone.

The table there is reused when its definition is the one here and it was made from what would be read here. For a node
that has no rows of this definition here, an input may have moved on since: its changes come on top. One that
has is brought up to date by a clone only where that is all there is to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqb.compile.model import Node, OtherTarget, Project
from sqb.names import Relation
from sqb.plan.changes.session_settings import describe_settings_change
from sqb.plan.model import Options, PlannedNode, Reason, Reuse, is_producing_rows
from sqb.plan.observed import (
    Input,
    Observed,
    RelationState,
    Version,
    compute_checks_token,
    compute_rows_token,
    find_version,
    is_same_version,
    list_inputs,
    list_inputs_of_names,
)
from sqb.plan.recorded.versions import RecordedVersion
from sqb.project.models.kinds import HISTORY_KINDS, KINDS

# Nothing here has rows that the other target's would wipe out, and no rebuild was requested.
_REASONS = frozenset(
    {Reason.FIRST_RUN, Reason.RELATION_MISSING, Reason.QUERY_CHANGED, Reason.CONFIG_CHANGED, Reason.FUNCTION_CHANGED}
)
# The table here has the current definition, and is behind its inputs.
_BEHIND = frozenset({Reason.SOURCE_CHANGED, Reason.UPSTREAM_CHANGED, Reason.SCHEMA_CHANGED, Reason.CHANGED_OUTSIDE})
_REUSABLE_KINDS = frozenset({"seed", *(kind.name for kind in KINDS.values() if kind.is_reusable)})
# A node that runs for one of these reasons has a table of its current definition.
_SAME_DEFINITION = frozenset(
    {
        Reason.NORMAL,
        Reason.CHECKS_CHANGED,
        Reason.SOURCE_CHANGED,
        Reason.UPSTREAM_CHANGED,
        Reason.HOOKS_MISSING,
        Reason.RUN_DESPITE_UNCHANGED,
        Reason.LAST_RUN_FAILED,
        Reason.EVERY_BUILD,
    }
)


def plan_reuse(
    decided: PlannedNode,
    node: Node,
    project: Project,
    observed: Observed,
    options: Options,
    planned: Mapping[str, PlannedNode],
) -> PlannedNode:
    """The decision about a node, changed to taking over what another target has where that is the same."""
    other = project.other_target
    if other is None or other.how == "defer" or not _is_reusable(decided, node, other, options):
        return decided
    reuse = find_reuse(node, project, other, observed, planned)
    if decided.reason in _BEHIND and (isinstance(reuse, str) or reuse.moved):
        return decided
    if isinstance(reuse, str):
        detail = f"{decided.detail}; not reused: {reuse}".removeprefix("; ")
        return replace(decided, detail=detail)
    return replace(decided, run_type="reuse", detail=_describe_reuse(reuse), incremental=None, replay=None, reuse=reuse)


def replan_reuse(
    decided: PlannedNode, node: Node, project: Project, observed: Observed, options: Options
) -> PlannedNode:
    """The same when all above has run: what came out as the other target has it is what its rows were made from."""
    other = project.other_target
    if other is None or other.how == "defer" or decided.reuse is not None or decided.prior is not None:
        return decided
    if not _is_reusable(decided, node, other, options):
        return decided
    reuse = find_reuse(node, project, other, observed, {})
    if isinstance(reuse, str) or reuse.moved:
        return decided
    return replace(decided, run_type="reuse", detail=_describe_reuse(reuse), incremental=None, replay=None, reuse=reuse)


def _is_reusable(decided: PlannedNode, node: Node, other: OtherTarget, options: Options) -> bool:
    if decided.action != "run" or decided.run_type == "check" or options.force or options.full_refresh:
        return False
    if decided.reason not in _REASONS and decided.reason not in _BEHIND:
        return False
    if node.kind not in _REUSABLE_KINDS or (node.type == "seed" and other.how == "copy"):
        # A seed is loaded as quickly as it is copied.
        return False
    if node.kind == "incremental" and options.has_window:
        return False
    return other.relations[node.name] != node.relation


def find_reuse(
    node: Node, project: Project, other: OtherTarget, observed: Observed, planned: Mapping[str, PlannedNode]
) -> Reuse | str:
    """What a node can take over from another target, or why it cannot."""
    relation = other.relations[node.name]
    other_state = observed.relations.get(relation)
    refused = _explain_unfit(node, project, relation, other_state, observed) or _describe_loss(
        node, project, other, observed
    )
    if refused is not None:
        return refused
    assert other_state is not None and other_state.version.snapshot_id is not None
    sources: dict[str, RecordedVersion] = {}
    moved: list[str] = []
    recorded = dict(other_state.sources)
    for upstream_input in list_inputs(node, project):
        key = (
            upstream_input.key
            if upstream_input.external or upstream_input.view
            else str(other.relations[upstream_input.name])
        )
        was = recorded.pop(key, None)
        if was is None:
            return f"{relation} was made without reading {upstream_input.name}"
        base = _find_base_version(upstream_input, was, project, other, observed, planned)
        if isinstance(base, str):
            return f"{relation} was made from {base}"
        sources[upstream_input.key] = base.record()
        if _has_moved_on(upstream_input, base, project, observed, planned):
            moved.append(upstream_input.name)
    if recorded:
        return f"{relation} was made from {min(recorded)} too"
    checked = not node.checks_hash or other_state.checks == compute_checks_token(
        *_get_counterpart(node, project, other), observed.relations
    )
    return Reuse(
        relation, other_state.version.snapshot_id, sources, tuple(moved), checked, other.how == "copy", other.target
    )


def _explain_unfit(
    node: Node, project: Project, relation: Relation, other_state: RelationState | None, observed: Observed
) -> str | None:
    """Why the table there is not what would be built here, whatever it was made from."""
    if other_state is None:
        return f"{relation} is not there"
    if other_state.is_view or not other_state.identity or other_state.drifted:
        return f"{relation} is not what sqb left there"
    if node.local_hash not in (other_state.local_hash, observed.renewed_hashes.get(other_state.local_hash)):
        return f"{relation} has another definition"
    if other := describe_settings_change(node, project, other_state.identity):
        return f"{relation} was built under other settings: {other}"
    if other_state.version.snapshot_id is None or other_state.version.content is None:
        return f"{relation} does not say what its rows are"
    return None


def _describe_loss(node: Node, project: Project, other: OtherTarget, observed: Observed) -> str | None:
    """What would be lost here if another table took the place of the current one."""
    current = observed.get(node)
    if current is None or current.is_view:
        return None
    if node.kind in HISTORY_KINDS or node.settings.get("on_source_delete") == "keep":
        return "the rows that it has here are kept"
    if other.how == "copy":
        return None
    for reader in project:
        below = observed.get(reader)
        if reader.kind == "append" and below is not None and node.get_input_key() in below.sources:
            return f"{reader.name} is a log of its changes here"
    return None


def _find_base_version(
    upstream_input: Input,
    was: RecordedVersion,
    project: Project,
    other: OtherTarget,
    observed: Observed,
    planned: Mapping[str, PlannedNode],
) -> Version | str:
    """The version of an input here that the other target's rows were made from; else, in words, what they were."""
    now = find_version(upstream_input, project, observed.relations)
    if upstream_input.view:
        return Version(recorded=was) if is_same_version(was, now) else f"another definition of {upstream_input.name}"
    if upstream_input.external or other.relations[upstream_input.name] == upstream_input.relation:
        # The same relation in both targets: what was read is what was read, and what changed since can be followed.
        if upstream_input.name in observed.opaque:
            return f"{upstream_input.name}, a view that sqb did not make: its rows cannot be versioned"
        return Version(recorded=was) if now is not None else f"{upstream_input.name}, which is not there"
    above = planned.get(upstream_input.name)
    if above is not None and above.reuse is not None:
        now = observed.relations[above.reuse.relation].version
    elif above is not None and _is_same_seed(project.nodes[upstream_input.name], project, above, other, observed):
        now = observed.relations[other.relations[upstream_input.name]].version
    elif above is not None and above.reason not in _SAME_DEFINITION:
        return f"{upstream_input.name} as it is in {other.target}; it is rebuilt here"
    if now is None or not is_same_version(was, now):
        return f"another version of {upstream_input.name}"
    return now


def _is_same_seed(seed: Node, project: Project, above: PlannedNode, other: OtherTarget, observed: Observed) -> bool:
    """Whether a seed that is about to be loaded gets the rows that it has in the other target."""
    if seed.type != "seed" or above.action != "run" or above.reason in _SAME_DEFINITION:
        return False
    relation = other.relations[seed.name]
    return _explain_unfit(seed, project, relation, observed.relations.get(relation), observed) is None


def _has_moved_on(
    upstream_input: Input, base: Version, project: Project, observed: Observed, planned: Mapping[str, PlannedNode]
) -> bool:
    """Whether an input has moved on from a version, or may do so before the node is built."""
    if upstream_input.view:
        return False
    above = planned.get(upstream_input.name)
    if above is not None and above.reuse is not None:
        return bool(above.reuse.moved)
    if above is not None and is_producing_rows(above):
        return above.type != "seed" or above.reason in _SAME_DEFINITION
    return not is_same_version(base.record(), find_version(upstream_input, project, observed.relations))


def _describe_reuse(reuse: Reuse) -> str:
    if not reuse.moved:
        return f"from {reuse.relation}"
    more = f" and {len(reuse.moved) - 3} more" if len(reuse.moved) > 3 else ""
    return f"from {reuse.relation}, then what changed in {', '.join(reuse.moved[:3])}{more}"


def _get_counterpart(node: Node, project: Project, other: OtherTarget) -> tuple[Node, Project]:
    """A node and its project as they are in the other target."""
    nodes = {n.name: replace(n, relation=other.relations[n.name]) for n in project}
    return nodes[node.name], replace(project, nodes=nodes)


def has_same_checks(node: Node, project: Project, relations: Mapping[Relation, RelationState]) -> bool:
    """Whether the checks passed in the other target, and look there at the same rows as here."""
    other = project.other_target
    if not node.checks_hash or other is None:
        return True
    node_there, project_there = _get_counterpart(node, project, other)
    current = relations.get(node_there.relation)
    if current is None or current.checks != compute_checks_token(node_there, project_there, relations):
        return False
    here = [find_version(i, project, relations) for i in list_inputs_of_names(node.watches, project)]
    other_versions = [
        find_version(i, project_there, relations) for i in list_inputs_of_names(node.watches, project_there)
    ]
    return _list_tokens(here) == _list_tokens(other_versions)


def _list_tokens(versions: list[Version | None]) -> list[str]:
    return sorted(compute_rows_token(v) if v is not None else "" for v in versions)
