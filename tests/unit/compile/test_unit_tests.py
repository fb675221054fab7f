"""Unit tests in the compiled project: what their names mean, what makes them other tests, and mistakes in them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from sqb.cache import codec
from sqb.compile.model import Project, UnitTest
from sqb.errors.base import SqbError, flatten
from sqb.workspace import open_workspace
from unit.folders import write

FILES = {
    "sqlbuild_project.toml": 'name = "shop"\n[vars]\nregion = "us"\n',
    "seeds/orders.csv": "id,amount\n1,10\n",
    "models/staging/stg.sql": "SELECT id, amount, @@region AS region FROM seeds.orders",
    "models/marts/totals.sql": (
        "WITH big AS (SELECT * FROM staging.stg WHERE amount > 5)\n"
        "SELECT b.id, r.rate FROM big AS b JOIN raw.rates AS r ON b.id = r.id"
    ),
}
TEST = "tests:\n  - name: a\n    model: marts.totals\n"


def compiled(root: Path, tests: str, more: Mapping[str, str] = {}) -> Project:
    return open_workspace(write(root, {**FILES, **more, "tests/t.yml": tests})).project


def the_test(root: Path, tests: str, more: Mapping[str, str] = {}) -> UnitTest:
    (result,) = compiled(root, tests, more).tests
    return result


def problems(root: Path, tests: str) -> list[tuple[str, str, str, str | None]]:
    with pytest.raises(SqbError) as caught:
        compiled(root, tests)
    return [(type(e).__name__, str(e.at), e.message, e.hint) for e in flatten(caught.value)]


@pytest.mark.parametrize("name", ["marts.totals", "totals", "MARTS.Totals"])
def test_a_model_is_called_as_in_sql(tmp_path: Path, name: str) -> None:
    test = the_test(tmp_path, f"tests:\n  - name: a\n    model: {name}\n    expect: []\n")
    assert (test.model, test.reads) == ("marts.totals", ("staging.stg", "raw.rates"))


@pytest.mark.parametrize("name", ["staging.stg", "stg", "Staging.STG"])
def test_an_input_is_called_as_in_the_query_or_by_its_name(tmp_path: Path, name: str) -> None:
    test = the_test(tmp_path, TEST + f"    given: {{{name}: [{{id: 1}}], rates: []}}\n    expect: []\n")
    assert list(json.loads(test.body)["given"]) == ["staging.stg", "raw.rates"]


def test_the_hash_is_of_what_the_test_says_not_of_how_it_is_written(tmp_path: Path) -> None:
    one = the_test(tmp_path, TEST + "    given: {stg: [{id: 1}]}\n    expect: [{id: 1}]\n")
    same = the_test(
        tmp_path,
        "# moved\n" + TEST + "    description: x\n    expect:\n    - id: 1\n    given: {staging.stg: [{id: 1}]}\n",
    )
    other = the_test(tmp_path, TEST + "    given: {stg: [{id: 2}]}\n    expect: [{id: 1}]\n")
    assert one.hash == same.hash != other.hash
    assert one.local_hash == other.local_hash


def test_the_model_is_compiled_with_the_tests_own_variables(tmp_path: Path) -> None:
    project = compiled(
        tmp_path,
        "tests:\n  - {name: a, model: stg, expect: [], vars: {region: eu}}\n  - {name: b, model: stg, expect: []}\n",
    )
    a, b = project.tests
    node = project.nodes["staging.stg"]
    assert a.variant is not None and b.variant is None
    assert "'eu' AS region" in a.variant.sql and "'us' AS region" in node.sql
    assert a.local_hash != b.local_hash == node.local_hash


def test_tests_survive_the_cache(tmp_path: Path) -> None:
    text = "tests:\n  - {name: a, model: stg, expect: [{id: 1}], vars: {region: eu}}\n"
    project = compiled(tmp_path, text)
    assert codec.decode(Project, codec.encode(project)).tests == project.tests
    assert open_workspace(tmp_path).from_cache
    assert open_workspace(tmp_path).project.tests == project.tests


def test_what_only_a_test_reads_is_no_input_of_the_project(tmp_path: Path) -> None:
    macro = 'def source(region):\n    return "raw.eu" if "eu" in region else "raw.us"\n'
    project = compiled(
        tmp_path,
        "tests:\n  - {name: a, model: m, expect: [], vars: {region: eu}, given: {raw.eu: []}}\n",
        {"macros/m.py": macro, "models/m.sql": "SELECT * FROM @source(@@region)"},
    )
    assert project.tests[0].reads == ("raw.eu",)
    assert set(project.externals) == {"raw.rates", "raw.us"}


def test_a_test_of_a_model_that_is_switched_off_is_off(tmp_path: Path) -> None:
    off = {"models/gone.sql": "-- @enabled: false\nSELECT 1 AS a"}
    assert compiled(tmp_path, "tests:\n  - {name: a, model: gone, expect: []}\n", off).tests == ()


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        (
            "tests:\n  - {name: a, model: total, expect: []}\n",
            (
                "UnknownReference",
                "tests/t.yml:2:22",
                'no model is called "total"',
                "did you mean 'totals'?",
            ),
        ),
        (
            "tests:\n  - {name: a, model: seeds.orders, expect: []}\n",
            (
                "UnknownReference",
                "tests/t.yml:2:22",
                '"seeds.orders" is a seed: only models have something to test',
                None,
            ),
        ),
        (
            TEST + "    expect: []\n    given: {stgg: []}\n",
            ("UnknownReference", "tests/t.yml:5:13", 'marts.totals does not read "stgg"', "did you mean 'stg'?"),
        ),
        (
            TEST + "    expect: []\n    given: {orders: []}\n",
            (
                "UnknownReference",
                "tests/t.yml:5:13",
                'marts.totals does not read "orders"',
                "it reads raw.rates, staging.stg",
            ),
        ),
        (
            TEST + "    expect: []\n    given: {stg: [], staging.stg: []}\n",
            (
                "DuplicateKey",
                "tests/t.yml:5:22",
                "the rows of staging.stg are given twice",
                "it may be called by two names, but is one table",
            ),
        ),
        (
            TEST + "    expect_ctes: {bg: []}\n",
            ("UnknownReference", "tests/t.yml:4:19", 'marts.totals has no CTE called "bg"', "did you mean 'big'?"),
        ),
        (
            "tests:\n  - {name: a, model: stg, expect_ctes: {x: []}}\n",
            (
                "UnknownReference",
                "tests/t.yml:2:41",
                'staging.stg has no CTE called "x"',
                "it has no WITH at its beginning",
            ),
        ),
        (
            TEST + "    expect: []\n    vars: {regoin: eu}\n",
            ("UnknownVariable", "tests/t.yml:5:12", "there is no variable @@regoin", "did you mean 'region'?"),
        ),
    ],
)
def test_mistakes(tmp_path: Path, rest: str, expected: tuple[str, str, str, str | None]) -> None:
    assert problems(tmp_path, rest) == [expected]


def test_all_mistakes_at_once(tmp_path: Path) -> None:
    messages = problems(tmp_path, "tests:\n  - {name: a, model: x, expect: []}\n  - {name: b, model: stg, expct: []}\n")
    assert [(kind, at) for kind, at, _, _ in messages] == [
        ("UnknownReference", "tests/t.yml:2:22"),
        ("MissingKey", "tests/t.yml:3:5"),
        ("UnknownKey", "tests/t.yml:3:27"),
    ]
