"""The files behind checks: golden files and audits of one's own, as a project has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqb.checks.parse import CheckReader, read_check
from sqb.compile.check_files import build_checks_reader
from sqb.errors.base import Errors
from sqb.errors.project import BadAudit, BadSeed, GoldenMissing
from sqb.project.files import read_stamps
from sqb.project.seeds import read_golden
from sqb.sql.analysis.parse import list_expression_columns, read_query
from sqb.sql.analysis.query import QueryProblem
from sqb.sql.text.expand import ExpansionContext
from support.checks import written

NO_WORDS = ExpansionContext({}.get, {}.get, {}.get)


def project(folder: Path, **files: str) -> tuple[CheckReader, Errors]:
    for path, text in files.items():
        file = folder / path.replace("__", "/").replace("_csv", ".csv").replace("_sql", ".sql").replace("_yml", ".yml")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    errors = Errors()
    (folder / "sqlbuild_project.toml").touch()
    return build_checks_reader(
        folder, read_stamps(folder), NO_WORDS, read_query, list_expression_columns, errors
    ), errors


def test_a_golden_file_is_read_by_the_rules_of_seeds(tmp_path: Path) -> None:
    reader, errors = project(
        tmp_path, golden__g_csv="id;v\n1;NA\n2;x\n", golden__g_yml='delimiter: ";"\nnull_values: [NA]\n'
    )
    check = read_check("audit", written("golden(golden/g.csv)"), reader, errors)
    errors.raise_any()
    assert check is not None
    assert (check.columns, check.files) == (("id", "v"), ("golden/g.csv",))
    golden = read_golden(tmp_path, "golden/g.csv")
    assert (golden.columns, golden.rows) == (("id", "v"), (("1", None), ("2", "x")))
    (tmp_path / "golden/g.csv").write_text("id;v\n2;x\n1;NA\n")
    assert read_golden(tmp_path, "golden/g.csv").content_hash == golden.content_hash


def test_a_golden_file_that_is_missing_or_wrong(tmp_path: Path) -> None:
    reader, errors = project(tmp_path, golden__revenue_csv="id,id\n1,2\n", seeds__s_csv="a\n1\n")
    for text in ("golden(golden/revenu.csv)", "golden(seeds/s.csv)", "golden('golden/revenue.csv')"):
        assert read_check("audit", written(text), reader, errors) is None
    missing, elsewhere, wrong = errors.found
    assert (type(missing), type(elsewhere), type(wrong)) == (GoldenMissing, GoldenMissing, BadSeed)
    assert (str(missing.at), missing.hint) == ("models/m.sql:1:17", "did you mean golden/revenue.csv?")
    assert "in golden/" in (elsewhere.hint or "")
    assert str(wrong.at) == "golden/revenue.csv:1:4"


def test_audits_that_nobody_calls_are_checked_too(tmp_path: Path) -> None:
    reader, errors = project(tmp_path, audits__a_sql="SELECT * FROM @@this WHERE n > @@most", audits__b_sql="SELECT (1")
    assert set(reader.audits) == {"a", "b"}
    (error,) = errors.found
    assert isinstance(error, BadAudit)
    assert error.at is not None and error.at.file == "audits/b.sql"


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("a > 0", {"a"}),
        ("`my column` IS NULL OR A.b.c = 1", {"my column", "A"}),
        ("transform(l, (x, i) -> x + i + a)[0] = 1", {"l", "a"}),
        ("status IN ('a') AND current_date() > day", {"status", "day"}),
        ("CASE WHEN a THEN b ELSE c END", {"a", "b", "c"}),
        ("1 = 1", set()),
        (
            "greatest(a, b) > 0 AND aggregate(l, 0, (s, x) -> s + x) > 0 AND size(filter(l, x -> x > 0)) = 1",
            {"a", "b", "l"},
        ),
        ("a > 0 -- always", {"a"}),
    ],
)
def test_columns_of_expressions(text: str, columns: set[str]) -> None:
    assert set(list_expression_columns(text)) == columns


@pytest.mark.parametrize(
    "text", ["", "a >", "a) OR (b", "a > 0; b", "EXISTS (SELECT 1 FROM t)", "@@x > 0", "'a", "max(a) > 0"]
)
def test_no_expressions(text: str) -> None:
    with pytest.raises(QueryProblem):
        list_expression_columns(text)
