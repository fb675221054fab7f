"""Environments of a few nodes in memory: building one is saying which definitions it has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqb.build.failpoints import Announce, ignore_step
from sqb.compile.model import Project
from sqb.environments.model import Binding, Environment, Ref, Status, Version
from sqb.environments.naming import build_logical_relation, build_physical_relation
from sqb.environments.promotion.promote import PromotionOptions, PromotionResult, promote
from sqb.environments.promotion.rollback import RollbackResult, roll_back
from sqb.environments.promotion.three_way_merge import find_misfits
from sqb.environments.selection import select_nodes
from sqb.environments.state.store import Store
from sqb.environments.views import build_checkpoint, drop_environment, lock_environment, swap_views, update_bases
from sqb.identity import digest
from sqb.lake.port import ViewSwap
from sqb.names import Relation
from sqb.project.config.connections.model import CatalogSettings, Connection, SparkSettings
from sqb.project.config.virtual import VirtualSettings
from sqb.workspace import Workspace
from support.memory_lake import MemoryLake
from support.memory_store import MemoryStore

# What a node says, and what it reads.
Definitions = Mapping[str, tuple[str, tuple[str, ...]]]


class SmallWorld:
    """A store, a lake and a project without nodes of its own; its target is `prod`."""

    def __init__(
        self, lake: MemoryLake | None = None, unsuffixed: str | None = None, store: Store | None = None
    ) -> None:
        self.store = store or MemoryStore()
        self.lake = lake or MemoryLake()
        self.workspace = Workspace(
            Path("."),
            Connection("local", CatalogSettings(), SparkSettings()),
            None,
            Project("shop", "prod", {}, {}),
            virtual=VirtualSettings(enabled=True, unsuffixed=unsuffixed),
        )

    def build(
        self,
        name: str,
        nodes: Definitions,
        only: tuple[str, ...] | None = None,
        rows: int = 1,
        announce: Announce = ignore_step,
    ) -> None:
        """Bind nodes as a build does that ran all of them, or only some."""
        with lock_environment(self.store, self.lake, name, "a test") as token:
            known, baseline = self.store.read_environments(), self.store.read_refs("prod")
            there, now = known.get(name), datetime.now(UTC)
            prod = known.get("prod") if name != "prod" else None
            environment = there or Environment(
                name,
                Status.ACTIVE,
                now,
                now,
                baseline="prod" if name != "prod" else "",
                run_id="r1",
                began=prod.checkpoint if prod is not None else "",
            )
            began = {n: Ref(r.binding, r.binding.version_hash) for n, r in baseline.items()} if there is None else {}
            before = self.store.read_refs(name)
            refs = dict(before or began)
            expected = self._bindings(nodes, rows)
            for node, bound in expected.items():
                if only is None or node in only:
                    refs[node] = replace(refs.get(node, Ref(bound)), binding=bound)
            if only is None:
                refs = {n: r for n, r in refs.items() if n in nodes}
            refs = update_bases(refs, baseline if name != "prod" else refs)
            final = all(n in refs and refs[n].binding.version_hash == b.version_hash for n, b in expected.items())
            checkpoint = (
                build_checkpoint(environment, refs, "build", "", "r1") if final and not find_misfits(refs) else None
            )
            status = Status.FINALIZED if checkpoint is not None else Status.ACTIVE
            after = replace(
                environment, status=status, checkpoint=checkpoint.id if checkpoint else environment.checkpoint
            )
            unsuffixed = self.workspace.virtual.unsuffixed
            swap_views(self.store, self.lake, after, before, refs, token, unsuffixed, checkpoint, announce)

    def _bindings(self, nodes: Definitions, rows: int) -> dict[str, Binding]:
        by_name: dict[str, Binding] = {}
        for name, (text, reads) in nodes.items():
            above = {r: by_name[r].version_hash for r in reads}
            local = digest(name, text)
            version = digest(local, *above.values())
            logical = Relation("shop", name)
            table = build_physical_relation(logical, version)
            self.store.add_versions([Version(name, version, local, digest(text), "", "", "{}")])
            if table not in self.lake.list_pointers():
                self.lake.swap_views([ViewSwap(table, "SELECT 1")])
            shown = f"SELECT * FROM {table} VERSION AS OF {rows}"
            by_name[name] = Binding(
                name, "model", "table", local, version, table, None, shown, upstream=above, logical=logical
            )
        return by_name

    def promote(self, source: str, target: str = "prod", *select: str, **options: Any) -> PromotionResult:
        """Promote with the options of the command line."""

        def chosen(mine: Mapping[str, Ref], theirs: Mapping[str, Ref]) -> frozenset[str] | None:
            return select_nodes(select, self.workspace.project, mine, theirs)

        announce = options.pop("announce", lambda step, node: None)
        how = PromotionOptions(**options)
        return promote(self.workspace, self.store, self.lake, source, target, chosen, how, "a test", announce)

    def remove(self, name: str, force: bool = False, announce: Announce = ignore_step) -> int:
        """Take an environment away as the command does once it was confirmed."""
        return drop_environment(self.store, self.lake, name, "a test", False, force, announce)

    def roll_back(self, name: str = "prod", wanted: str | None = None, **options: Any) -> RollbackResult:
        """Roll back with the options of the command line."""
        return roll_back(self.workspace, self.store, self.lake, name, wanted, owner="a test", **options)

    def shown(self, name: str = "prod") -> dict[str, str]:
        """What readers of an environment see: its views' texts, which must be those of its refs."""
        refs = self.store.read_refs(name)
        unsuffixed = self.workspace.virtual.unsuffixed
        views = {n: build_logical_relation(r.binding.logical, name, unsuffixed) for n, r in refs.items()}
        schema = build_logical_relation(Relation("shop", ""), name, unsuffixed).schema
        assert set(views.values()) == {
            r for r, p in self.lake.list_pointers().items() if r.schema == schema and p.is_view
        }
        texts = {n: self.lake.view_text(view) for n, view in views.items()}
        assert texts == {n: r.binding.text for n, r in refs.items()}
        assert all(self.lake.list_pointers()[views[n]].location == r.location for n, r in refs.items())
        return texts

    def status(self, name: str = "prod") -> Status:
        return self.store.read_environments()[name].status
