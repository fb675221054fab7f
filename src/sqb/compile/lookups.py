"""The lookups of logs: tables that are joined on a key declared unique, and whose columns decide about no row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from sqb.compile.model import Lookup, Node, Project
from sqb.compile.resolve import Draft
from sqb.errors.base import Errors
from sqb.errors.project import BadLookup
from sqb.names import At, locate_offset, suggest_nearest
from sqb.sql.delta.joins.model import JoinedSlot, Joins, Obstacle, get_slot_name
from sqb.sql.text.spans import fill_references
from sqb.sql.text.template import Part

ReadJoins = Callable[[str, int], Joins]
_UNIQUE = ("unique", "composite_unique", "primary_key")
_HINT = "a lookup is LEFT or INNER JOINed by `=`, and its columns are used in the select list only"


def add_lookups(project: Project, drafts: Mapping[str, Draft], read: ReadJoins, errors: Errors) -> Project:
    """The project, in which every log knows the tables that drive nothing."""
    logs = [n for n in project if n.kind == "append" and not n.python and not n.unread]
    if not logs:
        return project
    parts = _list_parts(project)
    keys = {name: tuple(_iter_unique_keys(draft)) for name, draft in drafts.items() if name in project.nodes}
    nodes = {n.name: _add_node_lookups(n, _Finder(n, parts, keys, read), drafts[n.name], errors) for n in logs}
    return replace(project, nodes={**project.nodes, **nodes})


def _list_parts(project: Project) -> dict[str, Part]:
    """The queries that other queries are read through."""
    views = {n.name: Part(n.sql, n.slots, n.reads) for n in project if n.kind == "view"}
    queries = ((s.name, s.expression) for s in project.sources.values() if s.name not in project.nodes)
    return views | {name: Part(q.sql, q.slots, q.reads) for name, q in queries if q is not None}


def _iter_unique_keys(draft: Draft) -> Iterator[frozenset[str]]:
    """The columns by which no two rows of a node are the same, as the project declares and checks it."""
    if draft.kind == "merge" and "unique_key" in draft.settings:
        yield frozenset(name.lower() for name in draft.settings["unique_key"].value)
    for check in draft.checks:
        if check.name in _UNIQUE and check.is_blocking:
            yield frozenset(name.strip("`").lower() for name in check.columns)


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A reference of a query, seen through views: its name, the views on the way, and its slots in the template."""

    name: str
    path: tuple[str, ...]
    # A view that is read as a whole has the tables beneath it.
    tables: tuple[str, ...]
    first: int


class _Finder:
    """Finds the lookups of one query."""

    def __init__(
        self, node: Node, parts: Mapping[str, Part], keys: Mapping[str, tuple[frozenset[str], ...]], read: ReadJoins
    ) -> None:
        self.node, self.parts, self.keys, self.read = node, parts, keys, read
        self.copied: list[tuple[int, int, int]] = []
        self.leaves: list[_Leaf] = []
        self.joins = Joins(())
        self.declared: frozenset[str] = frozenset()

    def find(self, declared: frozenset[str]) -> dict[int, JoinedSlot]:
        """The leaves that are lookups; `declared` are the names that the model itself says are."""
        self.declared = declared
        # A view that is a lookup by itself is not looked into, unless it has to be.
        whole = {name for name in self.parts if name in declared or self.keys.get(name)}
        while True:
            self._read_joins(whole)
            views = {leaf.name for leaf in self.leaves if leaf.name in whole}
            lookups = self._find_candidates()
            closed = {leaf.name for i, leaf in enumerate(self.leaves) if i in lookups and lookups[i].is_left}
            if views <= closed:
                break
            whole -= views - closed
        return self._filter_consistent(lookups)

    def _read_joins(self, whole: set[str]) -> None:
        self.leaves = []

        def text_of(part: Part, path: tuple[str, ...]) -> tuple[str, list[tuple[int, int, int]]]:
            relations: dict[int, str] = {}
            for index, (slot, name) in enumerate(zip(part.slots, part.reads, strict=True)):
                if name in self.parts and name not in whole:
                    relations[index] = f"({text_of(self.parts[name], (*path, name))[0]}\n)"
                elif slot.is_pinned and name not in self.parts:
                    relations[index] = "__sqb_fixed"
                else:
                    tables = tuple(_iter_tables(name, self.parts))
                    relations[index] = get_slot_name(len(self.leaves))
                    self.leaves.append(_Leaf(name, path, tables, sum(len(leaf.tables) for leaf in self.leaves)))
            return fill_references(part.text.rstrip().rstrip(";"), part.slots, relations)

        text, self.copied = text_of(Part(self.node.sql, self.node.slots, self.node.reads), ())
        self.joins = self.read(text, len(self.leaves))

    def is_declared(self, leaf: _Leaf) -> bool:
        return not self.declared.isdisjoint((leaf.name, *leaf.path))

    def _find_candidates(self) -> dict[int, JoinedSlot]:
        candidates: dict[int, JoinedSlot] = {}
        for index, (leaf, slot) in enumerate(zip(self.leaves, self.joins.slots, strict=True)):
            if isinstance(slot, Obstacle):
                continue
            is_unique = any(key <= set(slot.columns) for key in self.keys.get(leaf.name, ()))
            if self.is_declared(leaf) or (slot.is_left and is_unique):
                candidates[index] = slot
        return candidates

    def _filter_consistent(self, candidates: Mapping[int, JoinedSlot]) -> dict[int, JoinedSlot]:
        """Those whose columns join only lookups that are LEFT JOINed, of tables that are lookups wherever they are."""
        consistent = dict(candidates)
        while True:
            good = {
                i
                for i, slot in consistent.items()
                if all(j in consistent and consistent[j].is_left for j in slot.joins)
            }
            drivers = {t for i, leaf in enumerate(self.leaves) if i not in good for t in leaf.tables}
            good = {i for i in good if drivers.isdisjoint(self.leaves[i].tables)}
            if len(good) == len(consistent):
                return consistent
            consistent = {i: slot for i, slot in consistent.items() if i in good}

    def find_obstacle(self, index: int) -> Obstacle:
        """What keeps a leaf from being a lookup."""
        slot = self.joins.slots[index]
        if isinstance(slot, Obstacle):
            return slot
        if slot.joins:
            why = "its columns are used in the condition of a join that is not a lookup's LEFT JOIN"
            return Obstacle(why, slot.offset)
        return Obstacle("it is also read elsewhere in the query", slot.offset)


