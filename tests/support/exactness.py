"""The law, checked: after every build each relation is what its query, evaluated in full, says it must be."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from random import Random
from typing import Any

from sqb.build.result import BuildResult
from support.cases import explain_rebuild, list_surprises
from support.random_lake import (
    Maker,
    Model,
    Rel,
    change,
    create,
    lookup_query,
    make_tables,
    rows,
    unique_query,
    without_qualify,
)
from support.sandbox import PROJECT_FILE, Sandbox

Rows = Counter[str]
_OWN = ("valid_from", "valid_to", "is_current")


class NotExact(AssertionError):
    """A relation is not what it must be, or was not made as it was to be made."""

    def __init__(self, text: str, model: str = "", kind: str = "") -> None:
        super().__init__(text)
        self.model, self.kind = model, kind


@dataclass(slots=True)
class World:
    """A project, its lake, and everything that was done to it, as text that can be done again."""

    sandbox: Sandbox
    models: dict[str, Model] = field(default_factory=dict)
    # The statements before the first build, before the second …: `do` can do them again.
    steps: list[list[str]] = field(default_factory=lambda: [[]])
    # What each query gave at the last build; what each log must hold; what each history must show at a moment.
    before: dict[str, Rows] = field(default_factory=dict)
    logs: dict[str, Rows] = field(default_factory=dict)
    moments: dict[str, list[tuple[datetime, Rows]]] = field(default_factory=dict)
    # The version of each table at the last build, and at the one before it.
    versions: dict[str, int] = field(default_factory=dict)
    versions_before: dict[str, int] = field(default_factory=dict)
    # What the last build did.
    result: BuildResult | None = None
    run_types: Counter[str] = field(default_factory=Counter)
    # How many tables hold figures of groups.
    states: int = 0
    # Why nodes were rebuilt whose changes might have been followed.
    rebuilt: Counter[str] = field(default_factory=Counter)

    def do(self, statement: str) -> None:
        """Change the lake: a statement, or `ROLLBACK table number` of a snapshot in the table's history."""
        self.steps[-1].append(statement)
        if statement.startswith("ROLLBACK "):
            _, table, number = statement.split()
            history = self.sandbox.sql(f"SELECT snapshot_id FROM {table}.history ORDER BY made_current_at")
            snapshot = history[int(number) % len(history)][0]
            statement = f"CALL lake.system.set_current_snapshot('{table}', {snapshot})"
        self.sandbox.sql(statement)

    def add(self, model: Model) -> None:
        folder, _, name = model.name.partition(".")
        self.models[model.name] = model
        self.sandbox.write(f"models/{folder}/{name}.sql", model.text)

    def build(self) -> BuildResult:
        """Build, and compare every relation with its query."""
        result = self.result = self.sandbox.build()
        for node in sorted(result.nodes, key=lambda n: n.status != "failed"):
            name = node.planned.name
            if node.status in ("failed", "blocked"):
                raise self._refuse(name, node.status, f"{node.status}: {node.error} {node.detail}")
            self.run_types[node.run_type if node.status == "ok" else "skip"] += 1
            if node.status == "ok" and node.run_type == "full":
                self.rebuilt[explain_rebuild(node) or node.planned.reason] += 1
        for name, item, planned in list_surprises({n.planned.name: n for n in result.nodes if n.status == "ok"}):
            raise self._refuse(name, "rebuilt", f"it ran as {item}, and its plan was {planned}")
        ran = {n.planned.name: f"{n.run_type}: {n.detail}" for n in result.nodes if n.status == "ok"}
        identities = self.sandbox.identities()
        self.versions_before, self.versions = self.versions, self._versions()
        now = datetime.now()
        time.sleep(0.002)

        def check(name: str) -> None:
            self._check(name, ran.get(name, "skipped"), now)
            recorded = identities.get(name, {}).get("sqb.content")
            if name in ran and self.models[name].kind != "view":
                item = self.sandbox.content(name)
                if item != recorded:
                    raise self._refuse(name, "content", f"it is {item}, recorded is {recorded}; {ran[name]}")

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(check, self.models))
        self.steps.append([])
        self.states = sum(name.partition(".")[0].endswith("__sqb_state") for name in self.sandbox.relations())
        return result

    def _versions(self) -> dict[str, int]:
        names = {n for m in self.models.values() if m.lookup is not None for n in (m.lookup.driver, m.lookup.lookup)}
        main = "SELECT snapshot_id FROM {}.refs WHERE name = 'main'"
        return {name: self.sandbox.sql(main.format(name))[0][0] for name in names}

    def _before(self, model: Model) -> Rows:
        """What a log's result was: with lookups as they are now, which drive nothing."""
        if model.lookup is None or not self.versions_before:
            return self.before.get(model.name, Counter())
        return multiset(self.sandbox.sql(model.lookup.before(self.versions_before)))

    def _check(self, name: str, how: str, now: datetime) -> None:
        model = self.models[name]
        if model.kind == "view":
            return
        wanted = multiset(self.sandbox.sql(without_qualify(model.query.sql)))
        table = self.sandbox.sql(f"SELECT * FROM {name}")
        match model.kind:
            case "append":
                log = self.logs.setdefault(name, Counter())
                log.update(wanted - self._before(model))
                self._same(name, how, multiset(table), log)
            case "scd2":
                self.moments.setdefault(name, []).append((now, wanted))
                self._check_history(name, how, [r.asDict() for r in table])
            case _:
                self._same(name, how, multiset(table), wanted)
        self.before[name] = wanted

    def _check_history(self, name: str, how: str, table: Sequence[dict[str, Any]]) -> None:
        key = self.models[name].query.unique
        plain = [(multiset([[v for c, v in r.items() if c not in _OWN]]), r) for r in table]
        for moment, wanted in self.moments[name]:
            there: Rows = Counter()
            for one, r in plain:
                if r["valid_from"] <= moment and (r["valid_to"] is None or r["valid_to"] > moment):
                    there.update(one)
            self._same(name, f"{how}, the history at {moment}", there, wanted)
        current: Rows = Counter()
        for one, r in plain:
            if r["is_current"] != (r["valid_to"] is None):
                raise self._refuse(name, "history", f"{r} is neither current nor closed")
            if r["valid_to"] is not None and r["valid_to"] <= r["valid_from"]:
                raise self._refuse(name, "history", f"{r} was never true")
            if r["is_current"]:
                current.update(one)
        self._same(name, f"{how}, the current rows", current, self.moments[name][-1][1])
        open_keys = Counter(repr(r[str(key)]) for r in table if r["is_current"])
        if any(n > 1 for n in open_keys.values()):
            raise self._refuse(name, "history", f"keys are current more than once: {open_keys}")

    def _same(self, name: str, how: str, found: Rows, wanted: Rows) -> None:
        if found != wanted:
            extra, missing = list((found - wanted).items())[:4], list((wanted - found).items())[:4]
            raise self._refuse(name, "rows", f"{how}\n  too many: {extra}\n  missing: {missing}")

    def _refuse(self, name: str, kind: str, what: str) -> NotExact:
        """What is wrong, and how to get there: the model with all it reads, and every statement so far."""
        models = "\n".join(f"== {n}\n{self.models[n].text}" for n in list_needed(self.models, name))
        story = "\n-- build\n".join("\n".join(f"{s};" for s in step) for step in self.steps)
        return NotExact(f"{name}: {what}\n{models}\n== what was done\n{story}\n", name, kind)


