"""Many builds at once on one PostgreSQL catalog and one Spark server, and two of the same target.

With SQB_LOAD_BUILDS as many as it says; `make load` runs twenty.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.conftest import Shop, cut_after
from support.object_store import Store
from support.postgres import PASSWORD, Server
from support.proxy import Proxy
from support.spark_servers import SparkServer, start_connect_server

BUILDS = int(os.environ.get("SQB_LOAD_BUILDS", "2"))
MODELS = {
    "models/staging/kept.sql": "SELECT id, id % 7 AS g FROM numbers WHERE id % 5 <> 0",
    "models/marts/log.sql": "-- @kind: append\nSELECT id, g FROM kept",
    "models/marts/sums.sql": "-- @kind: merge\n-- @unique_key: g\n"
    "SELECT g, count(*) AS n, sum(id) AS total FROM kept GROUP BY g",
    "models/marts/shown.sql": "-- @kind: view\nSELECT * FROM sums WHERE n > 1",
}


@pytest.fixture(scope="module")
def spark_server() -> Iterator[SparkServer]:
    from sqb.spark.session.jars import AWS, PACKAGES, POSTGRES

    server = start_connect_server(packages=(*PACKAGES, POSTGRES, AWS))
    yield server
    server.stop()


class Team(Shop):
    """One project of many targets, on a catalog that all share."""

    def __init__(self, root: Path, spark: str, catalog: str, store: Store | None = None) -> None:
        super().__init__(root, f'remote = "{spark}"')
        targets = "".join(f'[targets.t{i}]\nschema = "t{i}_{{folder}}"\n' for i in range(BUILDS))
        self.catalog_url = catalog
        self.warehouse = f"s3://{store.new_bucket()}/lake" if store is not None else f"{root}/warehouse"
        self.options = store.options if store is not None else {}
        uri = f'uri = "@@ENV:TEAM_CATALOG", warehouse = "{self.warehouse}"'
        local = "".join(f'"{key}" = "{value}"\n' for key, value in self.options.items())
        self.write("sqlbuild_local.toml", f"[connections.team.catalog.options]\n{local}")
        self.write(
            "sqlbuild_project.toml",
            f'name = "team"\ndefault_target = "t0"\n{targets}[connections.team]\n'
            f'catalog = {{ {uri} }}\nspark = {{ remote = "{spark}" }}\n',
        )
        for path, text in MODELS.items():
            self.write(path, text)
        (root / "models/first.sql").unlink()

    def numbers(self, count: int) -> None:
        self.write("seeds/numbers.csv", "id\n" + "".join(f"{i}\n" for i in range(count)))

    def build(self, target: int) -> subprocess.Popen[str]:
        return self.start("build", "--target", f"t{target}", TEAM_CATALOG=self.catalog_url)

    def rows(self, target: int, schema: str, table: str) -> list[tuple[Any, ...]]:
        from pyiceberg.catalog.sql import SqlCatalog

        address = self.catalog_url.replace("postgresql://", "postgresql+psycopg://")
        catalog = SqlCatalog("lake", uri=address, warehouse=self.warehouse, **self.options)
        pylist = catalog.load_table((f"t{target}_{schema}", table)).scan().to_arrow().to_pylist()
        return sorted(tuple(row.values()) for row in pylist)


def ended(*builds: subprocess.Popen[str]) -> list[tuple[int, str]]:
    output = [build.communicate(timeout=900)[0] for build in builds]
    return [(build.returncode, text) for build, text in zip(builds, output, strict=True)]


def check(team: Team, target: int, count: int) -> None:
    remaining = [(i, i % 7) for i in range(count) if i % 5]
    assert team.rows(target, "staging", "kept") == remaining
    # Every row once, however many builds wanted to add it.
    assert team.rows(target, "marts", "log") == remaining
    sums = [
        (g, len(items := [i for i, h in remaining if h == g]), sum(items)) for g in sorted({h for _, h in remaining})
    ]
    assert team.rows(target, "marts", "sums") == sums


@pytest.mark.timeout(1800)
def test_targets_at_once_and_one_target_twice(postgres: Server, spark_server: SparkServer, tmp_path: Path) -> None:
    team = Team(tmp_path / "team", spark_server.address, postgres.url(postgres.new_database()))
    for count in (40, 60):
        team.numbers(count)
        for code, output in ended(*(team.build(target) for target in range(BUILDS))):
            assert code == 0, output
        for target in range(BUILDS):
            check(team, target, count)
    team.numbers(80)
    results = ended(*(team.build(0) for _ in range(3)))
    # Whoever comes second takes over what is done.
    for code, output in results:
        assert code == 0, output
        assert "Traceback" not in output
    code, output = ended(team.build(0))[0]
    assert code == 0, output
    check(team, 0, 80)
    code, output = ended(team.build(0))[0]
    assert code == 0 and "Done: 0 ran" in output, output
    # The server stays, and with it what it opened for builds, unless they close it.
    left = postgres.run("SELECT application_name FROM pg_stat_activity WHERE application_name LIKE 'sqb%'")
    assert left == []


def test_a_warehouse_in_an_object_store(
    postgres: Server, object_store: Store, spark_server: SparkServer, tmp_path: Path
) -> None:
    catalog = postgres.url(postgres.new_database())
    team = Team(tmp_path / "team", spark_server.address, catalog, object_store)
    for count in (20, 30):
        team.numbers(count)
        code, output = ended(team.build(0))[0]
        assert code == 0, output
        check(team, 0, count)
    code, output = ended(team.build(0))[0]
    assert code == 0 and "Done: 0 ran" in output, output


def test_a_catalog_that_is_cut_off_in_the_middle(postgres: Server, spark_server: SparkServer, tmp_path: Path) -> None:
    proxy = Proxy(postgres.port)
    catalog = postgres.url(postgres.new_database()).replace(f":{postgres.port}/", f":{proxy.port}/")
    team = Team(tmp_path / "team", spark_server.address, catalog)
    team.numbers(20)
    team.write("functions/nap.py", "import time\n\ndef nap(n: int) -> int:\n    time.sleep(4)\n    return n\n")
    team.write("models/marts/slow.sql", "SELECT nap(max(id)) AS n FROM kept")
    build = team.build(0)
    output, seconds = cut_after(build, "[OK] staging.kept", proxy, timeout=120)
    # What runs is not waited for longer than it takes, and what cannot be written is told at once.
    assert seconds < 30, output
    assert build.returncode == 1, output
    assert "team" in output and "Traceback" not in output and PASSWORD not in output, output
    proxy.mend()
    code, output = ended(team.build(0))[0]
    assert code == 0, output
    assert "[OK] seeds.numbers (seed, skip" in output
    check(team, 0, 20)
    proxy.close()
