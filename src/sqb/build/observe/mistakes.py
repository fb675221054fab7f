"""Mistakes in the queries of a plan's nodes, reported before Spark starts. Spark is the judge: only what is certain."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from sqb.build.observe.attached import list_attached_errors
from sqb.build.observe.breaking_changes import (
    find_losses,
    iter_breaking_changes,
    iter_broken_contracts,
    iter_broken_exposures,
)
from sqb.build.observe.columns import observe_columns
from sqb.build.observe.declarations import iter_declaration_errors
from sqb.build.observe.lake import LakeState
from sqb.build.observe.places import locate_problem
from sqb.compile.model import Node
from sqb.errors.base import Errors, SqbError
from sqb.errors.project import SqlProblem
from sqb.errors.queries import (
    AmbiguousColumn,
    DoubledColumn,
    MisplacedAggregate,
    NotGrouped,
    SetOperationMisfit,
    UnknownColumn,
    UnknownFunction,
    WrongArguments,
    WrongType,
)
from sqb.plan.model import Plan
from sqb.plan.node_columns import ProjectColumns
from sqb.sql.columns.problems import Kind, Problem
from sqb.workspace import Workspace

_ERRORS: Mapping[Kind, type[SqlProblem]] = {
    "unknown column": UnknownColumn,
    "ambiguous column": AmbiguousColumn,
    "unknown function": UnknownFunction,
    "wrong arguments": WrongArguments,
    "doubled column": DoubledColumn,
    "set operation": SetOperationMisfit,
    "not grouped": NotGrouped,
    "misplaced aggregate": MisplacedAggregate,
    "wrong type": WrongType,
}
# Settings under which names and numbers mean something else than they do by these defaults.
_OF_NAMES: Mapping[str, str] = {
    "spark.sql.caseSensitive": "false",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.groupByOrdinal": "true",
    "spark.sql.orderByOrdinal": "true",
    "spark.sql.legacy.ctePrecedencePolicy": "corrected",
    "spark.sql.legacy.allowParameterlessCount": "false",
}
# What Spark decides by other rules without this setting.
_ANSI = "spark.sql.ansi.enabled"
_OF_TYPES = frozenset(["wrong type", "set operation"])
_SET = re.compile(r"\s*SET\s+`?([\w.]+)`?\s*=\s*['\"]?(\w+)", re.IGNORECASE)


def refuse_mistakes(workspace: Workspace, seen: LakeState, plan: Plan, allow_breaking: bool = False) -> None:
    """Raise every mistake in the models that run by a plan, and every read of a column that goes with it."""
    errors = Errors()
    for error in list_mistakes(workspace, seen, plan, allow_breaking):
        errors.add(error)
    errors.raise_any()


def list_mistakes(workspace: Workspace, seen: LakeState, plan: Plan, allow_breaking: bool = False) -> list[SqbError]:
    """The same as a list."""
    if has_own_rules(workspace):
        return []
    project = workspace.project
    running = frozenset(n.name for n in plan.nodes if n.action == "run" and n.run_type != "check")
    after = observe_columns(workspace, seen, running)
    losses = find_losses(workspace, seen, running, after)
    errors: list[SqbError] = []
    for node in project:
        breaking: list[SqbError] = [*iter_breaking_changes(workspace, node, losses)] if losses else []
        if allow_breaking and breaking:
            continue
        errors += breaking
        if node.name in running and not breaking:
            errors += iter_node_errors(workspace, node, after)
    errors += list_attached_errors(workspace, after, running)
    if losses is not None and not allow_breaking:
        errors += iter_broken_contracts(workspace, losses)
        errors += iter_broken_exposures(workspace, losses)
    return errors


def iter_node_errors(workspace: Workspace, node: Node, after: ProjectColumns) -> Iterator[SqbError]:
    """Everything that is wrong with a model: its query, and where that is right its header."""
    problems = after.problems.get(node.name, ())
    if has_own_rules(workspace, node):
        return
    yield from build_errors(workspace, node, problems)
    if not problems:
        yield from iter_declaration_errors(workspace.root, node, after, _is_ansi(workspace, node))


def has_own_rules(workspace: Workspace, node: Node | None = None) -> bool:
    """Whether names mean other columns than they do by Spark's defaults: everywhere, or in a model."""
    return any(_get_setting(workspace, node, key, usual) != usual for key, usual in _OF_NAMES.items())


def _get_setting(workspace: Workspace, node: Node | None, key: str, default: str) -> str:
    """A setting of the session in small letters, as the hooks of a model leave it for its query."""
    value = workspace.project.session.get(key, default)
    for hook in node.hooks if node is not None else ():
        match = _SET.match(hook.text) if hook.when == "pre" else None
        if match is not None and match[1].lower() == key.lower():
            value = match[2]
    return value.lower()


def build_errors(workspace: Workspace, node: Node, problems: Iterable[Problem]) -> Iterator[SqbError]:
    """The mistakes in a model's query as errors with their places in its file."""
    for problem in problems:
        if (error := choose_error(workspace, problem, node)) is not None:
            yield error(problem.message, at=locate_problem(workspace.root, node, problem), hint=problem.hint)


def choose_error(workspace: Workspace, problem: Problem, node: Node | None = None) -> type[SqlProblem] | None:
    """The error for a mistake; None where the project's settings make it none."""
    return _ERRORS[problem.kind] if _is_ansi(workspace, node) or problem.kind not in _OF_TYPES else None


def _is_ansi(workspace: Workspace, node: Node | None) -> bool:
    """Whether types follow the rules that they are derived by here."""
    return _get_setting(workspace, node, _ANSI, "true") == "true"