def list_needed(models: Mapping[str, Model], name: str) -> list[str]:
    """A model and the models that it reads, in the order of the project."""
    wanted, result = [name], set()
    while wanted:
        one = wanted.pop()
        if one in models and one not in result:
            result.add(one)
            wanted.extend(models[one].reads)
    return [n for n in models if n in result]


def multiset(table: Sequence[Sequence[Any]]) -> Rows:
    """Rows by their text: NaN is one value, and numbers of different types are different."""
    return Counter(repr(tuple(row)) for row in table)


# Rows decide, the cost decides, and tables are written file by file.
PROJECTS = (
    'name = "sandbox"\n',
    'name = "sandbox"\n[incremental]\nmin_rows = 0\nmax_share = 100.0\n',
    'name = "sandbox"\n[incremental]\nmin_rows = 0\nmax_share = 100.0\nsmall_rows = 0\n',
)


def make_world(sandbox: Sandbox, random: Random, models: int, relations: int) -> tuple[World, list[Rel]]:
    """Tables with rows, and models over them and over each other, each of which reads at most so many relations."""
    world = World(sandbox)
    tables = make_tables(random)
    project = random.choice(PROJECTS)
    sandbox.write(PROJECT_FILE, project)
    world.do("CREATE NAMESPACE raw")
    world.do("CREATE NAMESPACE m")
    for table in tables:
        world.do(create(table))
        world.do(f"INSERT INTO {table.name} {rows(random, table, 9)}")
    rels = list(tables)
    while len(world.models) < models:
        model = _model(random, rels, f"m.q{len(world.models)}")
        # Over so few rows the estimate of the cost decides for many a rebuild.
        model.refresh = "auto" if project != PROJECTS[0] and random.random() < 0.2 else "incremental"
        model.keeps_figures = random.random() < 0.85
        if not _works(sandbox, model, relations):
            continue
        world.add(model)
        if random.random() < 0.4:
            # What others read stands as a view until the project is built.
            sandbox.sql(f"CREATE VIEW {model.name} AS {without_qualify(model.query.sql)}")
            rels.append(Rel(model.name, dict(model.query.columns)))
    for rel in rels[len(tables) :]:
        sandbox.sql(f"DROP VIEW {rel.name}")
    return world, tables


