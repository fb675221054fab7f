"""Virtual environments on real rows against a reference of plain dictionaries, in whatever order people work.

The reference evaluates the models by itself, knows the tables of all versions and what each environment shows of them.
`SQB_ENVIRONMENT_STORIES` says how many stories are told; `make soak` tells many.
"""

from __future__ import annotations

import itertools
import json
import os
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from sqb.build.failpoints import Step
from sqb.environments.model import Ref, Status
from sqb.environments.promotion.promote import PromotionOptions, promote
from sqb.environments.promotion.rollback import roll_back
from sqb.environments.views import lock_environment
from sqb.errors.base import SqbError
from sqb.errors.environments import Detached, StaleUpstreams
from support.environments import file_of, write_project
from support.sandbox import Sandbox, SandboxMaker

STORIES = int(os.environ.get("SQB_ENVIRONMENT_STORIES", "2"))
STEPS_OF_A_STORY = 8
ENVIRONMENTS = ("dev", "pr")
READS = {"labels": (), "stg": (), "per": ("stg", "labels"), "log": ("stg",), "keyed": ("stg",), "seen": ("per",)}
PER_LABEL = "SELECT l.label, sum(s.n) + {} AS n FROM stg s JOIN labels l ON s.day = l.day GROUP BY l.label"
# What each node says, and what may stand in the hole.
TEXTS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "labels": ("day,label\n1,mon\n2,{}\n", ("tue", "mon")),
    "stg": ("SELECT id, day, n FROM raw.x WHERE n > {}", (0, 15, 10**6)),
    "per": (
        "SELECT l.label, sum(s.n) {} AS n FROM stg s JOIN labels l ON s.day = l.day GROUP BY l.label",
        ("+ 0", "+ 1"),
    ),
    "log": ("-- @kind: append\nSELECT id, n FROM stg", ("",)),
    "keyed": ("-- @kind: merge\n-- @unique_key: id\nSELECT id, n * {} AS n FROM stg", (1, 2)),
    "seen": ("-- @kind: view\nSELECT label, n * {} AS n FROM per", (1, 10)),
}
CUTS: tuple[Step, ...] = ("version begun", "published", "before history", "environment begun", "views moved")
Row = tuple[Any, ...]
Rows = tuple[Row, ...]
# What a node says, and the versions of what it reads.
Version = tuple[Any, ...]


@dataclass(frozen=True)
class Table:
    """The table of a version: its rows, and for a log what its query gave when it last ran."""

    rows: Rows
    result: Rows


@dataclass(frozen=True)
class Bound:
    """What an environment shows of a node."""

    version: Version
    rows: Rows


Contents = dict[str, Bound]


