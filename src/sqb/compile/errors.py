"""What is wrong with a text, as errors of the project with their places."""

from __future__ import annotations

from typing import Any

from sqb.errors.project import (
    BadCall,
    BadMacro,
    BadSql,
    EmptyModel,
    Jinja,
    ManyStatements,
    NotASelect,
    ProjectError,
    SqlProblem,
    Substitution,
    UnknownVariable,
)
from sqb.errors.queries import WrongArguments
from sqb.names import At, locate_offset, suggest_nearest
from sqb.project.models.other_tools import explain_macro
from sqb.sql.analysis.query import QueryProblem
from sqb.sql.text.expand import Expanded, ExpansionContext, ExpansionProblem

_SQL_PROBLEMS = {
    "empty": EmptyModel,
    "many": ManyStatements,
    "not a select": NotASelect,
    "parse": BadSql,
    "arguments": WrongArguments,
}

# Of a translated model, as much as fits a screen.
_MAX_LINES = 60


def build_expansion_error(problem: ExpansionProblem, at: At, words: ExpansionContext) -> ProjectError:
    """Why variables, macros or calls of a text could not be replaced."""
    match problem.kind:
        case "unknown variable":
            return UnknownVariable(
                f"the variable @@{problem.message} has no value",
                at=at,
                hint=suggest_nearest(problem.message, words.known_variables)
                or "set it under [vars] in sqlbuild_project.toml, or with --vars",
            )
        case "variable":
            return UnknownVariable(problem.message, at=at, hint=problem.hint)
        case "unknown macro":
            return BadMacro(
                f"there is no macro @{problem.message}",
                at=at,
                hint=explain_macro(problem.message)
                or suggest_nearest(problem.message, words.known_macros)
                or "macros are functions in macros/*.py",
            )
        case "substitution":
            return Substitution(problem.message, at=at, hint=problem.hint)
        case "function":
            return BadCall(problem.message, at=at, hint=problem.hint)
        case "reference":
            return BadSql(problem.message, at=at, hint=problem.hint)
        case _:
            return BadMacro(problem.message, at=at, hint=problem.hint)


def build_sql_error(problem: QueryProblem, text: str, path: str, expanded: Expanded) -> SqlProblem:
    """Build the error of a text that is not a query."""
    start = expanded.trace_origin(problem.start)
    if problem.kind == "empty":
        start = min(start, max(0, len(text.rstrip()) - 1))
    at = locate_offset(text, start, path, max(1, problem.end - problem.start))
    kind: Any = _SQL_PROBLEMS[problem.kind]
    error: SqlProblem = kind(problem.message, at=at, hint=problem.hint)
    return error


def build_jinja_error(text: str, path: str, start: int, end: int) -> Jinja:
    """Jinja in a model, with the model as it is written here."""
    from sqb.project.models.jinja import translate  # only models of dbt's need it

    translation = translate(text)
    rest = "" if translation.is_whole else "; what is left of Jinja in it is for a macro, a function in macros/*.py"
    lines = translation.text.splitlines()
    shown = lines if len(lines) <= _MAX_LINES else [*lines[:_MAX_LINES], f"… ({len(lines) - _MAX_LINES} more lines)"]
    return Jinja(
        "this is Jinja, and sqb runs none: models are SQL, and call each other by their names",
        at=locate_offset(text, start, path, end - start),
        hint=f"above is the model as it is written here{rest}",
        evidence=("", *shown, ""),
    )
