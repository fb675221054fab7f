"""Columns that own audits, hooks, unit tests and exposures name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from sqb.operations.inspect.validate import Opening, ValidateOptions, validate_project
from unit.folders import write

FILES = {
    "seeds/orders.csv": "id,amount\n1,2\n",
    "models/staging/a.sql": "SELECT id, amount FROM orders\n",
}


def find_errors(root: Path, files: Mapping[str, str]) -> list[str]:
    result = validate_project(Opening(write(root, {**FILES, **files})), ValidateOptions())
    return [f"{e.code} {e.at}: {e.message} ({e.hint})" for e in result.errors]


AUDIT = {"audits/positive.sql": "SELECT * FROM @@this WHERE {} < 0\n"}


@pytest.mark.parametrize(
    ("files", "messages"),
    [
        (
            {
                "audits/positive.sql": "SELECT * FROM @@this WHERE amunt < 0\n",
                "models/marts/m.sql": "-- @audit: positive()\nSELECT * FROM a\n",
            },
            ['SQB-S006 models/marts/m.sql:1:12: unknown column "amunt", in the audit positive (audits/positive.sql)'],
        ),
        (
            {
                "audits/positive.sql": "SELECT t.id FROM @@this t JOIN staging.a AS o ON t.id = o.idd\n",
                "models/marts/m.sql": "-- @audit: positive()\nSELECT * FROM a\n",
            },
            ['SQB-S006 models/marts/m.sql:1:12: unknown column "o.idd", in the audit positive (audits/positive.sql)'],
        ),
        (
            {"models/marts/m.sql": "-- @post_hook: DELETE FROM m WHERE amuont < 0\nSELECT * FROM a\n"},
            ['SQB-S006 models/marts/m.sql:1:36: unknown column "amuont", in a post_hook of marts.m'],
        ),
        (
            {"models/marts/m.sql": "-- @pre_hook: SELECT assert_true(count(idd) > 0) FROM a\nSELECT * FROM a\n"},
            ['SQB-S006 models/marts/m.sql:1:40: unknown column "idd", in a pre_hook of marts.m'],
        ),
        (
            {
                "tests/t.yml": "tests:\n  - name: t\n    model: a\n    given:\n      orders:\n"
                "        - {id: 1, amout: 2}\n    expect:\n      - {id: 1, total: 2}\n"
            },
            [
                'SQB-T002 tests/t.yml:6:11: t: there is no column "amout" in seeds.orders',
                'SQB-T002 tests/t.yml:8:9: t: there is no column "total" in the result of staging.a',
            ],
        ),
        (
            {
                "models/marts/m.sql": "-- @post_hook: INSERT INTO staging.a (id, amount) SELECT id, amuont FROM m\n"
                "-- @post_hook: insert into x.y with t as (select idd from a) select * from t\nSELECT * FROM a\n"
            },
            [
                'SQB-S006 models/marts/m.sql:1:62: unknown column "amuont", in a post_hook of marts.m',
                'SQB-S006 models/marts/m.sql:2:50: unknown column "idd", in a post_hook of marts.m',
            ],
        ),
        (
            {"exposures/e.yml": "exposures:\n  - name: e\n    depends_on:\n      - a: [ID, amuont]\n      - orders\n"},
            ['SQB-S006 exposures/e.yml:2:11: the exposure e reads "amuont", which is not a column of staging.a'],
        ),
        # What is right, or not known.
        (
            {
                "models/marts/m.sql": "-- @post_hook: ALTER TABLE @@this ADD COLUMN more int\n"
                "-- @post_hook: DELETE FROM m WHERE more > 1\n"
                "-- @post_hook: INSERT INTO x.y SELECT id, more FROM m\nSELECT * FROM a\n"
            },
            [],
        ),
        (
            {
                "models/marts/m.sql": "-- @post_hook: INSERT INTO x.y (a) SELECT count(*) FROM m WHERE id > 1\n"
                "-- @pre_hook: INSERT INTO x.y VALUES (1)\n-- @pre_hook: INSERT INTO x.y SELECT z FROM x.z\n"
                "SELECT * FROM a\n"
            },
            [],
        ),
        (
            {
                "audits/positive.sql": "SELECT * FROM @@this WHERE Amount < 0\n",
                "models/marts/m.sql": "-- @audit: positive()\n-- @post_hook: DELETE FROM m WHERE amount < 0\n"
                "-- @pre_hook: SELECT anything FROM m\nSELECT * FROM a\n",
                "tests/t.yml": "tests:\n  - name: t\n    model: a\n    given:\n      orders: [{ID: 1, amount: 2}]\n"
                "    expect: [{id: 1, AMOUNT: 2}]\n",
            },
            [],
        ),
    ],
)
def test_unknown_columns(tmp_path: Path, files: dict[str, str], messages: list[str]) -> None:
    assert [
        error.partition(" (did")[0].partition(" (the columns")[0] for error in find_errors(tmp_path, files)
    ] == messages


def test_a_broken_file_hides_only_what_follows_from_it(tmp_path: Path) -> None:
    files = {
        "models/staging/broken.sql": "SELECT id FROM orders WHERE (\n",
        "models/staging/jinja.sql": "SELECT * FROM {{ ref('a') }}\n",
        "models/marts/reader.sql": "SELECT whatever, a.idd FROM broken JOIN a ON true\n",
        "models/marts/lost.sql": "SELECT 1 AS x FROM nowhere_at_all\n",
        "models/marts/wrong.sql": "SELECT idd FROM a\n",
        "models/marts/header.sql": "-- @kind: tble\nSELECT nothing FROM a\n",
        "tests/t.yml": "tests:\n  - name: t\n    modl: a\n",
        "exposures/e.yml": "exposures:\n  - name: e\n    depends_on: [nope]\n",
        "selectors.yml": "selectors:\n  - name: s\n",
    }
    # Of `reader` nothing is certain: it reads a table whose columns are not known.
    messages = [" ".join(error.split()[:2]) for error in find_errors(tmp_path, files)]
    assert messages == [
        "SQB-R002 exposures/e.yml:3:18:",
        "SQB-P008 models/marts/header.sql:1:11:",
        "SQB-R002 models/marts/lost.sql:1:20:",
        "SQB-S006 models/marts/wrong.sql:1:8:",
        "SQB-S004 models/staging/broken.sql:1:29:",
        "SQB-P019 models/staging/jinja.sql:1:15:",
        "SQB-P004 selectors.yml:2:5:",
        "SQB-P004 tests/t.yml:2:5:",
        "SQB-P004 tests/t.yml:2:5:",
        "SQB-P002 tests/t.yml:3:5:",
    ]


def test_models_keep_their_names_though_they_are_broken(tmp_path: Path) -> None:
    files = {
        "models/staging/named.sql": "-- @alias: other\nSELECT id FROM orders WHERE (\n",
        "models/staging/unnamed.sql": "-- @alias: third\n-- @kind: tble\nSELECT id FROM orders\n",
        "models/marts/reader.sql": "SELECT x, y FROM staging.other JOIN staging.third\n",
    }
    messages = [" ".join(error.split()[:2]) for error in find_errors(tmp_path, files)]
    assert messages == ["SQB-S004 models/staging/named.sql:2:29:", "SQB-P008 models/staging/unnamed.sql:2:11:"]
