"""Where dbt and sqb read each other: which nodes are upstream and downstream, and in which order they are built.

dbt and sqb take turns. Models of sqb that dbt reads as sources are built before it, those that read dbt's models after
it, and so on for as long as the one reads the other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from sqb.compile.model import Project
from sqb.dbt.model import DbtPlan, DbtProject
from sqb.errors.dbt import CycleAcrossDbt
from sqb.graph import find_reachable, format_cycle, reverse_edges, sort_topologically
from sqb.names import Relation
from sqb.plan.model import Plan, PlannedNode, Reason, is_producing_rows

Side = Literal["sqb", "dbt"]


@dataclass(frozen=True, slots=True)
class Border:
    """The places where one reads the other."""

    # The dbt node behind each external of sqb that is one.
    from_dbt: Mapping[str, str] = field(default_factory=dict)
    # The sqb node behind each source of dbt that is one.
    from_sqb: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Phase:
    """What one side builds before the other continues."""

    side: Side
    names: frozenset[str]


def normalize_relation(relation: Relation, catalog: str) -> str:
    """What two names of one relation have in common: a schema of dbt's may begin with that of the catalog."""
    return str(relation).lower().removeprefix(f"{catalog.lower()}.")


def find_border(project: Project, dbt: DbtProject, catalog: str) -> Border:
    """Find who reads whom, by the relations."""

    def key(relation: Relation) -> str:
        return normalize_relation(relation, catalog)

    built = {key(n.relation): n.unique_id for n in dbt.nodes.values() if n.is_built and n.relation is not None}
    nodes = {key(n.relation): n.name for n in project}
    return Border(
        {e.name: built[key(e.relation)] for e in project.externals.values() if key(e.relation) in built},
        {s.unique_id: nodes[key(s.relation)] for s in dbt.sources.values() if key(s.relation) in nodes},
    )


def plan_phases(project: Project, dbt: DbtProject, border: Border, selected: Collection[str]) -> list[Phase]:
    """Plan the phases of both: the selection of dbt, and the sqb models upstream and downstream of it."""
    needed = _find_needed(project, dbt, border, selected)
    phases = _number_phases(project, dbt, border)
    names_by_phase: dict[int, set[str]] = {}
    for name in needed:
        names_by_phase.setdefault(phases[f"sqb {name}"], set()).add(name)
    for name in selected:
        if name in dbt.nodes:
            names_by_phase.setdefault(phases[f"dbt {name}"], set()).add(name)
    return [Phase("dbt" if phase % 2 else "sqb", frozenset(names_by_phase[phase])) for phase in sorted(names_by_phase)]


def _find_needed(project: Project, dbt: DbtProject, border: Border, selected: Collection[str]) -> set[str]:
    edges = project.list_edges()
    selected_names = set(selected)
    read = {source for name in selected_names if name in dbt.nodes for source in dbt.nodes[name].depends_on}
    above = {node for source, node in border.from_sqb.items() if source in read}
    readers = {n for n, reads in edges.items() for e in reads if border.from_dbt.get(e) in selected_names}
    below = find_reachable(readers, reverse_edges(edges))
    return {n for n in find_reachable(above | below, edges) if n in edges}


def _number_phases(project: Project, dbt: DbtProject, border: Border) -> dict[str, int]:
    """The turn of every node: even ones are sqb's."""
    upstream: dict[str, list[str]] = {}
    for name, reads in project.list_edges().items():
        mine = [f"dbt {border.from_dbt[r]}" if r in border.from_dbt else f"sqb {r}" for r in reads]
        upstream[f"sqb {name}"] = mine
    for name, node in dbt.nodes.items():
        sources = [f"sqb {border.from_sqb[r]}" if r in border.from_sqb else f"dbt {r}" for r in node.depends_on]
        upstream[f"dbt {name}"] = sources
    order, cycles = sort_topologically(upstream)
    if cycles:
        circle = [name.partition(" ")[2] for name in cycles[0]]
        raise CycleAcrossDbt(
            f"models of sqb and of dbt read each other in a circle: {format_cycle(circle)}",
            hint="let one of them read something else",
        )
    phases: dict[str, int] = {}
    for name in order:
        side = name[:3]
        above = [phases[u] + (u[:3] != side) for u in upstream[name] if u in phases]
        phases[name] = max(above, default=1 if side == "dbt" else 0)
    return phases


def find_blocked(project: Project, border: Border, reasons: Mapping[str, str]) -> dict[str, str]:
    """The sqb nodes that must not run because of dbt nodes that did not get built, with why; `reasons` are theirs."""
    edges = project.list_edges()
    blocked: dict[str, str] = {}
    for name, reads in ((n.name, edges[n.name]) for n in project.walk() if n.name in edges):
        dbt_node = next((border.from_dbt[r] for r in reads if border.from_dbt.get(r) in reasons), None)
        if dbt_node is not None:
            blocked[name] = f"{dbt_node} {reasons[dbt_node]}"
        elif above := next((r for r in reads if r in blocked), None):
            blocked[name] = blocked[above]
    return blocked


def exclude_nodes(project: Project, names: Collection[str], externals: Collection[str]) -> Project:
    """The project as it is without some nodes and externals; nothing that stays reads what goes."""
    if not names and not externals:
        return project
    return replace(
        project,
        nodes={n: v for n, v in project.nodes.items() if n not in names},
        externals={n: v for n, v in project.externals.items() if n not in externals},
        tests=tuple(t for t in project.tests if t.model not in names),
        python={n: v for n, v in project.python.items() if n not in names},
        order=tuple(n for n in project.order if n not in names),
    )


def merge_dbt_plan(plan: Plan, project: Project, border: Border, dbt: DbtPlan) -> Plan:
    """A plan of sqb in which nodes below dbt models that are to run, or are blocked, say so."""
    runs, blocked = set(dbt.runs), {n.unique_id for n in dbt.filter_nodes("blocked")}
    edges = project.list_edges()
    decided: dict[str, PlannedNode] = {}
    for node in plan.nodes:
        above = [border.from_dbt[r] for r in edges.get(node.name, ()) if r in border.from_dbt]
        waits = [n for n in above if n in runs] + [
            r for r in edges.get(node.name, ()) if is_producing_rows(decided.get(r))
        ]
        stops = [n for n in above if n in blocked]
        stops += [r for r in edges.get(node.name, ()) if r in decided and decided[r].action == "blocked"]
        if stops:
            detail = f"{stops[0]} is blocked"
            node = replace(node, action="blocked", run_type="skip", reason=Reason.UPSTREAM_BLOCKED, detail=detail)
        elif node.action == "skip" and waits:
            detail = f"{', '.join(waits[:3])} runs; if its output changes"
            reason = Reason.UPSTREAM_CHANGED
            node = replace(node, action="run", run_type="full", reason=reason, detail=detail, pending=True)
        decided[node.name] = node
    return replace(plan, nodes=tuple(decided.values()))


def plan_first_runs(project: Project, names: Iterable[str], missing: Mapping[str, str]) -> list[PlannedNode]:
    """What is planned for nodes that read dbt models which are not there yet."""
    return [
        PlannedNode(
            name=name,
            type=node.type,
            kind=node.kind,
            relation=node.relation,
            action="run",
            run_type="backfill",
            reason=Reason.FIRST_RUN,
            detail=f"when dbt has built {missing[name].partition(' ')[0]}",
            upstream=node.after,
        )
        for name in names
        if (node := project.nodes.get(name)) is not None
    ]