def _model(random: Random, rels: list[Rel], name: str) -> Model:
    kind = random.choice(("table", "table", "table", "merge", "tracked", "append", "scd2", "view"))
    # Tables are read more often than models, or everything would hang on a few of them.
    weighted = [r for r in rels for _ in range(3 if r.is_table else 1)]
    make = Maker(random, weighted)
    if kind == "append" and random.random() < 0.5 and sum(r.is_table for r in rels) > 1:
        query, joined = lookup_query(make)
        return Model(name, kind, query, tuple(sorted(make.used)), joined)
    query = unique_query(make) if kind in ("merge", "scd2") else make.query(1)
    if kind in ("append", "scd2") and "*" in query.sql.replace("count(*)", "").replace("* 2D", ""):
        # What these do when columns are added has cases of its own.
        kind = "table"
    if kind == "tracked" and not query.columns:
        kind = "table"
    return Model(name, kind, query, tuple(sorted(make.used)))


def _works(sandbox: Sandbox, model: Model, relations: int) -> bool:
    """Whether Spark can plan the query, and it reads few enough relations."""
    # Some queries that Spark takes make its own optimiser fail, whoever runs them.
    planned = sandbox.sql(f"EXPLAIN {without_qualify(model.query.sql)}")[0][0]
    return "Error occurred during query planning" not in planned and planned.count("BatchScan ") <= relations


def shake(world: World, random: Random, tables: list[Rel]) -> None:
    """One to five batches of changes."""
    for _ in range(random.choice((1, 2, 2, 3, 3, 4, 5))):
        table = random.choice(tables)
        for statement in change(random, table):
            if statement.startswith("ROLLBACK"):
                world.do(f"{statement} {random.randrange(100)}")
            elif statement.startswith("ADD COLUMN"):
                name = f"extra{len(table.columns)}"
                world.do(f"ALTER TABLE {table.name} ADD COLUMN {name} INT")
                table.columns[name] = "int"
            else:
                world.do(statement)
