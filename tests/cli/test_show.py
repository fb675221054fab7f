"""`sqb show` and `sqb query` on Spark: rows of what is built, of what is not, and of what changed since."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pyarrow import parquet

from cli.conftest import Done, Folder, new_project, quiet

FILES = {
    "sqlbuild_project.toml": 'name = "shop"\n',
    "seeds/people.csv": "id,name\n1,Ada\n2,Grace\n",
    "seeds/visits.csv": "id,day,person\n1,2026-01-01,1\n2,2026-01-02,2\n",
    "models/staging/names.sql": "MODEL (kind view);\nSELECT id, upper(name) AS name FROM people",
    "models/staging/visits_by.sql": "SELECT person, count(*) AS visits FROM visits GROUP BY person",
    "models/marts/report.sql": "SELECT n.name, v.visits FROM names n JOIN visits_by v ON v.person = n.id ORDER BY 1",
    "models/marts/days.sql": (
        "MODEL (kind incremental, cursor day, unique_key id);\n"
        "SELECT id, day, person FROM visits WHERE day >= __cursor_start()"
    ),
}
Run = Callable[..., Done]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return new_project(tmp_path / "shop", FILES)


def read_rows(done: Done) -> list[dict[str, object]]:
    assert done.code == 0, done.err
    rows: list[dict[str, object]] = json.loads(done.out)["rows"]
    return rows


def test_rows_of_what_is_not_built(folder: Folder, sqb_here: Run) -> None:
    done = sqb_here(folder, "show", "report")
    assert done.code == 0 and quiet(done), done.err
    assert done.lines[:4] == ["name   visits", "-----  ------", "ADA    1", "GRACE  1"]
    assert not (folder.root / "lake" / "data" / "marts").exists()
    inline = "SELECT visits, count(*) AS people FROM report GROUP BY 1"
    assert read_rows(sqb_here(folder, "show", "--inline", inline, "--json")) == [{"visits": 1, "people": 2}]
    query = sqb_here(folder, "query", "SELECT * FROM report")
    assert query.code == 2 and "marts.report is not built" in query.err


def test_changes_that_are_not_built_are_included(folder: Folder, sqb_here: Run) -> None:
    assert sqb_here(folder, "build").code == 0
    # What is current is read as it is.
    assert read_rows(sqb_here(folder, "show", "report", "--json"))[0] == {"name": "ADA", "visits": 1}
    before = folder.lake()
    folder.write(
        {
            "seeds/people.csv": "id,name\n1,Ada\n2,Grace\n3,Edith\n",
            "models/staging/visits_by.sql": "SELECT person, 10 * count(*) AS visits FROM visits GROUP BY person",
        }
    )
    assert read_rows(sqb_here(folder, "show", "report", "--json")) == [
        {"name": "ADA", "visits": 10},
        {"name": "GRACE", "visits": 10},
    ]
    assert len(read_rows(sqb_here(folder, "show", "names", "--json"))) == 3
    # A query reads what is built.
    assert read_rows(sqb_here(folder, "query", "SELECT max(visits) AS m FROM visits_by", "--json")) == [{"m": 1}]
    assert folder.lake() == before


def test_the_next_window_of_an_incremental_model(folder: Folder, sqb_here: Run) -> None:
    assert len(read_rows(sqb_here(folder, "show", "days", "--json"))) == 2
    assert sqb_here(folder, "build").code == 0
    folder.write({"seeds/visits.csv": f"{FILES['seeds/visits.csv']}3,2026-01-03,1\n"})
    done = sqb_here(folder, "show", "days", "--next-window")
    assert done.code == 0, done.err
    assert [line.split()[0] for line in done.lines[2:4]] == ["2", "3"]
    assert "note: the window [2026-01-02" in done.out
    window = ("--start-cursor", "2026-01-01", "--end-cursor", "2026-01-02", "--json")
    assert [row["id"] for row in read_rows(sqb_here(folder, "show", "days", *window))] == [1]
    wrong = sqb_here(folder, "show", "report", "--next-window")
    assert wrong.code == 2 and "marts.report has no windows: its kind is table" in wrong.err


def test_forms_of_rows(folder: Folder, sqb_here: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sqb_here(folder, "build", "-s", "people").code == 0
    sql = "SELECT id, name, NULL AS nothing, array(id) AS ids FROM people ORDER BY id"
    assert sqb_here(folder, "query", sql, "--csv").lines == [
        "id,name,nothing,ids",
        "1,Ada,,[1]",
        "2,Grace,,[2]",
    ]
    folder.write({"q.sql": f"-- all of them\n{sql};\n"})
    assert len(sqb_here(folder, "query", "q.sql", "--csv").lines) == 3
    done = sqb_here(folder, "query", "-f", "q.sql", "-o", "people.parquet")
    assert done.code == 0 and done.out.startswith("Wrote 2 rows to people.parquet (")
    assert parquet.read_table(folder.root / "people.parquet").column("name").to_pylist() == ["Ada", "Grace"]
    assert sqb_here(folder, "query", sql, "-o", "people.csv").code == 0
    assert (folder.root / "people.csv").read_text() == "id,name,nothing,ids\n1,Ada,,[1]\n2,Grace,,[2]\n"
    cut = sqb_here(folder, "query", "SELECT id FROM people", "--limit", "1")
    assert cut.lines[-1].startswith("(1 row, the first of more: --limit N shows more, ")
    assert sqb_here(folder, "query", sql, "--vertical").lines[1] == "id      | 1"
