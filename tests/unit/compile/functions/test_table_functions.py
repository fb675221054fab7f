"""Table functions in projects: what reads them, what they are to the plan, and what is wrong with them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sqb.build.node.render import build_live_names, render_query
from sqb.build.observe.sources import read_function_versions
from sqb.build.unit_tests.execute import strip_arguments
from sqb.cache import codec
from sqb.compile.model import Project
from sqb.inspect.lineage import trace_project
from sqb.names import At
from sqb.plan.decide import make_plan
from sqb.plan.freshness import build_source_version
from sqb.plan.model import Plan, Reason
from sqb.plan.observed import Observed, RelationState, list_inputs, list_versions_read, record_sources
from sqb.plan.recorded.commit_identity import CommitIdentity
from unit.compile.test_project import compiled, hint, problems
from unit.folders import write

REPORT = """\
from sqb import table_function

@table_function(schema="id bigint, day date")
def gam_report(day: str, pages: int = 1):
    yield 1, day
"""
VERSIONED = """\
from pathlib import Path
from sqb import table_function

def latest():
    return Path("version.txt").read_text()

@table_function("id bigint, day date", version=latest)
def gam_report(day, pages=1):
    yield 1, day
"""
FILES = {
    "functions/gam.py": REPORT,
    "models/report.sql": "SELECT g.id, g.day\nFROM gam_report('2026-01-01') AS g",
    "models/below.sql": "SELECT id FROM report",
    "models/other.sql": "SELECT 1 AS a",
}


def model(tmp_path: Path, sql: str, function: str = REPORT, **more: str) -> Any:
    return compiled(tmp_path, {"functions/gam.py": function, "models/m.sql": sql, **more}).nodes["default.m"]


def decorated(options: str, body: str = "def f(): yield 1") -> str:
    return f"from sqb import table_function\n\n@table_function({options})\n{body}\n"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM gam_report('2026-01-01')",
        "SELECT * FROM `gam_report`('2026-01-01') AS g(a, b)",
        "SELECT * FROM GAM_REPORT(day => '2026-01-01', pages => 2)",
        "SELECT * FROM (SELECT 1 AS a) AS t JOIN gam_report('x') AS g ON t.a = g.id",
        "SELECT * FROM (SELECT 'x' AS d) AS t, LATERAL gam_report(t.d) AS g",
        "SELECT * FROM (SELECT 'x' AS d) AS t LEFT JOIN LATERAL gam_report(t.d) AS g ON true",
        "WITH g AS (SELECT * FROM gam_report('x')) SELECT * FROM g",
        "SELECT (SELECT max(id) FROM gam_report('x')) AS m",
        "SELECT 1 AS a WHERE EXISTS (SELECT 1 FROM gam_report('x'))",
        "SELECT id FROM gam_report('x') UNION ALL SELECT 2",
        "SELECT * FROM gam_report('x') QUALIFY row_number() OVER (ORDER BY id) = 1",
        "FROM gam_report('x') |> WHERE id > 1",
    ],
)
def test_a_table_function_is_a_source_wherever_a_table_may_stand(tmp_path: Path, sql: str) -> None:
    node = model(tmp_path, sql)
    assert node.upstream == ("gam_report",)
    assert [name for name, _ in node.table_calls] == ["gam_report"]
    assert node.volatile == ("gam_report",)
    assert set(node.functions) == {"gam_report"}


def test_its_arguments_stay_as_they_are_written(tmp_path: Path) -> None:
    project = compiled(tmp_path, {**FILES, "models/a.sql": "SELECT * FROM Gam_Report( concat('a', ')') ) AS g"})
    assert render_query(project.nodes["default.a"], build_live_names(project, "lake", {})).sql == (
        "SELECT * FROM `gam_report`( concat('a', ')') ) AS g"
    )


def test_a_model_and_a_table_function_of_one_name_are_told_apart_by_the_brackets(tmp_path: Path) -> None:
    files = {**FILES, "models/gam_report.sql": "SELECT 2 AS id", "models/a.sql": "SELECT 1 AS x FROM gam_report"}
    both = "SELECT g.id FROM gam_report('x') AS g JOIN default.gam_report AS m ON m.id = g.id"
    project = compiled(tmp_path, {**files, "models/both.sql": both})
    assert project.nodes["default.a"].upstream == ("default.gam_report",)
    assert project.nodes["default.both"].upstream == ("default.gam_report", "gam_report")


def test_it_is_no_function_where_a_cte_has_its_name(tmp_path: Path) -> None:
    assert model(tmp_path, "WITH gam_report(a) AS (SELECT 1) SELECT a FROM gam_report").upstream == ()


def test_its_columns_are_known(tmp_path: Path) -> None:
    project = compiled(tmp_path, {**FILES, "models/star.sql": "SELECT *, id + 1 AS more FROM gam_report('x')"})
    graph = trace_project(project, lambda name: None)
    assert list(graph.tables["gam_report"].columns) == ["id", "day"]
    assert graph.tables["gam_report"].kind == "table function"
    assert dict(graph.tables["default.star"].columns) == {
        "id": (("gam_report", "id"),),
        "day": (("gam_report", "day"),),
        "more": (("gam_report", "id"),),
    }


def test_what_it_is_given_decides_about_rows(tmp_path: Path) -> None:
    files = {"models/days.sql": "SELECT '2026-01-01' AS d"}
    sql = "SELECT g.id FROM days, LATERAL gam_report(days.d) AS g"
    traced = trace_project(compiled(tmp_path, {**FILES, **files, "models/m.sql": sql}), lambda name: None).tables[
        "default.m"
    ]
    assert dict(traced.columns) == {"id": (("gam_report", "id"),)}
    assert traced.rows_from == (("default.days", "d"),)


def test_the_project_goes_to_the_cache_and_back(tmp_path: Path) -> None:
    project = compiled(tmp_path, {**FILES, "functions/gam.py": VERSIONED})
    again = codec.decode(Project, codec.encode(project))
    assert again == project
    function = again.sources["gam_report"].function
    assert function is not None and function.versioned
    assert function.columns == (("id", "BIGINT"), ("day", "DATE"))
    assert again.nodes["default.report"].table_calls == (("gam_report", At("models/report.sql", 2, 6, 10)),)


def test_its_source_is_part_of_the_identity_of_its_readers(tmp_path: Path) -> None:
    before = {n.name: n.local_hash for n in compiled(tmp_path, FILES)}
    after = compiled(tmp_path, {**FILES, "functions/gam.py": REPORT.replace("yield 1", "yield 2")})
    assert {n.name for n in after if before[n.name] != n.local_hash} == {"default.report"}
    layout = compiled(tmp_path, {**FILES, "functions/gam.py": REPORT.replace("    yield", "    # rows\n    yield")})
    assert {n.name: n.local_hash for n in layout} == before


# --- planning ---------------------------------------------------------------------------------------------------------


def built(project: Project, versions: dict[str, RelationState]) -> Observed:
    """The world in which every node was built from these versions."""
    relations = {project.sources[name].relation: current for name, current in versions.items()}
    for node in project:
        identity = CommitIdentity(
            local_hash=node.local_hash,
            query_hash=node.query_hash,
            config_hash=node.config_hash,
            sources=record_sources(list_versions_read(node, project, relations)),
        )
        relations[node.relation] = RelationState(identity=identity)
    return Observed(relations)


def build_plan(project: Project, observed: Observed, value: str) -> Plan:
    relation = project.sources["gam_report"].relation
    moved = {**observed.relations, relation: RelationState(version=build_source_version(value))}
    return make_plan(project, replace(observed, relations=moved))


def reasons(plan: Plan) -> dict[str, str]:
    return {n.name: f"{n.reason}: {n.detail}" if n.detail else str(n.reason) for n in plan.nodes}


def test_without_a_version_its_readers_are_as_of_their_last_run_and_say_so(tmp_path: Path) -> None:
    project = compiled(tmp_path, FILES)
    plan = make_plan(project, built(project, {}))
    assert plan.nothing_to_do
    node = next(n for n in plan.nodes if n.name == "default.report")
    assert node.notices == (
        "uses gam_report(): its rows are as of its last run, and time alone does not make it run again",
    )
    assert node.incremental == {"class": "opaque", "why": "gam_report() is a table function (models/report.sql:2:6)"}


def test_readers_run_when_the_version_moved_and_only_then(tmp_path: Path) -> None:
    project = compiled(tmp_path, {**FILES, "functions/gam.py": VERSIONED})
    observed = built(project, {"gam_report": RelationState(version=build_source_version("17"))})
    assert build_plan(project, observed, "17").nothing_to_do
    assert reasons(build_plan(project, observed, "18")) == {
        "default.below": "Upstream changed: default.report runs; if its output changes",
        "default.other": "Normal",
        "default.report": "Source changed: gam_report 17 → 18",
    }
    assert [n.notices for n in build_plan(project, observed, "18").nodes] == [(), (), ()]


def test_readers_of_what_does_not_tell_its_version_are_blocked(tmp_path: Path) -> None:
    project = compiled(tmp_path, {**FILES, "functions/gam.py": VERSIONED})
    observed = built(project, {"gam_report": RelationState(version=build_source_version("17"))})
    plan = make_plan(
        project, replace(observed, unversioned={"gam_report": "the version of gam_report() is unknown: OSError"})
    )
    assert {n.name: n.action for n in plan.nodes} == {
        "default.report": "blocked",
        "default.below": "blocked",
        "default.other": "skip",
    }
    assert next(n for n in plan.nodes if n.name == "default.report").reason is Reason.SOURCE_UNKNOWN


def test_a_function_that_begins_to_tell_its_version_runs_its_readers(tmp_path: Path) -> None:
    project = compiled(tmp_path, FILES)
    observed = built(project, {})
    project = compiled(tmp_path, {**FILES, "functions/gam.py": VERSIONED})
    assert reasons(build_plan(project, observed, "1"))["default.report"].startswith(
        "Function changed: function gam_report"
    )


def test_inputs_are_named_by_the_function(tmp_path: Path) -> None:
    project = compiled(tmp_path, FILES)
    assert [i.key for i in list_inputs(project.nodes["default.report"], project)] == ["source gam_report"]


# --- versions ---------------------------------------------------------------------------------------------------------


def version_of(tmp_path: Path, version: str, wait: float = 30.0) -> str:
    text = decorated(f'"id bigint", version={version}')
    project = compiled(tmp_path, {"functions/a.py": text, "version.txt": "1"})
    answer = read_function_versions(tmp_path, [project.sources["f"]], wait)["f"]
    return answer.get("version") or f"error: {answer['error']}"


@pytest.mark.parametrize(
    ("version", "text"),
    [
        ("lambda: 17", "17"),
        ("lambda: '2026-01-01'", "2026-01-01"),
        ("lambda: __import__('datetime').date(2026, 1, 2)", "2026-01-02"),
        ("lambda: 1.5", "1.5"),
        ("lambda: {'b': [1, None], 'a': 'ä'}", '{"a":"ä","b":[1,null]}'),
        ("lambda: open('version.txt').read()", "1"),
        ("lambda: 'x' * 500", f"{'x' * 40}… c38c2bf3055c516a"),
        ("lambda: print('hello') or 3", "3"),
        ("lambda: None", "error: TypeError: a version is a text, a number, a date or JSON, and this is None"),
        ("lambda: 1 / 0", "error: ZeroDivisionError: division by zero (functions/a.py:3)"),
        ("lambda: __import__('sys').exit(3)", "error: SystemExit: 3 (functions/a.py:3)"),
        ("lambda: __import__('os')._exit(3)", "error: its process ended without an answer (exit code 3)"),
    ],
)
def test_a_version_is_a_short_text_or_a_reason(tmp_path: Path, version: str, text: str) -> None:
    assert version_of(tmp_path, version) == text


def test_a_version_that_takes_too_long_is_not_waited_for(tmp_path: Path) -> None:
    of = version_of(tmp_path, "lambda: __import__('time').sleep(60)", 1.0)
    assert of == "error: it takes longer than 1 seconds"


def test_a_file_that_cannot_be_run_tells_no_versions(tmp_path: Path) -> None:
    project = compiled(tmp_path, {"functions/a.py": decorated('"id bigint", version=lambda: 1')})
    write(tmp_path, {"functions/a.py": "import nothing_of_this_name"})
    answer = read_function_versions(tmp_path, [project.sources["f"]])["f"]
    assert answer["error"].startswith(
        "ModuleNotFoundError: No module named 'nothing_of_this_name' (functions/a.py:1:1)"
    )


# --- unit tests of models ---------------------------------------------------------------------------------------------


def test_given_rows_stand_for_the_function_whatever_it_is_given(tmp_path: Path) -> None:
    files = {**FILES, "models/days.sql": "SELECT 'x' AS d"}
    sql = "SELECT g.id FROM gam_report((SELECT max(d) FROM days), pages => 1) AS g JOIN days ON true"
    node = strip_arguments(compiled(tmp_path, {**files, "models/m.sql": sql}).nodes["default.m"])
    rendered = render_query(node, lambda name: f"<{name}>")
    assert " ".join(rendered.sql.split()) == "SELECT g.id FROM <gam_report> AS g JOIN <default.days> AS `days` ON true"


# --- what is wrong ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "body", "message", "hint_text"),
    [
        ("", "def f(): yield 1", "f does not declare its columns", "schema="),
        ("schema=COLUMNS", "def f(): yield 1", "`schema` must be a plain text", "schema="),
        ('"id bigint, day"', "def f(): yield 1", '"id bigint, day" is not a list of columns', "id bigint, day date"),
        ('"a int, A int"', "def f(): yield 1", 'the column "A" is there twice', "case"),
        ('"a int", "b"', "def f(): yield 1", "only the schema may be given without a name", "schema="),
        ('"a int", shema="b"', "def f(): yield 1", "@table_function takes no shema", "did you mean 'schema'?"),
        ('"a int", name="a b"', "def f(): yield 1", "`name` must be a plain text", "letters"),
        ('"a int", name="range"', "def f(): yield 1", "range is a function of Spark's own", "my_range"),
        ('"a int", name="explode"', "def f(): yield 1", "explode is a function of Spark's own", "my_explode"),
        ('"a int", version=1', "def f(): yield 1", "`version` must be a function", "without arguments"),
        ('"a int", version=lambda x: x', "def f(): yield 1", "`version` is called without arguments", "latest_day"),
        ('"a int", **MORE', "def f(): yield 1", "takes no **arguments", "schema="),
        ('"a int"', "class F: pass", "F has no method eval", "def eval(self, …)"),
        (
            '"a int"',
            "class F:\n    def eval(self): yield 1\n    def analyze(): pass",
            "F says its columns twice",
            "remove `analyze`",
        ),
        ('"a int"', "async def f(): yield 1", "f is asynchronous", ""),
    ],
)
def test_declarations_that_cannot_be(tmp_path: Path, options: str, body: str, message: str, hint_text: str) -> None:
    files = {"functions/a.py": decorated(options, body), "models/m.sql": "SELECT 1 AS a"}
    ((_, at, text_shown),) = problems(tmp_path, files)
    assert message in text_shown and at.startswith("functions/a.py:")
    assert hint_text in (hint(tmp_path, files) or "")


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT gam_report('x') AS a", "models/m.sql:1:8 gam_report is a table function, but is not read as"),
        (
            "SELECT 1 AS a FROM (SELECT 'x' AS d) AS t LATERAL VIEW gam_report(d) g AS i, j",
            "models/m.sql:1:56 gam_report is a table function, but is not read as a table",
        ),
        ("SELECT * FROM gam_report()", "models/m.sql:1:15 gam_report: day is missing"),
        ("SELECT * FROM gam_report('x', page => 1)", "models/m.sql:1:39 gam_report: it has no parameter page"),
        ("SELECT * FROM gam_report('x', 1, 2)", "models/m.sql:1:34 gam_report: it takes 2 arguments, and is given 3"),
        ("-- @kind: view\nSELECT * FROM gam_report('x')", "models/m.sql:2:15 a view cannot call gam_report"),
    ],
)
def test_calls_that_cannot_be(tmp_path: Path, sql: str, message: str) -> None:
    ((kind, at, text_shown),) = problems(tmp_path, {"functions/gam.py": REPORT, "models/m.sql": sql})
    assert kind == "BadCall" and f"{at} {text_shown}".startswith(message)


def test_a_sql_function_cannot_read_a_table_function(tmp_path: Path) -> None:
    body = "CREATE FUNCTION top() RETURNS BIGINT RETURN (SELECT max(id) FROM gam_report('x'))"
    assert problems(tmp_path, {"functions/gam.py": REPORT, "functions/top.sql": body}) == [
        ("BadCall", "functions/top.sql:1:66", "gam_report is a table function, which only a model can read")
    ]


def test_a_source_and_a_table_function_have_two_names(tmp_path: Path) -> None:
    sources = "sources:\n  - name: gam_report\n    path: data/*.csv\n    format: csv\n"
    messages = problems(tmp_path, {**FILES, "sources/s.yml": sources})
    message = "the table function gam_report is called like the source in sources/s.yml"
    assert ("BadFunction", "functions/gam.py:4:5", message) in messages


def test_what_tells_a_version_is_no_function_of_sql(tmp_path: Path) -> None:
    project = compiled(tmp_path, {**FILES, "functions/gam.py": VERSIONED})
    assert [f.name for f in project.functions] == ["gam_report"]
