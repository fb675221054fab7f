"""`sqb validate`: all mistakes at once, as lines, as JSON and in SARIF, without Java."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sqb.cli.main import run
from unit.folders import TOML, write

FILES = {
    "sqlbuild_project.toml": TOML,
    "seeds/orders.csv": "id,amount\n1,2\n",
    "models/staging/a.sql": "SELECT idd FROM orders\n",
    "models/staging/b.sql": "SELECT id, sum(amount) AS total\nFROM orders\n",
}
PLACES = [("SQB-S006", "models/staging/a.sql", 1, 8), ("SQB-S012", "models/staging/b.sql", 1, 8)]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(write(tmp_path, FILES))
    monkeypatch.setattr("sys.argv", ["sqb"])
    return tmp_path


def test_all_mistakes_are_told_with_their_lines(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["validate"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        'error[SQB-S006]: models/staging/a.sql:1:8: unknown column "idd"',
        "  1 | SELECT idd FROM orders",
        "    |        ^^^",
        "hint: did you mean 'id'?",
        "",
        'error[SQB-S012]: models/staging/b.sql:1:8: "id" is neither in GROUP BY nor inside an aggregate',
        "  1 | SELECT id, sum(amount) AS total",
        "    |        ^^",
        "hint: add it to GROUP BY, aggregate it, or write any_value(id) if any value will do",
    ]


def test_checks_of_a_model_that_cannot_be_read_are_no_mistakes(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    header = "-- @constraint: not_null(id)\n-- @warning: in_list(kind, 'a', 'b')\n"
    write(project, {"models/staging/a.sql": f"{header}SELECT id, kind FROM till.payments\n"})
    assert run(["validate", "--json"]) == 2
    errors = json.loads(capsys.readouterr().out)["errors"]
    assert [(e["code"], e["file"]) for e in errors] == [
        ("SQB-R002", "models/staging/a.sql"),
        ("SQB-S012", "models/staging/b.sql"),
    ]


@pytest.mark.parametrize(
    "header",
    [
        "-- @audit: unique(nope)\r\n-- @audit: unique(id)\r\n",
        "MODEL (constraints [unique(nope)], audits [row_count(>, 0), min(nope, >, 1), nonesuch()],\n  tags [x]);\n",
        "MODEL (\n  constraints [\n    unique(nope),\n    unique(id),\n    not_null(nope),\n  ]\n);\n",
    ],
)
def test_wrong_checks_hide_no_mistakes_of_their_model(
    project: Path, capsys: pytest.CaptureFixture[str], header: str
) -> None:
    write(project, {"models/staging/a.sql": f"{header}SELECT id,\n  idd FROM orders\n"})
    assert run(["validate", "--json"]) == 2
    errors = [e for e in json.loads(capsys.readouterr().out)["errors"] if e["file"].endswith("a.sql")]
    assert {e["code"] for e in errors[:-1]} <= {"SQB-K001", "SQB-K004"}
    lines = header.count("\n")
    assert [(e["code"], e["line"], e["column"]) for e in errors[-1:]] == [("SQB-S006", lines + 2, 3)]
    assert len(errors) == header.count("nope") + header.count("nonesuch") + 1


def test_json(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["validate", "--json"]) == 2
    messages = json.loads(capsys.readouterr().out)
    assert messages["models"] == 2
    assert [(e["code"], e["file"], e["line"], e["column"]) for e in messages["errors"]] == PLACES


def test_sarif(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["validate", "--format", "sarif"]) == 2
    document = json.loads(capsys.readouterr().out)
    assert document["version"] == "2.1.0"
    places = []
    for result in document["runs"][0]["results"]:
        place = result["locations"][0]["physicalLocation"]
        region = place["region"]
        places.append((result["ruleId"], place["artifactLocation"]["uri"], region["startLine"], region["startColumn"]))
    assert places == PLACES


def test_files_that_are_wrong_are_told_in_every_form(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(project, {**FILES, "models/staging/a.sql": "SELECT id, FROM orders\n"})
    assert run(["validate", "--format", "sarif"]) == 2
    run_told = json.loads(capsys.readouterr().out)["runs"][0]
    result, other = run_told["results"]
    assert result["ruleId"] == "SQB-S004" and result["message"]["text"].startswith("something is missing after ,")
    # A file that is broken does not hide the mistakes of others, and rules bring their pages along.
    assert other["ruleId"] == "SQB-S012"
    # What is not a part of an address is encoded.
    write(project, {"tests/größe 1.yml": "tests:\n  - {name: t, modle: a}\n"})
    assert run(["validate", "--format", "sarif"]) == 2
    results = json.loads(capsys.readouterr().out)["runs"][0]["results"]
    uris = [r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in results]
    assert uris[-1] == "tests/gr%C3%B6%C3%9Fe%201.yml"
    assert all(rule["help"]["markdown"].startswith(f"# {rule['id']}: ") for rule in run_told["tool"]["driver"]["rules"])


def test_a_project_without_models_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(write(tmp_path, {"sqlbuild_project.toml": TOML, "models/A.SQL": "SELECT 1"}))
    monkeypatch.setattr("sys.argv", ["sqb"])
    assert run(["validate"]) == 0
    messages = capsys.readouterr()
    assert messages.out.startswith("There are no models: they are SQL files in models/")
    assert messages.err == "warning: models/A.SQL is not read: write the ending in lower case, as in x.sql\n"
    assert run(["plan"]) == 0
    assert "warning: models/A.SQL is not read" in capsys.readouterr().out


def test_a_right_project(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(
        project, {**FILES, "models/staging/a.sql": "SELECT id FROM orders\n", "models/staging/b.sql": "SELECT 1 AS x\n"}
    )
    assert run(["validate"]) == 0
    assert capsys.readouterr().out == "No mistakes in 2 models.\n"


def test_a_plan_of_a_broken_project_tells_all_of_it(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(project, {**FILES, "models/staging/a.sql": "SELECT id, FROM orders\n"})
    for command in (["plan"], ["build"], ["plan", "b", "--explain"]):
        assert run([*command, "--json"]) == 2
        messages = json.loads(capsys.readouterr().out)["errors"]
        assert [(e["code"], e["file"]) for e in messages] == [
            ("SQB-S004", "models/staging/a.sql"),
            ("SQB-S012", "models/staging/b.sql"),
        ]


def test_files_of_every_kind_hide_only_what_depends_on_them(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {
        "sqlbuild_project.toml": f"{TOML}\n[lint]\nno_select_star = 'eror'\n[format]\ncomas = 'leading'\n",
        "selectors.yml": "selectors:\n  - {name: a, definition: {tga: x}}\n",
        "seeds/broken.csv": "id,name\n1\n",
        "seeds/typed.csv": "id\n1\n",
        "seeds/typed.yml": "columns: {idd: int}\n",
        "models/staging/c.sql": "-- @constraint: not_null(nothing)\nSELECT id FROM orders\n",
        "models/staging/d.sql": "SELECT any_of_them FROM broken CROSS JOIN typed\n",
        "models/staging/e.sql": "SELECT id, cast(amount AS decimal(50,2)) AS x FROM orders\n",
        "models/staging/f.sql": "SELECT id, nme FROM orders\n",
        "models/staging/g.sql": "SELECT name FROM raw.prices\n",
        "tests/t.yml": "tests:\n  - {name: t, modle: a}\n",
        "exposures/e.yml": "exposures:\n  - {name: e, ulr: x, depends_on: [raw.prices]}\n",
        "sources/s.yml": "sources:\n  - {name: raw.prices, path: 'x/*.csv', formt: csv}\n",
    }
    write(project, files)
    assert run(["validate", "--json"]) == 2
    messages = [(e["code"], e["file"]) for e in json.loads(capsys.readouterr().out)["errors"]]
    assert sorted(set(messages)) == [
        ("SQB-K004", "models/staging/c.sql"),
        ("SQB-P002", "exposures/e.yml"),
        ("SQB-P002", "seeds/typed.yml"),
        ("SQB-P002", "sources/s.yml"),
        ("SQB-P002", "sqlbuild_project.toml"),
        ("SQB-P002", "tests/t.yml"),
        ("SQB-P003", "selectors.yml"),
        ("SQB-P003", "sqlbuild_project.toml"),
        ("SQB-P004", "tests/t.yml"),
        ("SQB-P011", "seeds/broken.csv"),
        ("SQB-S004", "models/staging/e.sql"),
        ("SQB-S006", "models/staging/a.sql"),
        ("SQB-S006", "models/staging/f.sql"),
        ("SQB-S012", "models/staging/b.sql"),
    ]


def test_a_broken_model_makes_no_mistakes_of_what_is_right(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    header = "-- @kind: append\n-- @lookups: b\n"
    given = "given: {orders: [{id: 1}], b: [{id: 1}]}, expect: [{id: 1}]"
    files = {
        "models/staging/a.sql": f"{header}WITH x AS (SELECT id FROM orders) SELECT id, FROM x LEFT JOIN b USING (id)\n",
        "models/staging/b.sql": "-- @kind: merge\n-- @unique_key: id\n-- @nope: 1\nSELECT id FROM orders\n",
        "models/staging/c.sql": "SELECT a.id, b.id AS other FROM a, b\n",
        "tests/t.yml": f"tests:\n  - {{name: a, model: a, {given}, expect_ctes: {{x: []}}}}\n"
        "  - {name: b, model: b, given: {orders: []}, expect: []}\n"
        "  - {name: c, model: c, given: {a: [], orders: []}, expect: []}\n",
        "exposures/e.yml": "exposures:\n  - {name: e, depends_on: [{a: [id]}, b]}\n",
    }
    write(project, files)
    assert run(["validate", "--json"]) == 2
    errors = json.loads(capsys.readouterr().out)["errors"]
    assert [(e["code"], e["file"], e["line"]) for e in errors] == [
        ("SQB-S004", "models/staging/a.sql", 3),
        ("SQB-P002", "models/staging/b.sql", 3),
        ("SQB-R002", "tests/t.yml", 4),
    ]


@pytest.mark.parametrize("other", ["", "- {name: u, model: c, given: {nothing: []}, expect: []}\n"])
def test_unit_tests_of_a_model_that_cannot_be_read_are_no_mistakes(
    project: Path, capsys: pytest.CaptureFixture[str], other: str
) -> None:
    test = f"tests:\n- {{name: t, model: a, given: {{raw.there: [{{id: 1}}]}}, expect: [{{id: 1}}]}}\n{other}"
    files = {
        "sources/raw.yml": "sources: [{name: raw.there}]\n",
        "seeds/broken.csv": "id,name\n1\n",
        "models/staging/a.sql": "SELECT id FROM raw.there\n",
        "models/staging/b.sql": "SELECT 1 AS x\n",
        "models/staging/c.sql": "SELECT id FROM orders\n",
        "tests/t.yml": test,
    }
    write(project, {**FILES, **files})
    assert run(["validate", "--json"]) == 2
    messages = [(e["code"], e["file"], e["line"]) for e in json.loads(capsys.readouterr().out)["errors"]]
    assert messages == [
        ("SQB-R002", "models/staging/a.sql", 1),
        ("SQB-P011", "seeds/broken.csv", 2),
        *([("SQB-R002", "tests/t.yml", 3)] if other else []),
    ]
