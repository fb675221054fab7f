"""`make_plan(project, observed, options, gate) -> Plan`: the decision about every node, in dependency order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from sqb.compile.model import Node, Project
from sqb.compile.python.model import PythonNode
from sqb.plan.changes.data import has_data_changes, list_data_changes
from sqb.plan.changes.functions import describe_function_change
from sqb.plan.changes.session_settings import build_settings_warning, describe_settings_change, is_history
from sqb.plan.defer import add_deferred_reads
from sqb.plan.freshness import (
    POLICY,
    describe_source_change,
    explain_policy_run,
    explain_too_old,
    explain_unversioned,
    find_unknown_source,
    list_age_warnings,
    list_unknown_warnings,
)
from sqb.plan.model import Cause, Options, Plan, PlannedNode, Reason, RunType, is_producing_rows
from sqb.plan.observed import (
    Input,
    Observed,
    RelationState,
    compute_checks_token,
    find_version,
    has_passed_checks,
    is_same_version,
    list_changed_inputs,
    list_inputs,
    list_inputs_of_names,
    list_quiet_lookups,
    list_schema_changes,
)
from sqb.plan.python_nodes import decide_python
from sqb.plan.refresh.describe import plan_refresh
from sqb.plan.replay import Replay, add_replay
from sqb.plan.reuse import plan_reuse
from sqb.plan.root_causes import add_root_causes
from sqb.project.config.settings import CostGate
from sqb.sql.functions.builtins import format_volatile

_SUBSTITUTION = "a string holds ${…}, which is text: @@name and @@ENV:NAME, outside of strings, are what is replaced"
_AS_OF_LAST_RUN = "its rows are as of its last run, and time alone does not make it run again"
_DEFINITION_REASONS = frozenset(
    {Reason.FIRST_RUN, Reason.RELATION_MISSING, Reason.QUERY_CHANGED, Reason.CONFIG_CHANGED, Reason.FUNCTION_CHANGED}
)
_UPSTREAM_REASONS = frozenset({Reason.SCHEMA_CHANGED, Reason.UPSTREAM_CHANGED})


def make_plan(project: Project, observed: Observed, options: Options = Options(), gate: CostGate = CostGate()) -> Plan:
    """Decide about every selected node: whether and why it runs, and how, as far as its query was observed."""
    planned: dict[str, PlannedNode] = {}
    # What is not selected and out of date, and why, as far up as the reason is.
    stale: dict[str, str] = {}
    replays: dict[str, Replay] = {}
    warnings: list[str] = []
    volatile = _describe_volatile_inputs(project)
    edges = project.list_edges() if project.python else {}
    for node in project.walk():
        selected = options.selected is None or node.name in options.selected
        if isinstance(node, PythonNode):
            if selected:
                blocked = _find_upstream_block(edges[node.name], project, observed, planned)
                planned[node.name] = decide_python(node, project, observed, options, planned, edges[node.name], blocked)
            continue
        if not selected:
            if why := _explain_stale(node, project, observed, planned, stale):
                stale[node.name] = why
            continue
        decided = _add_volatile_notice(_decide(node, project, observed, options, planned), node, project, volatile)
        if edges:
            decided = replace(decided, upstream=edges[node.name])
        if node.kind == "append":
            decided = _add_tables(decided, node, project)
        if is_producing_rows(decided) and node.type == "model" and node.kind != "view":
            decided = add_replay(decided, node, project, observed, options, replays)
        if project.other_target is not None:
            decided = plan_reuse(add_deferred_reads(decided, node, project), node, project, observed, options, planned)
        planned[node.name] = decided
        stays = decided.run_type in ("skip", "check") or decided.pending
        if decided.action != "blocked" and stays and (drift := _describe_drift(node, observed)) is not None:
            warnings.append(f"{node.name}: {drift}; it is left as it is (on_drift: warn), --force rebuilds it")
        if decided.action != "blocked":
            warnings += (
                [warning] if (warning := build_settings_warning(node, project, observed.get(node))) is not None else []
            )
            warnings += [
                f"{node.name} reads {u}, which is out of date and not selected: {stale[u]}"
                for u in node.after
                if u in stale
            ]
    if observed.sources or observed.unknown:
        warnings += [*list_age_warnings(observed), *list_unknown_warnings(observed)]
    warnings += _list_source_warnings(project)
    plan = Plan(project.target, tuple(planned.values()), tuple(warnings), options)
    if all(n.action == "skip" for n in plan.nodes):
        return plan
    return refine_plan(add_root_causes(plan, project, observed), project, observed, gate)


def refine_plan(plan: Plan, project: Project, observed: Observed, gate: CostGate = CostGate()) -> Plan:
    """The same decisions, with how nodes are brought up to date and how much changed, as far as that was observed.

    Who runs does not depend on it: a plan is made once, and refined when the queries of its nodes have been observed.
    """
    if not observed.queries and not observed.changes:
        return plan
    return replace(plan, nodes=tuple(_refine_node(n, project, observed, gate) for n in plan.nodes))


def _refine_node(planned: PlannedNode, project: Project, observed: Observed, gate: CostGate) -> PlannedNode:
    node = project.nodes.get(planned.name)
    if node is None or planned.action != "run":
        return planned
    if node.name in observed.queries:
        planned = plan_refresh(planned, node, project, observed, gate)
    if observed.changes and has_data_changes(planned):
        planned = replace(planned, changes=list_data_changes(node, project, observed))
    return planned


def _add_tables(decided: PlannedNode, node: Node, project: Project) -> PlannedNode:
    """The plan of a log, with the tables that drive it and those that it only looks things up in."""
    names = {i.name for i in list_inputs(node, project) if not i.view and not i.key.startswith("source ")}
    lookups = {lookup.name for lookup in node.lookups}
    drivers = tuple(sorted(n for n in names if n not in lookups))
    return replace(decided, drivers=drivers, lookups=tuple(sorted(n for n in names if n in lookups)))


def _explain_stale(
    node: Node, project: Project, observed: Observed, planned: Mapping[str, PlannedNode], stale: Mapping[str, str]
) -> str:
    """Why a node that is not selected is not what its definition and its inputs say, or soon will not be; or ""."""
    alone = _find_own_cause(node, project, observed, Options())
    if alone is not None:
        return f"{node.name}: {alone.reason}"
    above = [stale[u] for u in node.upstream if u in stale]
    runs = [f"{u} runs" for u in node.upstream if is_producing_rows(planned.get(u))]
    return next(iter((*above, *runs)), "")


def _decide(
    node: Node, project: Project, observed: Observed, options: Options, planned: Mapping[str, PlannedNode]
) -> PlannedNode:
    blocked = _find_block(node, project, observed, planned, options)
    if blocked is not None:
        return _build_planned(node, "blocked", "skip", blocked)
    why = _find_own_cause(node, project, observed, options)
    remade = why is not None and why.reason in _UPSTREAM_REASONS and _is_rebuilt_above(node, project, observed, planned)
    if remade:
        # Columns that may yet turn out as they were hide no reason that is certain.
        why = _find_own_cause(node, project, observed, options, columns_first=False)
    if why is None or (remade and why.reason in _UPSTREAM_REASONS):
        # What waits for others might be skipped, and its hooks with it.
        why = _find_missing_hooks(node, observed) or _find_upstream_cause(node, project, planned)
        if why is None or why.pending:
            why = _find_policy_cause(node, project, observed) or why
    if why is None:
        unchecked = _find_checks_cause(node, project, observed, planned)
        if unchecked is not None:
            return _build_planned(node, "run", "check", unchecked)
        return _build_planned(
            node, "skip", "skip", Cause(Reason.NORMAL, _describe_quiet_change(node, project, observed))
        )
    return _build_planned(node, "run", _choose_run_type(node, why.reason), why)


def _describe_quiet_change(node: Node, project: Project, observed: Observed) -> str:
    """What changed that adds nothing to a log, in words; or ""."""
    current, quiet = observed.get(node), list_quiet_lookups(node)
    if not quiet or current is None:
        return ""
    changed = [
        i.name
        for i in list_inputs(node, project)
        if i.name in quiet
        and not is_same_version(current.sources.get(i.key), find_version(i, project, observed.relations))
    ]
    return f"only lookups changed, which add nothing by themselves: {', '.join(changed)}" if changed else ""


def _build_planned(node: Node, action: str, run_type: RunType, why: Cause) -> PlannedNode:
    return PlannedNode(
        name=node.name,
        type=node.type,
        kind=node.kind,
        relation=node.relation,
        action=action,  # type: ignore[arg-type]
        run_type=run_type,
        reason=why.reason,
        detail=why.detail,
        incremental=_build_incremental(node),
        upstream=node.after,
        pending=why.pending,
        notices=_list_notices(node),
    )


def _build_incremental(node: Node) -> dict[str, str] | None:
    if node.type == "seed" or node.kind in ("view", "incremental", "custom"):
        return None
    if node.python:
        names = ", ".join(node.python["changes"])
        return (
            {"class": "opaque", "why": "its rows come from Python"}
            if not names
            else {
                "class": "changes",
                "why": f"it follows the changes of {names}",
            }
        )
    if node.unread:
        return {"class": "opaque", "why": f"the query could not be analysed ({node.unread})"}
    if node.table_calls:
        name, at = node.table_calls[0]
        return {"class": "opaque", "why": f"{name}() is a table function ({at})"}
    if node.volatile:
        return {"class": "opaque", "why": f"{format_volatile(node.volatile[0])} is volatile"}
    return None


def _list_notices(node: Node) -> tuple[str, ...]:
    notices = []
    if node.unread:
        notices.append(f"{node.unread}: the query could not be analysed here; it is left to Spark as it is written")
    if _has_substitution(*_iter_texts(node)):
        notices.append(_SUBSTITUTION)
    if node.volatile and node.kind != "view" and POLICY not in node.settings:
        names = ", ".join(format_volatile(name) for name in node.volatile)
        notices.append(f"uses {names}: {_AS_OF_LAST_RUN}")
    return tuple(notices)


def _describe_volatile_inputs(project: Project) -> dict[str, str]:
    """The views and expressions whose rows are others at another time, in words."""
    views = {
        n.name: f"the view {n.name}, which uses {', '.join(map(format_volatile, n.volatile))}"
        for n in project
        if n.kind == "view" and n.volatile
    }
    expressions = {
        s.name: f"{s.name}, whose expression may give other rows at another time"
        for s in project.sources.values()
        if s.expression is not None and s.expression.volatile
    }
    return views | expressions


def _add_volatile_notice(
    planned: PlannedNode, node: Node, project: Project, volatile: Mapping[str, str]
) -> PlannedNode:
    """What a table reads through views and expressions is as of its last run too."""
    if not volatile or node.kind == "view" or node.volatile or POLICY in node.settings:
        return planned
    read = [volatile[i.name] for i in list_inputs(node, project) if i.name in volatile]
    if not read:
        return planned
    return replace(planned, notices=(*planned.notices, f"reads {' and '.join(read)}: {_AS_OF_LAST_RUN}"))


def _list_source_warnings(project: Project) -> list[str]:
    """What is said of the queries of declared sources, which are no nodes."""
    queries = {
        source.name: (source.expression, source.watch.query if source.watch is not None else None)
        for source in project.sources.values()
    }
    texts = {name: [q.sql for q in both if q is not None] for name, both in queries.items()}
    return [f"{name}: {_SUBSTITUTION}" for name, sql in texts.items() if _has_substitution(*sql)]


def _has_substitution(*texts: str) -> bool:
    if not any("${" in text for text in texts):
        return False
    # Few models need it, and a plan loads as little as it can.
    from sqb.sql.text.expand import has_substitution

    return any(map(has_substitution, texts))


def _iter_texts(node: Node) -> Iterator[str]:
    """The SQL of a node: its query, its hooks and its checks."""
    yield node.sql
    yield from (hook.text for hook in node.hooks)
    if node.checks.checks:
        yield from node.checks.iter_texts()


def _choose_run_type(node: Node, reason: Reason) -> RunType:
    return "backfill" if reason in _DEFINITION_REASONS else "full"


def _find_block(
    node: Node, project: Project, observed: Observed, planned: Mapping[str, PlannedNode], options: Options
) -> Cause | None:
    current = observed.get(node)
    if _is_foreign(node, current, observed) and not options.force:
        return Cause(
            Reason.RELATION_FOREIGN,
            f"{node.relation} exists and was not made by sqb; --force replaces it, or give the model another name",
        )
    drift = _describe_drift(node, observed) if _get_drift_policy(node, options) == "fail" else None
    if drift is not None:
        return Cause(Reason.CHANGED_OUTSIDE, f"{drift}; on_drift is fail, --force rebuilds it")
    if observed.unversioned and (unknown := explain_unversioned(node, project, observed)) is not None:
        return Cause(Reason.SOURCE_UNKNOWN, unknown)
    if observed.sources and (old := explain_too_old(node, project, observed)) is not None:
        return Cause(Reason.SOURCE_TOO_OLD, old)
    return _find_upstream_block((*node.after, *_list_loaders(node, project)), project, observed, planned)


def _find_upstream_block(
    names: Iterable[str], project: Project, observed: Observed, planned: Mapping[str, PlannedNode]
) -> Cause | None:
    """Why a node cannot run that waits for these: one is blocked, or is not there and will not be made."""
    for name in names:
        above = planned.get(name)
        if above is not None and above.action == "blocked":
            return Cause(Reason.UPSTREAM_BLOCKED, f"{name} is blocked")
        if above is None and name in project.nodes and observed.get(project.nodes[name]) is None:
            return Cause(Reason.UPSTREAM_MISSING, f"{name} is not built and not selected")
    return None


def _is_foreign(node: Node, current: RelationState | None, observed: Observed) -> bool:
    """Whether a table that no node built, or that a loader filled, has the node's name: sqb does not replace it."""
    made_here = current is not None and bool(current.identity) and not current.identity.loader
    if current is None or made_here or current.drifted:
        return False
    return node.name not in observed.known_nodes


