"""One project on one lake in one warm Spark session: refreshes, rebuilds and statements by hand, timed and counted."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from executions import Execution, list_executions
from incremental import Engine
from sqb.build.context import BuildSettings
from sqb.build.observe.lake import observe_lake
from sqb.build.result import generate_run_id
from sqb.build.scheduler import Build
from sqb.lake.open import open_lake
from sqb.operations.plan import decide_plan
from sqb.plan.model import Options
from sqb.project.config.connections.lake_location import LakeLocation
from sqb.project.config.connections.model import Connection, SparkSettings
from sqb.spark.session.local import start_engine
from sqb.workspace import open_workspace

# Many models share the session: what was compiled for one must not be thrown away for another.
_CODE_IS_KEPT = {"spark.sql.codegen.cache.maxEntries": "5000"}


@dataclass(frozen=True, slots=True)
class Measured:
    """How long something took, how many SQL executions it needed (nested ones too), and how a node ran."""

    seconds: float
    executions: int
    run_type: str = ""
    # What Spark did, and what the model says of it.
    profile: tuple[Execution, ...] = ()
    detail: str = ""


class Lab:
    """A project whose models read the schema `raw`, and its lake."""

    def __init__(
        self,
        models: Mapping[str, str],
        headers: Mapping[str, str] | None = None,
        memory: str = "6g",
        profiles: bool = False,
    ) -> None:
        self.models, self.profiles = models, profiles
        self.folder = Path(tempfile.mkdtemp(prefix="sqb-bench-"))
        (self.folder / "models" / "m").mkdir(parents=True)
        (self.folder / "lake").mkdir()
        (self.folder / "sqlbuild_project.toml").write_text('name = "bench"\n')
        for name, query in models.items():
            header = (headers or {}).get(name, "")
            (self.folder / "models" / "m" / f"{name}.sql").write_text(f"-- @kind: table\n{header}{query}\n")
        place = LakeLocation.embedded(self.folder / "lake" / "catalog.db", self.folder / "lake" / "data")
        # Executions are counted, so that none may be forgotten.
        conf = {"spark.driver.memory": memory, "spark.sql.ui.retainedExecutions": "1000000", **_CODE_IS_KEPT}
        connection = Connection(spark=SparkSettings(conf=conf))
        self._started = start_engine(connection, place, self.folder / "spark.log", lambda text: None, 2)
        self._engine: Any = Engine(self._started)
        self.spark = self._started.worker_session()
        self.spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.raw")
        self.spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.m")

    def close(self) -> None:
        """Stop Spark and remove everything."""
        self._started.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def sql(self, *statements: str) -> None:
        """Run statements one after the other."""
        for statement in statements:
            self.spark.sql(statement)

    def measure(self, work: Callable[[], Any]) -> Measured:
        """Time a piece of work and count its SQL executions."""
        first, began = self._count_executions(), time.perf_counter()
        work()
        seconds = time.perf_counter() - began
        count = self._count_executions() - first
        return Measured(seconds, count, profile=tuple(list_executions(self.spark, count)) if self.profiles else ())

    def _count_executions(self) -> int:
        # Spark's listeners hear of an execution after it has ended.
        self.spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(60_000)
        return int(self.spark._jsparkSession.sharedState().statusStore().executionsCount())

    def build(self, name: str | None = None, full: bool = False) -> Measured:
        """Build one model, or all; a node's own seconds are what counts, without planning."""
        workspace = open_workspace(self.folder)
        lake = open_lake(workspace)
        seen = observe_lake(workspace, lake)
        options = Options(frozenset({f"m.{name}"}) if name else None, full_refresh=full)
        plan = decide_plan(workspace, lake, seen, options)
        results: list[Any] = []
        settings = BuildSettings(generate_run_id(), 1)
        build = Build(workspace, lake, seen, plan, self._engine, settings, lambda event: None)
        measured = self.measure(lambda: results.append(build.run()))
        nodes = [n for n in results[0].nodes if name is None or n.planned.name == f"m.{name}"]
        for node in nodes:
            if node.error is not None:
                raise SystemExit(f"{node.planned.name}: {node.error}")
        seconds, one = sum(n.seconds for n in nodes), nodes[0]
        if name is None:
            return Measured(seconds, measured.executions)
        return Measured(seconds, measured.executions, one.run_type, measured.profile, one.detail)

    def query(self, name: str) -> str:
        """A model's query, as Spark runs it without sqb."""
        return self.models[name].replace("raw.", "lake.raw.")

    def check(self, name: str, query: str | None = None, table: str | None = None) -> None:
        """Compare a table with a model's query, as multisets: by their size and the sum of the rows' hashes."""
        digest = "SELECT count(*), sum(CAST(xxhash64(*) AS DECIMAL(38,0))) FROM ({})"
        texts = (f"SELECT * FROM {table or f'lake.m.{name}'}", query or self.query(name))
        stored, computed = (self.spark.sql(digest.format(text)).collect()[0] for text in texts)
        if stored != computed:
            raise SystemExit(f"{table or name} is not what a full rebuild gives")

    def snapshot(self, table: str) -> int:
        """The current snapshot of a table."""
        return int(self.spark.sql(f"SELECT snapshot_id FROM {table}.refs WHERE name = 'main'").collect()[0][0])
