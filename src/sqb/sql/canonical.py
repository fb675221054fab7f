"""The canonical form of a stored text, and the stamp of the code that makes it."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata

from sqb.sql.query import CANONICAL_VERSION, canonical_of
from sqb.sql.spans import Reference


def canonical_stamp() -> str:
    """Which code made a canonical form: ours, and the parser that tells names from keywords."""
    return f"{CANONICAL_VERSION}/{metadata.version('sqlglot')}"


def canonical_again(text: str, spans: Sequence[tuple[int, int]]) -> tuple[str, ...]:
    """The canonical form of a text whose references stand at known places; ValueError when it is not a query now."""
    from sqb.sql.parse import identifier_places  # loads sqlglot
    from sqb.sql.query import QueryProblem

    references = [Reference((), start, end) for start, end in spans]
    try:
        return canonical_of(text, references, identifier_places(text))
    except QueryProblem as problem:
        raise ValueError(problem.message) from problem