def _find_own_cause(
    node: Node, project: Project, observed: Observed, options: Options, columns_first: bool = True
) -> Cause | None:
    """Why a node must run whatever else does, or None. The order is the precedence that the documentation promises."""
    current = observed.get(node)
    if current is None:
        return Cause(Reason.RELATION_MISSING if node.name in observed.known_nodes else Reason.FIRST_RUN)
    if _is_foreign(node, current, observed):
        return Cause(Reason.FORCED, f"{node.relation} was not made by sqb and is replaced")
    drift = _describe_drift(node, observed)
    if drift is not None and _get_drift_policy(node, options) == "warn":
        return _find_cause_despite_drift(node, project, current, observed)
    if drift is not None and not current.identity:
        return Cause(Reason.CHANGED_OUTSIDE, drift)
    definition = _find_definition_change(node, project, current, observed)
    if definition is not None:
        return definition
    changed = _find_input_change(node, project, current, observed)
    if columns_first and changed is not None and changed.reason is Reason.SCHEMA_CHANGED:
        return changed
    if drift is not None:
        return Cause(Reason.CHANGED_OUTSIDE, drift)
    if options.force:
        return Cause(Reason.FORCED)
    if options.full_refresh:
        return Cause(Reason.FULL_REFRESH)
    if options.has_window and node.kind == "incremental":
        return Cause(Reason.FORCED)
    unknown = find_unknown_source(node, project, observed) if observed.unknown else None
    if changed is None and unknown is not None:
        return Cause(Reason.SOURCE_UNKNOWN, unknown)
    return changed or _find_window_rest(current)


