"""Which unit tests have to run: those that did not pass yet as they, their model and the types of its inputs are.

What passed is remembered in `.sqb/cache`, and in the history of the lake for those who have no such cache.

Planning uses this on every build: nothing here loads pyiceberg unless the cache does not know a test.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from sqb.build.observe import Look
from sqb.compiled import External, Project, UnitTest
from sqb.identity import digest
from sqb.lake.iceberg import IcebergLake
from sqb.lake.port import TableState
from sqb.lake.state import Fingerprint
from sqb.names import Relation
from sqb.plan.values import Plan
from sqb.project.session_settings import other_than_default
from sqb.workspace import Workspace, write_atomically

NODE_TYPE = "test"
# No name of an input; what a test gives depends on the session that it runs in.
_SETTINGS = "session settings"
StateOf = Callable[[Relation], TableState | None]


@dataclass(frozen=True, slots=True)
class Seen:
    """What stands in the lake, as far as tests care: the states of relations, and where externals are."""

    states: Mapping[Relation, TableState]
    externals: Mapping[str, Relation] = field(default_factory=dict)

    def of(self, name: str, project: Project) -> TableState | None:
        """The table or view behind the name of a node or external."""
        node = project.nodes.get(name)
        return self.states.get(node.relation if node is not None else self.externals.get(name, Relation.parse(name)))


def look_for_tests(project: Project, lake: IcebergLake, tests: Iterable[UnitTest]) -> Seen:
    """What stands of the inputs of these tests; what does not exist need not, as its rows may be given."""
    pointers = lake.pointers()
    folded: dict[str, Relation] = {}
    for relation in pointers:
        folded.setdefault(str(relation).lower(), relation)
    wanted = set(project.nodes) | set(project.externals) | {name for test in tests for name in test.reads}
    externals = {name: folded[key] for name in wanted if (key := _written(name, project)) in folded}
    inside = {n.relation for n in project} | set(externals.values())
    states = lake.tables(pointers[r] for r in inside if r in pointers)
    return Seen(states, {n: r for n, r in externals.items() if n not in project.nodes})


def _written(name: str, project: Project) -> str:
    external: External | None = project.externals.get(name)
    return str(external.relation if external is not None else name).lower()


def is_current(name: str, project: Project, state: TableState | None) -> bool:
    """Whether a table was built from the definition that its model has now, so that its columns are the model's."""
    node = project.nodes.get(name)
    return state is not None and (node is None or state.identity.get("sqb.local_hash") == node.local_hash)


def tokens_of(test: UnitTest, project: Project, seen: Seen) -> dict[str, str]:
    """For each input of a test what stands for its columns: those in the lake, or the definition that will make them.

    A table that is to be rebuilt counts with the columns that it has: whether it gets others is seen when it has run.
    """
    found = {}
    for name in test.reads:
        node = project.nodes.get(name)
        state = seen.of(name, project)
        if node is not None and node.type == "seed":
            found[name] = digest("seed", json.dumps(node.settings["columns"]))
        elif state is not None:
            found[name] = state.columns_token
        elif node is None and name in project.sources and project.sources[name].token:
            found[name] = project.sources[name].token
        else:
            found[name] = f"definition {node.version_hash}" if node is not None else "missing"
    if others := other_than_default(project.session):
        found[_SETTINGS] = json.dumps(others, sort_keys=True)
    return found


def key_of(test: UnitTest, tokens: Mapping[str, str]) -> str:
    """What a test that passed is remembered by."""
    return digest("passed", test.hash, test.local_hash, *(f"{n} {t}" for n, t in sorted(tokens.items())))


def only_built(before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    """Whether nothing happened to the inputs but that definitions became tables, with the columns they stand for."""
    return all(before[n] == t or before[n].startswith("definition ") for n, t in after.items())


class PassedTests:
    """What passed in one target."""

    def __init__(self, workspace: Workspace, lake: IcebergLake) -> None:
        self.workspace, self.lake = workspace, lake
        self.project = workspace.project
        self._path = workspace.folder / "cache" / "tests.json"

    def due(self, tests: Collection[UnitTest], seen: Seen) -> list[UnitTest]:
        """Those of the tests that have to run."""
        if not tests:
            return []
        known = _read(self._path).get(self.project.target, {})
        keys = {t.name: key_of(t, tokens_of(t, self.project, seen)) for t in tests}
        unknown = [t for t in tests if known.get(t.name) != keys[t.name]]
        if not unknown:
            return []
        passed = self._history(unknown)
        found = {t.name: keys[t.name] for t in unknown if passed.get(t.name) == keys[t.name]}
        if found:
            self._keep(found)
        return [t for t in unknown if t.name not in found]

    def _history(self, tests: Iterable[UnitTest]) -> dict[str, str]:
        schemas = sorted({self.project.nodes[t.model].relation.schema for t in tests})
        rows = self.lake.fingerprints(schemas).values()
        return {row.node_name: row.local_hash for row in rows if row.node_type == NODE_TYPE}

    def remember(self, passed: Collection[tuple[UnitTest, str]], run_id: str) -> list[Fingerprint]:
        """Remember here that tests passed under these keys, and give the rows that tell others."""
        if not passed:
            return []
        self._keep({test.name: key for test, key in passed})
        now = datetime.now(UTC)
        return [self._fingerprint(test, key, run_id, now) for test, key in passed]

    def _keep(self, keys: Mapping[str, str]) -> None:
        document = _read(self._path)
        known = document.get(self.project.target, {})
        # Tests that are gone are forgotten.
        names = {t.name for t in self.project.tests}
        document[self.project.target] = {n: k for n, k in {**known, **keys}.items() if n in names}
        write_atomically(self._path, json.dumps(document))

    def _fingerprint(self, test: UnitTest, key: str, run_id: str, now: datetime) -> Fingerprint:
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


def due_tests(workspace: Workspace, lake: IcebergLake, look: Look, plan: Plan) -> list[UnitTest]:
    """The unit tests that a build of a plan has to run."""
    planned = {node.name for node in plan.nodes} if workspace.project.tests else set()
    scope = [test for test in workspace.project.tests if test.model in planned]
    return PassedTests(workspace, lake).due(scope, Seen(look.states, look.externals))


def _read(path: Path) -> dict[str, dict[str, str]]:
    try:
        found = json.loads(path.read_text())
        return {target: known for target, known in found.items() if isinstance(known, dict)}
    except (OSError, ValueError, AttributeError):
        return {}
