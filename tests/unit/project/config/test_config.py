"""`sqlbuild_project.toml` and `sqlbuild_local.toml`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sqb.errors.base import Errors
from sqb.names import At
from sqb.project.config.config import load_config
from sqb.project.config.connections.model import Connection
from sqb.project.config.settings import Retention
from sqb.project.values import Config, Target

PROJECT = "sqlbuild_project.toml"
LOCAL = "sqlbuild_local.toml"
DAY = 86400.0


@pytest.fixture
def load(tmp_path: Path, errors: Errors) -> Callable[..., Config | None]:
    def load(text: str, local: str | None = None) -> Config | None:
        (tmp_path / PROJECT).write_text(text, encoding="utf-8")
        if local is not None:
            (tmp_path / LOCAL).write_text(local, encoding="utf-8")
        return load_config(tmp_path, errors)

    return load


def test_the_least_project(load: Callable[..., Config], errors: Errors) -> None:
    config = load('name = "shop"\n')
    assert config == Config("shop", "dev", {"dev": Target("dev")}, {"local": Connection()})
    assert config.get_connection(config.targets["dev"]) == Connection()
    assert errors.found == []


def test_a_whole_project(load: Callable[..., Config], errors: Errors) -> None:
    config = load("""\
name = "shop"
default_target = "prod"
concurrency = 4

[targets.dev]
schema = "dev_{folder}"

[targets.prod]
schema = "prod"
connection = "big"

[connections.local]
[connections.big]
catalog = { type = "jdbc", uri = "sqlite:////data/c.db", warehouse = "/data/w", name = "main", options = { a = 1 } }
spark = { master = "local[2]", conf = { spark.a = true, "spark.b" = "x" } }

[defaults]
materialized = "view"
tags = "a, b"
[path_defaults."models/marts/**"]
kind = "table"
table_properties = { write.format.default = "orc" }
[path_defaults."models/x"]
enabled = false

