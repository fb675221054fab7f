"""Errors in SARIF 2.1.0, the format that code review tools read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from sqb import __version__
from sqb.errors.base import SqbError
from sqb.errors.read_page import read_page
from sqb.names import At

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def encode_sarif(errors: Iterable[SqbError]) -> dict[str, Any]:
    """The document of one run."""
    listed = list(errors)
    kinds = {error.code: type(error) for error in listed}
    rules = [_encode_rule(code, kind.__doc__ or code) for code, kind in sorted(kinds.items())]
    driver = {"name": "sqb", "version": __version__, "rules": rules}
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": [_encode(e) for e in listed]}
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _encode_rule(code: str, text: str) -> dict[str, Any]:
    """What a tool says of a sort of errors: the page about it."""
    page = read_page(code)
    rule: dict[str, Any] = {"id": code, "shortDescription": {"text": text}}
    return rule if page is None else {**rule, "help": {"text": f"sqb explain {code}", "markdown": page.text}}


def _encode(error: SqbError) -> dict[str, Any]:
    text = f"{error.message}\n{error.hint}" if error.hint else error.message
    result: dict[str, Any] = {"ruleId": error.code, "level": "error", "message": {"text": text}}
    if error.at is not None and error.at.file:
        result["locations"] = [encode_place(error.at)]
    return result


def encode_place(at: At) -> dict[str, Any]:
    """A place in a file, whose name is a part of an address there."""
    place: dict[str, Any] = {"artifactLocation": {"uri": quote(at.file)}}
    if at.line:
        place["region"] = {"startLine": at.line, "startColumn": at.column, "endColumn": at.column + at.length}
    return {"physicalLocation": place}
