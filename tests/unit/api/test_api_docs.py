"""The page of the API has every name that people may use."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import sqb
from sqb import api, events
from sqb.api import options
from sqb.api.dbt import Dbt
from sqb.api.engine import Engine
from sqb.api.state import State

PAGE = (Path(__file__).parents[3] / "docs" / "api.md").read_text(encoding="utf-8")
CODE = " ".join(re.findall(r"`([^`\n]+)`", PAGE))


def is_documented(name: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(name)}\b|\.{re.escape(name)}\b", CODE) is not None


@pytest.mark.parametrize("name", [*api.__all__, "errors", "events", "Context"])
def test_every_name_of_the_api(name: str) -> None:
    assert name in sqb.__all__
    assert f"sqb.{name}" in CODE or f"from sqb import {name}" in PAGE


@pytest.mark.parametrize("kind", [sqb.Project, sqb.Node, sqb.Plan, sqb.Result, sqb.Rows, State, Engine, Dbt])
def test_every_attribute(kind: type) -> None:
    public = [n for n in dir(kind) if not n.startswith("_")]
    assert [n for n in public if not is_documented(n)] == []


@pytest.mark.parametrize(
    "keywords",
    [
        options.BuildKeywords,
        options.LoadKeywords,
        options.DiffKeywords,
        options.PromoteKeywords,
        options.DbtKeywords,
    ],
)
def test_every_option(keywords: type) -> None:
    assert [n for n in keywords.__annotations__ if not is_documented(n)] == []


def test_every_event() -> None:
    assert [n for n in events.__all__ if not is_documented(n)] == []
