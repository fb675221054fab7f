"""From files to nodes: names, references, identity, and every error of a project at once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from sqb.cache import codec
from sqb.compile.model import Project, locate_source
from sqb.errors.base import SqbError, flatten
from sqb.names import Relation
from sqb.workspace import open_workspace
from unit.folders import TOML, write


def compiled(root: Path, files: Mapping[str, str], **given: Any) -> Project:
    return open_workspace(write(root, files), **given).project


def problems(root: Path, files: Mapping[str, str | bytes], **given: Any) -> list[tuple[str, str, str]]:
    """The errors of a project as (class, place, message), in the order in which they are reported."""
    with pytest.raises(SqbError) as caught:
        open_workspace(write(root, files), **given)
    return [(type(e).__name__, str(e.at), e.message) for e in flatten(caught.value)]


def hint(root: Path, files: Mapping[str, str | bytes], **given: Any) -> str | None:
    with pytest.raises(SqbError) as caught:
        open_workspace(write(root, files), **given)
    return flatten(caught.value)[0].hint


# --- names --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (None, {"staging.orders": "staging.orders", "default.top": "default.top", "a_b.deep": "a_b.deep"}),
        ("dev", {"staging.orders": "dev.orders", "default.top": "dev.top", "a_b.deep": "dev.deep"}),
        (
            "dev_{folder}",
            {"staging.orders": "dev_staging.orders", "default.top": "dev_default.top", "a_b.deep": "dev_a_b.deep"},
        ),
    ],
)
def test_relations_follow_the_targets_template(tmp_path: Path, schema: str | None, expected: dict[str, str]) -> None:
    toml = TOML + (f'[targets.dev]\nschema = "{schema}"\n' if schema else "")
    project = compiled(
        tmp_path,
        {
            "sqlbuild_project.toml": toml,
            "models/staging/orders.sql": "SELECT 1 AS a",
            "models/top.sql": "SELECT 1 AS a",
            "models/a/b/deep.sql": "SELECT 1 AS a",
            "seeds/people.csv": "id\n1\n",
        },
    )
    by_name = {n.name: str(n.relation) for n in project}
    assert by_name.pop("seeds.people") == (schema or "{folder}").replace("{folder}", "seeds") + ".people"
    assert by_name == expected


def test_a_model_may_set_its_schema_and_alias(tmp_path: Path) -> None:
    project = compiled(
        tmp_path,
        {
            "models/s/a.sql": "-- @schema: other\n-- @alias: b\nSELECT 1 AS x",
            "models/s/c.sql": "SELECT * FROM a JOIN s.a AS two JOIN other.b AS three",
        },
    )
    assert project.nodes["s.a"].relation == Relation("other", "b")
    assert project.nodes["s.c"].upstream == ("s.a",)
    assert project.schemas == ("other", "s")


@pytest.mark.parametrize(
    ("path", "header", "message"),
    [
        ("models/my-orders.sql", "", '"my-orders" cannot be the name of a relation'),
        ("models/größe.sql", "", '"größe" cannot be the name of a relation'),
        ("models/a b/c.sql", "", '"a b" cannot be the schema of a relation'),
        ("models/x.sql/a.sql", "", '"x.sql" cannot be the schema of a relation'),
        ("models/a.sql", "-- @alias: a.b\n", '"a.b" cannot be the name of a relation'),
        ("models/_sqlbuild_x.sql", "", '"_sqlbuild_x" is a name that sqb keeps for its own tables'),
    ],
)
def test_names_that_a_relation_cannot_have(tmp_path: Path, path: str, header: str, message: str) -> None:
    (result,) = problems(tmp_path, {path: f"{header}SELECT 1 AS a"})
    assert result[0] == "BadName" and result[2] == message and result[1].startswith(path)


def test_two_models_with_one_relation(tmp_path: Path) -> None:
    files = {
        "sqlbuild_project.toml": TOML + '[targets.dev]\nschema = "dev"\n',
        "models/a/orders.sql": "SELECT 1 AS a",
        "models/b/Orders.sql": "SELECT 1 AS a",
        "seeds/orders.csv": "id\n1\n",
    }
    assert problems(tmp_path, files) == [
        ("DuplicateRelation", "models/b/Orders.sql", "dev.Orders is also built by models/a/orders.sql"),
        ("DuplicateRelation", "seeds/orders.csv", "dev.orders is also built by models/a/orders.sql"),
    ]


def test_two_nodes_with_one_name_and_two_relations(tmp_path: Path) -> None:
    files = {
        "models/a/b/x.sql": "SELECT 1 AS a",
        "models/a_b/x.sql": "-- @alias: y\nSELECT 1 AS a",
        "models/seeds/people.sql": "-- @alias: persons\nSELECT 1 AS a",
        "seeds/people.csv": "id\n1\n",
    }
    assert problems(tmp_path, files) == [
        ("DuplicateRelation", "models/a_b/x.sql", "a_b.x is also the name of models/a/b/x.sql"),
        ("DuplicateRelation", "seeds/people.csv", "seeds.people is also the name of models/seeds/people.sql"),
    ]


@pytest.mark.parametrize("source", ["s.orders", "S.Orders", "raw.o"])
def test_a_source_that_the_project_builds_itself(tmp_path: Path, source: str) -> None:
    files = {
        "models/s/orders.sql": "-- @schema: raw\n-- @alias: o\nSELECT 1 AS a",
        "sources/raw.yml": f"sources:\n  - name: {source}\n",
    }
    assert problems(tmp_path, files) == [
        ("DuplicateRelation", "sources/raw.yml:2:11", f'the source "{source}" is built by models/s/orders.sql')
    ]


# --- references ---------------------------------------------------------------------------------------------------

ORDERS = {"models/staging/orders.sql": "SELECT 1 AS id", "seeds/people.csv": "id\n1\n"}


@pytest.mark.parametrize(
    ("written", "upstream"),
    [
        ("orders", ("staging.orders",)),
        ("ORDERS", ("staging.orders",)),
        ("staging.orders", ("staging.orders",)),
        ("Staging.Orders", ("staging.orders",)),
        ("lake.staging.orders", ("staging.orders",)),
        ("__ref('orders')", ("staging.orders",)),
        ('__ref("staging.orders")', ("staging.orders",)),
        ("people", ("seeds.people",)),
        ("seeds.people", ("seeds.people",)),
        ("__seed('people')", ("seeds.people",)),
        ("orders JOIN people JOIN orders o", ("seeds.people", "staging.orders")),
        # A qualified name never matches by file name alone.
        ("raw.orders", ("raw.orders",)),
        ("things", ("default.things",)),
    ],
)
def test_what_a_name_means(tmp_path: Path, written: str, upstream: tuple[str, ...]) -> None:
    project = compiled(tmp_path, {**ORDERS, "models/marts/m.sql": f"SELECT 1 AS x FROM {written}"})
    assert project.nodes["marts.m"].upstream == upstream


def test_declared_sources_are_called_by_their_name(tmp_path: Path) -> None:
    files = {
        **ORDERS,
        "sources/raw.yml": "sources:\n  - name: raw.events\n",
        "models/m.sql": "SELECT 1 AS x FROM raw.events JOIN __source('RAW.events') AS b",
    }
    project = compiled(tmp_path, files)
    assert project.nodes["default.m"].upstream == ("raw.events",)
    assert project.externals["raw.events"].declared


def test_an_undeclared_table_is_an_external_with_its_first_place(tmp_path: Path) -> None:
    project = compiled(tmp_path, {"models/m.sql": "SELECT 1 AS x\nFROM raw.a\nJOIN RAW.A AS b"})
    assert list(project.externals) == ["raw.a"]
    external = project.externals["raw.a"]
    assert not external.declared and str(external.at) == "models/m.sql:2:6"


@pytest.mark.parametrize(
    ("written", "error", "message"),
    [
        ("__ref('nothing')", "UnknownReference", 'no model is called "nothing"'),
        ("__ref('people')", "UnknownReference", 'no model is called "people"'),
        ("__seed('orders')", "UnknownReference", 'no seed is called "orders"'),
        ("__source('orders')", "UnknownReference", 'no declared source is called "orders"'),
        (
            "__dbt_ref('orders')",
            "UnknownDbtModel",
            '"orders" is to be a dbt model, but the project has no [dbt] section',
        ),
        ("no.staging.orders", "UnknownReference", 'no model, seed, source or table is called "no.staging.orders"'),
        ("a.b.c.d", "UnknownReference", 'no model, seed, source or table is called "a.b.c.d"'),
        ("off", "UnknownReference", '"off" is switched off'),
        ("marts.m", "SelfReference", "marts.m reads itself"),
        ("m", "SelfReference", "marts.m reads itself"),
    ],
)
def test_references_to_nothing(tmp_path: Path, written: str, error: str, message: str) -> None:
    files = {
        **ORDERS,
        "models/off.sql": "-- @enabled: false\nSELECT this is not even read",
        "models/marts/m.sql": f"SELECT 1 AS x\nFROM {written}",
    }
    assert problems(tmp_path, files) == [(error, "models/marts/m.sql:2:6", message)]


def test_a_name_that_fits_several_is_ambiguous(tmp_path: Path) -> None:
    files = {
        "models/a/orders.sql": "SELECT 1 AS x",
        "models/b/orders.sql": "SELECT 1 AS x",
        "models/m.sql": "SELECT * FROM orders",
    }
    assert problems(tmp_path, files) == [
        ("AmbiguousReference", "models/m.sql:1:15", '"orders" could be a.orders, b.orders')
    ]
    assert hint(tmp_path, files) == "write the one that you mean, for instance a.orders"


def test_a_seed_and_a_model_of_one_name_are_told_apart(tmp_path: Path) -> None:
    files = {
        **ORDERS,
        "seeds/orders.csv": "id\n1\n",
        "models/m.sql": "SELECT 1 AS x FROM __seed('orders') AS a JOIN __ref('orders') AS b",
    }
    assert compiled(tmp_path, files).nodes["default.m"].upstream == ("seeds.orders", "staging.orders")
    files["models/m.sql"] = "SELECT 1 AS x FROM orders"
    assert problems(tmp_path, files)[0][0] == "AmbiguousReference"


def test_a_circle_of_three_is_printed_in_full(tmp_path: Path) -> None:
    files = {
        "models/a.sql": "SELECT * FROM b",
        "models/b.sql": "SELECT *\nFROM c",
        "models/c.sql": "SELECT * FROM a",
        "models/d.sql": "SELECT * FROM a",
    }
    ((error, at, message),) = problems(tmp_path, files)
    assert error == "Cycle" and at.endswith(":1:15")
    assert message == "models read each other in a circle: default.a → default.b → default.c → default.a"


def test_a_switched_off_model_is_not_there(tmp_path: Path) -> None:
    files = {"models/a.sql": "SELECT 1 AS x", "models/b.sql": "-- @enabled: false\nSELECT * FROM a, nothing.at.all"}
    assert list(compiled(tmp_path, files).nodes) == ["default.a"]


def test_a_switched_off_model_gives_its_relation_away(tmp_path: Path) -> None:
    files = {
        "models/a.sql": "-- @enabled: false\n-- @alias: x\nSELECT 1 AS x",
        "models/b.sql": "-- @alias: x\nSELECT 1 AS x",
    }
    assert [str(n.relation) for n in compiled(tmp_path, files)] == ["default.x"]


def test_the_whole_call_is_marked_where_its_name_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(SqbError) as caught:
        open_workspace(write(tmp_path, {"models/m.sql": "SELECT * FROM __ref( 'nothing' ) AS n"}))
    at = flatten(caught.value)[0].at
    assert at is not None and (at.column, at.length) == (15, len("__ref( 'nothing' )"))


# --- all errors at once -------------------------------------------------------------------------------------------


def test_all_errors_of_a_project_are_reported_sorted_by_place(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        "sqlbuild_project.toml": 'name = "shop"\nnmae = 1\n',
        "models/a.sql": "-- @kidn: table\nSELECT @@missing",
        "models/b.sql": "SELECT 1; SELECT 2",
        "models/c.sql": "",
        "models/d.sql": "SELECT * FROM __ref('nothing')\nJOIN __ref('nobody') AS n",
        "models/e.sql": b"SELECT '\xff'",
        "seeds/s.csv": "a,b\n1\n",
        "sources/s.yml": "sources: 7\n",
        "macros/m.py": "def broken(:\n",
    }
    messages = problems(tmp_path, files)
    assert [(error, at) for error, at, _ in messages] == [
        ("BadMacro", "macros/m.py:1:12"),
        ("UnknownKey", "models/a.sql:1:5"),
        ("UnknownVariable", "models/a.sql:2:8"),
        ("ManyStatements", "models/b.sql:1:11"),
        ("EmptyModel", "models/c.sql:1:1"),
        ("UnknownReference", "models/d.sql:1:15"),
        ("UnknownReference", "models/d.sql:2:6"),
        ("Unreadable", "models/e.sql:1:1"),
        ("BadSeed", "seeds/s.csv:2:1"),
        ("BadYaml", "sources/s.yml:1:10"),
        ("UnknownKey", "sqlbuild_project.toml:2:1"),
    ]


@pytest.mark.parametrize(
    "broken", [{"models/a.sql": "SELECT FROM"}, {"models/a.sql": b"\xff"}, {"seeds/a.csv": "x,x\n1,2\n"}]
)
def test_a_broken_file_is_not_reported_again_by_those_who_read_it(
    tmp_path: Path, broken: dict[str, str | bytes]
) -> None:
    kind = "seed" if "seeds/a.csv" in broken else "ref"
    messages = problems(tmp_path, {**broken, "models/b.sql": f"SELECT 1 AS x FROM __{kind}('a') JOIN a AS two"})
    assert [at.partition(":")[0] for _, at, _ in messages] == list(broken)


@pytest.mark.parametrize(
    ("sql", "error", "place", "message"),
    [
        ("", "EmptyModel", "1:1", "there is no query"),
        ("-- @kind: table\n-- nothing else\n", "EmptyModel", "2:1", "there is no query"),
        ("SELECT 1 AS a;\n\nSELECT 2 AS a;", "ManyStatements", "3:1", "a second statement begins here"),
        ("-- @kind: view\nDELETE FROM x", "NotASelect", "2:1", "a model is one SELECT; this is a DELETE"),
        ("SELECT a b c FROM t", "BadSql", "1:12", "the SQL does not parse: Invalid expression / Unexpected token"),
        ("SELECT 'abc\nFROM t", "BadSql", "1:8", "this ' is never closed"),
        ("SELECT @@days", "UnknownVariable", "1:8", "the variable @@days has no value"),
        ("SELECT\n  @@ENV:SQB_NOT_SET", "UnknownVariable", "2:3", "the environment variable SQB_NOT_SET is not set"),
        ("SELECT @money(a)", "BadMacro", "1:8", "there is no macro @money"),
        ("SELECT * FROM __ref('a', 'b')", "BadSql", "1:15", "__ref(…) takes one name"),
        ("SELECT\t*\nFROM\t__ref('x')", "UnknownReference", "2:6", 'no model is called "x"'),
        ("\r\nSELECT 1\r\n;\r\nSELECT 2", "ManyStatements", "4:1", "a second statement begins here"),
        ("\ufeffSELECT a b c", "BadSql", "1:12", "the SQL does not parse: Invalid expression / Unexpected token"),
    ],
)
def test_errors_in_sql_have_their_place(tmp_path: Path, sql: str, error: str, place: str, message: str) -> None:
    assert problems(tmp_path, {"models/m.sql": sql}) == [(error, f"models/m.sql:{place}", message)]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"models/m.sql": "SELECT @@dayz"}, "did you mean 'days'?"),
        ({"models/m.sql": "SELECT @@x"}, "set it under [vars] in sqlbuild_project.toml, or with --vars"),
        ({"models/m.sql": "SELECT @cent(a)"}, "did you mean 'cents'?"),
        ({"models/m.sql": "SELECT @x(a)"}, "macros are functions in macros/*.py"),
        ({"models/m.sql": "SELECT * FROM __ref('order')"}, "did you mean 'orders'?"),
        ({"models/m.sql": ""}, "write one SELECT"),
    ],
)
def test_errors_say_the_way_out(tmp_path: Path, files: dict[str, str], expected: str) -> None:
    base = {
        "sqlbuild_project.toml": TOML + "[vars]\ndays = 3\n",
        "macros/m.py": "def cents(x):\n    return x\n",
        "models/orders.sql": "SELECT 1 AS a",
    }
    assert hint(tmp_path, {**base, **files}) == expected


@pytest.mark.parametrize(
    ("macro", "error", "place"),
    [
        ("import sys\nsys.exit(3)\n", "SystemExit: 3", "macros/m.py:2:1"),
        ("def one():\n    raise SystemExit(3)\n", "@one failed: SystemExit: 3", "models/m.sql:1:8"),
        ("import no_such_module\n", "ModuleNotFoundError: No module named 'no_such_module'", "macros/m.py:1:1"),
    ],
)
def test_a_macro_cannot_end_the_program(tmp_path: Path, macro: str, error: str, place: str) -> None:
    messages = problems(tmp_path, {"macros/m.py": macro, "models/m.sql": "SELECT @one() AS a"})
    assert ("BadMacro", place, error) in messages


def test_what_a_macro_prints_is_not_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    macro = "print('loading')\ndef one():\n    print('called')\n    return '1'\n"
    compiled(tmp_path, {"macros/m.py": macro, "models/m.sql": "SELECT @one() AS a"})
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "loading\ncalled\n")


# --- identity -----------------------------------------------------------------------------------------------------


def hashes(root: Path, sql: str, **more: Any) -> tuple[str, str]:
    node = compiled(root, {"models/m.sql": sql, "models/a.sql": "SELECT 1 AS x"}, **more).nodes["default.m"]
    return node.query_hash, node.config_hash


@pytest.mark.parametrize(
    ("one", "other", "query", "config"),
    [
        ("SELECT x FROM a", "select x -- c\n from A", True, True),
        ("SELECT x FROM a", "SELECT x FROM default.a", True, True),
        ("SELECT x FROM a", "SELECT x FROM __ref('a')", True, True),
        ("SELECT x FROM a", "-- @kind: table\nSELECT x FROM a", True, True),
        ("SELECT x FROM a", "MODEL (kind table, tags [z], description 'd');\nSELECT x FROM a", True, True),
        ("SELECT x FROM a", "-- @kind: view\nSELECT x FROM a", True, False),
        ("SELECT x FROM a", "-- @sorted_by: x\nSELECT x FROM a", True, False),
        ("SELECT x FROM a", "SELECT x FROM b.a", False, True),
        ("SELECT x FROM a", "SELECT x AS X FROM a", False, True),
        ("SELECT 30 AS d FROM a", "SELECT @@days AS d FROM a", True, True),
    ],
)
def test_what_is_identity(tmp_path: Path, one: str, other: str, query: bool, config: bool) -> None:
    given = {"variables": {"days": 30}}
    a, b = hashes(tmp_path / "1", one, **given), hashes(tmp_path / "2", other, **given)
    assert (a[0] == b[0], a[1] == b[1]) == (query, config)


def test_identity_is_the_same_in_every_target(tmp_path: Path) -> None:
    files = {
        "sqlbuild_project.toml": TOML + '[targets.dev]\nschema = "dev"\n[targets.prod]\nschema = "prod_{folder}"\n',
        "models/a.sql": "SELECT 1 AS x",
        "models/b.sql": "SELECT x FROM a",
        "seeds/s.csv": "id\n1\n",
    }
    dev, prod = compiled(tmp_path, files, target="dev"), compiled(tmp_path, files, target="prod")
    assert [str(n.relation) for n in dev] != [str(n.relation) for n in prod]
    for one in dev:
        other = prod.nodes[one.name]
        assert (one.local_hash, one.version_hash) == (other.local_hash, other.version_hash)


def test_the_version_of_a_node_holds_those_above_it(tmp_path: Path) -> None:
    files = {"models/a.sql": "SELECT 1 AS x", "models/b.sql": "SELECT x FROM a"}
    before = compiled(tmp_path, files).nodes["default.b"]
    after = compiled(tmp_path, {**files, "models/a.sql": "SELECT 2 AS x"}).nodes["default.b"]
    assert before.local_hash == after.local_hash and before.version_hash != after.version_hash


def test_a_macro_that_gives_other_sql_is_another_query(tmp_path: Path) -> None:
    files = {"macros/m.py": "def one():\n    return '1'\n", "models/m.sql": "SELECT @one() AS x"}
    before = compiled(tmp_path, files).nodes["default.m"].query_hash
    renamed = {**files, "macros/m.py": '"""Words."""\ndef one():\n    return str(1)\n'}
    assert compiled(tmp_path, renamed).nodes["default.m"].query_hash == before
    changed = {**files, "macros/m.py": "def one():\n    return '2'\n"}
    assert compiled(tmp_path, changed).nodes["default.m"].query_hash != before


# --- values -------------------------------------------------------------------------------------------------------


def test_a_compiled_project_survives_the_cache(tmp_path: Path) -> None:
    project = compiled(
        tmp_path,
        {
            "models/a.sql": "MODEL (tags [x], columns {a: 'the a'}, config {k: [1, {z: true}]});\nSELECT 1 FROM s.t",
            "models/b.sql": "SELECT rand() AS r, @@n AS n FROM a QUALIFY row_number() OVER (ORDER BY r) = 1",
            "seeds/s.csv": "id,name\n1,ü\n",
        },
        variables={"n": 1},
    )
    again = codec.decode(Project, codec.encode(project))
    assert codec.encode(again) == codec.encode(project)
    assert list(again.nodes) == list(project.nodes)
    assert again.externals == project.externals
    assert again.nodes["default.b"].volatile == ("rand",)


def test_a_place_in_the_query_leads_to_the_file(tmp_path: Path) -> None:
    text = "-- @kind: table\nSELECT\n  @@n AS n,\n  wrong\nFROM a"
    project = compiled(tmp_path, {"models/m.sql": text, "models/a.sql": "SELECT 1 AS x"}, variables={"n": 1234567})
    node = project.nodes["default.m"]
    at = locate_source(node, text, node.sql.index("wrong"), 5)
    assert (str(at), at.length) == ("models/m.sql:4:3", 5)


def test_nodes_stand_after_what_they_read(tmp_path: Path) -> None:
    files = {f"models/m{i}.sql": f"SELECT x FROM m{i + 1}" for i in range(30)} | {"models/m30.sql": "SELECT 1 AS x"}
    names = list(compiled(tmp_path, files).nodes)
    assert names == [f"default.m{i}" for i in range(30, -1, -1)]


# --- unusual files ------------------------------------------------------------------------------------------------


def test_windows_line_endings_and_a_byte_order_mark_change_nothing(tmp_path: Path) -> None:
    text = "-- @kind: view\nSELECT 'a' AS x\nFROM a\n"
    plain = hashes(tmp_path / "1", text)
    assert hashes(tmp_path / "2", "\ufeff" + text.replace("\n", "\r\n")) == plain


def test_three_hundred_ctes_are_no_problem(tmp_path: Path) -> None:
    ctes = ",\n".join(f"c{i} AS (SELECT x + 1 AS x FROM {f'c{i - 1}' if i else 'a'})" for i in range(300))
    files = {"models/a.sql": "SELECT 1 AS x", "models/m.sql": f"WITH {ctes} SELECT x FROM c299"}
    assert compiled(tmp_path, files).nodes["default.m"].upstream == ("default.a",)


def test_a_model_of_a_megabyte_is_no_problem(tmp_path: Path) -> None:
    rows = ",\n".join(f"({i}, 'a text that takes some room in the file')" for i in range(20_000))
    sql = f"SELECT * FROM VALUES {rows} AS v(a, b)"
    assert len(sql) > 1_000_000
    assert compiled(tmp_path, {"models/m.sql": sql}).nodes["default.m"].upstream == ()


def test_parentheses_five_hundred_deep_are_left_to_spark(tmp_path: Path) -> None:
    sql = "-- @kind: table\nSELECT " + "(" * 500 + "id" + ")" * 500 + " AS a FROM n"
    node = compiled(tmp_path, {"models/m.sql": sql, "models/n.sql": "SELECT 1 AS id"}).nodes["default.m"]
    assert node.unread == "models/m.sql:2:1: it is nested too deeply"
    assert node.upstream == ("default.n",)


def test_what_sqlglot_does_not_read_is_a_model_that_says_so(tmp_path: Path) -> None:
    sql = "-- @kind: table\n\n  FROM default.n\n  |> WHERE id > @@least\n"
    toml = TOML + "[vars]\nleast = 3\n"
    files = {"models/m.sql": sql, "models/n.sql": "SELECT 1 AS id", "sqlbuild_project.toml": toml}
    node = compiled(tmp_path, files).nodes["default.m"]
    assert node.unread == "models/m.sql:4:3: pipe syntax"
    assert (node.upstream, node.sql.split()[-1]) == (("default.n",), "3")
    again = compiled(tmp_path, files).nodes["default.m"]
    assert again == node
    spaced = {**files, "models/m.sql": sql.replace("FROM", "from  /* x */ ")}
    assert compiled(tmp_path, spaced).nodes["default.m"].local_hash == node.local_hash
    other = {**files, "models/m.sql": sql.replace("id >", "ID >")}
    assert compiled(tmp_path, other).nodes["default.m"].local_hash != node.local_hash


def test_a_link_that_leads_back_is_an_error_and_others_are_followed(tmp_path: Path) -> None:
    root = write(tmp_path / "p", {"models/s/a.sql": "SELECT 1 AS x"})
    shared = write(tmp_path / "shared", {"b.sql": "SELECT 1 AS x"})
    (root / "models" / "linked").symlink_to(shared)
    assert set(open_workspace(root).project.nodes) == {"s.a", "linked.b"}
    (root / "models" / "s" / "loop").symlink_to(root / "models")
    assert problems(root, {}) == [
        ("Unreadable", "models/s/loop", "this link leads back to a folder that it is in"),
    ]


@pytest.mark.parametrize("name", ["models/a.sql", "seeds/a.csv", "macros/a.py"])
def test_a_link_to_nowhere_is_an_error(tmp_path: Path, name: str) -> None:
    root = write(tmp_path, {})
    (root / name).parent.mkdir()
    (root / name).symlink_to(root / "gone")
    assert [e[:2] for e in problems(root, {})] == [("Unreadable", name)]


def test_hidden_files_and_other_endings_are_not_models(tmp_path: Path) -> None:
    files = {
        "models/a.sql": "SELECT 1 AS x",
        "models/.hidden.sql": "not SQL",
        "models/a.sql~": "not SQL",
        "models/.git/b.sql": "not SQL",
        "models/readme.md": "not SQL",
    }
    assert list(compiled(tmp_path, files).nodes) == ["default.a"]
