"""`sqb lint`: rules, their severities and places, and rules of one's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sqb.cli.main import run
from unit.folders import TOML, write

SEED = {"seeds/orders.csv": "id,amount\n1,2\n"}


def lint(
    root: Path, capsys: pytest.CaptureFixture[str], settings: str, models: dict[str, str]
) -> list[tuple[object, ...]]:
    """Rules with their severities and places in the models of a project."""
    files = {f"models/{name}.sql": text for name, text in models.items()}
    write(root, {**SEED, "sqlbuild_project.toml": f"{TOML}\n{settings}", **files})
    code = run(["lint", "--json", "--project-dir", str(root)])
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert code == int(any(f["severity"] == "error" for f in findings))
    return [(f["rule"], f["severity"], f["line"], f["column"]) for f in findings]


@pytest.mark.parametrize(
    ("settings", "sql", "matches"),
    [
        ("", "SELECT id FROM orders ORDER BY id", [("order_by_without_limit", "warning", 1, 23)]),
        ("", "SELECT id FROM orders ORDER BY id LIMIT 3", []),
        ("", "-- @kind: view\nSELECT id FROM orders ORDER BY id", []),
        ("", "SELECT row_number() OVER (ORDER BY id) AS n FROM orders", []),
        ('[lint]\norder_by_without_limit = "off"', "SELECT id FROM orders ORDER BY id", []),
        ("", "SELECT a.id FROM orders a LEFT JOIN orders b", [("join_without_condition", "warning", 1, 27)]),
        ("", "SELECT a.id FROM orders a CROSS JOIN orders b", []),
        ("", "SELECT a.id FROM orders a JOIN orders b USING (id)", []),
        ("", "SELECT a.id FROM orders a JOIN (SELECT 1 AS x) b ON true", []),
        ("", "SELECT a.id FROM orders a JOIN orders b JOIN orders c ON b.id = c.id ON a.id = b.id", []),
        ('[lint]\nno_select_star = "error"', "SELECT * FROM orders", [("no_select_star", "error", 1, 8)]),
        ('[lint]\nno_select_star = "error"', "SELECT 1 AS x, o.* FROM orders o", [("no_select_star", "error", 1, 16)]),
        ('[lint]\nno_select_star = "error"', "SELECT count(*) AS n, 2 * amount AS b FROM orders GROUP BY 2", []),
        ('[lint]\nno_select_star = "error"', "WITH a AS (SELECT id FROM orders) SELECT * FROM a", []),
        ('[lint]\nowner_required = "error"', "-- @owner: finance\nSELECT id FROM orders", []),
        ('[lint]\nowner_required = "error"', "SELECT id FROM orders", [("owner_required", "error", None, None)]),
        (
            '[lint]\ndescription_required = "warning"',
            "SELECT 1 AS a",
            [("description_required", "warning", None, None)],
        ),
        ('[lint]\nchecks_required = "warning"', "-- @constraint: not_null(id)\nSELECT id FROM orders", []),
        ('[lint.model_name]\npattern = "stg_.*"', "SELECT 1 AS a", [("model_name", "error", None, None)]),
        (
            '[lint.column_name]\npattern = "[a-z]+"',
            "SELECT id AS ID2 FROM orders",
            [("column_name", "error", None, None)],
        ),
        ('[lint.model_name]\npattern = "stg_.*"\npaths = ["models/staging/**"]', "SELECT 1 AS a", []),
        ('[lint.model_name]\npattern = "stg_.*"\nexclude = ["models/marts/**"]', "SELECT 1 AS a", []),
    ],
)
def test_rules(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], settings: str, sql: str, matches: list[tuple[object, ...]]
) -> None:
    assert lint(tmp_path, capsys, settings, {"marts/a": sql}) == matches


def test_hints_are_written_as_the_model_writes_its_header(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    models = {"models/a.sql": "SELECT 1 AS a", "models/b.sql": "MODEL (kind view);\nSELECT 1 AS a"}
    write(tmp_path, {**SEED, **models, "sqlbuild_project.toml": f'{TOML}\n[lint]\nowner_required = "error"\n'})
    assert run(["lint", "--json", "--project-dir", str(tmp_path)]) == 1
    assert [f["hint"] for f in json.loads(capsys.readouterr().out)["findings"]] == [
        "write `-- @owner: team` at its top",
        "write `owner team` in its MODEL block",
    ]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id FROM orders ORDER BY id -- sqb: ignore order_by_without_limit",
        "SELECT id FROM orders\n-- sqb: ignore\nORDER BY id",
    ],
)
def test_comments_silence_rules(tmp_path: Path, capsys: pytest.CaptureFixture[str], sql: str) -> None:
    assert lint(tmp_path, capsys, "", {"marts/a": sql}) == []


def test_a_comment_about_another_rule_silences_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sql = "SELECT id FROM orders ORDER BY id -- sqb: ignore no_select_star"
    assert len(lint(tmp_path, capsys, "", {"marts/a": sql})) == 1


def test_rules_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = (
        'import sqb\n\n@sqb.lint_rule(severity="error")\ndef no_ids(model):\n'
        '    if "id" in model.sql:\n        yield "an id", "id"\n'
    )
    write(tmp_path, {"lint/mine.py": own})
    assert lint(tmp_path, capsys, "", {"marts/a": "SELECT id FROM orders"}) == [("no_ids", "error", 1, 8)]
    assert lint(tmp_path, capsys, '[lint]\nno_ids = "off"', {"marts/a": "SELECT id FROM orders"}) == []


def test_a_rule_that_fails_is_told_with_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = "import sqb\n\n@sqb.lint_rule\ndef broken(model):\n    return 1 / 0\n"
    write(tmp_path, {**SEED, "models/a.sql": "SELECT 1 AS a", "lint/mine.py": own})
    assert run(["lint", "--project-dir", str(tmp_path)]) == 2
    assert "lint/mine.py:5:1: the rule broken failed on default.a: ZeroDivisionError" in capsys.readouterr().err


def test_wrong_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = '[lint]\nno_selectstar = "error"\nowner_required = "loud"\n[lint.model_name]\npattern = "("\n'
    settings += "[lint.column_name]\n"
    write(tmp_path, {"models/a.sql": "SELECT 1 AS a", "sqlbuild_project.toml": f"{TOML}\n{settings}"})
    assert run(["lint", "--project-dir", str(tmp_path)]) == 2
    messages = capsys.readouterr().err
    assert "unknown key `no_selectstar` in [lint]" in messages and "did you mean 'no_select_star'?" in messages
    assert "`owner_required` must be one of error, warning, off" in messages
    assert "`pattern` must be a regular expression" in messages and "[lint.column_name] needs a `pattern`" in messages


def test_lines_and_sarif(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(write(tmp_path, {**SEED, "models/a.sql": "SELECT id FROM orders\nORDER BY id"}))
    assert run(["lint"]) == 0
    assert capsys.readouterr().out.splitlines()[:3] == [
        "warning[order_by_without_limit]: models/a.sql:2:1: "
        "ORDER BY without LIMIT sorts rows that a table does not keep in order",
        "  2 | ORDER BY id",
        "    | ^^^^^^^^",
    ]
    assert run(["lint", "--format", "sarif", "a"]) == 0
    [result] = json.loads(capsys.readouterr().out)["runs"][0]["results"]
    assert (result["ruleId"], result["level"]) == ("order_by_without_limit", "warning")