[vars]
start = 2024-01-01
n = 3
""")
    assert errors.found == []
    assert (config.name, config.default_target, config.concurrency) == ("shop", "prod", 4)
    assert config.targets["prod"] == Target("prod", "prod", "big", At(PROJECT, 8, 10, 4))
    assert config.targets["dev"].schema == "dev_{folder}"
    big = config.get_connection(config.targets["prod"])
    assert (big.catalog.uri, big.catalog.name, big.catalog.options) == ("sqlite:////data/c.db", "main", {"a": "1"})
    assert big.catalog.at == At(PROJECT, 14, 11, 106)
    assert big.spark.conf == {"spark.a": "true", "spark.b": "x"}
    assert config.get_connection(config.targets["dev"]).name == "local"
    assert {k: s.value for k, s in config.defaults.items()} == {"kind": "view", "tags": ("a", "b")}
    assert config.defaults["kind"].at == At(PROJECT, 18, 16, 6)
    assert [p.glob for p in config.path_defaults] == ["models/marts/**", "models/x"]
    assert config.path_defaults[0].settings["table_properties"].value == {"write.format.default": "orc"}
    assert config.vars == {"start": "2024-01-01", "n": 3}


def test_local_is_laid_over(load: Callable[..., Config], errors: Errors) -> None:
    config = load(
        'name = "s"\n[targets.dev]\nschema = "a"\n[targets.prod]\n[vars]\nx = 1\ny = 2\n',
        'default_target = "me"\n[targets.me]\nschema = "mine"\n[targets.dev]\nschema = "b"\n[vars]\nx = 9\n',
    )
    assert errors.found == []
    assert list(config.targets) == ["dev", "prod", "me"]
    assert (config.default_target, config.targets["dev"].schema, config.vars) == ("me", "b", {"x": 9, "y": 2})
    assert config.targets["me"].at == At(LOCAL, 2, 10, 2)


def test_a_byte_order_mark_is_tolerated(load: Callable[..., Config], errors: Errors) -> None:
    assert load('\ufeffname = "s"\n').name == "s"
    assert errors.found == []


def test_the_first_target_is_the_default(load: Callable[..., Config]) -> None:
    assert load('name = "s"\n[targets.b]\n[targets.a]\n').default_target == "b"


NAME = 'name = "s"\n'
TWO = '[targets.prod]\nschema = "prod"\n[targets.dev]\nschema = "dev"\n'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", ("MissingKey", "1:1", 'add a line such as name = "shop"')),
        ("name = 3", ("BadValue", "1:8", "put it in quotes")),
        ('name = "a b"', ("BadValue", "1:8", None)),
        ("name = []", ("BadValue", "1:8", None)),
        (NAME + "nmae = 1", ("UnknownKey", "2:1", "did you mean 'name'?")),
        (NAME + "concurrency = 0", ("BadValue", "2:15", None)),
        (NAME + "concurrency = true", ("BadValue", "2:15", None)),
        (NAME + 'concurrency = "4"', ("BadValue", "2:15", None)),
        (NAME + 'default_target = "dve"', ("BadValue", "2:18", "did you mean 'dev'?")),
        (NAME + 'default_target = "zzz"\n[targets.prod]', ("BadValue", "2:18", "known names: prod")),
        (NAME + "targets = 3", ("BadValue", "2:11", None)),
        (NAME + "[targets]\ndev = 3", ("BadValue", "3:7", None)),
        (NAME + '[targets.dev]\nschma = "x"', ("UnknownKey", "3:1", "did you mean 'schema'?")),
        (NAME + 'targets = { dev = { schma = "x" } }', ("UnknownKey", "2:21", "did you mean 'schema'?")),
        (NAME + 'targets.dev.schma = "x"', ("UnknownKey", "2:13", "did you mean 'schema'?")),
        (
            NAME + '[targets."a.b"]\nzzz = "x"',
            (
                "UnknownKey",
                "3:1",
                "known keys are connection, defer_sources_to, loaders, reuse_from, reuse_hard_copy, schema",
            ),
        ),
        (NAME + '[targets.dev]\nschema = ""', ("BadValue", "3:10", 'leave the line out for the default, "{folder}"')),
        (
            NAME + '[targets.dev]\nschema = "a{user}"',
            ("BadValue", "3:10", "{user} has no meaning here; only {folder} has"),
        ),
        (NAME + '[targets.dev]\nschema = "a}"', ("BadValue", "3:10", "} has no meaning here; only {folder} has")),
        (NAME + '[targets.dev]\nschema = "a-b"', ("BadValue", "3:10", None)),
        (NAME + '[targets.dev]\nconnection = "lcal"', ("BadValue", "3:14", "did you mean 'local'?")),
        (NAME + TWO + 'reuse_from = "prd"', ("BadValue", "6:14", "did you mean 'prod'?")),
        (NAME + TWO + 'defer_sources_to = "prd"', ("BadValue", "6:20", "did you mean 'prod'?")),
        (NAME + TWO + "reuse_from = 3", ("BadValue", "6:14", "put it in quotes")),
        (NAME + TWO + 'reuse_from = "dev"', ("BadValue", "6:14", "name another target: prod")),
        (NAME + '[targets.dev]\nreuse_from = "dev"', ("BadValue", "3:14", "there is no other target")),
        (
            NAME + TWO + 'reuse_from = "prod"\ndefer_sources_to = "prod"',
            ("Contradiction", "7:1", "keep one of the two"),
        ),
        (
            NAME + TWO + "reuse_hard_copy = true",
            ("Contradiction", "6:1", "set `reuse_from`, or remove this line"),
        ),
        (NAME + TWO + 'reuse_from = "prod"\nreuse_hard_copy = "yes"', ("BadValue", "7:19", None)),
        (NAME + TWO + 'loaders = "never"', ("BadValue", "6:11", None)),
        (
            NAME + '[targets.prod]\n[targets.dev]\nreuse_from = "prod"',
            ("Contradiction", "4:14", "give [targets.dev] a `schema` of its own"),
        ),
        (
            NAME + "[connections.a]\n[connections.b]\n" + TWO + 'connection = "b"\nreuse_from = "prod"',
            ("BadValue", "9:14", "give both targets the same `connection`"),
        ),
        (NAME + '[virtual]\nbaselin = "x"', ("UnknownKey", "3:1", "did you mean 'baseline'?")),
        (NAME + "[dbt]", ("MissingKey", "2:2", 'add a line such as project_dir = "../dbt_project"')),
        (NAME + '[dbt]\nproject_dir = ""', ("BadValue", "3:15", None)),
        (NAME + '[dbt]\nproject_dir = "d"\ntargt_path = "p"', ("UnknownKey", "4:1", "did you mean 'target_path'?")),
        (
            NAME + '[dbt]\nproject_dir = "d"\nreplay_on_change = "bounded-7d"',
            ("BoundedReplay", "4:20", "write forward_only, or full: dbt has no windows"),
        ),
        (
            NAME + '[dbt]\nproject_dir = "d"\nreplay_on_change = "ful"',
            ("BadValue", "4:20", "did you mean 'full'?"),
        ),
        (
            NAME + '[dbt]\nproject_dir = "d"\ncommand = ["uv", 1]',
            ("BadValue", "4:11", 'such as "dbt", "../dbt-env/bin/dbt" or ["uv", "run", "dbt"]'),
        ),
        (
            NAME + '[dbt]\nproject_dir = "d"\ncommand = "it\'s"',
            ("BadValue", "4:11", 'such as "dbt", "../dbt-env/bin/dbt" or ["uv", "run", "dbt"]'),
        ),
        (NAME + "[connections.a]\nsprak = {}", ("UnknownKey", "3:1", "did you mean 'spark'?")),
        (NAME + '[connections.a.catalog]\ntype = "jdbcc"', ("BadValue", "3:8", "did you mean 'jdbc'?")),
        (
            NAME + '[connections.a.catalog]\nuri = "lake/c.db"',
            ("BadValue", "3:7", "three slashes, then the path of the file"),
        ),
        (NAME + '[connections.a.catalog]\nuri = "jdbc:sqlite:c.db"', ("BadValue", "3:7", "write sqlite:///c.db")),
        (
            NAME + '[connections.a.catalog]\nuri = "sqlite:///:memory:"',
            ("BadValue", "3:7", "Spark and sqb are two processes: the catalog must be a file"),
        ),
        (NAME + '[connections.a.catalog]\nwarehose = "x"', ("UnknownKey", "3:1", "did you mean 'warehouse'?")),
        (NAME + '[connections.a.catalog]\nname = "a.b"', ("BadValue", "3:8", None)),
        (NAME + "[connections.a.catalog]\noptions = { x = [1] }", ("BadValue", "3:17", None)),
        (
            NAME + '[connections.a]\nspark = { master = "local", remote = "sc://h" }',
            ("Contradiction", "3:29", "keep one of the two"),
        ),
        (NAME + "[connections.a]\nspark = { master = 2 }", ("BadValue", "3:20", "put it in quotes")),
        (NAME + '[defaults]\nkind = "tabel"', ("UnknownKind", "3:8", "did you mean 'table'?")),
        (NAME + '[defaults]\nknd = "table"', ("UnknownKey", "3:1", "did you mean 'kind'?")),
        (NAME + '[defaults]\nenabled = "perhaps"', ("BadValue", "3:11", None)),
        (NAME + "[defaults]\ntags = [1]", ("BadValue", "3:8", "put it in quotes")),
        (NAME + '[defaults]\npartitioned_by = "days(ts"', ("BadValue", "3:18", "`(` is never closed")),
        (NAME + "[defaults]\ntable_properties = 3", ("BadValue", "3:20", "write {key: value}")),
        (NAME + '[defaults]\nkind = "view"\nmaterialized = "view"', ("DuplicateKey", "4:1", None)),
        (NAME + '[path_defaults."models/**"]\nknd = 1', ("UnknownKey", "3:1", "did you mean 'kind'?")),
        (NAME + '[path_defaults.""]\nkind = "view"', ("BadValue", "2:16", 'such as "models/staging/**"')),
        (NAME + '[path_defaults]\nkind = "view"', ("BadValue", "3:8", None)),
        (NAME + "[vars]\na = [1]", ("BadValue", "3:5", None)),
        (NAME + '[vars]\n"a b" = 1', ("BadValue", "3:1", "use letters, digits and _")),
        (NAME + "[targets\n", ("BadToml", "2:9", None)),
        (NAME + 'default_target = "x', ("BadToml", "2:20", None)),
    ],
)
def test_problems(
    text: str, problem: tuple[str, str, str | None], load: Callable[..., Config], seen: Callable[[], Any]
) -> None:
    load(text)
    name, at, hint = problem
    assert seen() == [(name, f"{PROJECT}:{at}", hint)]


def test_all_problems_are_collected(load: Callable[..., Config], seen: Callable[[], Any]) -> None:
    config = load('name = ""\nx = 1\n[targets.dev]\nschema = "-"\n', "concurrency = -1\n[targets.dev]\ny = 1\n")
    assert [(name, at) for name, at, _ in seen()] == [
        ("BadValue", f"{LOCAL}:1:15"),
        ("UnknownKey", f"{LOCAL}:3:1"),
        ("BadValue", f"{PROJECT}:1:8"),
        ("UnknownKey", f"{PROJECT}:2:1"),
        ("BadValue", f"{PROJECT}:4:10"),
    ]
    assert config is not None


def test_broken_files_give_no_config(load: Callable[..., Config | None], seen: Callable[[], Any]) -> None:
    assert load(NAME, "x") is None
    assert [(name, at) for name, at, _ in seen()] == [("BadToml", f"{LOCAL}:1:2")]


def test_not_utf8(tmp_path: Path, errors: Errors, seen: Callable[[], Any]) -> None:
    (tmp_path / PROJECT).write_bytes(b'name = "\xff"')
    assert load_config(tmp_path, errors) is None
    assert seen() == [("Unreadable", PROJECT, "save it as UTF-8")]


def test_underlines_are_as_long_as_what_is_wrong(load: Callable[..., Config], errors: Errors) -> None:
    load(NAME + 'nmae = 1\nconcurrency = "four"\n')
    assert sorted(e.at.length for e in errors.found if e.at) == [4, 6]


def test_how_long_the_janitor_leaves_things_alone(load: Callable[..., Config], errors: Errors) -> None:
    assert load('name = "shop"\n').retention == Retention(7 * DAY, 3 * DAY, 90 * DAY, 30 * DAY, 5)
    config = load(
        'name = "shop"\n[janitor]\nstage_retention = "1d12h"\nfile_retention = "0s"\nhistory_retention = "1w"\n'
        'snapshot_retention = "90m"\nkeep_snapshots = 1\n'
    )
    assert config.retention == Retention(1.5 * DAY, 0, 7 * DAY, 5400, 1)
    assert errors.found == []


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        ('snapshot_retention = "soon"', "SQB-P003", "must be a duration"),
        ("snapshot_retention = 30", "SQB-P003", "must be text"),
        ("keep_snapshots = 0", "SQB-P003", "1 or more"),
        ("keep_snapshots = true", "SQB-P003", "1 or more"),
        ('keep_snapshot = "x"', "SQB-P002", "unknown key `keep_snapshot` in [janitor]"),
    ],
)
def test_settings_of_the_janitor_that_are_wrong(
    load: Callable[..., Config], errors: Errors, line: str, code: str, says: str
) -> None:
    load(f'name = "shop"\n[janitor]\n{line}\n')
    (error,) = errors.found
    assert error.code == code and says in error.message and error.at is not None and error.at.line == 3
