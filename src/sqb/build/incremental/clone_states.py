"""The states of a model's groups, taken along where its table is cloned: by reuse, a new version, an adoption."""

from __future__ import annotations

from dataclasses import replace

from sqb.lake.port import Lake
from sqb.names import Relation
from sqb.plan.recorded.commit_identity import CommitIdentity
from sqb.plan.recorded.group_state import NamedState, build_state_relation, encode_states, parse_states


def clone_states(lake: Lake, source: Relation, identity: CommitIdentity, target: Relation, run_id: str) -> str:
    """Clone the states that the commit of a table names to a table of the same rows; what its commit is to name.

    A state that no longer exists is left out: the model is computed in full when it is needed, and makes it again.
    """
    named = parse_states(identity.group_state)
    cloned = [s for s in (_clone_state(lake, source, s, target, run_id) for s in named.values()) if s is not None]
    return encode_states(cloned)


def _clone_state(lake: Lake, source: Relation, state: NamedState, target: Relation, run_id: str) -> NamedState | None:
    if not state.is_kept:
        return state
    own, copy = build_state_relation(source, state.operator), build_state_relation(target, state.operator)
    pointers = lake.list_pointers()
    if own not in pointers or not lake.has_snapshot(own, state.snapshot):
        return None
    lake.ensure_schemas([copy.schema])
    base = lake.read_tables([pointers[copy]])[copy].base if copy in pointers else None
    summary = CommitIdentity(group_state_of=str(target), run_id=run_id).to_properties()
    clone = lake.clone(own, state.snapshot, copy, summary, base, run_id)
    return replace(state, snapshot=clone.snapshot_id)