class Stories(RuleBasedStateMachine):
    """What people do with a project, its source and its environments."""

    def __init__(self, sandbox: Sandbox) -> None:
        super().__init__()
        self.sandbox = sandbox
        self.choice = dict.fromkeys(READS, 0)
        self.source: dict[int, tuple[int, int]] = {1: (1, 10), 2: (1, 20), 3: (2, 60), 4: (2, -1)}
        self.ids = itertools.count(5)
        self.tables: dict[tuple[str, Version], Table] = {}
        self.shown: dict[str, Contents] = {}
        self.marks: dict[str, Contents] = {}
        self.left: dict[str, Contents] = {}
        self.versions: dict[str, Version] = {}

    def teardown(self) -> None:
        self.sandbox.close()

    @initialize()
    def begin(self) -> None:
        write_project(self.sandbox, {n: self.text(n) for n in READS if n != "labels"})
        self.sandbox.write("seeds/labels.csv", self.text("labels"))
        self.build_into("dev", None, {})

    # --- what people do -----------------------------------------------------------------------------------------------

    @rule(node=st.sampled_from(["labels", "stg", "per", "keyed", "seen"]), choice=st.integers(0, 2))
    def edit(self, node: str, choice: int) -> None:
        self.choice[node] = choice % len(TEXTS[node][1])
        path = "seeds/labels.csv" if node == "labels" else f"models/{node}.sql"
        self.sandbox.write(path, self.text(node))

    @rule(n=st.sampled_from([-5, 5, 30]), delete=st.booleans())
    def source_changes(self, n: int, delete: bool) -> None:
        new = next(self.ids)
        self.source[new] = (1 + new % 2, n)
        self.sandbox.sql(f"INSERT INTO raw.x VALUES ({new}, {1 + new % 2}, {n})")
        if delete:
            gone = min(self.source)
            del self.source[gone]
            self.sandbox.sql(f"DELETE FROM raw.x WHERE id = {gone}")

    @rule(name=st.sampled_from(ENVIRONMENTS))
    def build(self, name: str) -> None:
        self.build_into(name, None, {})

    @rule(
        name=st.sampled_from(ENVIRONMENTS),
        node=st.sampled_from(sorted(READS)),
        how=st.sampled_from(["", "include_stale_upstreams", "changes_only"]),
    )
    def build_a_part(self, name: str, node: str, how: str) -> None:
        self.build_into(name, node, {how: True} if how else {})

    @rule(name=st.sampled_from(ENVIRONMENTS), cut=st.sampled_from(CUTS))
    def build_is_cut_off(self, name: str, cut: Step) -> None:
        self.build_into(name, None, {}, cut)

    @rule(partial=st.booleans())
    def promote(self, partial: bool) -> None:
        if "pr" not in self.shown:
            return
        self.finish("pr")
        self.finish("dev")
        entered = self.sandbox.entered("dev")
        try:
            done = promote(
                entered.workspace, entered.store, entered.lake, "pr", "dev", lambda *_: None, PromotionOptions(partial)
            )
        except SqbError:
            return
        mine, theirs = self.shown["pr"], self.shown["dev"]
        hashes = {n: r.binding.version_hash for n, r in done.promotion.refs.items()}
        from_pr = {n for n, r in entered.store.read_refs("pr").items() if hashes.get(n) == r.binding.version_hash}
        taken = {s.name for s in done.promotion.steps}
        for name in READS:
            full = next(n for n in hashes if file_of(n) == name)
            if full in taken:
                assert full in from_pr
                theirs = {**theirs, name: mine[name]}
        self.shows("dev", theirs)

    @rule(name=st.sampled_from(ENVIRONMENTS), back=st.integers(0, 3))
    def roll_back(self, name: str, back: int) -> None:
        if name not in self.shown:
            return
        self.finish(name)
        entered = self.sandbox.entered(name)
        known = entered.store.read_checkpoints(name)
        if back >= len(known):
            return
        roll_back(entered.workspace, entered.store, entered.lake, name, known[back].id)
        self.shows(name, self.marks[known[back].id])

    @rule(name=st.sampled_from(ENVIRONMENTS))
    def detach_and_reattach(self, name: str) -> None:
        if name not in self.shown:
            return
        self.finish(name)
        store = self.sandbox.store()
        there = store.read_environments()[name]
        with store.lock(name, "a story") as token:
            store.set_environment(replace(there, status=Status.DETACHED, was=there.status), token)
        try:
            self.sandbox.build(virtual_env=name)
            raise AssertionError("a detached environment was built into")
        except Detached:
            pass
        with store.lock(name, "a story") as token:
            store.set_environment(there, token)

    # --- what becomes of it -------------------------------------------------------------------------------------------

    def text(self, node: str) -> str:
        text, variants = TEXTS[node]
        return text.format(variants[self.choice[node]])

    def expected(self) -> dict[str, Version]:
        by_name: dict[str, Version] = {}
        for node, reads in READS.items():
            by_name[node] = (node, self.text(node), tuple(by_name[r] for r in reads))
        return by_name

    def stale(self, name: str) -> set[str]:
        begun = self.shown.get(name, self.shown.get("dev", {}))
        return {n for n, v in self.expected().items() if n not in begun or begun[n].version != v}

    def build_into(self, name: str, part: str | None, options: dict[str, Any], cut: Step | None = None) -> None:
        self.finish(name)
        stale, selected = self.stale(name), {part} if part is not None else set(READS)
        if options.get("changes_only"):
            selected &= stale
        above = {u for n in selected for u in ancestors(n)} & stale - selected
        if above and not options.get("include_stale_upstreams"):
            self.is_refused(name, part, options)
            return
        selected |= above
        begun = self.shown.get(name, dict(self.shown.get("dev", {})))
        at: list[str] = []

        def announce(step: Step, node: str) -> None:
            if step == cut and not at:
                at.append(file_of(node))
                raise KeyboardInterrupt

        result = None
        with suppress(KeyboardInterrupt):
            chosen = {"select": [part]} if part is not None else {}
            result = self.sandbox.build(virtual_env=name, announce=announce, concurrency=1, **chosen, **options)
        if result is None and name not in self.shown:
            # It was to be made first, and nothing has been built for it.
            done = set()
        elif result is None:
            done = set(selected)
        else:
            ended = {file_of(n.planned.name): n.status for n in result.nodes}
            done = {n for n in selected if ended[n] in ("ok", "skipped")}
            done |= {n for n in at if cut == "published"}
        after = self.run(begun, selected, done, set(at) if cut == "version begun" else set())
        if result is not None and result.ok:
            self.shows(name, after)
        elif cut in ("environment begun", "views moved"):
            self.shown.setdefault(name, begun)
            self.left[name] = after
        else:
            self.shows(name, begun)

    def is_refused(self, name: str, part: str | None, options: dict[str, Any]) -> None:
        try:
            self.sandbox.build(virtual_env=name, select=[part], **options)
            raise AssertionError("a build on stale models was not refused")
        except StaleUpstreams:
            # The environment was made for it.
            self.shows(name, self.shown.get(name, dict(self.shown.get("dev", {}))))

    def run(self, begun: Contents, selected: set[str], done: set[str], cloned: set[str]) -> Contents:
        """Let nodes run in order; what the environment shows when all have."""
        expected, after = self.expected(), dict(begun)
        for node in READS:
            version = expected[node]
            prior = self.tables.get((node, begun[node].version)) if node in begun else None
            current = self.tables.get((node, version), prior)
            if node in cloned and prior is not None:
                self.tables.setdefault((node, version), prior)
            if node not in selected or node not in done:
                continue
            result = self.evaluated(node, {r: self.tables[r, expected[r]].rows for r in READS[node]})
            rows = result
            if node == "log" and current is not None:
                came = Counter(result) - Counter(current.result)
                rows = ordered([*current.rows, *came.elements()])
            self.tables[node, version] = Table(rows, result)
            after[node] = Bound(version, rows)
        return after

    def evaluated(self, node: str, inputs: Mapping[str, Rows]) -> Rows:
        number = self.choice[node]
        match node:
            case "labels":
                lines = self.text(node).split()[1:]
                return ordered([(int(day), label) for day, label in (line.split(",") for line in lines)])
            case "stg":
                least = TEXTS["stg"][1][number]
                return ordered([(id, day, n) for id, (day, n) in self.source.items() if n > least])
            case "log":
                return ordered([(id, n) for id, _, n in inputs["stg"]])
            case "keyed":
                return ordered([(id, n * (1 + number)) for id, _, n in inputs["stg"]])
            case "per":
                sums: Counter[str] = Counter()
                for (_, day, n), (of, label) in itertools.product(inputs["stg"], inputs["labels"]):
                    if day == of:
                        sums[label] += n
                return ordered([(label, n + number) for label, n in sums.items()])
            case _:
                return ordered([(label, n * (10 if number else 1)) for label, n in inputs["per"]])

    # --- what must be so ----------------------------------------------------------------------------------------------

    def finish(self, name: str) -> None:
        """Somebody works on the environment: what was left there is done first."""
        if name in self.left:
            entered = self.sandbox.entered(name)
            with lock_environment(entered.store, entered.lake, name, "a story"):
                pass
            self.shows(name, self.left.pop(name))

    def shows(self, name: str, contents: Contents) -> None:
        """From now on the environment shows this; and all the others what they showed."""
        self.shown[name] = contents
        store = self.sandbox.store()
        there = store.read_environments()[name]
        if there.checkpoint and there.checkpoint not in self.marks:
            self.marks[there.checkpoint] = contents
        for one, shown in self.shown.items():
            if one in self.left:
                continue
            refs = {file_of(n): r for n, r in store.read_refs(one).items()}
            assert refs.keys() == shown.keys()
            self.versions_are_told_apart(refs, shown)
            assert store.read_journal(one) is None
            assert self.rows_seen(one, sorted(shown)) == {n: b.rows for n, b in shown.items()}, one

    def versions_are_told_apart(self, refs: Mapping[str, Ref], shown: Contents) -> None:
        """One version has one hash, and one hash is of one version."""
        for node, ref in refs.items():
            assert self.versions.setdefault(ref.binding.version_hash, shown[node].version) == shown[node].version
        assert len(set(self.versions.values())) == len(self.versions)

    def rows_seen(self, name: str, nodes: list[str]) -> dict[str, Rows]:
        """The rows of all views of an environment, read as one reader reads them."""
        by_name: dict[str, list[Row]] = {n: [] for n in nodes}
        if nodes:
            texts = (f"SELECT '{n}' AS node, to_json(struct(*)) AS row FROM dev__{name}.{n}" for n in nodes)
            for row in self.sandbox.sql(" UNION ALL ".join(texts)):
                by_name[row["node"]].append(tuple(json.loads(row["row"]).values()))
        return {n: ordered(rows) for n, rows in by_name.items()}


def ancestors(node: str) -> set[str]:
    return {a for r in READS[node] for a in (r, *ancestors(r))}


def ordered(rows: list[Row]) -> Rows:
    return tuple(sorted(rows, key=str))


def test_stories_of_environments(new_sandbox: SandboxMaker, tmp_path: Path) -> None:
    numbers = itertools.count()
    run_state_machine_as_test(
        lambda: Stories(new_sandbox(tmp_path / str(next(numbers)))),
        settings=settings(
            max_examples=STORIES,
            stateful_step_count=STEPS_OF_A_STORY,
            deadline=None,
            phases=(Phase.generate,),
            suppress_health_check=list(HealthCheck),
        ),
    )
