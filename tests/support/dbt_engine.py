"""One engine for the real dbt and for sqb, in tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.dbt_shop import Shop
from support.spark_client import lend_spark_client

JDBC = "org.apache.iceberg.jdbc.JdbcCatalog"


@contextmanager
def running_engine(shop: Shop) -> Iterator[None]:
    """An engine for dbt and for sqb, while it lasts."""
    assert shop.sqb("engine", "start").code == 0
    try:
        yield
    finally:
        shop.sqb("engine", "stop", "--now")


def share_engine(shop: Shop, folder: Path, java: bool = False) -> None:
    """Let dbt work on the engine, without Java as the only Spark that it could work on; and have a second target."""
    wrapper, profiles = folder / "dbt", shop.root / "profiles/profiles.yml"
    first, *rest = wrapper.read_text().splitlines(keepends=True)
    client = lend_spark_client(folder / "client")
    no_java = "" if java else "JAVA_HOME=/nonexistent "
    wrapper.write_text("".join([first, f'export {no_java}PYTHONPATH="{client}"\n', *rest]))
    # The engine names its catalog by the class, and a catalog takes a class or a type.
    text = profiles.read_text().replace("lake.type: jdbc", f"lake.catalog-impl: {JDBC}")
    text = text.replace("    dev:", "    dev: &dev", 1)
    remaining = [line for line in text.splitlines() if "spark.master" not in line]
    profiles.write_text("\n".join([*remaining, "    other:", "      <<: *dev", "      schema: elsewhere", ""]))
    settings = shop.root / "sqlbuild_project.toml"
    settings.write_text(settings.read_text() + "share_spark = true\n")
