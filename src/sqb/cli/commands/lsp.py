"""`sqb lsp`: the editor server."""

from __future__ import annotations

from sqb.errors.call import CallError


def run_lsp() -> int:
    """Serve an editor until it goes."""
    try:
        from sqb.lsp.server import serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("pygls", "lsprotocol", "attrs", "attr", "cattrs"):
            raise
        raise CallError(
            "the editor server needs pygls, which is not installed", hint="pip install 'sqb-spark[lsp]'"
        ) from error
    serve()
    return 0
