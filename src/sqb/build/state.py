"""What one build knows while it runs, shared by its workers: only its own methods change it, each under one lock."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from sqb.build.events import NodeDone
from sqb.build.observe.lake import LakeState, build_relation_state
from sqb.lake.port import TableState
from sqb.names import Relation
from sqb.plan.observed import RelationState, Version


class BuildState:
    """The tables at the versions that the build reads, and what became of its nodes."""

    def __init__(self, lake_state: LakeState) -> None:
        self._lock = threading.Lock()
        self._states: dict[Relation, TableState] = dict(lake_state.states)
        self._relations: dict[Relation, RelationState] = dict(lake_state.observed.relations)
        self._externals: dict[str, Relation] = dict(lake_state.externals)
        self._baselines: dict[Relation, Version] = {}
        self._done: dict[str, NodeDone] = {}
        self._overtaken: set[str] = set()

    @property
    def states(self) -> Mapping[Relation, TableState]:
        """The state of every relation that the build knows."""
        return self._states

    @property
    def externals(self) -> Mapping[str, Relation]:
        """Where externals are in the catalog; loaders make some of them."""
        return self._externals

    @property
    def done(self) -> Mapping[str, NodeDone]:
        """What became of the nodes that have ended."""
        return self._done

    @property
    def overtaken(self) -> frozenset[str]:
        """Nodes that another build has made from newer versions than this one reads, and what is below them."""
        with self._lock:
            return frozenset(self._overtaken)

    def copy_relations(self) -> dict[Relation, RelationState]:
        """The same states in the words of planning, as they are now."""
        with self._lock:
            return dict(self._relations)

    def adopt_states(self, states: Mapping[Relation, TableState]) -> None:
        """From now on the build reads these tables as they have been made."""
        with self._lock:
            self._states |= states
            self._relations |= {relation: build_relation_state(state) for relation, state in states.items()}

    def adopt_loaded(self, name: str, relation: Relation, read_as: Relation, state: TableState) -> None:
        """From now on the build reads an external as its loader has filled it; queries call it `read_as`."""
        with self._lock:
            relation = self._externals.setdefault(name, relation)
            current = build_relation_state(state)
            self._states[relation] = state
            self._relations |= {relation: current, read_as: current}

    def inherit_states(self, earlier: BuildState) -> None:
        """Take over what an earlier round has made and this one has not looked at."""
        with self._lock:
            self._states = {**earlier.states, **self._states}

    def finish_node(self, done: NodeDone) -> None:
        """Record what became of a node."""
        self._done[done.planned.name] = done

    def mark_overtaken(self, done: NodeDone) -> NodeDone:
        """Leave a node, and with it what is below, to be looked at again when all else is done."""
        with self._lock:
            self._overtaken.add(done.name)
        return done

    def copy_baselines(self) -> dict[Relation, Version]:
        """The versions that were taken over from another target, before anything changed on top of them."""
        with self._lock:
            return dict(self._baselines)

    def adopt_baseline(self, relation: Relation, version: Version) -> None:
        """Record the version of a table that was taken over from another target."""
        with self._lock:
            self._baselines[relation] = version
