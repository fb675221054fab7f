"""`sqb state adopt` that is cut off, and projects that go on meanwhile; seeds need no Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from cli.conftest import Folder
from sqb.lake.open import open_lake
from sqb.lake.port import Column, Shape
from sqb.names import Relation
from sqb.plan.recorded.commit_identity import CommitIdentity
from sqb.plan.recorded.group_state import NamedState, build_state_relation, encode_states, parse_states
from sqb.workspace import open_workspace

DIRECT = 'name = "shop"\ndefault_target = "dev"\n[targets.dev]\nschema = "dev"\n'
VIRTUAL = DIRECT + '[virtual]\nenabled = true\nunsuffixed_virtual_env = "dev"\n'
PEOPLE_TABLE, PHYSICAL = Relation("dev", "people"), "dev__sqb_physical"
PEOPLE = {"seeds/people.csv": "id,name\n1,Ada\n2,Ben\n", "seeds/places.csv": "id,place\n1,Rome\n"}


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    result = Folder(tmp_path)
    result.write({"sqlbuild_project.toml": DIRECT, **PEOPLE})
    assert result.here("build").code == 0
    result.write({"sqlbuild_project.toml": VIRTUAL})
    return result


def cut_off(folder: Folder, step: str, node: str) -> None:
    done = folder.sqb("state", "adopt", "--yes", env={"SQB_FAULT": f"kill:{step}:{node}"})
    assert done.code == -9, done.out + done.err


def tables(folder: Folder) -> dict[str, str]:
    """The tables of versions, by the names that they begin with."""
    rows = [r for r in folder.lake()["iceberg_tables"] if "__v_" in r]
    assert len(rows) == 2, rows
    return {name: next(r for r in rows if f"{name}__v_" in r) for name in ("people", "places")}


def shown(folder: Folder, name: str) -> list[tuple[object, ...]]:
    """The rows of the table that an environment has of a seed."""
    lake = folder.root / "lake"
    catalog = SqlCatalog("lake", uri=f"sqlite:///{lake}/catalog.db", warehouse=str(lake / "data"))
    (result,) = [t for t in catalog.list_tables("dev__sqb_physical") if t[1].startswith(f"{name}__v_")]
    return sorted(tuple(r.values()) for r in catalog.load_table(result).scan().to_arrow().to_pylist())


@pytest.mark.parametrize(
    ("step", "node"),
    [("version begun", "seeds.people"), ("version begun", "seeds.places"), ("views moved", "seeds.people")],
)
def test_a_kill_in_the_middle_is_made_up_for_by_the_next_one(folder: Folder, step: str, node: str) -> None:
    cut_off(folder, step, node)
    # What still stands in the way is told, and nothing is built beside it.
    refused = folder.here("build")
    assert refused.code == 1 and "SQB-V013" in refused.err
    done = folder.here("state", "adopt", "--yes")
    assert done.code == 0, done.err
    built = folder.here("build", "--json").document
    assert built["summary"]["ran"] == 0 and built["environment"]["status"] == "finalized"
    assert shown(folder, "people") == [(1, "Ada"), (2, "Ben")] and shown(folder, "places") == [(1, "Rome")]
    assert folder.here("janitor").code == 0
    again = folder.here("build", "--json").document
    assert again["summary"]["ran"] == 0 and again["environment"]["status"] == "finalized"


def test_a_kill_at_the_very_end_leaves_nothing_to_adopt(folder: Folder) -> None:
    cut_off(folder, "views moved", "seeds.places")
    built = folder.here("build", "--json").document
    assert built["summary"]["ran"] == 0 and built["environment"]["status"] == "finalized"
    assert shown(folder, "people") == [(1, "Ada"), (2, "Ben")] and shown(folder, "places") == [(1, "Rome")]


def test_what_was_built_without_environments_after_a_kill_is_adopted_too(folder: Folder) -> None:
    cut_off(folder, "version begun", "seeds.places")
    before = tables(folder)
    folder.write({"sqlbuild_project.toml": DIRECT, "seeds/people.csv": "id,name\n1,Ada\n2,Ben\n3,Cy\n"})
    assert folder.here("build").code == 0
    # The rows are the definition of a seed: those that it had are back, in a commit of their own.
    folder.write(PEOPLE)
    assert folder.here("build").code == 0
    folder.write({"sqlbuild_project.toml": VIRTUAL})
    done = folder.here("state", "adopt", "--yes")
    assert done.code == 0, done.err
    after = tables(folder)
    assert after["people"] != before["people"] and after["places"] == before["places"]
    built = folder.here("build", "--json").document
    assert built["summary"]["ran"] == 0 and shown(folder, "people") == [(1, "Ada"), (2, "Ben")]


def test_a_definition_that_changed_before_is_run_by_the_next_build(folder: Folder) -> None:
    folder.write({"seeds/people.csv": "id,name\n1,Ada\n4,Dot\n"})
    done = folder.here("state", "adopt", "--yes")
    assert done.code == 0 and "adopted  dev.people" in done.out
    # The table begins with the rows of before, which nobody sees.
    assert shown(folder, "people") == [(1, "Ada"), (2, "Ben")]
    planned = {n["name"]: n["reason"] for n in folder.here("plan", "--json").document["nodes"] if n["action"] == "run"}
    assert planned == {"seeds.people": "Query changed"}
    built = folder.here("build", "--json").document
    assert built["summary"]["ran"] == 1 and built["environment"]["status"] == "finalized"
    assert shown(folder, "people") == [(1, "Ada"), (4, "Dot")]


def add_figures(folder: Folder) -> None:
    """Let the commit of a table name figures of its groups, as that of a model may; the rows stay what they are."""
    lake = open_lake(open_workspace(folder.root))
    (state,) = lake.read_tables([lake.list_pointers()[PEOPLE_TABLE]]).values()
    figures = build_state_relation(PEOPLE_TABLE, 0)
    lake.ensure_schemas([figures.schema])
    stage = lake.stage(figures, Shape((Column("n", "long"),)), None, "r0")
    lake.fill_batches(stage, [pa.record_batch({"n": pa.array([2], pa.int64())})])
    made = lake.publish(stage, CommitIdentity(group_state_of=str(PEOPLE_TABLE), run_id="r0").to_properties())
    named = encode_states([NamedState(0, made.snapshot_id, "token")])
    shape = Shape((Column("id", "long"), Column("name", "string")), properties=state.properties)
    stage = lake.stage(PEOPLE_TABLE, shape, state.base, "r0")
    rows = {"id": pa.array([1, 2], pa.int64()), "name": pa.array(["Ada", "Ben"])}
    lake.fill_batches(stage, [pa.record_batch(rows)])
    lake.publish(stage, replace(state.identity, group_state=named).to_properties())


def test_a_kill_between_the_clones_of_figures_and_of_their_table(folder: Folder) -> None:
    add_figures(folder)
    cut_off(folder, "state published", "seeds.people")
    assert folder.here("build").code == 1
    done = folder.here("state", "adopt", "--yes")
    assert done.code == 0, done.err
    lake = open_lake(open_workspace(folder.root))
    (pointer,) = [
        p for r, p in lake.list_pointers().items() if r.schema == PHYSICAL and r.name.startswith("people__v_")
    ]
    (state,) = lake.read_tables([pointer]).values()
    (named,) = parse_states(state.identity.group_state).values()
    assert lake.has_snapshot(build_state_relation(pointer.relation, 0), named.snapshot)
    assert shown(folder, "people") == [(1, "Ada"), (2, "Ben")]
    assert folder.here("build", "--json").document["environment"]["status"] == "finalized"