def _find_missing_hooks(node: Node, observed: Observed) -> Cause | None:
    current = observed.get(node)
    if current is None or not current.hooks_missing or not any(hook.when == "post" for hook in node.hooks):
        return None
    return Cause(Reason.HOOKS_MISSING, f"run {current.identity.run_id} ended before its post-hooks had")


def _get_drift_policy(node: Node, options: Options) -> str:
    """The policy for drift; a requested rebuild always runs."""
    return "rebuild" if options.force or options.full_refresh else str(node.settings.get("on_drift", "rebuild"))


def _describe_drift(node: Node, observed: Observed) -> str | None:
    """How the relation differs from what sqb left there, or None."""
    current = observed.get(node)
    if current is None or _is_foreign(node, current, observed):
        return None
    if not current.identity:
        return f"{node.relation} was written or replaced by something else"
    # A kind that the project changed is not drift: the relation is as sqb left it.
    other_kind = current.is_view != (node.kind == "view") and _has_same_definition(node, current, observed)
    return f"{node.relation} was written or altered by something else" if current.drifted or other_kind else None


def _find_cause_despite_drift(node: Node, project: Project, current: RelationState, observed: Observed) -> Cause | None:
    """Why a node must run whose table others may write to, compared with what sqb left there."""
    last_built = replace(current, identity=current.known_identity)
    if not last_built.identity:
        return None
    return _find_definition_change(node, project, last_built, observed) or _find_input_change(
        node, project, last_built, observed
    )


