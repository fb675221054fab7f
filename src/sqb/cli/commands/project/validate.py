"""The output of `sqb validate`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqb.cli.options import parse_call, parse_variables
from sqb.cli.output import create_spark, print_document, print_remark
from sqb.errors.base import SqbErrors

if TYPE_CHECKING:
    from sqb.operations.inspect.validate import Validation


def run_validate(form: str, **values: Any) -> int:
    """Print everything that is wrong with a project, in one of three forms."""
    from sqb.operations.inspect.validate import Opening, ValidateOptions, validate_project

    common, options = parse_call(ValidateOptions, values)
    opening = Opening(common.project_dir, common.target, parse_variables(common.variables))
    result = validate_project(opening, options, lambda workspace: create_spark(workspace, "validate_"))
    if form == "sarif":
        from sqb.console.inspect.sarif import encode_sarif  # people read lines

        print_document(encode_sarif(result.errors))
        return _choose_exit_code(result)
    if form == "json" or common.as_json:
        print_document(result.to_data())
        return _choose_exit_code(result)
    for warning in result.warnings:
        print_remark(f"warning: {warning}", "yellow")
    if result.errors:
        from sqb.console.errors import print_error  # few projects have any

        print_error(SqbErrors(result.errors), result.root)
        return _choose_exit_code(result)
    print(_describe_success(result))
    return 0


def _choose_exit_code(result: Validation) -> int:
    """2 for mistakes in the project; 1 where all that is wrong is that Spark cannot be asked."""
    if not result.errors:
        return 0
    from sqb.errors.spark import EngineError

    return 1 if all(isinstance(error, EngineError) for error in result.errors) else 2


def _describe_success(result: Validation) -> str:
    if not result.models:
        return "There are no models: they are SQL files in models/, and Python functions with @model in python/."
    asked = f", {result.analysed} of them analysed by Spark" if result.analysed else ""
    return f"No mistakes in {result.models} {'model' if result.models == 1 else 'models'}{asked}."
