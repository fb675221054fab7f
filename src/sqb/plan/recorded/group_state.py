"""The states of a model's groups, as the commit of the model's table names them: one for each operator that adds up."""

from __future__ import annotations

import json
from collections.abc import Iterable

from sqb.light_dataclass import dataclass
from sqb.names import Relation
from sqb.project.config import virtual

# Behind the schema of the model's own table.
_SCHEMA = f"__{virtual.GROUP_STATE}"


@dataclass(frozen=True, slots=True)
class NamedState:
    """The state of one operator: a snapshot of its table, and what the state in it is made of."""

    operator: int
    # 0 where the groups of the operator turned out not to add up exactly, so that it has no state.
    snapshot: int
    token: str
    # How often changed groups were added since the whole was written, and how many rows that had.
    layers: int = 0
    whole_rows: int = 0

    @property
    def is_kept(self) -> bool:
        return self.snapshot != 0


def encode_states(states: Iterable[NamedState]) -> str:
    """What a commit says of its states; "" where there are none."""
    listed = [_encode_state(s) for s in sorted(states, key=lambda s: s.operator)]
    return json.dumps(listed) if listed else ""


def _encode_state(state: NamedState) -> list[int | str]:
    layers = [state.layers, state.whole_rows] if state.layers else []
    return [state.operator, state.snapshot, state.token, *layers]


def parse_states(text: str) -> dict[int, NamedState]:
    """The states that a commit names, by operator; those of a form of before count as none."""
    try:
        listed = json.loads(text or "[]")
    except ValueError:
        return {}
    states = {}
    for entry in listed if isinstance(listed, list) else ():
        match entry:
            case [int(operator), int(snapshot), str(token)]:
                states[operator] = NamedState(operator, snapshot, token)
            case [int(operator), int(snapshot), str(token), int(layers), int(rows)]:
                states[operator] = NamedState(operator, snapshot, token, layers, rows)
    return states


def build_state_relation(relation: Relation, operator: int) -> Relation:
    """The table that holds the state of one operator of a model."""
    return Relation(f"{relation.schema}{_SCHEMA}", f"{relation.name}__{operator}")


def is_state_schema(schema: str) -> bool:
    """Whether a schema holds states of groups, and nothing that people made."""
    return schema.endswith(_SCHEMA)
