"""The JSON Schemas are those of the code, and every project of the tests is valid by them."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import jsonschema
import pytest
from make_schemas import FOLDER, build_project_schema

from sqb.project.config import config
from sqb.project.config.format_section import KEYS as FORMAT_KEYS
from sqb.project.models.keys import WORDS

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = json.loads((FOLDER / "sqlbuild_project.json").read_text(encoding="utf-8"))


def test_the_schema_is_the_one_of_the_code() -> None:
    assert build_project_schema() == SCHEMA, "run scripts/make_schemas.py"


def test_every_key_that_is_read_is_in_the_schema() -> None:
    properties = SCHEMA["properties"]
    assert properties.keys() == set(config._TOP)
    assert properties["defaults"]["properties"].keys() == set(WORDS)
    assert properties["format"]["properties"].keys() == set(FORMAT_KEYS)


def test_every_project_is_valid() -> None:
    paths = [*(ROOT / "tests/cases").rglob("sqlbuild_project.toml"), *ROOT.glob("**/example*/**/sqlbuild_project.toml")]
    assert len(paths) > 5
    for path in paths:
        jsonschema.validate(tomllib.loads(path.read_text(encoding="utf-8")), SCHEMA)


@pytest.mark.parametrize(
    "text", ["nam = 1", "[format]\nindent = 0", "[defaults]\nkind = 'tabel'", "[lint]\nno_select_star = 'x'"]
)
def test_mistakes_are_not(text: str) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(tomllib.loads(text), SCHEMA)
