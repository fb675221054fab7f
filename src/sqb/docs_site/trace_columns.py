"""Where the columns of a whole project come from, cached: tracing a query means parsing it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from sqb.build.observe.lake import LakeState
from sqb.cache import codec
from sqb.cache.files import read_entries, write_entries
from sqb.docs_site.source_columns import list_declared_columns
from sqb.inspect.lineage import LineageGraph, trace_project
from sqb.sql.analysis.lineage import Lineage, trace_lineage
from sqb.sql.text.spans import Reference
from sqb.workspace import Workspace, compute_code_stamp


def trace_columns(workspace: Workspace, seen: LakeState) -> LineageGraph:
    """The tables of a project, and what their columns are made of."""
    project = workspace.project
    named = {n.name: n.relation for n in project}
    named |= {e.name: seen.externals.get(e.name, e.relation) for e in project.externals.values()}

    def list_columns(name: str) -> list[str] | None:
        state = seen.states.get(named[name]) or seen.priors.get(name)
        if state is not None:
            return [column.name for column in state.columns]
        return list(list_declared_columns(project.sources.get(name))) or None

    cache = LineageCache(workspace.folder / "cache" / "lineage", compute_code_stamp())
    graph = trace_project(project, list_columns, trace=cache.trace)
    cache.save()
    return graph


class LineageCache:
    """Traces queries, from the cache where the same text was traced over the same columns by the same code."""

    def __init__(self, path: Path, code: str) -> None:
        self._path, self._code = path, code
        self._known = read_entries(path, code)
        self._used: dict[str, str] = {}

    def trace(self, text: str, slots: Sequence[Reference], columns: Sequence[Sequence[str] | None]) -> Lineage:
        """The lineage of a query whose tables have these columns."""
        key = _compute_key(text, slots, columns)
        if (entry := self._known.get(key)) is not None:
            try:
                lineage = codec.decode(Lineage, entry)
            except codec.Undecodable:
                pass
            else:
                self._used[key] = entry
                return lineage
        lineage = trace_lineage(text, slots, columns)
        self._used[key] = codec.encode(lineage)
        return lineage

    def save(self) -> None:
        """Keep what this run used."""
        if self._used != self._known:
            write_entries(self._path, self._code, self._used)


def _compute_key(text: str, slots: Sequence[Reference], columns: Sequence[Sequence[str] | None]) -> str:
    parts = [text, *(f"{s.start} {s.is_pinned}" for s in slots), *map(repr, columns)]
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]
