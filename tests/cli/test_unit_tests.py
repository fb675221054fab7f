"""`sqb test`, and the unit tests of a build, as people see them. The tests go on from each other."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cli.conftest import Done, Folder, new_project, quiet

MODEL = "SELECT id, name, upper(name) AS loud FROM people"
TESTS = """\
tests:
  - name: loud_names
    model: staging.loud
    given:
      people: [{id: 1, name: ada}, {id: 2}]
    expect:
      - {id: 1, loud: ADA}
      - {id: 2, loud: null}
  - name: nobody
    model: loud
    expect: []
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    return new_project(
        tmp_path_factory.mktemp("project"),
        {
            "sqlbuild_project.toml": 'name = "shop"\n',
            "seeds/people.csv": "id,name\n1,Ada\n",
            "models/staging/loud.sql": MODEL,
            "tests/names.yml": TESTS.replace("loud: ADA", "loud: Ada"),
        },
    )


def test_rows_that_differ_are_shown(project: Folder, sqb_here: Callable[..., Done]) -> None:
    done = sqb_here(project, "test")
    assert done.code == 1 and quiet(done)
    assert sorted(line.partition(" (")[0] for line in done.lines[:-1]) == ["[FAIL] loud_names", "[OK] nobody"]
    assert done.lines[-1].startswith("Done: 1 passed, 1 failed, 0 unchanged (")
    assert done.err.splitlines() == [
        "",
        "error[SQB-T001]: tests/names.yml:2:11: loud_names: staging.loud gave other rows than expected",
        "      id  loud",
        "  -   1   Ada     expected, missing",
        "  +   1   ADA     unexpected: loud differs",
        "      2   NULL",
        "  2 |   - name: loud_names",
        "    |           ^^^^^^^^^^",
        "hint: `sqb test -s staging.loud` runs it again",
    ]


def test_a_build_runs_what_changed_before_the_models(project: Folder, sqb_here: Callable[..., Done]) -> None:
    project.write({"tests/names.yml": TESTS})
    assert project.here("plan").lines[-1] == "Unit tests: 1 to run before the models"
    done = sqb_here(project, "build", "--json")
    assert done.code == 0, done.err
    assert done.document["tests"] == [
        {"name": "loud_names", "model": "staging.loud", "status": "passed", "error": None}
    ]
    assert {n["name"]: n["status"] for n in done.document["nodes"]} == {"seeds.people": "ok", "staging.loud": "ok"}
    message = done.err.splitlines()
    (tests,) = [i for i, line in enumerate(message) if line.startswith("Unit tests: 1 passed (")]
    (model,) = [i for i, line in enumerate(message) if line.startswith("[OK] staging.loud (")]
    assert tests < model


def test_what_passed_is_not_run_again(project: Folder) -> None:
    done = project.here("test", "--json")
    assert [(t["name"], t["status"], t["file"], t["line"]) for t in done.document["tests"]] == [
        ("loud_names", "unchanged", "tests/names.yml", 2),
        ("nobody", "unchanged", "tests/names.yml", 9),
    ]
    summary = done.document["summary"]
    assert (summary["passed"], summary["failed"], summary["unchanged"], summary["spark_started"]) == (0, 0, 2, False)
    assert [line.partition(" (")[0] for line in project.here("test", "-v").lines] == [
        "[OK] loud_names",
        "[OK] nobody",
        "Done: 0 passed, 0 failed, 2 unchanged",
    ]
    assert project.here("test", "-s", "people").lines[0] == "No unit tests of the models selected."
    assert project.here("build").lines[-2] == "Nothing to do: everything is up to date."


def test_a_test_that_was_changed_fails_the_build_and_leaves_the_table(
    project: Folder, sqb_here: Callable[..., Done]
) -> None:
    project.write({"tests/names.yml": TESTS.replace("loud: ADA", "laud: ADA")})
    before = project.lake()
    done = sqb_here(project, "build")
    assert done.code == 1
    assert done.lines[0].startswith("Spark: started (")
    assert done.lines[1].startswith("[FAIL] loud_names (staging.loud, ")
    assert done.lines[-1].startswith("Done: 0 ran, 2 skipped, 0 failed (0 rows, ")
    assert done.err.splitlines()[1:] == [
        'error[SQB-T002]: tests/names.yml:7:9: loud_names: the result of staging.loud: there is no column "laud"',
        "  7 |       - {id: 1, laud: ADA}",
        "    |         ^^^^^^^^^^^^^^^^^^",
        "hint: did you mean 'loud'?",
    ]
    assert project.lake() == before


def test_mistakes_in_the_file_are_errors_of_the_project(project: Folder) -> None:
    with project.with_files({"tests/names.yml": "tests:\n  - {name: a, model: lod, expect: []}\n"}):
        done = project.here("build")
    assert done.code == 2
    assert done.err.splitlines() == [
        'error[SQB-R002]: tests/names.yml:2:22: no model is called "lod"',
        "  2 |   - {name: a, model: lod, expect: []}",
        "    |                      ^^^",
        "hint: did you mean 'loud'?",
    ]