def _iter_tables(name: str, parts: Mapping[str, Part]) -> Iterator[str]:
    """The tables beneath a name, in the order of a template's slots."""
    if name not in parts:
        yield name
        return
    for slot, below in zip(parts[name].slots, parts[name].reads, strict=True):
        if below in parts or not slot.is_pinned:
            yield from _iter_tables(below, parts)


def _add_node_lookups(node: Node, finder: _Finder, draft: Draft, errors: Errors) -> Node:
    declared = _resolve_declared(node, finder.parts, draft, errors)
    if not declared and not any(finder.keys.get(name) for name in _iter_read_through(node.reads, finder.parts)):
        return node
    joined_slots = finder.find(frozenset(declared))
    for index, leaf in enumerate(finder.leaves):
        if index not in joined_slots and finder.is_declared(leaf):
            name = next(n for n in declared if n in (leaf.name, *leaf.path))
            errors.add(_build_error(name, leaf, finder.find_obstacle(index), finder, draft))
    late: dict[str, list[tuple[int, tuple[str, ...]]]] = {}
    for index, slot in joined_slots.items():
        if not slot.is_left:
            leaf = finder.leaves[index]
            late.setdefault(leaf.name, []).append((leaf.first, slot.columns))
    tables = sorted({t for i in joined_slots for t in finder.leaves[i].tables})
    lookups = [Lookup(name, name in late, tuple(late.get(name, ()))) for name in tables]
    lookups += _find_views(finder, joined_slots, set(late))
    slots = set(joined_slots)
    columns = [name for name, behind in finder.joins.columns.items() if slots.intersection(behind)]
    columns += ["*"] if slots.intersection(finder.joins.rest) else []
    return replace(node, lookups=tuple(lookups), lookup_columns=tuple(columns))


def _find_views(finder: _Finder, lookups: Mapping[int, JoinedSlot], late: set[str]) -> list[Lookup]:
    """The views through which only lookups are read."""
    beneath: dict[str, list[int]] = {}
    for index, leaf in enumerate(finder.leaves):
        inside = _iter_read_through((leaf.name,), finder.parts) if leaf.name in finder.parts else ()
        for view in {*leaf.path, *(n for n in inside if n in finder.parts)}:
            beneath.setdefault(view, []).append(index)
    only = {view: indexes for view, indexes in beneath.items() if all(i in lookups for i in indexes)}
    return [Lookup(view, any(finder.leaves[i].name in late for i in indexes)) for view, indexes in sorted(only.items())]


def _iter_read_through(names: tuple[str, ...], parts: Mapping[str, Part]) -> Iterator[str]:
    """Names, and all that is read through those of them that are views."""
    for name in names:
        yield name
        if name in parts:
            yield from _iter_read_through(tuple(parts[name].reads), parts)


def _resolve_declared(node: Node, parts: Mapping[str, Part], draft: Draft, errors: Errors) -> list[str]:
    """The names behind those that the model lists, as it reads them."""
    setting = draft.settings.get("lookups")
    if setting is None:
        return []
    known = list(dict.fromkeys(_iter_read_through(node.reads, parts)))
    names: list[str] = []
    for written in setting.value:
        named = [n for n in known if n.lower() == written.lower()]
        named = named or [n for n in known if n.rpartition(".")[2].lower() == written.lower()]
        if len(named) == 1:
            names += named
            continue
        hint = suggest_nearest(written, known) or f"it reads {', '.join(known)}"
        message = f"`lookups` names {written}, which is not a table of the query"
        errors.add(BadLookup(message, at=setting.at, hint=hint))
    return names


def _build_error(name: str, leaf: _Leaf, obstacle: Obstacle, finder: _Finder, draft: Draft) -> BadLookup:
    through = f" (read through {name})" if leaf.name != name else ""
    message = f"{leaf.name}{through} cannot be a lookup: {obstacle.why}"
    hint = _HINT
    if name in finder.parts and leaf.path:
        hint = f"{name} does more than choose columns of one table: make it a table, or LEFT JOIN it"
    return BadLookup(message, at=_locate_obstacle(obstacle, finder, draft), hint=hint)


def _locate_obstacle(obstacle: Obstacle, finder: _Finder, draft: Draft) -> At:
    """Where an obstacle is in the model's file; for one inside of a view, where the view is read."""
    if obstacle.offset is None or draft.expanded is None or not finder.node.pieces:
        return draft.settings["lookups"].at
    at, origin, length = [c for c in finder.copied if c[0] <= obstacle.offset][-1]
    offset = origin + min(max(obstacle.offset - at, 0), length)
    return locate_offset(draft.text, draft.expanded.trace_origin(offset), draft.file)
