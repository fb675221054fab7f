"""`plan_dbt(project, observed, options) -> DbtPlan`: what dbt has to run, and why. A pure function of values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from sqb.dbt.identity import TOLD_BY_SQL, changed_parts
from sqb.dbt.values import (
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
from sqb.dbt.versions import Versions, is_view
from sqb.names import human_age

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
        tuple(planning.doubtful),
        (*observed.notices, *_notices(planning)),
    )


@dataclass(frozen=True, slots=True)
class _Why:
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
    moving: dict[str, bool] = field(default_factory=dict)
    # What runs above those that are not run themselves.
    mover: dict[str, str] = field(default_factory=dict)
    blocked: dict[str, str] = field(default_factory=dict)
    doubtful: list[str] = field(default_factory=list)

    def visit(self, node: DbtNode) -> None:
        """Decide about one node; what is not run itself may still hand on what happens above it."""
        # A test that somebody asks for looks at what is there, however old it is.
        blocked = self._blocked(node) if self.options.command != "test" else ""
        if blocked:
            self.blocked[node.unique_id] = blocked
        if node.is_ephemeral or not self._is_selected(node):
            above = [d for d in node.depends_on if d in self.moving]
            if above and (node.is_ephemeral or is_view(node, self.observed)):
                self.moving[node.unique_id] = any(self.moving[d] for d in above)
                self.mover[node.unique_id] = self.mover.get(above[0], above[0])
            return
        if blocked:
            self._plan(node, "blocked", _Why("source_freshness_error", blocked))
            return
        why = self._why(node)
        if why is None:
            same = node.unique_id in self.observed.same_compiled
            self._plan(node, "skip", _Why("no change", "compiles to the same SQL" if same else ""))
            return
        self._plan(node, "run", why)
        if not node.is_test:
            self.moving[node.unique_id] = self._is_certain(node, why)

    def _is_selected(self, node: DbtNode) -> bool:
        if node.resource_type not in RUN_BY[self.options.command]:
            return False
        return self.options.selected is None or node.unique_id in self.selection

    def _plan(self, node: DbtNode, action: Action, why: _Why) -> None:
        self.planned[node.unique_id] = DbtPlanned(node.unique_id, node.resource_type, action, why.reason, why.detail)

    # --- why --------------------------------------------------------------------------------------------------------

    def _blocked(self, node: DbtNode) -> str:
        """Why a node must not run on what is above it; "" when it may."""
        for name in node.depends_on:
            if name in self.blocked:
                return self.blocked[name]
            if name in self.observed.blocked:
                return self.observed.blocked[name]
            if name in self.project.sources and (old := self._too_old(self.project.sources[name])):
                return old
        return ""

    def _too_old(self, source: DbtSource) -> str:
        seen = self.observed.seen.get(source.unique_id)
        if seen is None or seen.age is None or source.error_after is None or seen.age <= source.error_after:
            return ""
        return f"{source.name} is {human_age(seen.age)} old, error_after is {human_age(source.error_after)}"

    def _why(self, node: DbtNode) -> _Why | None:
        """Why a node must run; the order is the precedence that the documentation promises."""
        stored = self.observed.stored.get(node.unique_id)
        if stored is None:
            return _Why("first run", "it has not passed yet" if node.is_test else "")
        return (
            self._missing(node, stored)
            or self._changed(node, stored)
            or self._refreshed(node)
            or self._why_inputs(node, stored)
            or (_Why("requested") if self.options.everything else None)
        )

    def _missing(self, node: DbtNode, stored: DbtStored) -> _Why | None:
        seen = self.observed.seen.get(node.unique_id)
        if not node.is_built or seen is None or seen.exists or not stored.in_catalog:
            return None
        return _Why("relation missing", f"{node.relation} is not there")

    def _changed(self, node: DbtNode, stored: DbtStored) -> _Why | None:
        if node.relation is not None and stored.relation is not None and node.relation != stored.relation:
            return _Why("checksum changed", f"it was built as {stored.relation}")
        if stored.partial:
            return _Why("checksum changed", f"it was built with {stored.partial}")
        if stored.identity == node.identity or node.unique_id in self.observed.same_compiled:
            return None
        parts = changed_parts(stored.parts, node.parts) if stored.parts else ()
        return _Why("checksum changed", ", ".join(_PART_TEXTS[p] for p in parts))

    def _refreshed(self, node: DbtNode) -> _Why | None:
        wanted = self.options.full_refresh and node.resource_type in ("model", "seed")
        return _Why("full refresh") if wanted else None

    def _why_inputs(self, node: DbtNode, stored: DbtStored) -> _Why | None:
        running = list(dict.fromkeys(self.mover.get(name, name) for name in node.depends_on if name in self.moving))
        if running:
            verb = "runs" if len(running) == 1 else "run"
            return _Why("upstream_changed", f"{_listed(running)} {verb}", from_above=True)
        changed = self.versions.changed_for(node, stored.inputs)
        nodes = [name for name in changed if name not in self.project.sources]
        if nodes:
            return _Why("upstream_changed", f"{_listed(nodes)} changed since")
        pending = [name for name in node.depends_on if name in self.observed.pending]
        if pending:
            return _Why("source_freshness_changed", self.observed.pending[pending[0]])
        if changed:
            return _Why("source_freshness_changed", self._source_change(changed[0]))
        return None

    def _source_change(self, name: str) -> str:
        source, seen = self.project.sources[name], self.observed.seen.get(name)
        if seen is None or seen.version is None:
            return f"{source.name} is not in the catalog any more"
        if seen.version.kind == "value":
            return f"{source.name} has data up to {seen.version.value}"
        return f"{source.name} has new data"

    # --- what only dbt compile would tell -----------------------------------------------------------------------------

    def _is_certain(self, node: DbtNode, why: _Why) -> bool:
        """Whether a node runs whatever `dbt compile` would tell; notes those of which it would tell something."""
        in_doubt = why.reason == "checksum changed" and self._may_be_same(node)
        if not in_doubt and not why.from_above:
            return True
        certain = any(self.moving.get(name) for name in node.depends_on) or self._has_other_reason(node)
        if in_doubt and not certain:
            self.doubtful.append(node.unique_id)
        return certain

    def _may_be_same(self, node: DbtNode) -> bool:
        stored = self.observed.stored[node.unique_id]
        if not node.told_by_sql or not stored.compiled or not stored.parts or stored.relation != node.relation:
            return False
        return TOLD_BY_SQL.issuperset(changed_parts(stored.parts, node.parts))

    def _has_other_reason(self, node: DbtNode) -> bool:
        """Whether a node would run even if its definition and everything that runs above it proved to be the same."""
        stored = self.observed.stored[node.unique_id]
        if self._refreshed(node) is not None or any(name in self.observed.pending for name in node.depends_on):
            return True
        return bool(self.versions.changed_for(node, stored.inputs))


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _notices(planning: _Planning) -> Iterable[str]:
    project, observed = planning.project, planning.observed
    read = {name for unique_id in planning.planned for name in project.nodes[unique_id].depends_on}
    sources = [(s, observed.seen[s.unique_id]) for s in project.sources.values() if s.unique_id in observed.seen]
    sources = [(source, seen) for source, seen in sources if source.unique_id in read]
    # What is about to be built need not be there yet.
    unseen = [s.name for s, seen in sources if seen.version is None and s.unique_id not in observed.pending]
    if unseen:
        names = ", ".join(unseen)
        yield f"whether sources have new data cannot be told where they are no tables of the catalog: {names}"
    known = ((project.nodes[i].relation, observed.stored[i]) for i in planning.planned if i in observed.stored)
    outside = [str(relation) for relation, stored in known if relation is not None and not stored.in_catalog]
    if outside:
        names = ", ".join(outside)
        yield f"whether tables still exist cannot be told where dbt makes them outside of the catalog: {names}"
    for source, seen in sources:
        age, limit = seen.age, source.warn_after
        if age is not None and limit is not None and limit < age <= (source.error_after or age):
            yield f"the source {source.name} is {human_age(age)} old, warn_after is {human_age(limit)}"
