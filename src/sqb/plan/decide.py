"""`plan(project, observed, options) -> Plan`: the decision about every node, in dependency order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqb.compiled import Node, Project
from sqb.compiled_python import PythonNode
from sqb.plan.above import Why, makes_rows, why_blocked
from sqb.plan.cascade import Replay
from sqb.plan.defer import noting_reads
from sqb.plan.freshness import (
    POLICY,
    age_warnings,
    described,
    despite_unchanged,
    too_old,
    unknown_source,
    unknown_warnings,
    untold,
)
from sqb.plan.functions import function_change
from sqb.plan.observed import (
    LOADER,
    MAKING,
    Input,
    Observed,
    Standing,
    changed_inputs,
    checks_token,
    has_passed,
    inputs_of,
    inputs_of_names,
    quiet_lookups,
    same_version,
    schema_changes,
    version_of,
)
from sqb.plan.python_nodes import decide_python
from sqb.plan.replaying import WINDOW, with_replay
from sqb.plan.reuse import with_reuse
from sqb.plan.roots import with_roots
from sqb.plan.settings import goes_on, settings_change, settings_warning
from sqb.plan.values import Options, Plan, PlannedNode, Reason, RunType
from sqb.sql.functions import as_written

_DEFINITION = frozenset(
    {Reason.FIRST_RUN, Reason.RELATION_MISSING, Reason.QUERY_CHANGED, Reason.CONFIG_CHANGED, Reason.FUNCTION_CHANGED}
)
_FROM_ABOVE = frozenset({Reason.SCHEMA_CHANGED, Reason.UPSTREAM_CHANGED})


def make_plan(project: Project, observed: Observed, options: Options = Options()) -> Plan:
    """Decide about every selected node."""
    planned: dict[str, PlannedNode] = {}
    # What is not selected and out of date, and why, as far up as the reason is.
    stale: dict[str, str] = {}
    replays: dict[str, Replay] = {}
    warnings: list[str] = []
    edges = project.edges() if project.python else {}
    for node in project.walk():
        selected = options.selected is None or node.name in options.selected
        if isinstance(node, PythonNode):
            if selected:
                planned[node.name] = decide_python(node, project, observed, options, planned, edges[node.name])
            continue
        if not selected:
            if why := _why_stale(node, project, observed, planned, stale):
                stale[node.name] = why
            continue
        decided = _decide(node, project, observed, options, planned)
        if edges:
            decided = replace(decided, upstream=edges[node.name])
        if node.kind == "append":
            decided = _with_tables(decided, node, project)
        if makes_rows(decided) and node.type == "model" and node.kind != "view":
            decided = with_replay(decided, node, project, observed, options, replays)
        decided = with_reuse(noting_reads(decided, node, project), node, project, observed, options, planned)
        planned[node.name] = decided
        stays = decided.run_type in ("skip", "check") or decided.pending
        if decided.action != "blocked" and stays and (drift := _drift(node, observed)) is not None:
            warnings.append(f"{node.name}: {drift}; it is left as it is (on_drift: warn), --force builds it anew")
        if decided.action != "blocked":
            warnings += [said] if (said := settings_warning(node, project, observed.of(node))) is not None else []
            warnings += [
                f"{node.name} reads {u}, which is out of date and not selected: {stale[u]}"
                for u in node.after
                if u in stale
            ]
    warnings += [*age_warnings(observed), *unknown_warnings(observed)]
    plan = Plan(project.target, tuple(planned.values()), tuple(warnings), options)
    return with_roots(plan, project, observed)


def _with_tables(decided: PlannedNode, node: Node, project: Project) -> PlannedNode:
    """The plan of a log, with the tables that drive it and those that it only looks things up in."""
    names = [i.name for i in inputs_of(node, project) if not i.view and not i.key.startswith("source ")]
    lookups = {one.name for one in node.lookups}
    drivers = tuple(sorted(n for n in names if n not in lookups))
    return replace(decided, drivers=drivers, lookups=tuple(sorted(n for n in names if n in lookups)))


def _why_stale(
    node: Node, project: Project, observed: Observed, planned: Mapping[str, PlannedNode], stale: Mapping[str, str]
) -> str:
    """Why a node that is not selected is not what its definition and its inputs say, or soon will not be; or ""."""
    alone = _why_alone(node, project, observed, Options())
    if alone is not None:
        return f"{node.name}: {alone.reason}"
    above = [stale[u] for u in node.upstream if u in stale]
    runs = [f"{u} runs" for u in node.upstream if makes_rows(planned.get(u))]
    return next(iter((*above, *runs)), "")


def _decide(
    node: Node, project: Project, observed: Observed, options: Options, planned: Mapping[str, PlannedNode]
) -> PlannedNode:
    blocked = _blocked(node, project, observed, planned, options)
    if blocked is not None:
        return _planned(node, "blocked", "skip", blocked)
    why = _why_alone(node, project, observed, options)
    remade = why is not None and why.reason in _FROM_ABOVE and _is_remade(node, project, observed, planned)
    if remade:
        # Columns that may yet turn out as they were hide no reason that is certain.
        why = _why_alone(node, project, observed, options, columns_first=False)
    if why is None or (remade and why.reason in _FROM_ABOVE):
        # What waits for others might be skipped, and its hooks with it.
        why = _hooks_missing(node, observed) or _why_upstream(node, project, planned)
        if why is None or why.pending:
            why = _why_despite(node, project, observed) or why
    if why is None:
        unchecked = _why_checks(node, project, observed, planned)
        if unchecked is not None:
            return _planned(node, "run", "check", unchecked)
        return _planned(node, "skip", "skip", Why(Reason.NORMAL, _quiet_change(node, project, observed)))
    return _planned(node, "run", _run_type(node, why.reason), why)


def _quiet_change(node: Node, project: Project, observed: Observed) -> str:
    """What changed that adds nothing to a log, in words; or ""."""
    standing, quiet = observed.of(node), quiet_lookups(node)
    if not quiet or standing is None:
        return ""
    changed = [
        i.name
        for i in inputs_of(node, project)
        if i.name in quiet and not same_version(standing.sources.get(i.key), version_of(i, project, observed.relations))
    ]
    return f"only lookups changed, which add nothing by themselves: {', '.join(changed)}" if changed else ""


def _planned(node: Node, action: str, run_type: RunType, why: Why) -> PlannedNode:
    return PlannedNode(
        name=node.name,
        type=node.type,
        kind=node.kind,
        relation=node.relation,
        action=action,  # type: ignore[arg-type]
        run_type=run_type,
        reason=why.reason,
        detail=why.detail,
        incremental=_incremental(node),
        upstream=node.after,
        pending=why.pending,
        notices=_notices(node),
    )


def _incremental(node: Node) -> dict[str, str] | None:
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
        return {"class": "opaque", "why": f"{as_written(node.volatile[0])} is volatile"}
    return None


def _notices(node: Node) -> tuple[str, ...]:
    found = []
    if node.unread:
        found.append(f"{node.unread}: the query could not be analysed here; it is left to Spark as it is written")
    if any("${" in text for text in (node.sql, *(h.text for h in node.hooks))) and _holds_substitution(node):
        found.append(
            "a string holds ${…}, which is text: @@name and @@ENV:NAME, outside of strings, are what is replaced"
        )
    if node.volatile and node.kind != "view" and POLICY not in node.settings:
        names = ", ".join(as_written(name) for name in node.volatile)
        found.append(f"uses {names}: its rows are as of its last run, and time alone does not make it run again")
    return tuple(found)


def _holds_substitution(node: Node) -> bool:
    from sqb.sql.expand import has_substitution  # few models need it, and a plan loads as little as it can

    return any(has_substitution(text) for text in (node.sql, *(h.text for h in node.hooks)))


def _run_type(node: Node, reason: Reason) -> RunType:
    return "backfill" if reason in _DEFINITION else "full"


def _blocked(
    node: Node, project: Project, observed: Observed, planned: Mapping[str, PlannedNode], options: Options
) -> Why | None:
    standing = observed.of(node)
    if _is_foreign(node, standing, observed) and not options.force:
        return Why(
            Reason.RELATION_FOREIGN,
            f"{node.relation} exists and was not made by sqb; --force replaces it, or give the model another name",
        )
    drift = _drift(node, observed) if _on_drift(node, options) == "fail" else None
    if drift is not None:
        return Why(Reason.CHANGED_OUTSIDE, f"{drift}; on_drift is fail, --force builds it anew")
    unknown = untold(node, project, observed)
    if unknown is not None:
        return Why(Reason.SOURCE_UNKNOWN, unknown)
    old = too_old(node, project, observed)
    if old is not None:
        return Why(Reason.SOURCE_TOO_OLD, old)
    return why_blocked((*node.after, *_loaders(node, project)), project, observed, planned)


def _is_foreign(node: Node, standing: Standing | None, observed: Observed) -> bool:
    """Whether a table that no node built, a loader's too, stands where the node's should: it is not ours to replace."""
    made_here = standing is not None and bool(standing.identity) and LOADER not in standing.identity
    if standing is None or made_here or standing.drifted:
        return False
    return node.name not in observed.known


def _why_alone(
    node: Node, project: Project, observed: Observed, options: Options, columns_first: bool = True
) -> Why | None:
    """Why a node must run whatever else does, or None. The order is the precedence that the documentation promises."""
    standing = observed.of(node)
    if standing is None:
        return Why(Reason.RELATION_MISSING if node.name in observed.known else Reason.FIRST_RUN)
    if _is_foreign(node, standing, observed):
        return Why(Reason.FORCED, f"{node.relation} was not made by sqb and is replaced")
    drift = _drift(node, observed)
    if drift is not None and _on_drift(node, options) == "warn":
        return _why_despite_drift(node, project, standing, observed)
    if drift is not None and not standing.identity:
        return Why(Reason.CHANGED_OUTSIDE, drift)
    definition = _definition_change(node, project, standing, observed)
    if definition is not None:
        return definition
    changed = _input_change(node, project, standing, observed)
    if columns_first and changed is not None and changed.reason is Reason.SCHEMA_CHANGED:
        return changed
    if drift is not None:
        return Why(Reason.CHANGED_OUTSIDE, drift)
    if options.force:
        return Why(Reason.FORCED)
    if options.full_refresh:
        return Why(Reason.FULL_REFRESH)
    if options.has_window and node.kind == "incremental":
        return Why(Reason.FORCED)
    unknown = unknown_source(node, project, observed)
    if changed is None and unknown is not None:
        return Why(Reason.SOURCE_UNKNOWN, unknown)
    return changed or _rest_of_window(standing)


def _hooks_missing(node: Node, observed: Observed) -> Why | None:
    standing = observed.of(node)
    if standing is None or not standing.hooks_missing or not any(hook.when == "post" for hook in node.hooks):
        return None
    return Why(Reason.HOOKS_MISSING, f"run {standing.identity.get('sqb.run_id', '')} ended before its post-hooks had")


def _on_drift(node: Node, options: Options) -> str:
    """What is to be done about drift; who asks for a rebuild gets one."""
    return "rebuild" if options.force or options.full_refresh else str(node.settings.get("on_drift", "rebuild"))


def _drift(node: Node, observed: Observed) -> str | None:
    """How what stands is not what sqb left there, or None."""
    standing = observed.of(node)
    if standing is None or _is_foreign(node, standing, observed):
        return None
    if not standing.identity:
        return f"{node.relation} was written or replaced by something else"
    # A kind that the project changed is no drift: what stands is what sqb left.
    other_kind = standing.is_view != (node.kind == "view") and _is_defined_alike(node, standing, observed)
    return f"{node.relation} was written or altered by something else" if standing.drifted or other_kind else None


def _why_despite_drift(node: Node, project: Project, standing: Standing, observed: Observed) -> Why | None:
    """Why a node must run whose table others may write to, compared with what sqb left there."""
    left = replace(standing, identity=standing.identity or standing.left)
    if not left.identity:
        return None
    return _definition_change(node, project, left, observed) or _input_change(node, project, left, observed)


def _is_defined_alike(node: Node, standing: Standing, observed: Observed) -> bool:
    stored = standing.local_hash
    return node.local_hash in (stored, observed.renewed.get(stored))


def _definition_change(node: Node, project: Project, standing: Standing, observed: Observed) -> Why | None:
    if _is_defined_alike(node, standing, observed):
        settings = None if goes_on(node) else settings_change(node, project, standing.identity)
        return Why(Reason.CONFIG_CHANGED, settings) if settings is not None else None
    identity = standing.identity
    if unfinished := identity.get(MAKING):
        return Why(Reason.CHANGED_OUTSIDE, f"run {unfinished} wrote to {node.relation} and did not come to its end")
    if identity.get("sqb.query_hash") == node.query_hash and identity.get("sqb.config_hash") != node.config_hash:
        return Why(Reason.CONFIG_CHANGED, f"{identity.get('sqb.config_hash', '')[:8]} → {node.config_hash[:8]}")
    functions = function_change(node, identity)
    if functions is not None:
        return Why(Reason.FUNCTION_CHANGED, functions)
    what = "content" if node.type == "seed" else "query"
    return Why(Reason.QUERY_CHANGED, f"{what} {identity.get('sqb.query_hash', '')[:8]} → {node.query_hash[:8]}")


def _input_change(node: Node, project: Project, standing: Standing, observed: Observed) -> Why | None:
    seen = inputs_of(node, project) if observed.opaque and node.kind != "view" else ()
    quiet = quiet_lookups(node)
    opaque = [i.name for i in seen if i.external and i.name in observed.opaque and i.name not in quiet]
    if opaque:
        return Why(Reason.SOURCE_CHANGED, f"{opaque[0]} is a view that sqb did not make: its rows cannot be versioned")
    changed = changed_inputs(node, project, standing, observed.relations)
    if not changed:
        return None
    other_columns = schema_changes(changed, node, project, standing, observed.relations)
    if other_columns:
        more = f"; and {len(other_columns) - 1} more" if len(other_columns) > 1 else ""
        return Why(Reason.SCHEMA_CHANGED, other_columns[0] + more)
    # A source that was not read before is read through a view above, which is what changed.
    external = [i for i in changed if i.external and i.key in standing.sources]
    first = (external or [i for i in changed if not i.external] or list(changed))[0]
    reason = Reason.SOURCE_CHANGED if external else Reason.UPSTREAM_CHANGED
    more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
    return Why(reason, _compared(first, project, standing, observed) + more)


def _rest_of_window(standing: Standing) -> Why | None:
    """A run whose end was given may have left rows after it."""
    window = standing.identity.get(WINDOW)
    return Why(Reason.SOURCE_CHANGED, f"the last run was for {window} only") if window else None


def _why_despite(node: Node, project: Project, observed: Observed) -> Why | None:
    """Its own policy, when nothing else is certain to make it run."""
    detail = despite_unchanged(node, project, observed)
    return Why(Reason.RUN_DESPITE_UNCHANGED, detail) if detail is not None else None


def _why_checks(node: Node, project: Project, observed: Observed, planned: Mapping[str, PlannedNode]) -> Why | None:
    """Why the checks of a node that does not run must: they, or what they look at, are not what passed."""
    standing = observed.of(node)
    token = checks_token(node, project, observed.relations)
    if not token or standing is None:
        return None
    if not has_passed(node, project, observed.relations):
        return Why(Reason.CHECKS_CHANGED, "these checks have not passed on these rows")
    names = node.after if node.kind == "view" else node.watches
    above = [i.name for i in inputs_of_names(names, project) if makes_rows(planned.get(i.name))]
    above += [name for name in project.loaders_above(names) if makes_rows(planned.get(name))]
    if not above:
        return None
    more = " …" if len(above) > 3 else ""
    return Why(Reason.CHECKS_CHANGED, f"{', '.join(above[:3])}{more} runs; if its output changes", pending=True)


def _is_remade(node: Node, project: Project, observed: Observed, planned: Mapping[str, PlannedNode]) -> bool:
    """Whether all that changed above is made again by this plan, and may turn out as it was when the node read it."""
    standing = observed.of(node)
    changed = changed_inputs(node, project, standing, observed.relations) if standing else ()
    known_later = [i for i in changed if not i.external and (not i.view or node.kind == "view")]
    runs = [i for i in known_later if makes_rows(planned.get(i.name))]
    return len(runs) == len(changed)


def _loaders(node: Node, project: Project) -> tuple[str, ...]:
    """The loaders of the sources that a node sees."""
    return project.loaders_above(node.after)


def _compared(found: Input, project: Project, standing: Standing, observed: Observed) -> str:
    recorded = standing.sources.get(found.key)
    now = version_of(found, project, observed.relations)
    if recorded is None:
        return f"{found.name} was not read before"
    if now is None:
        return f"{found.name} is not there any more"
    if found.external and (now.definition is not None or now.fresh is not None):
        return described(found.name, recorded, now)
    if now.definition is not None:
        return f"the view {found.name} changed"
    if recorded[0] == now.snapshot_id:
        return f"{found.name} dropped columns and added others of their names"
    name = f"{found.name} {found.travel.clause}" if found.travel is not None else found.name
    return f"{name} moved from snapshot {recorded[0]} to {now.snapshot_id}"


def _why_upstream(node: Node, project: Project, planned: Mapping[str, PlannedNode]) -> Why | None:
    """Something above runs: whether this node must run is known when that has been built."""
    above = [planned[i.name] for i in inputs_of(node, project) if not i.external and makes_rows(planned.get(i.name))]
    above += [planned[name] for name in _loaders(node, project) if makes_rows(planned.get(name))]
    # A lookup adds nothing by itself; only one that is made anew may get other columns.
    quiet = quiet_lookups(node)
    quiet |= {project.loaders[name] for name in quiet if name in project.loaders}
    above = [p for p in above if p.name not in quiet or p.reason in _DEFINITION]
    # What a view says is known beforehand; the columns that other views see in it are not.
    open_ = [p for p in above if p.kind != "view" or node.kind == "view"]
    if not open_:
        return None
    names = ", ".join(p.name for p in open_[:3]) + (" …" if len(open_) > 3 else "")
    condition = "if its columns change" if node.kind == "view" else "if its output changes"
    return Why(Reason.UPSTREAM_CHANGED, f"{names} runs; {condition}", pending=True)
