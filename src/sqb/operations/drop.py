"""Drops tables of models that are gone, with their files; only what sqb made, and only when that is confirmed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqb.build.observe.orphans import Orphan, find_orphans
from sqb.environments.janitor import NoEnvironments
from sqb.errors.call import CallError
from sqb.lake.open import open_iceberg_lake
from sqb.lake.port import Lake
from sqb.names import Relation, suggest_nearest
from sqb.workspace import Workspace


@dataclass(frozen=True, slots=True)
class DropOptions:
    """Which tables: by the names of their models or their own, or all of models that are gone."""

    names: tuple[str, ...] = ()
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class DroppedTable:
    """A table that was dropped, or would be; `kept` says why one stays."""

    orphan: Orphan
    files: int = 0
    bytes: int = 0
    kept: str = ""

    def to_data(self) -> dict[str, Any]:
        orphan = self.orphan
        return {
            "relation": str(orphan.relation),
            "model": orphan.model,
            "type": "view" if orphan.is_view else "table",
            "rows": orphan.rows,
            "files": self.files,
            "bytes": self.bytes,
            "kept": self.kept or None,
        }


@dataclass(frozen=True, slots=True)
class DropResult:
    """What was dropped, or would be."""

    tables: tuple[DroppedTable, ...]
    dry_run: bool

    def to_data(self) -> dict[str, Any]:
        """What `sqb drop --json` prints."""
        return {"dry_run": self.dry_run, "tables": [table.to_data() for table in self.tables]}


def drop_orphans(workspace: Workspace, options: DropOptions, confirm: Callable[[str], None]) -> DropResult:
    """Drop tables of models that are gone; `confirm` is asked first, and raises where the answer is no."""
    from sqb.lake.janitor.run import Janitor  # loads pyiceberg

    if workspace.virtual.enabled:
        raise CallError(
            "a project with virtual environments has no tables of models that are gone",
            hint="`sqb janitor` removes versions that no environment shows any more",
        )
    lake = open_iceberg_lake(workspace)
    orphans = find_orphans(workspace.project, lake)
    chosen = {o.relation: o for o in (_choose(options.names, orphans, workspace, lake) if options.names else orphans)}
    if not chosen:
        return DropResult((), options.dry_run)
    if not options.dry_run:
        count = f"{len(chosen)} tables" if len(chosen) > 1 else "1 table"
        confirm(f"drop {count} with all rows and snapshots: {', '.join(map(str, chosen))}?")
    janitor = Janitor(lake, workspace.retention, options.dry_run, tenants=NoEnvironments())
    tables = []
    for action in janitor.drop_relations(chosen, "its model is gone"):
        relation = Relation.parse(action.name)
        if action.what == "version" and relation in chosen:
            tables.append(DroppedTable(chosen.pop(relation), action.files, action.bytes))
    tables += [DroppedTable(o, kept=_explain(lake, o)) for o in chosen.values()]
    return DropResult(tuple(tables), options.dry_run)


def _choose(names: Sequence[str], orphans: Sequence[Orphan], workspace: Workspace, lake: Lake) -> list[Orphan]:
    """The tables that are named; anything else that a name means is refused."""
    chosen = []
    for name in names:
        items = [
            o for o in orphans if name.lower() in (str(o.relation).lower(), o.model.lower(), o.relation.name.lower())
        ]
        if len(items) != 1:
            raise _build_refusal(name, items, orphans, workspace, lake)
        chosen += items
    return chosen


def _build_refusal(
    name: str, matches: Sequence[Orphan], orphans: Sequence[Orphan], workspace: Workspace, lake: Lake
) -> CallError:
    if matches:
        return CallError(f'"{name}" means {len(matches)} tables', hint=f"name one: {matches[0].relation}")
    wanted = name.lower()
    for node in workspace.project:
        if wanted in (node.name.lower(), str(node.relation).lower(), node.relation.name.lower()):
            return CallError(f"{node.relation} is made by {node.file}", hint="delete the model first")
    if Relation.parse(wanted) in lake.list_pointers():
        hint = "drop it with what made it; sqb drops tables of its own in the schemas of the target"
        return CallError(f"{name} is not a table that sqb made for this target", hint=hint)
    nearest = suggest_nearest(name, [str(o.relation) for o in orphans])
    return CallError(
        f'no table of a model that is gone is called "{name}"', hint=nearest or "`sqb drop --dry-run` lists them"
    )


def _explain(lake: Lake, orphan: Orphan) -> str:
    """Why a table stayed."""
    if orphan.relation not in lake.list_pointers():
        return "it has gone meanwhile"
    return "something in the lake still reads it or shares its files: a view that names it, or a clone"
