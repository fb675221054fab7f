"""Where the columns of a whole project come from, cached: tracing a query means parsing it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sqb.build.observe.lake import LakeState
from sqb.cache import codec
from sqb.cache.files import read_entries, write_entries
from sqb.cache.forks import count_processes, start_forks
from sqb.docs_site.source_columns import list_declared_columns
from sqb.inspect.lineage import LineageGraph, trace_project
from sqb.sql.analysis.lineage import Lineage, trace_lineage
from sqb.sql.text.spans import Reference
from sqb.workspace import Workspace, compute_code_stamp


@contextmanager
def trace_columns(workspace: Workspace, seen: LakeState) -> Iterator[Callable[[], LineageGraph]]:
    """What gives the tables of a project, and what their columns are made of; a fork begins where little is known."""
    project = workspace.project
    named = {n.name: n.relation for n in project}
    named |= {e.name: seen.externals.get(e.name, e.relation) for e in project.externals.values()}

    def list_columns(name: str) -> list[str] | None:
        state = seen.states.get(named[name]) or seen.priors.get(name)
        if state is not None:
            return [column.name for column in state.columns]
        return list(list_declared_columns(project.sources.get(name))) or None

    cache = LineageCache(workspace.folder / "cache" / "lineage", compute_code_stamp())

    def learn() -> bytes:
        trace_project(project, list_columns, trace=cache.trace)
        return cache.dump_answers()

    is_ahead = count_processes(len(project.nodes) - cache.count_known()) > 1
    if is_ahead:
        from sqb.sql.analysis import lineage  # noqa: F401  # both processes need it: loaded before there are two

    with start_forks([learn] if is_ahead else []) as forks:

        def finish() -> LineageGraph:
            for fork in forks:
                if answers := fork.read_answers():
                    cache.load_answers(answers)
            graph = trace_project(project, list_columns, trace=cache.trace)
            cache.save()
            return graph

        yield finish


class LineageCache:
    """Traces queries, from the cache where the same text was traced over the same columns by the same code."""

    def __init__(self, path: Path, code: str) -> None:
        self._path, self._code = path, code
        self._known = read_entries(path, code)
        self._used: dict[str, str] = {}
        # By another process, and not written yet.
        self._answers: dict[str, str] = {}

    def trace(self, text: str, slots: Sequence[Reference], columns: Sequence[Sequence[str] | None]) -> Lineage:
        """The lineage of a query whose tables have these columns."""
        key = _compute_key(text, slots, columns)
        if (entry := self._known.get(key) or self._answers.get(key)) is not None:
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

    def count_known(self) -> int:
        """How many queries were traced before."""
        return len(self._known)

    def dump_answers(self) -> bytes:
        """What was traced in this process, for one that traces the same queries."""
        return json.dumps(self._used).encode()

    def load_answers(self, data: bytes) -> None:
        """Take over what another process of this program traced."""
        self._answers = json.loads(data)

    def save(self) -> None:
        """Keep what this run used."""
        if self._used != self._known:
            write_entries(self._path, self._code, self._used)


def _compute_key(text: str, slots: Sequence[Reference], columns: Sequence[Sequence[str] | None]) -> str:
    parts = [text, *(f"{s.start} {s.is_pinned}" for s in slots), *map(repr, columns)]
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]
