"""`plan_dbt(project, observed, options) -> DbtPlan`: what dbt has to run, and why. A pure function of values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from sqb.dbt.model import (
    RUN_BY,
    Action,
    DbtNode,
    DbtObserved,
    DbtOptions,
    DbtPlan,
    DbtPlanned,
    DbtProject,
    DbtSource,
    DbtStored,
    Reason,
)
from sqb.dbt.project.identity import DETERMINED_BY_SQL, list_changed_parts
from sqb.dbt.versions import Versions, is_view
from sqb.names import format_age

_PART_TEXTS = {
    "code": "its code",
    "config": "its configuration",
    "macros": "a macro that it calls",
    "runtime": "a macro that builds it",
    "vars": "a variable that it asks for",
    "reads": "what it reads",
}


def plan_dbt(project: DbtProject, observed: DbtObserved, options: DbtOptions = DbtOptions()) -> DbtPlan:
    """Decide about every selected node."""
    planning = _Planning(project, observed, options, Versions(project, observed), frozenset(options.selected or ()))
    for node in project.nodes.values():
        planning.visit(node)
    nodes = tuple(planning.planned.values())
    changed = any(n.reason == "checksum changed" and n.action == "run" and n.resource_type == "model" for n in nodes)
    return DbtPlan(
        nodes,
        options.full_refresh or (options.replay_on_change == "full" and changed),
        tuple(planning.uncertain),
        (*observed.notices, *_iter_notices(planning)),
    )


@dataclass(frozen=True, slots=True)
class _Cause:
    reason: Reason
    detail: str = ""
    # What runs above is all there is to it.
    from_above: bool = False


@dataclass(slots=True)
class _Planning:
    """One walk over the nodes, each after what it reads."""

    project: DbtProject
    observed: DbtObserved
    options: DbtOptions
    versions: Versions
    selection: frozenset[str]
    planned: dict[str, DbtPlanned] = field(default_factory=dict)
    # What will have other rows after the run, and whether that is so whatever `dbt compile` would tell.
    changing: dict[str, bool] = field(default_factory=dict)
    # What runs above those that are not run themselves.
    changing_upstream: dict[str, str] = field(default_factory=dict)
    blocked: dict[str, str] = field(default_factory=dict)
    uncertain: list[str] = field(default_factory=list)

    def visit(self, node: DbtNode) -> None:
        """Decide about one node; what is not run itself may still hand on what happens above it."""
        # A requested test runs on the current rows, however old they are.
        blocked = self._explain_block(node) if self.options.command != "test" else ""
        if blocked:
            self.blocked[node.unique_id] = blocked
        if node.is_ephemeral or not self._is_selected(node):
            above = [d for d in node.depends_on if d in self.changing]
            if above and (node.is_ephemeral or is_view(node, self.observed)):
                self.changing[node.unique_id] = any(self.changing[d] for d in above)
                self.changing_upstream[node.unique_id] = self.changing_upstream.get(above[0], above[0])
            return
        if blocked:
            self._add_planned(node, "blocked", _Cause("source_freshness_error", blocked))
            return
        why = self._find_reason(node)
        if why is None:
            same = node.unique_id in self.observed.same_compiled
            self._add_planned(node, "skip", _Cause("no change", "compiles to the same SQL" if same else ""))
            return
        self._add_planned(node, "run", why)
        if not node.is_test:
            self.changing[node.unique_id] = self._is_certain(node, why)

    def _is_selected(self, node: DbtNode) -> bool:
        if node.resource_type not in RUN_BY[self.options.command]:
            return False
        return self.options.selected is None or node.unique_id in self.selection

    def _add_planned(self, node: DbtNode, action: Action, why: _Cause) -> None:
        self.planned[node.unique_id] = DbtPlanned(node.unique_id, node.resource_type, action, why.reason, why.detail)

    # --- why --------------------------------------------------------------------------------------------------------

    def _explain_block(self, node: DbtNode) -> str:
        """Why a node must not run on what is above it; "" when it may."""
        for name in node.depends_on:
            if name in self.blocked:
                return self.blocked[name]
            if name in self.observed.blocked:
                return self.observed.blocked[name]
            if name in self.project.sources and (reason := self._explain_age(self.project.sources[name])):
                return reason
        return ""

    def _explain_age(self, source: DbtSource) -> str:
        state = self.observed.states.get(source.unique_id)
        if state is None or state.age is None or source.error_after is None or state.age <= source.error_after:
            return ""
        return f"{source.name} is {format_age(state.age)} old, error_after is {format_age(source.error_after)}"

    def _find_reason(self, node: DbtNode) -> _Cause | None:
        """Why a node must run; the order is the precedence that the documentation promises."""
        stored = self.observed.stored.get(node.unique_id)
        if stored is None:
            return _Cause("first run", "it has not passed yet" if node.is_test else "")
        return (
            self._find_missing(node, stored)
            or self._find_change(node, stored)
            or self._find_refresh(node)
            or self._find_input_change(node, stored)
            or (_Cause("requested") if self.options.everything else None)
        )

    def _find_missing(self, node: DbtNode, stored: DbtStored) -> _Cause | None:
        state = self.observed.states.get(node.unique_id)
        if not node.is_built or state is None or state.exists or not stored.in_catalog:
            return None
        return _Cause("relation missing", f"{node.relation} is not there")

    def _find_change(self, node: DbtNode, stored: DbtStored) -> _Cause | None:
        if node.relation is not None and stored.relation is not None and node.relation != stored.relation:
            return _Cause("checksum changed", f"it was built as {stored.relation}")
        if stored.partial:
            return _Cause("checksum changed", f"it was built with {stored.partial}")
        if stored.identity == node.identity or node.unique_id in self.observed.same_compiled:
            return None
        parts = list_changed_parts(stored.parts, node.parts) if stored.parts else ()
        return _Cause("checksum changed", ", ".join(_PART_TEXTS[p] for p in parts))

    def _find_refresh(self, node: DbtNode) -> _Cause | None:
        refresh = self.options.full_refresh and node.resource_type in ("model", "seed")
        return _Cause("full refresh") if refresh else None

    def _find_input_change(self, node: DbtNode, stored: DbtStored) -> _Cause | None:
        running = list(
            dict.fromkeys(self.changing_upstream.get(name, name) for name in node.depends_on if name in self.changing)
        )
        if running:
            verb = "runs" if len(running) == 1 else "run"
            return _Cause("upstream_changed", f"{_format_names(running)} {verb}", from_above=True)
        changed = self.versions.list_changed_inputs(node, stored.inputs)
        nodes = [name for name in changed if name not in self.project.sources]
        if nodes:
            return _Cause("upstream_changed", f"{_format_names(nodes)} changed since")
        pending = [name for name in node.depends_on if name in self.observed.pending]
        if pending:
            return _Cause("source_freshness_changed", self.observed.pending[pending[0]])
        if changed:
            return _Cause("source_freshness_changed", self._format_source_change(changed[0]))
        return None

    def _format_source_change(self, name: str) -> str:
        source, state = self.project.sources[name], self.observed.states.get(name)
        if state is None or state.version is None:
            return f"{source.name} is no longer in the catalog"
        if state.version.kind == "value":
            return f"{source.name} has data up to {state.version.value}"
        return f"{source.name} has new data"

    # --- what only dbt compile would tell -----------------------------------------------------------------------------

    def _is_certain(self, node: DbtNode, why: _Cause) -> bool:
        """Whether a node runs whatever `dbt compile` would tell; notes those of which it would tell something."""
        uncertain = why.reason == "checksum changed" and self._can_be_same(node)
        if not uncertain and not why.from_above:
            return True
        certain = any(self.changing.get(name) for name in node.depends_on) or self._has_other_reason(node)
        if uncertain and not certain:
            self.uncertain.append(node.unique_id)
        return certain

    def _can_be_same(self, node: DbtNode) -> bool:
        stored = self.observed.stored[node.unique_id]
        if not node.determined_by_sql or not stored.compiled or not stored.parts or stored.relation != node.relation:
            return False
        return DETERMINED_BY_SQL.issuperset(list_changed_parts(stored.parts, node.parts))

    def _has_other_reason(self, node: DbtNode) -> bool:
        """Whether a node would run even if its definition and everything that runs above it proved to be the same."""
        stored = self.observed.stored[node.unique_id]
        if self._find_refresh(node) is not None or any(name in self.observed.pending for name in node.depends_on):
            return True
        return bool(self.versions.list_changed_inputs(node, stored.inputs))


def _format_names(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _iter_notices(planning: _Planning) -> Iterable[str]:
    project, observed = planning.project, planning.observed
    read = {name for unique_id in planning.planned for name in project.nodes[unique_id].depends_on}
    sources = [(s, observed.states[s.unique_id]) for s in project.sources.values() if s.unique_id in observed.states]
    sources = [(source, seen) for source, seen in sources if source.unique_id in read]
    # What is about to be built need not be there yet.
    unseen = [s.name for s, seen in sources if seen.version is None and s.unique_id not in observed.pending]
    if unseen:
        names = ", ".join(unseen)
        yield f"new data cannot be detected in sources that are not tables of the catalog: {names}"
    known = ((project.nodes[i].relation, observed.stored[i]) for i in planning.planned if i in observed.stored)
    outside = [str(relation) for relation, stored in known if relation is not None and not stored.in_catalog]
    if outside:
        names = ", ".join(outside)
        yield f"missing tables cannot be detected where dbt makes them outside of the catalog: {names}"
    for source, seen in sources:
        age, limit = seen.age, source.warn_after
        if age is not None and limit is not None and limit < age <= (source.error_after or age):
            yield f"the source {source.name} is {format_age(age)} old, warn_after is {format_age(limit)}"
