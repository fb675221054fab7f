"""The registry of model keys, and the settings that a model ends up with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sqb.errors.base import Errors
from sqb.names import At
from sqb.project.models.header import parse_header
from sqb.project.models.keys import KEYS, find_key, matches_glob, merge_settings
from sqb.project.values import Config, PathDefaults, Setting

FILE = "models/staging/m.sql"


def config(defaults: dict[str, Any] | None = None, *paths: tuple[str, dict[str, Any]]) -> Config:
    def settings(values: dict[str, Any]) -> dict[str, Setting]:
        return {key: Setting(value, At("sqlbuild_project.toml", 1, 1)) for key, value in values.items()}

    return Config(
        name="p",
        default_target="dev",
        targets={},
        connections={},
        defaults=settings(defaults or {}),
        path_defaults=tuple(PathDefaults(glob, settings(values)) for glob, values in paths),
    )


def settle(header: str, errors: Errors, project: Config | None = None) -> dict[str, Any]:
    parsed = parse_header(header + "\nSELECT 1", FILE, errors)
    return {key: s.value for key, s in merge_settings(FILE, parsed, project or config(), errors).items()}


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("-- @kind: view", {"kind": "view"}),
        ("-- @kind: TABLE", {"kind": "table"}),
        ("-- @tags: a, b, a", {"tags": ("a", "b")}),
        ("MODEL (tags (a, b));", {"tags": ("a", "b")}),
        ("-- @enabled: false", {"enabled": False}),
        ("MODEL (enabled 'true');", {"enabled": True}),
        ("-- @partitioned_by:  days(ts) ,  bucket(16, id) ", {"partitioned_by": ("days(ts)", "bucket(16, id)")}),
        ("-- @sorted_by: (id DESC)", {"sorted_by": ("id DESC",)}),
        (
            "-- @table_properties: {write.format.default: orc, n: 1, b = true}",
            {"table_properties": {"write.format.default": "orc", "n": "1", "b": "true"}},
        ),
        ("-- @config: {a: [1, 2], b: {c: x}}", {"config": {"a": [1, 2], "b": {"c": "x"}}}),
        ("-- @refresh: incremental", {"refresh": "incremental"}),
        ("-- @on_drift: rebuild", {"on_drift": "rebuild"}),
        ("-- @on_drift: warn", {"on_drift": "warn"}),
        ("-- @on_drift: Fail", {"on_drift": "fail"}),
        ("-- @schema: other\n-- @alias: name", {"schema": "other", "alias": "name"}),
        ("-- @description: Two words", {"description": "Two words"}),
    ],
)
def test_values(header: str, expected: dict[str, Any], errors: Errors) -> None:
    assert settle(header, errors) == expected
    assert errors.found == []


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        ("-- @kind: tabel", ("UnknownKind", "1:11", "did you mean 'table'?")),
        ("-- @kind: snapshto", ("UnknownKind", "1:11", "did you mean 'snapshot'?")),
        ("MODEL (kind view tags [a]);", ("UnknownKind", "1:13", "is a comma missing after `view`?")),
        (
            "-- @kind: custom",
            ("MissingKey", "1:11", "add `materialization` with the name of a function in materializations/"),
        ),
        (
            "-- @kind: incremental",
            ("MissingKey", "1:11", "add `cursor` with the column that says how far it has got"),
        ),
        ("-- @kind: merge", ("MissingKey", "1:11", "add `unique_key` with its columns")),
        ("-- @kind: snapshot", ("MissingKey", "1:11", "add `unique_key` with its columns")),
        ("-- @kind: tracked", ("MissingKey", "1:11", "add `group_key` with its columns")),
        (
            "-- @kind: tracked\n-- @group_key: a\n-- @unique_key: a",
            ("Contradiction", "3:17", "it belongs to merge, scd2 and incremental"),
        ),
        ("-- @on_source_delete: keep", ("Contradiction", "1:23", "it belongs to merge")),
        ("-- @on_drift: fial", ("BadValue", "1:15", "did you mean 'fail'?")),
        ("-- @refresh: never", ("BadValue", "1:14", "`refresh` is one of auto, incremental, full")),
        ("-- @enabled: maybe", ("BadValue", "1:14", None)),
        ("-- @alias: two words", ("BadValue", "1:12", "is a comma missing after `two`?")),
        ("-- @tags: a b", ("BadValue", "1:11", "is a comma missing after `a`?")),
        ("-- @tags: ''", ("BadValue", "1:11", None)),
        (
            "-- @kind: view\n-- @partitioned_by: id",
            ("Contradiction", "2:21", "remove `partitioned_by` or make the kind `table`"),
        ),
        ("-- @kind: view\n-- @sorted_by: id", ("Contradiction", "2:16", "remove `sorted_by` or make the kind `table`")),
        (
            "-- @table_properties: a = b\n-- @kind: view",
            ("Contradiction", "1:23", "remove `table_properties` or make the kind `table`"),
        ),
    ],
)
def test_problems(header: str, problem: tuple[str, str, str | None], errors: Errors, seen: Callable[[], Any]) -> None:
    settle(header, errors)
    name, at, hint = problem
    assert seen() == [(name, f"{FILE}:{at}", hint)]


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("materialized", "kind"),
        ("constraint", "constraints"),
        ("audit", "audits"),
        ("warning", "warnings"),
        ("tag", "tags"),
        ("column", "columns"),
        ("pre_hook", "pre_hooks"),
        ("post_hook", "post_hooks"),
        ("query_change_backfill", "replay_on_change"),
        ("incremental", "cursor"),
        ("incremental_initial", "cursor_start"),
    ],
)
def test_synonyms(word: str, name: str) -> None:
    assert find_key(word) is KEYS[name]


def test_what_is_identity() -> None:
    assert {k.name for k in KEYS.values() if k.identity} == {
        "kind",
        "unique_key",
        "group_key",
        "cursor",
        "cursor_type",
        "cursor_start",
        "cursor_grain",
        "incremental_strategy",
        "on_source_delete",
        "partitioned_by",
        "sorted_by",
        "table_properties",
        "pre_hooks",
        "post_hooks",
        "contract",
        "materialization",
        "config",
    }


@pytest.mark.parametrize(
    ("glob", "path", "fits"),
    [
        ("models/staging", "models/staging/a.sql", True),
        ("models/staging/", "models/staging/deep/a.sql", True),
        ("models/staging/*", "models/staging/a.sql", True),
        ("models/staging/*", "models/staging/deep/a.sql", True),
        ("models/staging/**", "models/staging/deep/a.sql", True),
        ("./models/staging", "models/staging/a.sql", True),
        ("models/*.sql", "models/a.sql", True),
        ("models/*.sql", "models/staging/a.sql", False),
        ("models/**/*_raw.sql", "models/a_raw.sql", True),
        ("models/**/*_raw.sql", "models/x/y/a_raw.sql", True),
        ("models/**/*_raw.sql", "models/x/y/a.sql", False),
        ("**/a.sql", "models/x/a.sql", True),
        ("models/stag", "models/staging/a.sql", False),
        ("models/staging/?.sql", "models/staging/a.sql", True),
        ("models/[st]*", "models/staging/a.sql", True),
        ("models/[!st]*", "models/staging/a.sql", False),
        ("models/a.sql", "models/aXsql", False),
        ("models/staging/a.sql", "models/staging/a.sql", True),
    ],
)
def test_globs(glob: str, path: str, fits: bool) -> None:
    assert matches_glob(glob, path) is fits


def test_later_settings_win(errors: Errors) -> None:
    project = config(
        {"kind": "view", "tags": ("all",), "description": "d"},
        ("models/staging", {"tags": ("staging",), "schema": "one"}),
        ("models/**", {"schema": "two"}),
        ("models/marts", {"schema": "never"}),
    )
    assert settle("-- @kind: table", errors, project) == {
        "kind": "table",
        "tags": ("staging",),
        "description": "d",
        "schema": "two",
    }
    assert errors.found == []


def test_inherited_storage_settings_do_not_apply_to_views(errors: Errors) -> None:
    project = config({"partitioned_by": ("id",), "table_properties": {"a": "b"}})
    assert settle("-- @kind: view", errors, project) == {"kind": "view"}
    assert settle("-- @kind: table", errors, project)["partitioned_by"] == ("id",)
    assert errors.found == []


def test_a_refused_kind_is_not_judged_by_the_inherited_one(errors: Errors, seen: Callable[[], Any]) -> None:
    settle("-- @kind: tabel\n-- @sorted_by: id", errors, config({"kind": "view"}))
    assert [name for name, _, _ in seen()] == ["UnknownKind"]


def test_an_inherited_view_kind_contradicts_too(errors: Errors, seen: Callable[[], Any]) -> None:
    settle("-- @sorted_by: id", errors, config({"kind": "view"}))
    assert [name for name, _, _ in seen()] == ["Contradiction"]
