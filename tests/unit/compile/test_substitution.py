"""`${…}` in what people write: an error where it is code, text with a notice where it is a string."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqb.errors.base import SqbError, flatten
from sqb.errors.project import Substitution
from sqb.plan.decide import make_plan
from sqb.plan.observed import Observed
from sqb.workspace import open_workspace
from unit.folders import write

MODEL = "SELECT 'b' AS k"
CALLS = "SELECT f('x') AS k"
AUDIT = {"audits/own.sql": "SELECT * FROM @@this WHERE k = @@v"}


@pytest.mark.parametrize(
    ("files", "place"),
    [
        ({"models/m.sql": f"-- @audit: check(k <> ${{env:HOME}})\n{MODEL}"}, "models/m.sql:1:12"),
        ({"models/m.sql": f"-- @constraint: in_list(k, ${{env:HOME}})\n{MODEL}"}, "models/m.sql:1:17"),
        ({"models/m.sql": f"-- @warning: own(v => ${{env:HOME}})\n{MODEL}", **AUDIT}, "models/m.sql:1:14"),
        ({"audits/own.sql": "SELECT * FROM @@this\nWHERE k = ${env:HOME}"}, "audits/own.sql:2:11"),
        (
            {"models/m.sql": CALLS, "functions/f.sql": "CREATE FUNCTION f(x STRING) RETURNS STRING RETURN ${env:HOME}"},
            "functions/f.sql:1:51",
        ),
    ],
)
def test_as_code_it_is_an_error_with_its_place(tmp_path: Path, files: dict[str, str], place: str) -> None:
    with pytest.raises(SqbError) as caught:
        open_workspace(write(tmp_path, {"models/m.sql": MODEL, **files}))
    (result,) = flatten(caught.value)
    assert isinstance(result, Substitution) and (str(result.at), result.hint) == (place, "write @@ENV:HOME")


@pytest.mark.parametrize(
    "files",
    [
        {"models/m.sql": f"-- @audit: check(k <> '${{env:HOME}}')\n{MODEL}"},
        {"models/m.sql": f"-- @constraint: in_list(k, '${{env:HOME}}', 'b')\n{MODEL}"},
        {"models/m.sql": f"-- @warning: own(v => '${{env:HOME}}')\n{MODEL}", **AUDIT},
        {
            "models/m.sql": f"-- @audit: own(v => 'x')\n{MODEL}",
            "audits/own.sql": "SELECT * FROM @@this WHERE k = @@v AND k <> '${env:HOME}'",
        },
        {
            "models/m.sql": CALLS,
            "functions/f.sql": "CREATE FUNCTION f(x STRING) RETURNS STRING RETURN concat(x, '${env:HOME}')",
        },
    ],
)
def test_in_a_string_it_is_text_and_the_plan_says_so(tmp_path: Path, files: dict[str, str]) -> None:
    (planned,) = make_plan(open_workspace(write(tmp_path, files)).project, Observed({})).nodes
    assert [n for n in planned.notices if "a string holds ${…}, which is text" in n], planned.notices


@pytest.mark.parametrize(
    "query",
    [
        "expression: SELECT * FROM raw.u WHERE k <> '${env:HOME}'",
        "freshness: {sql: \"SELECT max(n) FROM raw.t WHERE k <> '${env:HOME}'\", type: integer}",
    ],
)
def test_in_a_string_of_a_source_it_is_text_and_the_plan_says_so(tmp_path: Path, query: str) -> None:
    files = {"models/m.sql": "SELECT k FROM raw.t", "sources/raw.yml": f"sources:\n  - name: raw.t\n    {query}\n"}
    plan = make_plan(open_workspace(write(tmp_path, files)).project, Observed({}))
    assert [w for w in plan.warnings if w.startswith("raw.t: a string holds ${…}, which is text")], plan.warnings


def test_data_of_checks_is_no_sql(tmp_path: Path) -> None:
    files = {"models/m.sql": f"-- @audit: golden(golden/g.csv)\n{MODEL}", "golden/g.csv": "k\n'${env:HOME}'\n"}
    (planned,) = make_plan(open_workspace(write(tmp_path, files)).project, Observed({})).nodes
    assert planned.notices == ()


@pytest.mark.parametrize(
    "files",
    [{"models/m${env:HOME}.sql": MODEL}, {"models/m.sql": f"-- @alias: m${{env:HOME}}\n{MODEL}"}],
)
def test_no_relation_of_the_project_has_it_in_its_name(tmp_path: Path, files: dict[str, str]) -> None:
    with pytest.raises(SqbError, match="cannot be the name of a relation"):
        open_workspace(write(tmp_path, files))
