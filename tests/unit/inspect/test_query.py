"""Names in queries of the user's own: told before Spark starts where nothing has them; what is refused, and why."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sqb.cli.main import run
from sqb.errors.base import SqbError, SqbErrors
from sqb.errors.call import CallError, NotBuilt, UnknownTable
from sqb.inspect.asked_query import AskedQuery
from sqb.inspect.query import ResolvedQuery, Tables, fill_tables
from sqb.names import At, Relation
from sqb.workspace import open_workspace
from unit.folders import write

FILES = {
    "seeds/people.csv": "id,name\n1,Ada\n",
    "models/staging/names.sql": "SELECT id FROM people",
    "models/marts/big.sql": "SELECT id FROM names",
    "sources/raw.yml": "sources:\n- {name: raw.events}\n- {name: files, path: f.csv}\n",
    "f.csv": "id\n1\n",
}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    project = open_workspace(write(tmp_path_factory.mktemp("p"), FILES)).project
    existing = {"seeds.people", "staging.names", "raw.events", "default.plain", "other.t"}
    return Tables(project, "lake", frozenset(map(Relation.parse, existing)))


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT * FROM people", "SELECT * FROM `lake`.`seeds`.`people` AS `people`"),
        ("SELECT * FROM staging.names n", "SELECT * FROM `lake`.`staging`.`names` n"),
        ("SELECT * FROM raw.events e", "SELECT * FROM `lake`.`raw`.`events` e"),
        ("SELECT * FROM other.t e", "SELECT * FROM `lake`.`other`.`t` e"),
        ("SELECT * FROM lake.other.t e", "SELECT * FROM `lake`.`other`.`t` e"),
        ("SELECT * FROM plain p", "SELECT * FROM `plain` p"),
        ("SELECT * FROM staging.names.snapshots s", "SELECT * FROM `staging`.`names`.`snapshots` s"),
        ("SELECT * FROM elsewhere.s.t x", "SELECT * FROM `elsewhere`.`s`.`t` x"),
        ("SELECT * FROM parquet.`/data/x` x", "SELECT * FROM `parquet`.`/data/x` x"),
        ("SELECT * FROM range(3)", "SELECT * FROM range(3)"),
        ("WITH c AS (SELECT 1 AS x) SELECT * FROM c", "WITH c AS (SELECT 1 AS x) SELECT * FROM c"),
        ("SHOW TABLES IN nowhere", "SHOW TABLES IN nowhere"),
    ],
)
def test_names_become_relations(tables: Tables, sql: str, expected: str) -> None:
    assert fill_tables(sql, tables).text == expected


@pytest.mark.parametrize("sql", ["SHOW TABLES", "EXPLAIN SELECT 1", "DESCRIBE HISTORY x"])
def test_what_is_left_to_spark_is_not_logged(tables: Tables, caplog: pytest.LogCaptureFixture, sql: str) -> None:
    assert fill_tables(sql, tables).text == sql
    assert caplog.text == ""


def test_what_nothing_has_is_told_with_its_place_and_the_nearest_names(tables: Tables) -> None:
    with pytest.raises(UnknownTable) as caught:
        fill_tables("SELECT *\nFROM people JOIN peple USING (id)", tables)
    error = caught.value
    assert error.message == 'nothing is called "peple"' and error.hint == "did you mean 'people'?"
    assert error.evidence == ("FROM people JOIN peple USING (id)", "                 ^^^^^")
    with pytest.raises(UnknownTable, match=r"staging\.nmes"):
        fill_tables("SELECT * FROM staging.nmes", tables)
    with pytest.raises(SqbErrors) as both:
        fill_tables("SELECT * FROM x1, y1", tables)
    assert len(both.value.errors) == 2


def test_a_session_that_was_handed_in_may_know_more(tables: Tables) -> None:
    lenient = Tables(tables.project, tables.catalog, tables.existing, strict=False)
    assert fill_tables("SELECT * FROM my_view v", lenient).text == "SELECT * FROM `my_view` v"


def test_a_model_that_is_not_built(tables: Tables) -> None:
    with pytest.raises(NotBuilt) as caught:
        fill_tables("SELECT * FROM big", tables)
    assert "marts.big is not built in the target dev" in caught.value.message
    assert "`sqb show marts.big`" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("sql", "message", "hint"),
    [
        ("INSERT INTO people VALUES (1)", "only reads, and INSERT does more", "tables are made by models"),
        ("drop table people", "and DROP does more", "`sqb drop`"),
        ("SET spark.sql.ansi.enabled = false", "and SET does more", "under the connection"),
        ("USE staging", "and USE does more", "write the schema before the table"),
        ("MODEL (kind view); SELECT 1", "and MODEL does more", "`sqb show NAME`"),
        ("VACUUM x", "and VACUUM does more", "for anything else use Spark itself"),
        ("selec 1", 'no query begins with "selec"', "did you mean SELECT?"),
    ],
)
def test_what_is_refused(tables: Tables, sql: str, message: str, hint: str) -> None:
    with pytest.raises(CallError) as caught:
        fill_tables(sql, tables)
    assert message in caught.value.message and hint in str(caught.value.hint)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["query"], "there is no query"),
        (["query", "SELECT 1", "-f", "q.sql"], "a query and --file are two queries"),
        (["query", "-f", "nope.sql"], "nope.sql cannot be read: No such file"),
        (["query", "nope.sql"], "nope.sql cannot be read"),
        (["query", "SELECT 1", "--csv", "-o", "x.csv"], "--csv prints rows, and --output writes them"),
        (["query", "SELECT 1", "--vertical", "--csv"], "--vertical is for people"),
        (["query", "SELECT 1", "-o", "x.xls"], "x.xls: its name tells no format"),
        (["query", "SELECT 1", "-o", "no/x.csv"], "there is no folder no"),
        (["query", "q.sql"], 'nothing is called "nobody"'),
        (["query", "SELECT id FROM people; SELECT 2"], "a second statement begins here"),
        (["show"], "name a model, or give a query with --inline"),
        (["show", "big", "--inline", "SELECT 1"], "name a model, or give a query with --inline"),
        (["show", "big", "-s", "names"], "MODEL and --select name two models"),
        (["show", "--inline", "SELECT 1", "--next-window"], "a window is of an incremental model"),
        (["show", "nobody"], 'nothing is called "nobody"'),
        (["show", "+big"], '"+big" means 3 nodes'),
        (["show", "--inline", "SELECT * FROM nobody"], 'nothing is called "nobody"'),
    ],
)
def test_wrong_calls(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(write(tmp_path, {**FILES, "q.sql": "SELECT * FROM nobody"}))
    monkeypatch.setattr("sys.argv", ["sqb"])
    assert run(words) == 2
    result = capsys.readouterr()
    assert (result.out, message in result.err) == ("", True), result.err


def test_the_mistakes_of_a_model_are_told_before_spark_starts(tmp_path: Path) -> None:
    import sqb

    write(tmp_path, {**FILES, "models/marts/big.sql": "SELECT nme FROM people"})
    with pytest.raises(SqbError, match="nme"):
        sqb.Project(tmp_path).show("big")


def test_two_forms_of_the_rows(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["query", "SELECT 1", "--csv", "--json"]) == 2
    assert "--csv and --json are two forms of the rows" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["query"], ["show", "--inline"]])
@pytest.mark.parametrize(
    ("sql", "code", "message", "line", "shown"),
    [
        ("SELECT id,\n\tnmae\nFROM people", "SQB-S006", 'unknown column "nmae"', 2, ("\tnmae", "\t^^^^")),
        ("SELECT p.nmae FROM names p", "SQB-S006", 'unknown column "p.nmae"', 1, None),
        ("SELECT lenght(name) FROM people", "SQB-S008", 'unknown function "lenght"', 1, None),
        ("SELECT id FROM people;\nSELECT 2", "SQB-S004", "a second statement begins here", 2, ("SELECT 2", "^^^^^^")),
        ("SELECT *\nFROM peple", "SQB-C009", 'nothing is called "peple"', 2, ("FROM peple", "     ^^^^^")),
    ],
)
def test_mistakes_are_reported_with_their_places_before_spark_starts(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    sql: str,
    code: str,
    message: str,
    line: int,
    shown: tuple[str, str] | None,
) -> None:
    files = {**FILES, "models/staging/names.sql": "MODEL (kind view);\nSELECT id FROM people"}
    root = write(tmp_path, files)
    monkeypatch.chdir(root)
    monkeypatch.setattr("sys.argv", ["sqb"])
    assert run(["build", "-s", "people"]) == 0
    if "names" in sql and words == ["query"]:
        code, message = "SQB-C006", "staging.names is not built in the target dev"
    capsys.readouterr()
    monkeypatch.setenv("JAVA_HOME", "/nonexistent")
    assert run([*words, sql]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith(f"error[{code}]: {message}")
    if shown is not None:
        assert "".join(f"  {text}\n" for text in shown) in printed
    assert run([*words, sql, "--json"]) == 2
    (error,) = json.loads(capsys.readouterr().out)["errors"]
    assert (error["code"], error["file"]) == (code, None) and (code == "SQB-C006" or error["line"] == line)


def test_places_behind_replaced_names_and_before_ctes() -> None:
    asked = AskedQuery.from_text("SELECT a,\n  1 / 0 FROM people")
    text = "WITH x AS (\n1\n)\n(\nSELECT a,\n  1 / 0 FROM `lake`.`seeds`.`people`\n)"
    lead = text.index("SELECT")
    copied = ((0, 0, 23), (23 + 23, 29, 0))
    query = ResolvedQuery(text, asked=asked, copied=copied, lead=lead)
    start = text.index("1 / 0")
    at, evidence = query.locate(start, start + 5)
    assert (at, evidence) == (At("", 2, 3, 5), ("  1 / 0 FROM people", "  ^^^^^"))
    assert str(at) == "line 2, column 3"
    assert query.locate(0, 4) == (None, ())
