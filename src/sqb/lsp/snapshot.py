"""A project as an editor sees it: the files, with what is not saved in their place, compiled again as people type.

Only what changed is parsed and evaluated again. While a text is broken, the project of before serves. Starts no Java.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from sqb.build.observe.attached import list_attached_errors, list_exposure_errors, list_test_errors
from sqb.build.observe.columns import build_signatures
from sqb.build.observe.lake import LakeState
from sqb.build.observe.mistakes import has_own_rules, iter_node_errors
from sqb.compile.model import Node
from sqb.errors.base import SqbError, flatten
from sqb.inspect.lint.model import Finding
from sqb.lsp.findings import Linter
from sqb.operations.environment import open_environment
from sqb.operations.inspect.validate import StandIn, drop_doubtful, find_stand_ins, forget_columns, list_file_errors
from sqb.plan.node_columns import ProjectColumns, derive_project_columns
from sqb.plan.observed import Observed
from sqb.project.files import read_unsaved
from sqb.sql.analysis.cache import AnalysisCache
from sqb.sql.columns.cache import UNKNOWN_COLUMNS, Columns, ColumnsCache
from sqb.sql.text.spans import Reference
from sqb.workspace import Workspace, compile_workspace, compute_code_stamp

# How long the lake is taken to be as it was seen.
_LAKE_SECONDS = 15.0
# How often what a broken file hid is found to be broken too.
_MAX_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What is known of a project at one moment."""

    root: Path
    # The last project that could be compiled; None while there was none.
    workspace: Workspace | None = None
    columns: ProjectColumns = ProjectColumns()
    seen: LakeState = LakeState(Observed({}), {})
    errors: tuple[SqbError, ...] = ()
    findings: tuple[Finding, ...] = ()
    # The texts that the editor holds, by paths relative to the root.
    texts: Mapping[str, str] = field(default_factory=dict)
    # The texts of models that the workspace was compiled from, where they are not those of now.
    compiled_texts: Mapping[str, str] = field(default_factory=dict)

    def read_text(self, path: str) -> str:
        """A file's text as it is now; "" for one that cannot be read."""
        if path in self.texts:
            return self.texts[path]
        try:
            return (self.root / path).read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
        except (OSError, UnicodeDecodeError):
            return ""

    def with_texts(self, texts: Mapping[str, str]) -> Snapshot:
        """The same project with what the editor holds now: what was typed since is not compiled yet."""
        if texts == self.texts:
            return self
        compiled = {path: self.read_text(path) for path in {*texts, *self.texts}} | dict(self.compiled_texts)
        return replace(self, texts=texts, compiled_texts=compiled)

    def find_node(self, path: str) -> Node | None:
        """The model or seed that a file is."""
        nodes = self.workspace.project.nodes.values() if self.workspace else ()
        return next((n for n in nodes if n.file == path or (n.type == "seed" and _is_seed_file(n.file, path))), None)

    def get_columns(self, name: str) -> Columns:
        """The columns of a node or source."""
        return self.columns.columns.get(name, UNKNOWN_COLUMNS)

    def is_compiled_from(self, path: str) -> bool:
        """Whether places in the compiled model are places in its text of now."""
        return path not in self.compiled_texts or self.compiled_texts[path] == self.read_text(path)


def _is_seed_file(file: str, path: str) -> bool:
    return path.rpartition(".")[0] == file.rpartition(".")[0] and path.startswith("seeds/")


