"""What is known of a function's body, as values. Needs no parser."""

from __future__ import annotations

from sqb.light_dataclass import dataclass

# A body is in brackets, and is read as the only column of a query.
LEAD = "SELECT ("


@dataclass(frozen=True, slots=True)
class Use:
    """A place where a parameter is used: its half-open span in the body."""

    parameter: str
    start: int
    end: int
    # It is in a subquery, where a column of its FROM may have the name.
    is_in_subquery: bool
    # Its value is used exactly once there, whatever it is.
    is_used_once: bool


@dataclass(frozen=True, slots=True)
class Table:
    """A table that a body reads: its half-open span, its name, and what kind of node it has to be."""

    parts: tuple[str, ...]
    start: int
    end: int
    kind: str | None = None

    @property
    def name(self) -> str:
        return ".".join(self.parts)


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a lambda: the half-open span in which the name means it."""

    name: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Body:
    """What a body says; offsets count from its first character."""

    uses: tuple[Use, ...]
    tables: tuple[Table, ...]
    variables: tuple[Variable, ...]
    canonical: tuple[str, ...]
    # It has a subquery, in which only Spark can tell a column from a parameter.
    has_subquery: bool = False
