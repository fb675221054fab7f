"""Storage settings of models whose rows stay, changed in a virtual environment."""

from __future__ import annotations

from support.environments import file_of, ran, write_project
from support.sandbox import Sandbox

MODELS = {
    "ahead": "-- @incremental: id\n-- @cursor_type: integer\nSELECT id, n FROM raw.x",
    "back": "-- @incremental: id\n-- @cursor_type: integer\n-- @replay_on_change: bounded-2\nSELECT id, n FROM raw.x",
    "log": "-- @kind: append\nSELECT id, n FROM raw.x",
    "past": "-- @kind: scd2\n-- @unique_key: id\nSELECT id, n FROM raw.x",
}
SETTINGS = "-- @partitioned_by: n\n-- @sorted_by: id DESC\n-- @table_properties: {'owner.team': 'shop'}\n"


def test_storage_settings_are_those_of_the_new_version_rows_or_no_rows(sandbox: Sandbox) -> None:
    write_project(sandbox, MODELS)
    assert ran(sandbox) == sorted(MODELS)
    for name, sql in MODELS.items():
        header, select, rest = sql.rpartition("SELECT")
        sandbox.write(f"models/{name}.sql", f"{header}{SETTINGS}{select}{rest}")
    assert ran(sandbox, "work") == sorted(MODELS)
    refs = {file_of(name): ref.binding.relation for name, ref in sandbox.store().read_refs("work").items()}
    for name in MODELS:
        table = f"{refs[name]}"
        properties = {row[0]: row[1] for row in sandbox.sql(f"SHOW TBLPROPERTIES {table}")}
        assert properties["owner.team"] == "shop", name
        assert properties["sort-order"] == "id DESC NULLS LAST", name
    # Rows that come later are in partitions.
    sandbox.sql("INSERT INTO raw.x VALUES (5, 3, 50)")
    assert ran(sandbox, "work") == sorted(MODELS)
    for name in MODELS:
        table = f"{refs[name]}"
        assert [
            tuple(r) for r in sandbox.sql(f"SELECT DISTINCT partition.n FROM {table}.partitions WHERE partition.n = 50")
        ]
        assert len(sandbox.sql(f"SELECT * FROM {table}")) == 5
