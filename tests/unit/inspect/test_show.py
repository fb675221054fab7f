"""What `sqb show` runs: tables as they are, and queries of what is not built in the places of its tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqb.build.observe.lake import observe_lake
from sqb.errors.call import NotBuilt
from sqb.inspect.show import UnbuiltTables, list_stale_nodes
from sqb.lake.open import open_lake
from sqb.plan.decide import make_plan
from sqb.workspace import open_workspace
from unit.folders import write

FILES = {
    "seeds/people.csv": "id,name\n1,Ada\n",
    "seeds/places.csv": "id,place\n1,London\n",
    "models/staging/names.sql": "MODEL (kind view);\nSELECT id, name FROM people",
    "models/staging/both.sql": "SELECT n.id FROM names n JOIN places USING (id)",
    "models/marts/top.sql": "WITH x AS (SELECT id FROM both) SELECT x.id FROM x JOIN names USING (id) ORDER BY 1",
    "models/marts/hist.sql": "MODEL (kind scd2, unique_key id);\nSELECT id, name FROM people",
    "models/marts/reads_hist.sql": "SELECT id FROM hist",
}


def read_tables(root: Path) -> UnbuiltTables:
    workspace = open_workspace(root)
    seen = observe_lake(workspace, open_lake(workspace))
    return UnbuiltTables(workspace, seen, list_stale_nodes(make_plan(workspace.project, seen.observed)))


def test_all_that_is_not_built_is_a_cte_each_after_what_it_reads(tmp_path: Path) -> None:
    tables = read_tables(write(tmp_path, FILES))
    text = tables.add_ctes(f"SELECT * FROM {tables.get_text('marts.top')}")
    assert list(tables.ctes) == ["__sqb_staging__names", "__sqb_staging__both", "__sqb_marts__top"]
    assert set(tables.seeds) == {"__sqb_seeds__people", "__sqb_seeds__places"}
    assert text.startswith("WITH `__sqb_staging__names` AS (\n\nSELECT id, name FROM `__sqb_seeds__people`")
    assert text.endswith("(\nSELECT * FROM `__sqb_marts__top`\n)")
    assert "SELECT n.id FROM `__sqb_staging__names` n JOIN `__sqb_seeds__places`" in tables.ctes["__sqb_staging__both"]


def test_what_is_built_and_current_is_read_at_its_version(tmp_path: Path) -> None:
    import sqb

    root = write(tmp_path, FILES)
    sqb.Project(root).build(select=["people", "places"]).raise_for_failures()
    tables = read_tables(root)
    assert "VERSION AS OF" in tables.get_text("seeds.people")
    assert not tables.seeds
    write(root, {"seeds/people.csv": "id,name\n1,Ada\n2,Grace\n"})
    tables = read_tables(root)
    # The seed has changed since: its rows are those of its file.
    assert tables.get_text("seeds.people") == "`__sqb_seeds__people`" and set(tables.seeds) == {"__sqb_seeds__people"}


def test_a_history_that_is_not_built_is_not_made_up(tmp_path: Path) -> None:
    tables = read_tables(write(tmp_path, FILES))
    with pytest.raises(NotBuilt, match=r"marts.hist is of the kind scd2 and is not built"):
        tables.get_text("marts.reads_hist")