def _has_same_definition(node: Node, current: RelationState, observed: Observed) -> bool:
    stored = current.local_hash
    return node.local_hash in (stored, observed.renewed_hashes.get(stored))


def _find_definition_change(node: Node, project: Project, current: RelationState, observed: Observed) -> Cause | None:
    if _has_same_definition(node, current, observed):
        settings = None if is_history(node) else describe_settings_change(node, project, current.identity)
        return Cause(Reason.CONFIG_CHANGED, settings) if settings is not None else None
    identity = current.identity
    if identity.in_progress:
        return Cause(
            Reason.CHANGED_OUTSIDE, f"run {identity.in_progress} wrote to {node.relation} and did not come to its end"
        )
    if identity.query_hash == node.query_hash and identity.config_hash != node.config_hash:
        return Cause(Reason.CONFIG_CHANGED, f"{identity.config_hash[:8]} → {node.config_hash[:8]}")
    functions = describe_function_change(node, identity)
    if functions is not None:
        return Cause(Reason.FUNCTION_CHANGED, functions)
    what = "content" if node.type == "seed" else "query"
    return Cause(Reason.QUERY_CHANGED, f"{what} {identity.query_hash[:8]} → {node.query_hash[:8]}")


def _find_input_change(node: Node, project: Project, current: RelationState, observed: Observed) -> Cause | None:
    all_inputs = list_inputs(node, project) if observed.opaque and node.kind != "view" else ()
    quiet = list_quiet_lookups(node)
    opaque = [i.name for i in all_inputs if i.external and i.name in observed.opaque and i.name not in quiet]
    if opaque:
        return Cause(
            Reason.SOURCE_CHANGED, f"{opaque[0]} is a view that sqb did not make: its rows cannot be versioned"
        )
    changed = list_changed_inputs(node, project, current, observed.relations)
    if not changed:
        return None
    other_columns = list_schema_changes(changed, node, project, current, observed.relations)
    if other_columns:
        more = f"; and {len(other_columns) - 1} more" if len(other_columns) > 1 else ""
        return Cause(Reason.SCHEMA_CHANGED, other_columns[0] + more)
    # A source that was not read before is read through a view above, which is what changed.
    external = [i for i in changed if i.external and i.key in current.sources]
    first = (external or [i for i in changed if not i.external] or list(changed))[0]
    reason = Reason.SOURCE_CHANGED if external else Reason.UPSTREAM_CHANGED
    more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
    return Cause(reason, _format_comparison(first, project, current, observed) + more)


