"""Which nodes of a project integrations show, and what they know of them."""

from __future__ import annotations

from pathlib import Path

import pytest

import sqb
from sqb.api.values import NodeCheck
from sqb.integrations.project_nodes import list_nodes, open_project
from unit.folders import write

MODEL = """
-- @owner: data@example.com
-- @constraint: not_null(id)
-- @warning: accepted_values(name, 'Ada')
SELECT id, name FROM people
"""
FILES = {
    "sqlbuild_project.toml": 'name = "shop"\n[targets.dev]\nschema = "dev"\n[targets.prod]\nschema = "prod"\n',
    "seeds/people.csv": "id,name\n1,Ada\n",
    "models/staging/names.sql": MODEL,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "shop", FILES)


def test_nodes_have_owners_and_checks(folder: Path) -> None:
    people, names = list_nodes(open_project(folder, "prod"), (), ())
    assert (people.name, people.owner, people.checks) == ("seeds.people", "", ())
    assert (names.relation, names.owner) == ("prod.names", "data@example.com")
    assert names.checks == (
        NodeCheck("not_null(id)", "constraint", True),
        NodeCheck("accepted_values(name, 'Ada')", "warning", False),
    )


def test_some_nodes(folder: Path) -> None:
    project = open_project(str(folder), None)
    assert [n.name for n in list_nodes(project, "names", ())] == ["staging.names"]
    assert [n.name for n in list_nodes(project, (), ["names"])] == ["seeds.people"]


def test_a_project_has_its_target(folder: Path) -> None:
    project = sqb.Project(folder, target="prod")
    assert open_project(project, "prod") is open_project(project, None) is project
    with pytest.raises(ValueError, match="opened for the target prod, and target is dev"):
        open_project(project, "dev")
