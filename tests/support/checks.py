"""Checks as they are written, read without a project around them."""

from __future__ import annotations

from collections.abc import Mapping

from sqb.checks.catalogue import WORDS
from sqb.checks.own import read_own_audits
from sqb.checks.reading import Reader, read_check
from sqb.checks.values import Check, Role
from sqb.errors import Errors, SqbError
from sqb.names import At
from sqb.project.grammar import Span, call_leaf
from sqb.project.values import Call, Golden
from sqb.sql.expand import Words, literal
from sqb.sql.expressions import expression_columns
from sqb.sql.parse import read_query

FILE = "models/m.sql"


def reader(
    audits: Mapping[str, str] | None = None,
    golden: Mapping[str, Golden] | None = None,
    variables: Mapping[str, object] | None = None,
    errors: Errors | None = None,
) -> Reader:
    """What reads checks in a project with these audits (name to text), golden files and variables."""
    values = variables or {}
    words = Words(lambda name: literal(values[name]) if name in values else None, {}.get, {}.get, tuple(values), ())
    texts = {f"audits/{name}.sql": text for name, text in (audits or {}).items()}
    found = read_own_audits(texts, WORDS, errors or Errors())
    return Reader(found, words, read_query, expression_columns, lambda file, at: (golden or {}).get(file))


def written(text: str) -> Call:
    """A call as the header of a model holds it."""
    call = call_leaf(FILE, At(FILE, 1, 17, len(text)))(text, Span(0, len(text)))
    assert isinstance(call, Call), text
    return call


def check(text: str, role: Role = "audit", with_: Reader | None = None) -> Check:
    """A check that must be right."""
    errors = Errors()
    found = read_check(role, written(text), with_ or reader(), errors)
    errors.raise_any()
    assert found is not None
    return found


def refusal(text: str, role: Role = "audit", with_: Reader | None = None) -> SqbError:
    """The error of a check that must be wrong."""
    errors = Errors()
    found = read_check(role, written(text), with_ or reader(), errors)
    assert found is None
    (error,) = errors.found
    return error
