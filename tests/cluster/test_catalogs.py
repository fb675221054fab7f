"""The life of a small project on catalogs with servers of their own: Glue, Hive Metastore, REST with an object store.

All of them share one Spark Connect server. moto's server is Glue and S3; the metastore is the one of Spark's own jars.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

import pytest

from cluster.conftest import Shop
from support.hive_metastore import start_hive_metastore
from support.object_store import Store
from support.required import missing
from support.rest_server import RestServer, start_rest_server
from support.sandbox import environment
from support.spark_servers import SparkServer, start_connect_server

MODELS = {
    "seeds/raw_orders.csv": "id,day,n\n1,1,10\n2,1,20\n3,2,0\n",
    "models/marts/orders.sql": "-- @kind: merge\n-- @unique_key: id\n-- @constraint: not_null(id)\n"
    "SELECT id, day, n FROM raw_orders WHERE n > 0",
    "models/marts/per_day.sql": "SELECT day, sum(n) AS n FROM orders GROUP BY day",
}


@pytest.fixture(scope="module")
def spark_server(object_store: Store) -> Iterator[SparkServer]:
    """A Spark Connect server with Iceberg's bundle of Amazon's libraries, and with credentials of its own for Glue."""
    from sqb.spark.session.jars import AWS, PACKAGES

    names = {"AWS_ACCESS_KEY_ID": "s3.access-key-id", "AWS_SECRET_ACCESS_KEY": "s3.secret-access-key"}
    try:
        with environment({name: object_store.options[key] for name, key in names.items()}):
            server = start_connect_server(packages=(*PACKAGES, AWS))
    except RuntimeError as error:
        missing(f"no Spark server with {AWS}: {error}")
    yield server
    server.stop()


class CatalogShop(Shop):
    """A project on a catalog and the shared Spark server."""

    def __init__(self, root: Path, spark: SparkServer, catalog: str, options: Mapping[str, str]) -> None:
        super().__init__(root, "")
        (root / "models/first.sql").unlink()
        lines = "".join(f'"{key}" = "{value}"\n' for key, value in options.items())
        self.write(
            "sqlbuild_project.toml",
            f'name = "shop"\n[connections.team]\nspark = {{ remote = "{spark.address}" }}\n'
            f"[connections.team.catalog]\n{catalog}\n",
        )
        self.write("sqlbuild_local.toml", f"[connections.team.catalog.options]\n{lines}")
        for path, text in MODELS.items():
            self.write(path, text)

    def run(self, *arguments: str) -> str:
        code, messages = self.sqb(*arguments)
        assert code == 0, messages
        return messages

    def rows(self, query: str) -> list[str]:
        """The rows of a query, as CSV without its header."""
        self.run("query", "--output", "rows.csv", query)
        return (self.root / "rows.csv").read_text().splitlines()[1:]

    def live(self) -> None:
        """From the first build to the janitor: nothing to do, new rows, another query, and what is left over."""
        assert "Done: 3 ran, 0 skipped, 0 failed (6 rows" in self.run("build")
        assert "Nothing to do: 3 unchanged" in self.run("plan")
        self.write("seeds/raw_orders.csv", "id,day,n\n1,1,10\n2,1,20\n3,2,30\n")
        self.write("models/marts/per_day.sql", "SELECT day, max(n) AS n, count(*) AS c FROM orders GROUP BY day")
        assert "Done: 3 ran, 0 skipped, 0 failed" in self.run("build")
        self.run("janitor")
        both = "SELECT id, o.n, d.n AS most, c FROM orders o JOIN per_day d USING (day) ORDER BY id"
        assert self.rows(both) == ["1,10,20,2", "2,20,20,2", "3,30,30,1"]
        assert "Nothing to do: 3 unchanged" in self.run("plan")


def test_glue(spark_server: SparkServer, object_store: Store, tmp_path: Path) -> None:
    options = {**object_store.options, "client.region": "eu-west-1", "glue.endpoint": object_store.endpoint}
    options |= {f"client.{name}": object_store.options[f"s3.{name}"] for name in ("access-key-id", "secret-access-key")}
    catalog = f'type = "glue"\nwarehouse = "s3://{object_store.new_bucket()}/lake"'
    CatalogShop(tmp_path, spark_server, catalog, options).live()


def test_hive_metastore(spark_server: SparkServer, tmp_path: Path) -> None:
    if find_spec("thrift") is None:
        missing("pyiceberg needs the package thrift to speak to a Hive Metastore")
    metastore = start_hive_metastore()
    try:
        catalog = f'type = "hive"\nuri = "{metastore.uri}"\nwarehouse = "{tmp_path}/lake"'
        CatalogShop(tmp_path, spark_server, catalog, {}).live()
    finally:
        metastore.stop()


@pytest.fixture(scope="module")
def s3_rest_server(object_store: Store) -> Iterator[RestServer]:
    """Iceberg's own REST server, whose files are in an object store; Iceberg's runtime has the classes for that."""
    from rest_catalog import class_path

    from sqb.spark.session.jars import AWS, ICEBERG, find_cached_jars

    ours, more = class_path(), find_cached_jars((ICEBERG, AWS), {})
    if ours is None or more is None:
        missing("Iceberg's REST catalog server is not there: scripts/rest_catalog.py fetches it")
    settings = {
        "CATALOG_WAREHOUSE": f"s3://{object_store.new_bucket()}/lake",
        "CATALOG_IO__IMPL": "org.apache.iceberg.aws.s3.S3FileIO",
        "CATALOG_S3_ENDPOINT": object_store.endpoint,
        "CATALOG_S3_ACCESS__KEY__ID": object_store.options["s3.access-key-id"],
        "CATALOG_S3_SECRET__ACCESS__KEY": object_store.options["s3.secret-access-key"],
        "CATALOG_S3_PATH__STYLE__ACCESS": "true",
        "AWS_REGION": "us-east-1",
    }
    server = start_rest_server(os.pathsep.join([ours, *map(str, more)]), settings)
    yield server
    server.stop()


def test_rest_and_an_object_store(
    spark_server: SparkServer, s3_rest_server: RestServer, object_store: Store, tmp_path: Path
) -> None:
    catalog = f'type = "rest"\nuri = "{s3_rest_server.uri}"\nwarehouse = "s3://{object_store.new_bucket()}/lake"'
    CatalogShop(tmp_path, spark_server, catalog, object_store.options).live()
