"""What all rules share: the question whether one applies, and the values that it works with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqb.sql.delta.operators.model import Operator

if TYPE_CHECKING:
    from sqb.sql.delta.evaluate import Evaluation

# The column of a change that says how many times more often a row is there (negative: less often).
MULTIPLICITY = "__sqb_multiplicity"


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why a rule does not apply, and where in the text."""

    why: str
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class RuleCase:
    """An operator whose inputs changed."""

    operator: Operator
    # The operators that changed.
    changed: frozenset[int]
    # Whether figures of its groups were kept when it was last evaluated.
    has_state: bool = False

    @property
    def changed_places(self) -> tuple[int, ...]:
        return tuple(i for i, place in enumerate(self.operator.places) if place.input in self.changed)


@dataclass(frozen=True, slots=True)
class Rule:
    """How the change of an operator follows from the changes of what it reads."""

    name: str
    # What people read in a plan.
    says: str
    # None where the rule applies.
    find_obstacle: Callable[[RuleCase], Obstacle | None]
    # The net change of the operator, as a frame of the engine.
    compute: Callable[[Evaluation, int], Any]
