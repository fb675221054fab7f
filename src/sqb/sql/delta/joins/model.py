"""How a query joins one of its tables, as values: what `lookups` reads and what is kept between runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from sqb.light_dataclass import dataclass

SLOT = "__sqb_slot_"


@dataclass(frozen=True, slots=True)
class JoinedSlot:
    """A table that only adds columns: the columns of its own that it is joined by."""

    is_left: bool
    columns: tuple[str, ...]
    # The slots that are joined by columns of this one.
    joins: tuple[int, ...] = ()
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class Obstacle:
    """What keeps a table from being a lookup, and where in the text."""

    why: str
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class Joins:
    """How a query joins each of its tables, and the slots that the columns of its result come from."""

    slots: tuple[JoinedSlot | Obstacle, ...]
    columns: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    # The slots behind the columns that are not listed.
    rest: tuple[int, ...] = ()


def get_slot_name(index: int) -> str:
    """What the table at a slot is called in the text that is read."""
    return f"{SLOT}{index}"
