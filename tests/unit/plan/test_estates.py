"""Projects that are larger than calls can be nested: chains of tables and of views, and diamonds of views."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqb.compile.model import Project
from sqb.plan.changes.columns import EVERYTHING, compute_view_identity, has_storage_reads, resolve_column_reads
from sqb.plan.decide import make_plan
from sqb.plan.observed import Observed, compute_view_definition, list_inputs
from sqb.workspace import open_workspace
from unit.folders import write


def chain(root: Path, length: int, kind: str) -> Project:
    texts = {f"models/m{i}.sql": f"-- @kind: {kind}\nSELECT id FROM m{i - 1}\n" for i in range(1, length)}
    return open_workspace(
        write(root, {**texts, "models/m0.sql": "SELECT 1 AS id", "models/z.sql": last(length)})
    ).project


def last(length: int) -> str:
    return f"SELECT id FROM m{length - 1}\n"


def test_a_chain_of_tables(tmp_path: Path) -> None:
    project = chain(tmp_path, 1100, "table")
    plan = make_plan(project, Observed({}))
    assert [n.name for n in plan.nodes][-2:] == ["default.m1099", "default.z"]
    assert plan.summary == {"run": 1101, "skip": 0, "blocked": 0}


def test_a_chain_of_views(tmp_path: Path) -> None:
    project = chain(tmp_path, 520, "view")
    assert make_plan(project, Observed({})).summary["run"] == 521
    node = project.nodes["default.z"]
    assert len(list_inputs(node, project)) == 520
    assert len(resolve_column_reads(node, project)) == 520
    assert not has_storage_reads(node, project)
    assert compute_view_definition("default.m519", project) != compute_view_definition("default.m518", project)
    assert compute_view_identity("default.m519", project, EVERYTHING)


@pytest.mark.timeout(60)
def test_views_that_read_all_views_of_the_level_below(tmp_path: Path) -> None:
    texts = {f"models/v0_{i}.sql": "-- @kind: view\nSELECT 1 AS id" for i in range(3)}
    for level in range(1, 16):
        above = " UNION ALL ".join(f"SELECT id FROM v{level - 1}_{i}" for i in range(3))
        texts |= {f"models/v{level}_{i}.sql": f"-- @kind: view\n{above}" for i in range(3)}
    project = open_workspace(write(tmp_path, {**texts, "models/z.sql": "SELECT id FROM v15_0"})).project
    # There are 3 ** 15 ways from the last view to the first ones.
    assert len(resolve_column_reads(project.nodes["default.z"], project)) == 46
    assert compute_view_definition("default.v15_0", project) == compute_view_definition("default.v15_1", project)
    assert not has_storage_reads(project.nodes["default.z"], project)
