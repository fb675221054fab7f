"""`__dbt_ref`: models of sqb that read models of dbt, and `[dbt]`, which says where these are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sqb.build.observe.lake import observe_lake
from sqb.dbt.model import DbtProject
from sqb.dbt.project.cache import ProjectInputs, SummaryOrigin, write_summary
from sqb.dbt.project.context import DbtContext
from sqb.dbt.project.manifest import read_manifest
from sqb.errors.base import Errors, SqbError, flatten
from sqb.errors.dbt import NotADbtProject
from sqb.lake.open import open_lake
from sqb.names import Relation
from sqb.project.config.config import load_config
from sqb.project.config.dbt import DbtSettings
from sqb.workspace import open_workspace
from unit.dbt.small_project import node, project
from unit.folders import TOML, write

DBT = TOML + '[dbt]\nproject_dir = "../shop"\n'
KNOWN = read_manifest(Path(__file__).parent / "manifest.json", DbtContext())
ORIGIN = SummaryOrigin((), (), ProjectInputs((), {}, {}, {}, 0))


def _reading(root: Path, name: str, known: DbtProject | None = KNOWN) -> Path:
    write(root, {"sqlbuild_project.toml": DBT, "models/revenue.sql": f'SELECT *\nFROM __dbt_ref("{name}")'})
    if known is not None:
        write_summary(root, ORIGIN, known)
    return root


def _problem(root: Path) -> tuple[str, str, str, str | None]:
    with pytest.raises(SqbError) as caught:
        open_workspace(root)
    (error,) = flatten(caught.value)
    return type(error).__name__, str(error.at), error.message, error.hint


@pytest.mark.parametrize(
    ("name", "unique_id", "relation"),
    [
        ("totals", "model.shop.totals", "analytics.totals"),
        ("log", "model.shop.log", "analytics.order_log"),
        ("raw_people", "seed.shop.raw_people", "analytics.raw_people"),
        ("money.rates", "model.money.rates", "analytics.rates"),
        ("ver", "model.shop.ver.v2", "analytics.ver_v2"),
        ("ver.v1", "model.shop.ver.v1", "analytics.ver_v1"),
    ],
)
def test_a_dbt_model_is_a_table_that_others_build(tmp_path: Path, name: str, unique_id: str, relation: str) -> None:
    opened = open_workspace(_reading(tmp_path, name)).project
    assert opened.nodes["default.revenue"].upstream == (unique_id,)
    assert opened.externals[unique_id].relation == Relation.parse(relation)
    again = open_workspace(tmp_path)
    assert again.from_cache and again.project.externals == opened.externals


def test_a_model_may_have_the_name_of_the_dbt_model_that_it_reads(tmp_path: Path) -> None:
    write(tmp_path, {"sqlbuild_project.toml": DBT, "models/totals.sql": 'SELECT * FROM __dbt_ref("totals")'})
    write_summary(tmp_path, ORIGIN, KNOWN)
    assert open_workspace(tmp_path).project.nodes["default.totals"].upstream == ("model.shop.totals",)


def test_one_name_on_both_sides_of_the_border(tmp_path: Path) -> None:
    write_summary(tmp_path, ORIGIN, KNOWN)
    hashes = set()
    for first, second, third in (("m", "d", "d"), ("d", "m", "d"), ("m", "m", "d")):
        text = {"m": "totals", "d": '__dbt_ref("totals")'}
        sql = f"SELECT a.id FROM {text[first]} a JOIN {text[second]} b USING (id) JOIN {text[third]} c USING (id)"
        files = {"sqlbuild_project.toml": DBT, "models/totals.sql": "SELECT 1 AS id", "models/revenue.sql": sql}
        hashes.add(open_workspace(write(tmp_path, files)).project.nodes["default.revenue"].local_hash)
    assert len(hashes) == 3


def test_the_identity_is_the_same_wherever_dbt_puts_its_tables(tmp_path: Path) -> None:
    hashes = set()
    for schema in ("dev", "prod"):
        there = replace(node("model.totals"), relation=Relation(schema, "totals"))
        opened = open_workspace(_reading(tmp_path, "totals", project((there,))))
        # What was compiled with other names is not served again.
        assert not opened.from_cache
        assert opened.project.externals["model.shop.totals"].relation.schema == schema
        hashes.add(opened.project.nodes["default.revenue"].local_hash)
    assert len(hashes) == 1


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("total", 'no dbt model is called "total"', "did you mean 'totals'?"),
        (
            "xyzzy",
            'no dbt model is called "xyzzy"',
            "models that are new in the dbt project are found by `sqb dbt plan`",
        ),
        (
            "eph",
            'the dbt model "eph" is ephemeral and leaves no table to read',
            "give it another materialization, or read what it reads",
        ),
        ("off", 'no dbt model is called "off"', "models that are new in the dbt project are found by `sqb dbt plan`"),
    ],
)
def test_names_that_cannot_be_read(tmp_path: Path, name: str, message: str, hint: str) -> None:
    at = "models/revenue.sql:2:6"
    assert _problem(_reading(tmp_path, name)) == ("UnknownDbtModel", at, message, hint)


def test_a_name_of_two_packages(tmp_path: Path) -> None:
    other = replace(node("model.totals"), unique_id="model.money.totals", package="money")
    assert _problem(_reading(tmp_path, "totals", project((node("model.totals"), other)))) == (
        "UnknownDbtModel",
        "models/revenue.sql:2:6",
        '"totals" could be money.totals, shop.totals of the dbt project',
        "write the one that you mean, for instance money.totals",
    )


def test_a_dbt_project_that_nobody_has_read_yet(tmp_path: Path) -> None:
    assert _problem(_reading(tmp_path, "totals", None)) == (
        "DbtNotRead",
        "models/revenue.sql:2:6",
        '"totals" is a dbt model, and the dbt project has not been read yet',
        "run `sqb dbt plan` once",
    )
    write_summary(tmp_path, ORIGIN, KNOWN)
    assert "default.revenue" in open_workspace(tmp_path).project.nodes


def test_a_dbt_model_that_has_not_been_built(tmp_path: Path) -> None:
    opened = open_workspace(_reading(tmp_path, "totals"))
    with pytest.raises(SqbError) as caught:
        observe_lake(opened, open_lake(opened))
    assert caught.value.message == "dbt has not built model.shop.totals yet: analytics.totals is not in the catalog"
    assert (str(caught.value.at), caught.value.hint) == (
        "models/revenue.sql:2:6",
        "run `sqb dbt build`, which builds it and what reads it",
    )


def _settings(root: Path, text: str) -> DbtSettings:
    write(root, {"sqlbuild_project.toml": TOML + text})
    errors = Errors()
    config = load_config(root, errors)
    errors.raise_any()
    assert config is not None and config.dbt is not None
    return config.dbt


def test_settings(tmp_path: Path) -> None:
    assert _settings(tmp_path, '[dbt]\nproject_dir = "d"') == DbtSettings("d")
    text = '[dbt]\nproject_dir = "d"\nprofiles_dir = "p"\ntarget_path = "t"\nreplay_on_change = "full"\n'
    assert _settings(tmp_path, text + "command = \"uv run 'my dbt'\"") == DbtSettings(
        "d", "p", "t", "full", ("uv", "run", "my dbt")
    )
    assert _settings(tmp_path, text + 'command = ["uv", "run"]').command == ("uv", "run")


def test_folders(tmp_path: Path) -> None:
    settings = _settings(tmp_path, '[dbt]\nproject_dir = "d"')
    for item in ("there is no folder d", "d has no dbt_project.yml"):
        with pytest.raises(NotADbtProject, match=item) as caught:
            settings.find_project_folder(tmp_path)
        assert str(caught.value.at) == "sqlbuild_project.toml:3:15"
        (tmp_path / "d").mkdir(exist_ok=True)
    (tmp_path / "d" / "dbt_project.yml").touch()
    assert settings.find_project_folder(tmp_path) == (tmp_path / "d").resolve()
    assert settings.find_profiles_folder(tmp_path) is None
    (tmp_path / "d" / "profiles.yml").touch()
    assert settings.find_profiles_folder(tmp_path) == (tmp_path / "d").resolve()
    assert settings.get_target_folder(tmp_path) == (tmp_path / ".sqb" / "dbt" / "target").resolve()
