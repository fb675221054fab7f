"""Checks as they are written, read without a project around them."""

from __future__ import annotations

from collections.abc import Mapping

from sqb.checks.catalogue import WORDS
from sqb.checks.custom_audits import read_custom_audits
from sqb.checks.model import Check, Role
from sqb.checks.parse import CheckReader, read_check
from sqb.errors.base import Errors, SqbError
from sqb.names import At
from sqb.project.models.grammar import Span, build_call_leaf
from sqb.project.values import Call, Golden
from sqb.sql.analysis.parse import list_expression_columns, read_query
from sqb.sql.text.expand import ExpansionContext, format_literal

FILE = "models/m.sql"


def reader(
    audits: Mapping[str, str] | None = None,
    golden: Mapping[str, Golden] | None = None,
    variables: Mapping[str, object] | None = None,
    errors: Errors | None = None,
) -> CheckReader:
    """What reads checks in a project with these audits (name to text), golden files and variables."""
    values = variables or {}
    words = ExpansionContext(
        lambda name: format_literal(values[name]) if name in values else None, {}.get, {}.get, tuple(values), ()
    )
    texts = {f"audits/{name}.sql": text for name, text in (audits or {}).items()}
    custom_audits = read_custom_audits(texts, WORDS, errors or Errors())
    return CheckReader(
        custom_audits, words, read_query, list_expression_columns, lambda file, at: (golden or {}).get(file)
    )


def written(text: str) -> Call:
    """A call as the header of a model holds it."""
    call = build_call_leaf(FILE, At(FILE, 1, 17, len(text)))(text, Span(0, len(text)))
    assert isinstance(call, Call), text
    return call


def check(text: str, role: Role = "audit", with_: CheckReader | None = None) -> Check:
    """A check that must be right."""
    errors = Errors()
    result = read_check(role, written(text), with_ or reader(), errors)
    errors.raise_any()
    assert result is not None
    return result


def refusal(text: str, role: Role = "audit", with_: CheckReader | None = None) -> SqbError:
    """The error of a check that must be wrong."""
    errors = Errors()
    check = read_check(role, written(text), with_ or reader(), errors)
    assert check is None
    (error,) = errors.found
    return error
