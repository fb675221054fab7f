"""`sqb docs build|serve`: their output and exit codes."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from sqb.cli.options import parse_call
from sqb.cli.output import print_document, print_lines, print_progress
from sqb.errors.base import SqbError
from sqb.operations.docs import DocsOptions, build_docs, get_default_output


def run_build(**values: Any) -> int:
    """Write the pages and say where they are, or print the document."""
    common, options = parse_call(DocsOptions, values)
    began = time.monotonic()
    workspace = common.open_workspace()
    if common.as_json:
        print_document(build_docs(workspace, replace(options, output=None)).to_data(), ensure_ascii=True)
        return 0
    docs = build_docs(workspace, replace(options, output=options.output or get_default_output(workspace)))
    assert docs.folder is not None
    print_lines([f"{docs.pages:,} pages in {docs.folder / 'index.html'} ({time.monotonic() - began:.1f}s)"])
    return 0


def run_serve(port: int, **values: Any) -> int:
    """Serve the pages until Ctrl-C."""
    from sqb.docs_site.serve import compute_stamp, serve_site

    common, options = parse_call(DocsOptions, values)
    workspace = common.open_workspace()
    options = replace(options, output=options.output or get_default_output(workspace))
    # Before the pages are made: what changes meanwhile is for the next time.
    known = compute_stamp(workspace)
    build_docs(workspace, options)

    def rebuild() -> None:
        try:
            build_docs(common.open_workspace(), options)
        except SqbError as error:
            from sqb.console.errors import print_error

            print_error(error, workspace.root)
            raise

    def announce(address: str) -> None:
        print(f"{workspace.project.name} is at {address} (Ctrl-C ends it)", flush=True)

    assert options.output is not None
    serve_site(workspace, options.output, port, rebuild, announce, print_progress, known)
    return 0
