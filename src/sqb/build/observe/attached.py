"""Columns that own audits, hooks, unit tests and exposures name, held against those that there will be."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence

from sqb.build.observe.columns import build_signatures
from sqb.checks.model import RelationSlot
from sqb.checks.node_checks import StoredAudit, StoredCheck
from sqb.compile.model import Hook, Node, UnitTest
from sqb.errors.base import SqbError
from sqb.errors.build import UnknownTestColumn
from sqb.errors.queries import UnknownColumn
from sqb.names import At, locate_offset, suggest_nearest
from sqb.plan.node_columns import ProjectColumns
from sqb.sql.columns.cache import UNKNOWN_COLUMNS, Columns, ColumnsCache
from sqb.sql.columns.problems import Problem
from sqb.sql.text.lexer import tokenize_code
from sqb.sql.text.spans import Reference, trace_offset
from sqb.workspace import Workspace, compute_code_stamp

# What stands for the words of a statement that takes rows away, so that it is a query.
_DELETE = "SELECT 1 FROM"


def list_attached_errors(workspace: Workspace, after: ProjectColumns, names: Collection[str]) -> list[SqbError]:
    """The unknown columns in the own audits and hooks of these models."""
    project = workspace.project
    nodes = [n for n in project if n.name in names and (n.hooks or any(c.audit for c in n.checks.checks))]
    if not nodes:
        return []
    reader = _Reader(workspace, after)
    errors = [error for node in nodes for error in reader.iter_errors(node)]
    reader.cache.save()
    return errors


def list_test_errors(workspace: Workspace, after: ProjectColumns) -> list[SqbError]:
    """The columns that unit tests give or expect, and that are not there."""
    return [error for test in workspace.project.tests for error in _iter_test_errors(test, after)]


def list_exposure_errors(workspace: Workspace, after: ProjectColumns) -> list[SqbError]:
    """The columns that exposures name, and that are not there."""
    errors: list[SqbError] = []
    for exposure in workspace.project.exposures.values():
        for name, columns in exposure.columns.items():
            known = after.columns.get(name, UNKNOWN_COLUMNS)
            for column in _list_missing(columns, known):
                message = f'the exposure {exposure.name} reads "{column}", which is not a column of {name}'
                errors.append(UnknownColumn(message, at=exposure.at, hint=_suggest_column(column, known)))
    return errors


def _list_missing(names: Iterable[str], columns: Columns) -> list[str]:
    """The names that are surely not among the columns of a table."""
    if columns.is_open or any(name is None for name, _ in columns.columns):
        return []
    known = {name.lower() for name in columns.names}
    return [name for name in names if name.lower() not in known]


def _suggest_column(name: str, columns: Columns) -> str:
    return suggest_nearest(name, columns.names) or f"the columns are {', '.join(columns.names)}"


class _Reader:
    def __init__(self, workspace: Workspace, after: ProjectColumns) -> None:
        self.workspace, self.after = workspace, after
        self.signatures = build_signatures(workspace)
        self.cache = ColumnsCache(workspace.folder / "cache" / "attached", compute_code_stamp(), {})
        hooks = (hook for node in workspace.project for hook in node.hooks)
        # They may have other columns than their models when another hook reads them.
        self.altered = {r for h in hooks if h.text.lstrip()[:5].upper() == "ALTER" for r in h.relations}

    def iter_errors(self, node: Node) -> Iterator[SqbError]:
        for check in node.checks.checks:
            if check.audit is not None:
                yield from self._iter_audit_errors(node, check, check.audit)
        for hook in node.hooks:
            yield from self._iter_hook_errors(node, hook)

    def _find_unknown(
        self, text: str, slots: Sequence[Reference], tables: Sequence[Columns]
    ) -> list[tuple[Problem, str]]:
        """The columns that are not there, with what is said of each."""
        problems = self.cache.evaluate(text, slots, tables, self.signatures).problems
        return [(p, p.message) for p in problems if p.kind == "unknown column"]

    def _iter_audit_errors(self, node: Node, check: StoredCheck, audit: StoredAudit) -> Iterator[SqbError]:
        text, slots, tables = "", list[Reference](), list[Columns]()
        for part in audit.parts:
            if isinstance(part, str):
                text += part
                continue
            name = f"`{part.which} {part.name}`"
            slots.append(Reference((name.strip("`"),), len(text), len(text) + len(name)))
            tables.append(self._get_audited(node, part))
            text += name
        for problem, message in self._find_unknown(text, slots, tables):
            written = f"{message}, in the audit {check.name} ({', '.join(audit.files)})"
            yield UnknownColumn(written, at=check.call.at, hint=problem.hint)

    def _get_audited(self, node: Node, slot: RelationSlot) -> Columns:
        """The columns of what an audit reads: the model itself, or another one by its written name."""
        name = node.name if slot.which != "relation" else node.checks.relations.get(slot.name, "")
        return self.after.columns.get(name, UNKNOWN_COLUMNS)

    def _iter_hook_errors(self, node: Node, hook: Hook) -> Iterator[SqbError]:
        span = _find_words_before_query(hook.text)
        if span is None:
            return
        start, end, words = span
        shift = start + len(words) - end
        text = hook.text[:start] + words + hook.text[end:]
        read = [(slot, self._get_hooked(node, hook, i)) for i, slot in enumerate(hook.slots) if slot.start >= end]
        slots, tables = [_move(slot, shift) for slot, _ in read], [columns for _, columns in read]
        for problem, message in self._find_unknown(text, slots, tables):
            start = trace_offset(hook.pieces, max(0, problem.start - shift))
            at = hook.at if problem.start < 0 else _locate_in_hook(hook, start, problem.end - problem.start)
            yield UnknownColumn(f"{message}, in a {hook.when}_hook of {node.name}", at=at, hint=problem.hint)

    def _get_hooked(self, node: Node, hook: Hook, index: int) -> Columns:
        """The columns of what a hook reads, where it is sure to be there: its model once built, and what that reads."""
        relation = hook.relations[index]
        project = self.workspace.project
        if relation in self.altered:
            return UNKNOWN_COLUMNS
        if relation == node.relation:
            return self.after.columns[node.name] if hook.when == "post" else UNKNOWN_COLUMNS
        above = (project.nodes[name] for name in node.upstream if name in project.nodes)
        name = next((n.name for n in above if n.relation == relation), "")
        return self.after.columns.get(name, UNKNOWN_COLUMNS)


def _find_words_before_query(text: str) -> tuple[int, int, str] | None:
    """The span of a statement's words before the query that it reads, and what stands for them; None if it reads none.

    `INSERT INTO t SELECT …` reads a query, and `DELETE FROM t WHERE …` is one of the rows that it takes away.
    """
    tokens = tokenize_code(text)
    words = [token.text.lower() for token in tokens]
    if words[:1] in (["select"], ["with"]):
        return 0, 0, ""
    if words[:2] == ["delete", "from"]:
        return tokens[0].start, tokens[1].end, _DELETE
    depth = 0
    for token, word in zip(tokens, words, strict=True):
        depth += (word == "(") - (word == ")")
        if depth == 0 and word in ("select", "with") and words[0] == "insert":
            return tokens[0].start, token.start, ""
    return None


def _move(slot: Reference, shift: int) -> Reference:
    qualifiers = tuple((start + shift, end + shift) for start, end in slot.qualifiers)
    return Reference(slot.parts, slot.start + shift, slot.end + shift, slot.alias, qualifiers, slot.kind)


def _locate_in_hook(hook: Hook, start: int, length: int) -> At:
    """Where in the file an offset of a hook's text is; its line counts from where the hook begins."""
    inside = locate_offset(hook.written, min(start, len(hook.written)), hook.at.file, length)
    column = inside.column + hook.at.column - 1 if inside.line == 1 else inside.column
    return At(hook.at.file, hook.at.line + inside.line - 1, column, inside.length)


def _iter_test_errors(test: UnitTest, after: ProjectColumns) -> Iterator[SqbError]:
    """The columns that a test gives or expects, and that are not there."""
    says = json.loads(test.body)
    for name, data in says["given"].items():
        yield from _iter_row_errors(test, name, data, after.columns.get(name, UNKNOWN_COLUMNS))
    if says["expect"] is not None and test.variant is None:
        result = after.columns.get(test.model, UNKNOWN_COLUMNS)
        yield from _iter_row_errors(test, f"the result of {test.model}", says["expect"], result)


def _iter_row_errors(test: UnitTest, where: str, data: list[list[object]], columns: Columns) -> Iterator[SqbError]:
    names, _, cells, places, _ = data
    written = list(map(str, names))
    for name in _list_missing(written, columns):
        index = written.index(name)
        using = (place for row, place in zip(cells, places, strict=True) if row[index] is not None)  # type: ignore[index]
        place = next(using, next(iter(places), None))
        at = At(test.at.file, *place) if place else test.at  # type: ignore[misc]
        message = f'{test.name}: there is no column "{name}" in {where}'
        yield UnknownTestColumn(message, at=at, hint=_suggest_column(name, columns))
