"""The output of `sqb lint`."""

from __future__ import annotations

import sys
from typing import Any

from sqb.cli.options import parse_call
from sqb.cli.output import print_document, print_lines
from sqb.console.style import Paint


def run_lint(form: str, **values: Any) -> int:
    """Print what the rules of a project find, in one of three forms."""
    from sqb.console.lint import encode_findings, format_findings
    from sqb.operations.inspect.lint import LintOptions, lint_project

    common, options = parse_call(LintOptions, values)
    result = lint_project(common.open_workspace, options)
    if form == "sarif":
        print_document(encode_findings(result.findings, result.rules))
    elif form == "json" or common.as_json:
        print_document(result.to_data())
    else:
        from sqb.project.files import find_root

        print_lines(format_findings(result.findings, find_root(common.project_dir), Paint(sys.stdout)))
        count = len(result.findings)
        print(
            f"{count} {'finding' if count == 1 else 'findings'} in {result.models} models."
            if count
            else "Nothing found."
        )
    return 1 if result.has_errors else 0
