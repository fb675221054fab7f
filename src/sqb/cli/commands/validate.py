"""The output of `sqb validate`."""

from __future__ import annotations

from typing import Any

from sqb.cli.options import parse_call
from sqb.cli.output import print_document
from sqb.errors.base import SqbErrors


def run_validate(form: str, **values: Any) -> int:
    """Print everything that is wrong with a project, in one of three forms."""
    from sqb.operations.inspect.validate import ValidateOptions, validate_project

    common, options = parse_call(ValidateOptions, values)
    result = validate_project(common.open_workspace, options)
    if form == "sarif":
        from sqb.console.inspect.sarif import encode_sarif  # people read lines

        print_document(encode_sarif(result.errors))
    elif form == "json" or common.as_json:
        print_document(result.to_data())
    elif result.errors:
        raise SqbErrors(result.errors)
    else:
        print(f"No mistakes in {result.models} {'model' if result.models == 1 else 'models'}.")
    return 2 if result.errors else 0
