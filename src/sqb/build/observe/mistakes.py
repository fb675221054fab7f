"""Mistakes in the queries of a plan's nodes, told before Spark starts. Spark is the judge: only what is certain."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from sqb.build.observe.columns import observe_columns
from sqb.build.observe.lake import LakeState
from sqb.compile.model import Node, locate_source
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
from sqb.names import At
from sqb.plan.model import Plan
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
# What Spark decides by other rules when it is told so.
_CASE, _ANSI = "spark.sql.caseSensitive", "spark.sql.ansi.enabled"
_OF_TYPES = frozenset(["wrong type", "set operation"])


def refuse_mistakes(workspace: Workspace, seen: LakeState, plan: Plan) -> None:
    """Raise every mistake in the queries of the nodes that run by a plan."""
    if has_own_rules(workspace):
        return
    running = [n.name for n in plan.nodes if n.action == "run" and n.run_type != "check"]
    columns = observe_columns(workspace, seen, frozenset(running))
    errors = Errors()
    for name in running:
        for error in build_errors(workspace, name, columns.problems.get(name, ())):
            errors.add(error)
    errors.raise_any()


def has_own_rules(workspace: Workspace) -> bool:
    """Whether names mean other columns than they do by Spark's defaults."""
    return workspace.project.session.get(_CASE, "false").lower() == "true"


def build_errors(workspace: Workspace, name: str, problems: Iterable[Problem]) -> Iterator[SqbError]:
    """The mistakes in a model's query as errors with their places in its file."""
    node = workspace.project.nodes[name]
    is_ansi = workspace.project.session.get(_ANSI, "true").lower() == "true"
    for problem in problems:
        if is_ansi or problem.kind not in _OF_TYPES:
            at = locate_problem(workspace.root, node, problem)
            yield _ERRORS[problem.kind](problem.message, at=at, hint=problem.hint)


def locate_problem(root: Path, node: Node, problem: Problem) -> At:
    """Where in a model's file a mistake is; the file where its query is run in another form than it was written."""
    if problem.start < 0 or not node.pieces:
        return At(node.file)
    text = (root / node.file).read_text(encoding="utf-8-sig").replace("\r\n", "\n")
    return locate_source(node, text, problem.start, problem.end - problem.start)
