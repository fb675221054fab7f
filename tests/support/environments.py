"""Projects that are built into virtual environments, for tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from support.sandbox import Sandbox

PROJECT = """
name = "shop"
default_target = "dev"

[targets.dev]
schema = "dev"

[virtual]
enabled = true
"""
SOURCE = "SELECT * FROM VALUES (1, 1, 10), (2, 1, 20), (3, 2, 60), (4, 2, -1) AS t(id, day, n)"


def write_project(sandbox: Sandbox, models: Mapping[str, str], project: str = PROJECT) -> None:
    """A project of models on one source, with environments of which none is there yet."""
    sandbox.write("sqlbuild_project.toml", project)
    for name, sql in models.items():
        sandbox.write(f"models/{name}.sql", sql)
    sandbox.sql("CREATE NAMESPACE IF NOT EXISTS raw")
    sandbox.sql(f"CREATE OR REPLACE TABLE raw.x AS {SOURCE}")
    sandbox.store()


def ran(sandbox: Sandbox, environment: str | None = None, **options: Any) -> list[str]:
    """Build into an environment; the files of the nodes that ran."""
    result = sandbox.build(virtual_env=environment, **options)
    assert result.ok
    return sorted(file_of(n.planned.name) for n in result.nodes if n.status == "ok")


def file_of(name: str) -> str:
    """The name of a node's file."""
    return name.rpartition(".")[2]
