"""Which unit tests have to run: those that did not pass yet as they, their model and the types of its inputs are.

What passed is remembered in `.sqb/cache`, and in the history of the lake for machines without that cache.

Planning uses this on every build: nothing here loads pyiceberg unless the cache does not know a test.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import field
from datetime import UTC, datetime

from sqb.build.observe.lake import LakeState
from sqb.cache.files import read_value, write_value
from sqb.compile.model import External, Project, UnitTest
from sqb.identity import digest
from sqb.lake.port import Lake, TableState
from sqb.lake.state.rows import Fingerprint
from sqb.light_dataclass import dataclass
from sqb.names import Relation
from sqb.plan.model import Plan
from sqb.project.config.session_settings import list_non_default
from sqb.workspace import Workspace

NODE_TYPE = "test"
# No name of an input; what a test gives depends on the session that it runs in.
_SETTINGS = "session settings"
# The keys of the tests that passed, by target and by the name of the test. A key says all that the result depends on.
Passed = dict[str, dict[str, str]]
_FORMAT = "sqb passed tests 1"
StateOf = Callable[[Relation], TableState | None]


@dataclass(frozen=True, slots=True)
class InputStates:
    """The relations that tests depend on: their states, and where externals are."""

    states: Mapping[Relation, TableState]
    externals: Mapping[str, Relation] = field(default_factory=dict)

    def get(self, name: str, project: Project) -> TableState | None:
        """The table or view behind the name of a node or external."""
        node = project.nodes.get(name)
        return self.states.get(node.relation if node is not None else self.externals.get(name, Relation.parse(name)))


def read_input_states(project: Project, lake: Lake, tests: Iterable[UnitTest]) -> InputStates:
    """The states of the inputs of these tests; an input need not exist, as a test may give its rows."""
    pointers = lake.list_pointers()
    folded: dict[str, Relation] = {}
    for relation in pointers:
        folded.setdefault(str(relation).lower(), relation)
    names = set(project.nodes) | set(project.externals) | {name for test in tests for name in test.reads}
    externals = {name: folded[key] for name in names if (key := _get_written_name(name, project)) in folded}
    inside = {n.relation for n in project} | set(externals.values())
    states = lake.read_tables(pointers[r] for r in inside if r in pointers)
    return InputStates(states, {n: r for n, r in externals.items() if n not in project.nodes})


def _get_written_name(name: str, project: Project) -> str:
    external: External | None = project.externals.get(name)
    return str(external.relation if external is not None else name).lower()


def has_current_definition(name: str, project: Project, state: TableState | None) -> bool:
    """Whether a table was built from the definition that its model has now, so that its columns are the model's."""
    node = project.nodes.get(name)
    return state is not None and (node is None or state.identity.local_hash == node.local_hash)


def compute_tokens(test: UnitTest, project: Project, input_states: InputStates) -> dict[str, str]:
    """For each input of a test what stands for its columns: those in the lake, or the definition that will make them.

    A table that is to be rebuilt counts with the columns that it has: whether it gets others is seen when it has run.
    """
    tokens = {}
    for name in test.reads:
        node = project.nodes.get(name)
        state = input_states.get(name, project)
        if node is not None and node.type == "seed":
            tokens[name] = digest("seed", json.dumps(node.settings["columns"]))
        elif state is not None:
            tokens[name] = state.columns_token
        elif node is None and name in project.sources and project.sources[name].token:
            tokens[name] = project.sources[name].token
        else:
            tokens[name] = f"definition {node.version_hash}" if node is not None else "missing"
    if others := list_non_default(project.session):
        tokens[_SETTINGS] = json.dumps(others, sort_keys=True)
    return tokens


def compute_key(test: UnitTest, tokens: Mapping[str, str]) -> str:
    """What a test that passed is remembered by."""
    return digest("passed", test.hash, test.local_hash, *(f"{n} {t}" for n, t in sorted(tokens.items())))


def is_only_built(before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    """Whether nothing happened to the inputs but that definitions became tables, with the columns they stand for."""
    return all(before[n] == t or before[n].startswith("definition ") for n, t in after.items())


class PassedTestCache:
    """What passed in one target."""

    def __init__(self, workspace: Workspace, lake: Lake) -> None:
        self.workspace, self.lake = workspace, lake
        self.project = workspace.project
        self._path = workspace.folder / "cache" / "tests.json"

    def list_due(self, tests: Collection[UnitTest], input_states: InputStates) -> list[UnitTest]:
        """Those of the tests that have to run."""
        if not tests:
            return []
        cached = self._read_cache().get(self.project.target, {})
        keys = {t.name: compute_key(t, compute_tokens(t, self.project, input_states)) for t in tests}
        unknown = [t for t in tests if cached.get(t.name) != keys[t.name]]
        if not unknown:
            return []
        passed = self._read_history(unknown)
        recorded = {t.name: keys[t.name] for t in unknown if passed.get(t.name) == keys[t.name]}
        if recorded:
            self._write_cache(recorded)
        return [t for t in unknown if t.name not in recorded]

    def _read_history(self, tests: Iterable[UnitTest]) -> dict[str, str]:
        schemas = sorted({self.project.nodes[t.model].relation.schema for t in tests})
        rows = self.lake.state.read_fingerprints(schemas).values()
        return {row.node_name: row.local_hash for row in rows if row.node_type == NODE_TYPE}

    def record(self, passed: Collection[tuple[UnitTest, str]], run_id: str) -> list[Fingerprint]:
        """Remember here that tests passed under these keys, and give the rows that tell others."""
        if not passed:
            return []
        self._write_cache({test.name: key for test, key in passed})
        now = datetime.now(UTC)
        return [self._build_fingerprint(test, key, run_id, now) for test, key in passed]

    def _read_cache(self) -> Passed:
        return read_value(self._path, _FORMAT, Passed) or {}

    def _write_cache(self, keys: Mapping[str, str]) -> None:
        passed = self._read_cache()
        cached = passed.get(self.project.target, {})
        # Tests that are gone are forgotten.
        names = {t.name for t in self.project.tests}
        passed[self.project.target] = {n: k for n, k in {**cached, **keys}.items() if n in names}
        write_value(self._path, _FORMAT, passed, Passed)

    def _build_fingerprint(self, test: UnitTest, key: str, run_id: str, now: datetime) -> Fingerprint:
        relation = self.project.nodes[test.model].relation
        return Fingerprint(
            node_type=NODE_TYPE,
            node_name=test.name,
            target_schema=relation.schema,
            target_name=relation.name,
            run_id=run_id,
            local_hash=key,
            version_hash=test.local_hash,
            schema_hash="",
            definition=test.hash,
            metadata=json.dumps({"model": test.model, "file": str(test.at)}),
            ts=now,
        )


def list_due_tests(workspace: Workspace, lake: Lake, lake_state: LakeState, plan: Plan) -> list[UnitTest]:
    """The unit tests that a build of a plan has to run."""
    planned = {node.name for node in plan.nodes} if workspace.project.tests else set()
    scope = [test for test in workspace.project.tests if test.model in planned]
    return PassedTestCache(workspace, lake).list_due(scope, InputStates(lake_state.states, lake_state.externals))
