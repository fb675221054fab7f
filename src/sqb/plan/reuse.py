"""Whether a node that would be built anew can take over what another target has: decided from values alone.

What stands there is taken when its definition is the one here and it was made from what would be read here. For a node
that has no rows of this definition here, an input that moved on since is no obstacle: its changes come on top. One that
has is brought up to date by a clone only where that is all there is to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqb.compiled import Elsewhere, Node, Project
from sqb.names import Relation
from sqb.plan.above import makes_rows
from sqb.plan.observed import (
    Input,
    Observed,
    Standing,
    Version,
    checks_token,
    inputs_of,
    inputs_of_names,
    recorded_version,
    rows_token,
    same_version,
    version_of,
)
from sqb.plan.settings import settings_change
from sqb.plan.values import Options, PlannedNode, Reason, Reuse

# Nothing here has rows that the other target's would wipe out, and nobody asked for new ones.
_REASONS = frozenset(
    {Reason.FIRST_RUN, Reason.RELATION_MISSING, Reason.QUERY_CHANGED, Reason.CONFIG_CHANGED, Reason.FUNCTION_CHANGED}
)
# What stands here has the definition of the project, and is behind what it reads.
_BEHIND = frozenset({Reason.SOURCE_CHANGED, Reason.UPSTREAM_CHANGED, Reason.SCHEMA_CHANGED, Reason.CHANGED_OUTSIDE})
_KINDS = frozenset({"table", "merge", "tracked", "append", "scd2", "incremental", "seed"})
_HISTORIES = frozenset({"append", "scd2", "incremental"})
# A node that runs for one of these stands with the definition that it has in the project.
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


def with_reuse(
    decided: PlannedNode,
    node: Node,
    project: Project,
    observed: Observed,
    options: Options,
    planned: Mapping[str, PlannedNode],
) -> PlannedNode:
    """The decision about a node, changed to taking over what another target has where that is the same."""
    other = project.elsewhere
    if other is None or other.how == "defer" or not _may_be_taken(decided, node, other, options):
        return decided
    found = reuse_of(node, project, other, observed, planned)
    if decided.reason in _BEHIND and (isinstance(found, str) or found.moved):
        return decided
    if isinstance(found, str):
        detail = f"{decided.detail}; not reused: {found}".removeprefix("; ")
        return replace(decided, detail=detail)
    return replace(decided, run_type="reuse", detail=_told(found), incremental=None, replay=None, reuse=found)


def reuse_now(decided: PlannedNode, node: Node, project: Project, observed: Observed, options: Options) -> PlannedNode:
    """The same when all above has run: what came out as the other target has it is what its rows were made from."""
    other = project.elsewhere
    if other is None or other.how == "defer" or decided.reuse is not None or decided.prior is not None:
        return decided
    if not _may_be_taken(decided, node, other, options):
        return decided
    found = reuse_of(node, project, other, observed, {})
    if isinstance(found, str) or found.moved:
        return decided
    return replace(decided, run_type="reuse", detail=_told(found), incremental=None, replay=None, reuse=found)


def _may_be_taken(decided: PlannedNode, node: Node, other: Elsewhere, options: Options) -> bool:
    if decided.action != "run" or decided.run_type == "check" or options.force or options.full_refresh:
        return False
    if decided.reason not in _REASONS and decided.reason not in _BEHIND:
        return False
    if node.kind not in _KINDS or (node.type == "seed" and other.how == "copy"):
        # A seed is loaded as quickly as it is copied.
        return False
    if node.kind == "incremental" and options.has_window:
        return False
    return other.relations[node.name] != node.relation


def reuse_of(
    node: Node, project: Project, other: Elsewhere, observed: Observed, planned: Mapping[str, PlannedNode]
) -> Reuse | str:
    """What a node can take over from another target, or why it cannot."""
    relation = other.relations[node.name]
    there = observed.relations.get(relation)
    refused = _unfit(node, project, relation, there, observed) or _would_lose(node, project, other, observed)
    if refused is not None:
        return refused
    assert there is not None and there.version.snapshot_id is not None
    sources: dict[str, list[Any]] = {}
    moved: list[str] = []
    recorded = dict(there.sources)
    for found in inputs_of(node, project):
        key = found.key if found.external or found.view else str(other.relations[found.name])
        was = recorded.pop(key, None)
        if was is None:
            return f"{relation} was made without reading {found.name}"
        base = _base(found, was, project, other, observed, planned)
        if isinstance(base, str):
            return f"{relation} was made from {base}"
        sources[found.key] = base.record()
        if _moves(found, base, project, observed, planned):
            moved.append(found.name)
    if recorded:
        return f"{relation} was made from {min(recorded)} too"
    checked = not node.checks_hash or there.checks == checks_token(*_there(node, project, other), observed.relations)
    return Reuse(relation, there.version.snapshot_id, sources, tuple(moved), checked, other.how == "copy", other.target)


def _unfit(node: Node, project: Project, relation: Relation, there: Standing | None, observed: Observed) -> str | None:
    """Why what stands there is not what would be built here, whatever it was made from."""
    if there is None:
        return f"{relation} is not there"
    if there.is_view or not there.identity or there.drifted:
        return f"{relation} is not what sqb left there"
    if node.local_hash not in (there.local_hash, observed.renewed.get(there.local_hash)):
        return f"{relation} has another definition"
    if other := settings_change(node, project, there.identity):
        return f"{relation} was built under other settings: {other}"
    if there.version.snapshot_id is None or there.version.content is None:
        return f"{relation} does not say what its rows are"
    return None


def _would_lose(node: Node, project: Project, other: Elsewhere, observed: Observed) -> str | None:
    """What would be lost here if another table took the place of the one that stands."""
    standing = observed.of(node)
    if standing is None or standing.is_view:
        return None
    if node.kind in _HISTORIES or node.settings.get("on_source_delete") == "keep":
        return "the rows that it has here are kept"
    if other.how == "copy":
        return None
    for reader in project:
        below = observed.of(reader)
        if reader.kind == "append" and below is not None and str(node.relation) in below.sources:
            return f"{reader.name} is a log of its changes here"
    return None


def _base(
    found: Input,
    was: list[Any],
    project: Project,
    other: Elsewhere,
    observed: Observed,
    planned: Mapping[str, PlannedNode],
) -> Version | str:
    """The version of an input here that the other target's rows were made from; else, in words, what they were."""
    now = version_of(found, project, observed.relations)
    if found.view:
        return recorded_version(was) if same_version(was, now) else f"another definition of {found.name}"
    if found.external or other.relations[found.name] == found.relation:
        # The same relation in both targets: what was read is what was read, and what changed since can be followed.
        if found.name in observed.opaque:
            return f"{found.name}, a view that sqb did not make: its rows cannot be versioned"
        return recorded_version(was) if now is not None else f"{found.name}, which is not there"
    above = planned.get(found.name)
    if above is not None and above.reuse is not None:
        now = observed.relations[above.reuse.relation].version
    elif above is not None and _is_loaded_alike(project.nodes[found.name], project, above, other, observed):
        now = observed.relations[other.relations[found.name]].version
    elif above is not None and above.reason not in _SAME_DEFINITION:
        return f"{found.name} as it is in {other.target}; it is built anew here"
    if now is None or not same_version(was, now):
        return f"another version of {found.name}"
    return now


