"""The canonical form of a stored text, and the stamp of the code that makes it."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata

from sqb.sql.analysis.query import CANONICAL_VERSION, compute_canonical
from sqb.sql.text.spans import Reference


def compute_canonical_stamp() -> str:
    """Which code made a canonical form: ours, and the parser that tells names from keywords."""
    return f"{CANONICAL_VERSION}/{metadata.version('sqlglot')}"


def recompute_canonical(text: str, spans: Sequence[tuple[int, int]]) -> tuple[str, ...]:
    """The canonical form of a text whose references are at known places; ValueError when it is not a query now."""
    from sqb.sql.analysis.parse import find_identifier_places  # loads sqlglot
    from sqb.sql.analysis.query import QueryProblem

    references = [Reference((), start, end) for start, end in spans]
    try:
        return compute_canonical(text, references, find_identifier_places(text))
    except QueryProblem as problem:
        raise ValueError(problem.message) from problem
