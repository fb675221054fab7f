"""`sqb explain CODE`: what an error means, and what to do."""

from __future__ import annotations

import sys

from sqb.cli.output import print_document, print_lines
from sqb.console.error_page import format_page, format_titles
from sqb.console.style import Paint
from sqb.errors.call import CallError
from sqb.errors.read_page import list_titles, parse_code, read_page
from sqb.names import suggest_nearest


def run_explain(code: str | None, as_json: bool) -> int:
    """Print the page of an error, or the list of all."""
    titles = list_titles()
    if code is None:
        if as_json:
            print_document({"errors": [{"code": code, "title": title} for code, title in titles.items()]})
        else:
            print_lines(format_titles(titles))
        return 0
    parsed = parse_code(code)
    page = read_page(parsed) if parsed is not None else None
    if page is None:
        hint = suggest_nearest(parsed, titles) if parsed is not None else None
        hint = hint or "`sqb explain` lists all errors; `sqb plan NAME --explain` explains what happens to a node"
        raise CallError(f'"{code}" is not the code of an error', hint=hint)
    if as_json:
        print_document(page.to_data())
    else:
        print_lines(format_page(page, Paint(sys.stdout)))
    return 0