class ProjectReader:
    """Makes snapshots of one project, and remembers what was read for the one before."""

    def __init__(self, root: Path, target: str | None = None) -> None:
        self.root, self.target = root, target
        self._code = compute_code_stamp()
        self._analyses = _open_analyses(root, self._code)
        self._columns: dict[tuple[object, ...], Columns] = {}
        self._columns_cache = ColumnsCache(root / ".sqb" / "cache" / "columns", self._code, self._analyses.outlines)
        self._lake: tuple[float, frozenset[str], LakeState] | None = None
        self._linter = Linter(root)
        self._good: Snapshot | None = None

    def forget_lake(self) -> None:
        """Look at the lake again for the next snapshot: something was built."""
        self._lake = None

    def read(self, texts: Mapping[str, str], removed: Collection[str] = ()) -> Snapshot:
        """The project with these texts in the place of files, by paths relative to the root."""
        try:
            with read_unsaved({self.root / p: t for p, t in {**texts, **dict.fromkeys(removed)}.items()}):
                workspace = compile_workspace(self.root, self.target, self._analyses)
                snapshot = self._derive(workspace, texts)
        except SqbError as error:
            return self._read_broken(texts, tuple(sorted(flatten(error), key=SqbError.key)))
        self._remember()
        self._good = snapshot
        return snapshot

    def check(self, texts: Mapping[str, str], removed: Collection[str] = ()) -> Snapshot:
        """The project with these texts and without these files; what is remembered of it stays as it is."""
        good = self._good
        try:
            return self.read(texts, removed)
        finally:
            self._good = good

    def _derive(self, workspace: Workspace, texts: Mapping[str, str]) -> Snapshot:
        seen, errors = self._observe(workspace)
        columns = self._derive_columns(workspace, seen)
        if not has_own_rules(workspace):
            errors += [e for node in workspace.project for e in iter_node_errors(workspace, node, columns)]
            errors += list_attached_errors(workspace, columns, workspace.project.nodes.keys())
            errors += list_test_errors(workspace, columns) + list_exposure_errors(workspace, columns)
        findings, wrong_rules = self._linter.lint(workspace, columns)
        reported = {(error.key(), error.message) for error in errors}
        further = [*list_file_errors(self.root), *wrong_rules]
        errors += {(e.key(), e.message): e for e in further if (e.key(), e.message) not in reported}.values()
        ordered = tuple(sorted(errors, key=SqbError.key))
        return Snapshot(self.root, workspace, columns, seen, ordered, findings, texts)

    def _read_broken(self, texts: Mapping[str, str], errors: tuple[SqbError, ...]) -> Snapshot:
        """The project of before with the mistakes of now; one with stand-ins where there was none before."""
        partial, good = self._read_partially(texts, errors), self._good
        if good is None:
            return partial or Snapshot(self.root, errors=errors, texts=texts)
        if partial is not None:
            return replace(good.with_texts(texts), errors=partial.errors, findings=partial.findings)
        # Columns that were wrong in files that are whole still are.
        broken = {error.at.file for error in errors if error.at is not None}
        still = [e for e in good.errors if e.at is None or e.at.file not in broken]
        return replace(good.with_texts(texts), errors=tuple(sorted((*errors, *still), key=SqbError.key)))

    def _read_partially(self, texts: Mapping[str, str], errors: tuple[SqbError, ...]) -> Snapshot | None:
        """The project with stand-ins for what is broken, so that the mistakes of other files are reported too."""
        reported, stand_ins = {(e.key(), e.message): e for e in errors}, dict[str, StandIn]()
        result: Sequence[SqbError] = errors
        for _ in range(_MAX_ROUNDS):
            with read_unsaved({self.root / p: t for p, t in texts.items()}):
                more = find_stand_ins(self.root, result, stand_ins)
            if not more:
                return None
            stand_ins |= more
            compiled = {path: one.text for path, one in stand_ins.items()}
            try:
                with read_unsaved({self.root / p: t for p, t in {**texts, **compiled}.items()}):
                    workspace = compile_workspace(self.root, self.target, self._analyses)
                    partial = self._derive(forget_columns(workspace, stand_ins), texts)
            except SqbError as error:
                result = flatten(error)
                reported |= {(e.key(), e.message): e for e in drop_doubtful(result, stand_ins)}
                continue
            reported |= {(e.key(), e.message): e for e in partial.errors}
            ordered = tuple(sorted(reported.values(), key=SqbError.key))
            return replace(partial, errors=ordered, compiled_texts=compiled)
        return None

    def _observe(self, workspace: Workspace) -> tuple[LakeState, list[SqbError]]:
        project = workspace.project
        asked = frozenset([*project.externals, *(str(n.relation) for n in project)])
        if self._lake is not None and self._lake[1] == asked and time.monotonic() - self._lake[0] < _LAKE_SECONDS:
            return self._lake[2], []
        try:
            seen = open_environment(workspace, None).observe(workspace)
        except SqbError as error:
            before = self._lake[2] if self._lake is not None else LakeState(Observed({}), {})
            # A lake that cannot be reached is no mistake of the text; a table that it does not have is.
            return before, [e for e in flatten(error) if e.at is not None]
        self._lake = (time.monotonic(), asked, seen)
        return seen, []

    def _derive_columns(self, workspace: Workspace, seen: LakeState) -> ProjectColumns:
        signatures = build_signatures(workspace)
        functions = (tuple(signatures.own.items()), signatures.is_complete)

        def evaluate(text: str, slots: Sequence[Reference], tables: Sequence[Columns]) -> Columns:
            key = (text, tuple(slots), tuple((t.columns, t.is_open) for t in tables), functions)
            if key not in self._columns:
                self._columns[key] = self._columns_cache.evaluate(text, slots, tables, signatures)
            return self._columns[key]

        nodes = workspace.project.nodes
        if len(self._columns) > 20 * len(nodes) + 1000:
            self._columns.clear()
        return derive_project_columns(workspace.project, frozenset(nodes), seen.observed.relations.get, evaluate)

    def _remember(self) -> None:
        """What was analysed serves the next snapshot."""
        self._analyses.cached = {**self._analyses.cached, **self._analyses.used_entries}
        self._analyses.used_entries = {}


def _open_analyses(root: Path, code: str) -> AnalysisCache:
    return AnalysisCache(root / ".sqb" / "cache" / "queries.json", code)
