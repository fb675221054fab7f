"""A small dbt project with the fake dbt, in a sqb project: what tests do with it, and what it was called with."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.commands import run_here

SQB = Path(sys.executable).with_name("sqb")
FAKE = Path(__file__).with_name("fake_dbt.py")

FILES = {
    "dbt/dbt_project.yml": "name: shop\nprofile: shop\n",
    "dbt/profiles.yml": "shop: {}\n",
    "dbt/seeds/raw.csv": "id\n1\n",
    "dbt/macros/half.sql": "{% macro half() %}id / 2{% endmacro %}",
    "dbt/models/staging/stg.sql": "select id from {{ ref('raw') }}",
    "dbt/models/totals.sql": "select {{ half() }} as half from {{ ref('stg') }}",
    "dbt/models/other.sql": "select id from {{ source('raw_data', 'events') }}",
    "dbt/sources.json": json.dumps({"raw_data.events": {}}),
    "dbt/tests/no_null.sql": "select * from {{ ref('totals') }} where half is null",
}


@dataclass(frozen=True)
class Done:
    """What a command said and how it ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        result = json.loads(self.out)
        assert isinstance(result, dict)
        return result

    @property
    def actions(self) -> dict[str, tuple[str, str]]:
        """What is planned for each node, and why."""
        return {n["name"].removeprefix("model.shop."): (n["action"], n["reason"]) for n in self.document["nodes"]}

    @property
    def statuses(self) -> dict[str, str]:
        return {n["name"].removeprefix("model.shop."): n["status"] for n in self.document["nodes"]}


@dataclass(frozen=True)
class Shop:
    """The folder, and the commands that its dbt was called with."""

    root: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    java: bool = False

    @property
    def log(self) -> Path:
        return self.root / "calls.jsonl"

    @property
    def calls(self) -> list[list[str]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []

    @property
    def verbs(self) -> list[str]:
        return [call[0] for call in self.calls]

    def forget_calls(self) -> None:
        self.log.unlink(missing_ok=True)

    def whole_environment(self, **more: str) -> dict[str, str]:
        own = {"FAKE_DBT_LOG": str(self.log), "FAKE_DBT_LAKE": str(self.root / "lake"), "NO_COLOR": "1"}
        # Whatever starts Java fails with this.
        none = {} if self.java else {"JAVA_HOME": "/nonexistent"}
        return {**os.environ, **own, **none, **self.environment, **more}

    def sqb(self, *arguments: str, **environment: str) -> Done:
        if not self.java:
            return Done(*run_here(arguments, self.root, self.whole_environment(**environment)))
        done = subprocess.run(
            [str(SQB), *arguments],
            cwd=self.root,
            env=self.whole_environment(**environment),
            capture_output=True,
            encoding="utf-8",
            stdin=subprocess.DEVNULL,
            timeout=600,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def dbt(self, *arguments: str, **environment: str) -> Done:
        return self.sqb("dbt", *arguments, **environment)

    def plan(self, *arguments: str) -> dict[str, tuple[str, str]]:
        """The actions and reasons of `sqb dbt plan`."""
        return self.dbt("plan", "--json", *arguments).actions

    def write(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def commit_source(self, value: int) -> None:
        """New rows in the table that the source is."""
        import pyarrow as pa

        self.overwrite("raw_data", "events", pa.table({"id": pa.array([value], pa.int64())}))

    def overwrite(self, schema: str, name: str, rows: Any) -> None:
        catalog = self.catalog()
        catalog.create_namespace_if_not_exists(schema)
        catalog.create_table_if_not_exists((schema, name), rows.schema).overwrite(rows)

    def catalog(self) -> Any:
        from pyiceberg.catalog.sql import SqlCatalog

        lake = self.root / "lake"
        lake.mkdir(exist_ok=True)
        return SqlCatalog("lake", uri=f"sqlite:///{lake}/catalog.db", warehouse=str(lake / "data"))

    def dbt_files(self) -> dict[str, str]:
        """Everything in the dbt project, by content."""
        folder = self.root / "dbt"
        files = sorted(p for p in folder.rglob("*") if p.is_file())
        return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def new_shop(root: Path, files: Mapping[str, str] = FILES, dbt: str = "", **environment: str) -> Shop:
    """A project whose dbt is the fake one."""
    settings = 'name = "shop"\n[dbt]\nproject_dir = "dbt"\n' + (dbt or f'command = ["{sys.executable}", "{FAKE}"]\n')
    shop = Shop(root, environment)
    shop.write({"sqlbuild_project.toml": settings, **files})
    return shop
