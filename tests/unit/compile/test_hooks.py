"""Hooks before they run: what they are made of, what names in them mean, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqb.build.node.hooks import render_hook
from sqb.cache import codec
from sqb.compile.model import Node, Project
from sqb.errors.base import SqbError, flatten
from sqb.names import Relation
from sqb.workspace import open_workspace
from unit.folders import TOML, write

OTHERS = {
    "models/staging/orders.sql": "SELECT 1 AS id",
    "seeds/people.csv": "id\n1\n",
    "sources/raw.yml": "sources:\n  - name: raw.events\n",
    "macros/m.py": "def twice(x):\n    return f'{x} + {x}'\n",
}


def node(root: Path, header: str, **more: str) -> Node:
    files = {**OTHERS, "models/marts/m.sql": f"{header}\nSELECT id FROM orders", **more}
    project = open_workspace(write(root, files), variables={"n": 3, "who": "it's"}).project
    assert codec.decode(Project, codec.encode(project)) == project
    return project.nodes["marts.m"]


def hooks(root: Path, header: str, **more: str) -> list[str]:
    return [f"{h.when}: {render_hook(h, 'lake').sql}" for h in node(root, header, **more).hooks]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("INSERT INTO audit.log VALUES (1, 'orders')", "INSERT INTO audit.log VALUES (1, 'orders')"),
        ("INSERT INTO m SELECT * FROM other", "INSERT INTO `lake`.`marts`.`m` SELECT * FROM other"),
        ("DELETE FROM orders WHERE id = @@n", "DELETE FROM `lake`.`staging`.`orders` AS `orders` WHERE id = 3"),
        ("UPDATE staging.orders o SET id = 1", "UPDATE `lake`.`staging`.`orders` o SET id = 1"),
        ("INSERT INTO x SELECT @twice(@@n), @@who", r"INSERT INTO x SELECT 3 + 3, 'it\'s'"),
        (
            "ALTER TABLE @@this SET TBLPROPERTIES ('a' = '@@n')",
            "ALTER TABLE `lake`.`marts`.`m` SET TBLPROPERTIES ('a' = '@@n')",
        ),
        ("GRANT SELECT ON @@this TO x", "GRANT SELECT ON `lake`.`marts`.`m` TO x"),
        (
            "CALL lake.system.rewrite_data_files(table => @@this)",
            "CALL lake.system.rewrite_data_files(table => 'lake.marts.m')",
        ),
        (
            "SELECT raw.events.x FROM raw.events, people p",
            "SELECT `events`.x FROM `lake`.`raw`.`events` AS `events`, `lake`.`seeds`.`people` p",
        ),
        (
            "MERGE INTO m t USING __ref('orders') s ON t.id = s.id",
            "MERGE INTO `lake`.`marts`.`m` t USING `lake`.`staging`.`orders` s ON t.id = s.id",
        ),
        ("WITH orders AS (TABLE y) INSERT INTO x TABLE orders", "WITH orders AS (TABLE y) INSERT INTO x TABLE orders"),
        ("SET spark.sql.shuffle.partitions = 4;", "SET spark.sql.shuffle.partitions = 4;"),
    ],
)
def test_names_become_relations_and_the_rest_stays(tmp_path: Path, statement: str, expected: str) -> None:
    assert hooks(tmp_path, f"-- @post_hook: {statement}") == [f"post: {expected}"]


def test_both_spellings_and_defaults(tmp_path: Path) -> None:
    block = """MODEL (
      pre_hooks ['DELETE FROM a WHERE x IN (1, 2)', 'SELECT 1, 2'],
      post_hook INSERT INTO b
        SELECT f(1, 2)
    );"""
    written = [
        "pre: DELETE FROM a WHERE x IN (1, 2)",
        "pre: SELECT 1, 2",
        "post: INSERT INTO b\n        SELECT f(1, 2)",
    ]
    assert hooks(tmp_path / "block", block) == written
    lines = "-- @pre_hook: SELECT 1, 2\n-- @pre_hook: SELECT 3\n-- @post_hooks: ['SELECT 4', 'SELECT 5']"
    assert hooks(tmp_path / "lines", lines) == ["pre: SELECT 1, 2", "pre: SELECT 3", "post: SELECT 4", "post: SELECT 5"]
    toml = {"sqlbuild_project.toml": TOML + '[defaults]\npost_hooks = ["SELECT count(*) FROM @@this"]\n'}
    inherited = hooks(tmp_path / "defaults", "", **toml)
    assert inherited == ["post: SELECT count(*) FROM `lake`.`marts`.`m`"]
    assert hooks(tmp_path / "own", "-- @post_hook: SELECT 1", **toml) == ["post: SELECT 1"]


def test_hooks_are_identity_by_their_words_and_the_same_in_every_target(tmp_path: Path) -> None:
    def config(name: str, header: str, **more: str) -> str:
        return node(tmp_path / name, header, **more).config_hash

    first = config("a", "-- @post_hook: INSERT INTO log SELECT count(*), max(id) FROM orders, @@this")
    spaced = "MODEL (post_hooks ['insert into log  SELECT count(*), /* all */ max(id)\n from staging.orders, @@this']);"
    assert config("b", spaced) == first
    dev = {"sqlbuild_project.toml": TOML + '[targets.dev]\nschema = "dev"\n'}
    assert config("c", spaced, **dev) == first
    others = [
        config("d", ""),
        config("e", "-- @pre_hook: INSERT INTO log SELECT count(*), max(id) FROM orders, @@this"),
        config("f", "-- @post_hook: INSERT INTO log SELECT count(*), min(id) FROM orders, @@this"),
        config("g", "-- @post_hook: INSERT INTO log SELECT count(*), max(id) FROM people, @@this"),
        config("h", "-- @post_hook: INSERT INTO log SELECT count(*), max(ID) FROM orders, @@this"),
    ]
    assert len({first, *others}) == len(others) + 1


@pytest.mark.parametrize(
    ("header", "error", "place", "message"),
    [
        ("-- @post_hook: SELECT @@nn", "UnknownVariable", "1:23", "the variable @@nn has no value"),
        ("-- @post_hook: SELECT @twise(1)", "BadMacro", "1:23", "there is no macro @twise"),
        ("-- @post_hook: SELECT 1; SELECT 2", "BadHook", "1:24", "a hook is one statement"),
        ("-- @post_hook: ;", "BadHook", "1:16", "there is no statement"),
        ("MODEL (pre_hooks ['SELECT (1', 'x']);", "BadHook", "1:27", "this ( is never closed"),
        ("MODEL (pre_hooks [UPDATE a SET x = 1, y = 2]);", "BadHook", "1:39", "a statement does not begin with y"),
        (
            "MODEL (\npre_hook 'SELECT 1\n  FROM __ref(\"nope\")'\n);",
            "UnknownReference",
            "3:8",
            'no model is called "nope"',
        ),
        ("-- @pre_hook: 'SELECT \\'a'", "BadHook", "1:23", "this ' is never closed"),
        ("-- @pre_hook: SET x = ${env:HOME}", "Substitution", "1:23", "${…} is not replaced by anything"),
        (
            "-- @pre_hook: SET spark.sql.variable.substitute = true",
            "BadHook",
            "1:15",
            "spark.sql.variable.substitute is always false",
        ),
        ("-- @pre_hook: USE other", "BadHook", "1:15", "USE changes the session, which other models share"),
        ("-- @pre_hook: SET TIME ZONE LOCAL", "BadHook", "1:15", "SET changes the session, which other models share"),
        ("-- @pre_hook: SELECT * FROM IDENTIFIER('a')", "BadHook", "1:29", "IDENTIFIER(…) is not followed here"),
    ],
)
def test_what_is_wrong_is_an_error_with_its_place(
    tmp_path: Path, header: str, error: str, place: str, message: str
) -> None:
    with pytest.raises(SqbError) as caught:
        node(tmp_path, header)
    entry = flatten(caught.value)[0]
    assert (type(entry).__name__, str(entry.at), entry.message) == (error, f"models/marts/m.sql:{place}", message)


def test_a_name_that_fits_several_models_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SqbError, match="could be"):
        node(tmp_path, "-- @post_hook: SELECT * FROM twin", **{f"models/{f}/twin.sql": "SELECT 1 AS a" for f in "ab"})


def test_seeds_have_no_hooks(tmp_path: Path) -> None:
    with pytest.raises(SqbError, match="post_hooks"):
        node(tmp_path, "", **{"seeds/people.yml": "post_hooks: [SELECT 1]\n"})


def test_what_a_hook_means_is_kept_with_the_node(tmp_path: Path) -> None:
    (hook,) = node(tmp_path, "-- @post_hook: DELETE FROM @@this WHERE id IN (SELECT id FROM orders)").hooks
    assert hook.relations == (Relation("marts", "m"), Relation("staging", "orders"))
    assert str(hook.at) == "models/marts/m.sql:1:16"