def _find_window_rest(current: RelationState) -> Cause | None:
    """A run whose end was given may have left rows after it."""
    window = current.identity.window
    return Cause(Reason.SOURCE_CHANGED, f"the last run was for {window} only") if window else None


def _find_policy_cause(node: Node, project: Project, observed: Observed) -> Cause | None:
    """Its own policy, when nothing else is certain to make it run."""
    detail = explain_policy_run(node, project, observed) if POLICY in node.settings else None
    return Cause(Reason.RUN_DESPITE_UNCHANGED, detail) if detail is not None else None


def _find_checks_cause(
    node: Node, project: Project, observed: Observed, planned: Mapping[str, PlannedNode]
) -> Cause | None:
    """Why the checks of a node that does not run must: they, or what they look at, are not what passed."""
    current = observed.get(node)
    token = compute_checks_token(node, project, observed.relations)
    if not token or current is None:
        return None
    if not has_passed_checks(node, project, observed.relations):
        return Cause(Reason.CHECKS_CHANGED, "these checks have not passed on these rows")
    names = node.after if node.kind == "view" else node.watches
    above = [i.name for i in list_inputs_of_names(names, project) if is_producing_rows(planned.get(i.name))]
    above += [name for name in project.list_loaders_above(names) if is_producing_rows(planned.get(name))]
    if not above:
        return None
    more = " …" if len(above) > 3 else ""
    return Cause(Reason.CHECKS_CHANGED, f"{', '.join(above[:3])}{more} runs; if its output changes", pending=True)


