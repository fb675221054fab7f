"""The state of a model's groups, as the commit of the model's table names it."""

from __future__ import annotations

import json
from dataclasses import dataclass

from sqb.names import Relation
from sqb.project.config import virtual

# Behind the schema of the model's own table.
_SCHEMA = f"__{virtual.GROUP_STATE}"


@dataclass(frozen=True, slots=True)
class NamedState:
    """A snapshot of a state table, and what the state in it is made of."""

    snapshot: int
    token: str

    def to_json(self) -> str:
        return json.dumps([self.snapshot, self.token])

    @classmethod
    def from_json(cls, text: str) -> NamedState | None:
        """The state that a commit names; None where it names none."""
        try:
            match json.loads(text or "null"):
                case [int(snapshot), str(token)]:
                    return cls(snapshot, token)
        except ValueError:
            pass
        return None


def build_state_relation(relation: Relation) -> Relation:
    """The table that holds the state of a model's groups."""
    return Relation(f"{relation.schema}{_SCHEMA}", relation.name)


def is_state_schema(schema: str) -> bool:
    """Whether a schema holds states of groups, and nothing that people made."""
    return schema.endswith(_SCHEMA)
