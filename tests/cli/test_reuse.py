"""Targets that look at another, from the command line; seeds need no Spark, and neither do their clones."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest

from cli.conftest import Folder

PROJECT = """name = "shop"
default_target = "dev"
[targets.prod]
schema = "prod"
[targets.dev]
schema = "dev"
reuse_from = "prod"
"""


@pytest.fixture
def unbuilt(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path)
    folder.write(
        {
            "sqlbuild_project.toml": PROJECT,
            "seeds/people.csv": "id,name\n1,Ada\n2,Grace\n",
            "seeds/places.csv": "id,place\n1,London\n",
        }
    )
    return folder


@pytest.fixture
def folder(unbuilt: Folder) -> Folder:
    assert unbuilt.here("build", "--target", "prod").code == 0
    return unbuilt


def test_what_prod_has_is_taken_over_without_java(folder: Folder) -> None:
    planned = folder.here("plan")
    assert "(seed, reuse)  First run: from prod.people" in planned.out, planned.err
    done = folder.sqb("build", "--json", env={"JAVA_HOME": "/nowhere"})
    assert done.code == 0, done.err
    assert {n["name"]: (n["status"], n["run_type"], n["rows"]) for n in done.document["nodes"]} == {
        "seeds.people": ("ok", "reuse", 2),
        "seeds.places": ("ok", "reuse", 1),
    }
    assert done.document["summary"]["spark_started"] is False
    assert "Nothing to do" in folder.here("build").out


def test_an_edit_is_built_here_and_prod_is_left_alone(folder: Folder) -> None:
    folder.here("build")
    folder.write({"seeds/people.csv": "id,name\n1,Ada\n"})
    done = folder.here("build")
    assert "seeds.people (seed, backfill, 1 row" in done.out, done.out + done.err
    assert "Nothing to do" not in folder.here("plan", "--target", "prod").out
    folder.write({"seeds/people.csv": "id,name\n1,Ada\n2,Grace\n"})
    assert "Query changed: from prod.people" in folder.here("plan").out
    assert "seeds.people (seed, reuse, 2 rows" in folder.here("build").out
    assert "Nothing to do" in folder.here("plan", "--target", "prod").out


def test_the_janitor_makes_a_clone_independent(folder: Folder) -> None:
    folder.here("build")
    folder.write({"sqlbuild_project.toml": f'{PROJECT}[janitor]\nclone_retention = "0s"\n'})
    dry = folder.here("janitor", "--dry-run")
    assert "to copy   1 file to dev.people" in dry.out and "2 clones would get files of their own" in dry.out
    done = folder.here("janitor")
    assert (
        "copied    1 file to dev.people" in done.out and "with prod.people for longer than clone_retention" in done.out
    )
    assert "2 clones got files of their own" in done.out
    assert "1 tag of prod.people" in folder.here("janitor").out
    assert "Nothing to do" in folder.here("build").out
    value = folder.here("janitor", "--json").document
    assert value["copied"] == [] and value["removed"] == []


def test_builds_that_are_killed_while_they_take_over(folder: Folder) -> None:
    """One after the other: each goes on from what the one before has left."""
    for step, node in (("before publish", "seeds.people"), ("published", "seeds.people"), ("before history", "")):
        # One at a time: whatever is in the middle of its own clone at the kill leaves a tag, rightly.
        killed = folder.sqb("build", "--concurrency", "1", env={"SQB_FAULT": f"kill:{step}:{node}"})
        assert killed.code == -9, step
        before = folder.here("plan")
        assert ("run      seeds.people" in before.out) == (step == "before publish"), before.out
    assert folder.here("build").code == 0
    assert "Nothing to do" in folder.here("build").out
    history = folder.here("history").out
    assert "seeds.people" in history and "seeds.places" in history
    tags = re.findall(r"\btags?\b.*", folder.here("janitor").out)
    assert tags == [], "the tags are in use, or nothing was tagged"
    assert "Nothing to do" in folder.here("plan", "--target", "prod").out


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ('reuse_from = "prd"', 'sqlbuild_project.toml:7:14: `reuse_from` names "prd", which does not exist'),
        ('reuse_from = "dev"', "sqlbuild_project.toml:7:14: `reuse_from` names the target that it is written in"),
        ('reuse_from = "prod"\ndefer_sources_to = "prod"', "sqlbuild_project.toml:8:1: `reuse_from` makes relations"),
    ],
)
def test_targets_that_cannot_be(unbuilt: Folder, settings: str, message: str) -> None:
    unbuilt.write({"sqlbuild_project.toml": PROJECT.replace('reuse_from = "prod"', settings)})
    done = unbuilt.here("plan")
    assert done.code == 2 and message in done.err


def alter(folder: Folder, relation: str, old: str, new: str) -> None:
    """Let a newer sqb have written a table."""
    schema, _, name = relation.partition(".")
    with sqlite3.connect(folder.root / "lake" / "catalog.db") as connection:
        (at,) = connection.execute(
            "SELECT metadata_location FROM iceberg_tables WHERE table_namespace = ? AND table_name = ?", (schema, name)
        ).fetchone()
        path = Path(at.removeprefix("file:"))
        altered = path.with_name(f"99999-{path.name}")
        text = path.read_text()
        assert old in text
        altered.write_text(text.replace(old, new))
        connection.execute(
            "UPDATE iceberg_tables SET metadata_location = ? WHERE table_namespace = ? AND table_name = ?",
            (str(altered), schema, name),
        )


@pytest.mark.parametrize(
    ("relation", "key", "words"),
    [
        ("prod._sqlbuild_fingerprints", "sqb.state_version", "has state of version 2"),
        ("prod._sqlbuild_node_results", "sqb.state_version", "has state of version 2"),
        ("prod.people", "sqb.identity_version", "has an identity of version 2"),
    ],
)
def test_what_a_newer_sqb_left_is_refused_before_anything_happens(
    folder: Folder, relation: str, key: str, words: str
) -> None:
    alter(folder, relation, f'"{key}":"1"', f'"{key}":"2"')
    folder.write({"seeds/people.csv": "id,name\n7,New\n"})
    before = folder.lake()
    for command in ("plan", "build"):
        done = folder.here(command, "--target", "prod")
        assert done.code == 1
        assert f"error[SQB-L010]: {relation} {words}, but this sqb knows versions up to 1" in done.err
        assert "hint: upgrade sqb" in done.err
    assert folder.lake() == before, "nothing was recorded"