def _is_loaded_alike(seed: Node, project: Project, above: PlannedNode, other: Elsewhere, observed: Observed) -> bool:
    """Whether a seed that is about to be loaded gets the rows that it has in the other target."""
    if seed.type != "seed" or above.action != "run" or above.reason in _SAME_DEFINITION:
        return False
    relation = other.relations[seed.name]
    return _unfit(seed, project, relation, observed.relations.get(relation), observed) is None


def _moves(
    found: Input, base: Version, project: Project, observed: Observed, planned: Mapping[str, PlannedNode]
) -> bool:
    """Whether an input has moved on from a version, or may do so before the node's turn."""
    if found.view:
        return False
    above = planned.get(found.name)
    if above is not None and above.reuse is not None:
        return bool(above.reuse.moved)
    if above is not None and makes_rows(above):
        return above.type != "seed" or above.reason in _SAME_DEFINITION
    return not same_version(base.record(), version_of(found, project, observed.relations))


def _told(found: Reuse) -> str:
    if not found.moved:
        return f"from {found.relation}"
    more = f" and {len(found.moved) - 3} more" if len(found.moved) > 3 else ""
    return f"from {found.relation}, then what changed in {', '.join(found.moved[:3])}{more}"


def _there(node: Node, project: Project, other: Elsewhere) -> tuple[Node, Project]:
    """A node and its project as they are in the other target."""
    nodes = {n.name: replace(n, relation=other.relations[n.name]) for n in project}
    return nodes[node.name], replace(project, nodes=nodes)


def checks_hold(node: Node, project: Project, relations: Mapping[Relation, Standing]) -> bool:
    """Whether the checks passed in the other target, and look there at the same rows as here."""
    other = project.elsewhere
    if not node.checks_hash or other is None:
        return True
    node_there, project_there = _there(node, project, other)
    standing = relations.get(node_there.relation)
    if standing is None or standing.checks != checks_token(node_there, project_there, relations):
        return False
    here = [version_of(i, project, relations) for i in inputs_of_names(node.watches, project)]
    there = [version_of(i, project_there, relations) for i in inputs_of_names(node.watches, project_there)]
    return _tokens(here) == _tokens(there)


def _tokens(versions: list[Version | None]) -> list[str]:
    return sorted(rows_token(v) if v is not None else "" for v in versions)
