"""The tables that people write say what the code does: defaults of settings, and which keys of models are identity."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from sqb.project.config.connections.model import CatalogSettings
from sqb.project.config.dbt import DbtSettings
from sqb.project.config.session_settings import LEGACY, RESULT_SETTINGS
from sqb.project.config.settings import CostGate, Retention
from sqb.project.config.virtual import VirtualSettings
from sqb.project.models.keys import KEYS
from sqb.project.values import Target

DOCS = Path(__file__).parents[2] / "docs"
_DAY = 24 * 3600.0
_GATE, _RETENTION, _VIRTUAL, _CATALOG = CostGate(), Retention(), VirtualSettings(), CatalogSettings()
_TARGET = Target("dev")
_DBT: dict[str, Any] = {field.name: field.default for field in fields(DbtSettings)}


def _iter_rows(page: str, heading: str) -> Iterator[tuple[str, ...]]:
    """The rows of the table whose first column has this heading, as what is in the cells without their marks."""
    lines = (DOCS / page).read_text(encoding="utf-8").splitlines()
    begin = lines.index(next(line for line in lines if line.startswith(f"| {heading} |")))
    for line in lines[begin + 2 :]:
        if not line.startswith("| "):
            return
        yield tuple(cell.strip() for cell in line.strip("|").split(" | "))


def _read_defaults(page: str, heading: str) -> dict[str, str]:
    """The third column of a table by the key in the first."""
    return {row[0].strip().split("`")[1]: row[2].strip('`"') for row in _iter_rows(page, heading)}


def _format_days(seconds: float) -> str:
    return f"{seconds / _DAY:.0f}d"


@pytest.mark.parametrize(
    ("page", "heading", "defaults"),
    [
        (
            "configuration.md",
            "key of `[incremental]`",
            {
                "min_rows": str(_GATE.min_rows),
                "max_share": str(_GATE.max_share),
                "small_rows": str(_GATE.small_rows),
            },
        ),
        (
            "janitor.md",
            "key of `[janitor]`",
            {
                "stage_retention": _format_days(_RETENTION.stages),
                "file_retention": _format_days(_RETENTION.files),
                "history_retention": _format_days(_RETENTION.history),
                "snapshot_retention": _format_days(_RETENTION.snapshots),
                "clone_retention": _format_days(_RETENTION.clones),
                "keep_snapshots": str(_RETENTION.keep_snapshots),
            },
        ),
        (
            "configuration.md",
            "key of `[virtual]`",
            {
                "enabled": str(_VIRTUAL.enabled).lower(),
                "state": _VIRTUAL.state,
                "unsuffixed_virtual_env": "none",
                "baseline": "the target's name",
                "ttl": "for ever",
                "grace": _format_days(_VIRTUAL.grace),
                "keep_checkpoints": str(_VIRTUAL.keep_checkpoints),
            },
        ),
        (
            "configuration.md",
            "key of `[dbt]`",
            {
                "project_dir": "must be given",
                "profiles_dir": "project_dir` if it has a `profiles.yml`, else where dbt looks",
                "target_path": _DBT["target_path"],
                "replay_on_change": _DBT["replay_on_change"],
                "command": " ".join(_DBT["command"]),
                "share_spark": str(_DBT["share_spark"]).lower(),
            },
        ),
        (
            "configuration.md",
            "key of `[targets.<name>]`",
            {
                "schema": _TARGET.schema,
                "connection": "the first connection",
                "loaders": "on" if _TARGET.loads else "off",
                "reuse_from": "none",
                "reuse_hard_copy": str(_TARGET.reuse_hard_copy).lower(),
                "defer_sources_to": "none",
            },
        ),
        (
            "configuration.md",
            "key of `catalog`",
            {
                "type": _CATALOG.type,
                "uri": _CATALOG.uri,
                "warehouse": _CATALOG.warehouse,
                "name": _CATALOG.name,
                "options": "none",
            },
        ),
    ],
    ids=["incremental", "janitor", "virtual", "dbt", "targets", "catalog"],
)
def test_defaults_are_those_of_the_code(page: str, heading: str, defaults: dict[str, str]) -> None:
    assert _read_defaults(page, heading) == defaults


def test_settings_of_sessions_are_those_of_the_code() -> None:
    written = {row[0].strip("` "): row[1].strip("` ") for row in _iter_rows("configuration.md", "setting")}
    assert written == {**RESULT_SETTINGS, f"{LEGACY}*": "Spark's own defaults"}


@pytest.mark.parametrize(("page", "place"), [("models.md", 3), ("incremental.md", 3)])
def test_each_key_shows_whether_it_is_identity(page: str, place: int) -> None:
    """`renamed_from` and the like say where a model is, and checks what must hold: neither changes what it is."""
    written: dict[str, bool] = {}
    for row in _iter_rows(page, "key"):
        written |= {name: row[place].strip() == "yes" for name in re.findall(r"`(\w+)`", row[0])}
    by_word = {word: key.identity for key in KEYS.values() for word in (key.name, *key.synonyms)}
    assert {word: by_word[word] for word in written} == written
    if page == "models.md":
        assert by_word.keys() - written.keys() == set()