def _is_rebuilt_above(node: Node, project: Project, observed: Observed, planned: Mapping[str, PlannedNode]) -> bool:
    """Whether all that changed above is made again by this plan, and may turn out as it was when the node read it."""
    current = observed.get(node)
    changed = list_changed_inputs(node, project, current, observed.relations) if current else ()
    known_later = [i for i in changed if not i.external and (not i.view or node.kind == "view")]
    runs = [i for i in known_later if is_producing_rows(planned.get(i.name))]
    return len(runs) == len(changed)


def _list_loaders(node: Node, project: Project) -> tuple[str, ...]:
    """The loaders of the sources that a node sees."""
    return project.list_loaders_above(node.after)


def _format_comparison(upstream_input: Input, project: Project, current: RelationState, observed: Observed) -> str:
    recorded = current.sources.get(upstream_input.key)
    now = find_version(upstream_input, project, observed.relations)
    travel = upstream_input.travel
    name = f"{upstream_input.name} {travel.clause}" if travel is not None else upstream_input.name
    if recorded is None:
        above = project.nodes.get(upstream_input.name)
        return (
            f"{name} has another name now"
            if above is not None and above.former_names
            else f"{name} was not read before"
        )
    if now is None:
        return f"{name} no longer exists"
    if upstream_input.external and (now.definition is not None or now.fresh is not None):
        return describe_source_change(upstream_input.name, recorded, now)
    if now.definition is not None:
        return f"the view {upstream_input.name} changed"
    if recorded.snapshot_id == now.snapshot_id:
        return f"{upstream_input.name} dropped columns and added others of their names"
    return f"{name} moved from snapshot {recorded.snapshot_id} to {now.snapshot_id}"


def _find_upstream_cause(node: Node, project: Project, planned: Mapping[str, PlannedNode]) -> Cause | None:
    """Something above runs: whether this node must run is known when that has been built."""
    inputs = [i.name for i in list_inputs(node, project) if not i.external]
    above = [planned[name] for name in (*inputs, *_list_loaders(node, project)) if is_producing_rows(planned.get(name))]
    if not above:
        return None
    # A lookup adds nothing by itself; only one that is made anew may get other columns.
    quiet = list_quiet_lookups(node)
    quiet |= {project.loaders[name] for name in quiet if name in project.loaders}
    above = [p for p in above if p.name not in quiet or p.reason in _DEFINITION_REASONS]
    # What a view says is known beforehand; the columns that other views see in it are not.
    open_ = [p for p in above if p.kind != "view" or node.kind == "view"]
    if not open_:
        return None
    listed = ", ".join(p.name for p in open_[:3]) + (" …" if len(open_) > 3 else "")
    condition = "if its columns change" if node.kind == "view" else "if its output changes"
    return Cause(Reason.UPSTREAM_CHANGED, f"{listed} runs; {condition}", pending=True)
