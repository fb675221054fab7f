"""The locks agree with each other and with what is declared."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
_LOCKED = re.compile(r"^([A-Za-z0-9_.-]+)(?:\[[^]]*\])?==(\S+)", re.MULTILINE)


def locked(name: str) -> set[tuple[str, str]]:
    return set(_LOCKED.findall((ROOT / name).read_text()))


@pytest.mark.parametrize("lock", ["requirements-image.lock", "requirements-dagster.lock", "requirements-airflow.lock"])
def test_what_two_locks_have_is_of_one_version(lock: str) -> None:
    ours = locked("requirements.lock")
    names = {name for name, _ in ours}
    assert {(name, version) for name, version in locked(lock) if name in names} <= ours


def test_the_image_has_what_sqb_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = [*project["dependencies"], *project["optional-dependencies"]["connect"]]
    names = {re.split(r"[\[<>=~!; ]", requirement)[0].lower() for requirement in declared}
    assert names - {name for name, _ in locked("requirements-image.lock")} == set()


def test_the_image_is_made_of_what_docker_is_given() -> None:
    given = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    copied = re.findall(r"^COPY (?!--)(.+) \S+$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert sorted(word for line in copied for word in line.split()) == sorted(given)
    assert [name for name in given if not (ROOT / name).exists()] == []


def read_requirements(*extras: str) -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    optional = [text for extra in extras for text in project["optional-dependencies"][extra]]
    declared = map(Requirement, [*project["dependencies"], *optional])
    return [requirement for requirement in declared if requirement.name != project["name"]]


@pytest.mark.parametrize(
    ("lock", "extras"), [("requirements.lock", ("connect", "dev")), ("requirements-image.lock", ("connect",))]
)
def test_what_is_locked_is_in_the_declared_range(lock: str, extras: tuple[str, ...]) -> None:
    versions = {canonicalize_name(name): version for name, version in locked(lock)}
    ranges = {canonicalize_name(r.name): r.specifier for r in read_requirements(*extras)}
    assert {name: versions.get(name) for name, allowed in ranges.items() if versions.get(name, "") not in allowed} == {}


def test_every_requirement_is_a_range() -> None:
    operators = {r.name: {s.operator for s in r.specifier} for r in read_requirements("connect", "dev")}
    assert {name: item for name, item in operators.items() if item != {">=", "<"}} == {}
