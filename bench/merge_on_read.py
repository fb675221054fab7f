"""A change of ten rows in a large table with delete files: its delta by the files that changed, and by comparing rows.

For both versions of the format: ten rows deleted next to each other, ten rows deleted all over the table, ten rows
updated, ten rows deleted by their values (as Flink does), and ten rows updated by rewriting files. Each delta is read
`--repeats` times by each way, one after the other, and the fastest counts; both must give the same rows.

    python bench/merge_on_read.py [--rows 2000000] [--repeats 3] [--versions 2,3] [--only spread,updated]
"""

from __future__ import annotations

import argparse
import datetime
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from side_by_side import Lab
from sqb.build.result import generate_run_id
from sqb.lake.iceberg import IcebergLake
from sqb.names import Relation, quote
from sqb.project.config.connections.lake_location import LakeLocation
from sqb.spark.data.changes import read_table_changes
from sqb.spark.data.file_changes import read_file_changes

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

COLUMNS = ["id", "customer_id", "day", "status", "note", "amount"]
MODES = ("delete", "update", "merge")
# What one data file holds; Spark writes them in this order.
FILE_ROWS = 500_000


def make_table(lab: Lab, version: int, rows: int) -> None:
    """A table in the order of its ids, in files of half a million rows."""
    modes = ", ".join(f"'write.{what}.mode' = 'merge-on-read'" for what in MODES)
    lab.sql(
        "DROP TABLE IF EXISTS lake.raw.t",
        "CREATE TABLE lake.raw.t (id INT, customer_id BIGINT, day DATE, status STRING, note STRING,"
        f" amount DECIMAL(12,2)) TBLPROPERTIES ('format-version' = '{version}', {modes},"
        " 'write.distribution-mode' = 'none')",
        f"INSERT INTO lake.raw.t SELECT {format_row()} FROM range(0, {rows}, 1, {max(1, rows // FILE_ROWS)})",
        # Some rows are hidden already, as they are in any table that is written this way.
        f"DELETE FROM lake.raw.t WHERE id % {max(1, rows // 1000)} = 7",
    )


def format_row() -> str:
    """The columns of a row, made of its number."""
    return (
        "CAST(id AS INT) AS id, id * 7919 % 50000 AS customer_id,"
        " date_add(DATE '2026-01-01', CAST(id % 200 AS INT)) AS day,"
        " concat('status ', id % 5) AS status, concat('a note with some text, number ', id * 104729 % 1000000) AS note,"
        " CAST(id * 17 % 10000 / 100 AS DECIMAL(12,2)) AS amount"
    )


def delete_beside(lab: Lab, rows: int) -> None:
    """Ten rows of one file."""
    lab.sql(f"DELETE FROM lake.raw.t WHERE id BETWEEN {rows // 2} AND {rows // 2 + 9}")


def delete_spread(lab: Lab, rows: int) -> None:
    """Ten rows all over the table."""
    lab.sql(f"DELETE FROM lake.raw.t WHERE id IN ({', '.join(str(rows // 10 * i + 123) for i in range(10))})")


def update(lab: Lab, rows: int) -> None:
    """Ten rows with other values."""
    lab.sql(f"UPDATE lake.raw.t SET amount = amount + 1 WHERE id BETWEEN {rows // 3} AND {rows // 3 + 9}")


def delete_by_value(lab: Lab, rows: int) -> None:
    """Ten rows by the values of a column."""
    from support.table_stories import delete_by_equality

    delete_by_equality(lab.spark, "lake.raw.t", [{"id": rows // 4 + i} for i in range(10)])


def rewrite(lab: Lab, rows: int) -> None:
    """Ten rows with other values, by writing their file anew."""
    lab.sql("ALTER TABLE lake.raw.t SET TBLPROPERTIES ('write.update.mode' = 'copy-on-write')")
    lab.sql(f"UPDATE lake.raw.t SET amount = amount + 1 WHERE id BETWEEN {rows // 5} AND {rows // 5 + 9}")


CHANGES: dict[str, Callable[[Lab, int], None]] = {
    "beside": delete_beside,
    "spread": delete_spread,
    "updated": update,
    "by value": delete_by_value,
    "rewritten": rewrite,
}


def read_by_files(lab: Lab, lake: IcebergLake, old: int, new: int) -> tuple[int, int]:
    """The delta by files: how many rows it has, and how many the files hold that it is read from."""
    staged = lake.stage_changed_files(Relation("raw", "t"), old, new, COLUMNS, generate_run_id())
    assert staged is not None
    table = quote(lake.name, staged.relation.schema, staged.relation.name)
    found = read_file_changes(lab.spark, table, staged.parts, COLUMNS).count()
    lake.drop_changed_files(staged)
    return found, sum(p.rows for p in staged.parts)


def read_by_comparison(lab: Lab, old: int, new: int) -> int:
    """The delta by comparing all rows."""
    return read_table_changes(lab.spark, "lake.raw.t", old, new, COLUMNS, "compared").count()


def measure(work: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """The fastest of some runs, and what it gave."""
    seconds, result = [], None
    for _ in range(repeats):
        began = time.perf_counter()
        result = work()
        seconds.append(time.perf_counter() - began)
    return min(seconds), result


def read_snapshot(lab: Lab) -> int:
    """The table's current snapshot."""
    return int(lab.spark.sql("SELECT snapshot_id FROM lake.raw.t.refs WHERE name = 'main'").collect()[0][0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--versions", default="2,3")
    parser.add_argument("--only", default=",".join(CHANGES))
    options = parser.parse_args()
    command = f"`bench/merge_on_read.py --rows {options.rows} --repeats {options.repeats}`"
    print("| date | measured with | format | change | delta rows | rows of files | by files s | compared s | times |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |", flush=True)
    lab = Lab({})
    try:
        lake = IcebergLake(LakeLocation.embedded(lab.folder / "lake" / "catalog.db", lab.folder / "lake" / "data"))
        for version in map(int, options.versions.split(",")):
            make_table(lab, version, options.rows)
            for name in options.only.split(","):
                old = read_snapshot(lab)
                CHANGES[name](lab, options.rows)
                lab.spark.catalog.refreshTable("lake.raw.t")
                new = read_snapshot(lab)
                files, (found, read) = measure(lambda o=old, n=new: read_by_files(lab, lake, o, n), options.repeats)  # type: ignore[misc]
                all_rows, compared = measure(lambda o=old, n=new: read_by_comparison(lab, o, n), options.repeats)  # type: ignore[misc]
                assert found == compared, (name, found, compared)
                print(
                    f"| {datetime.date.today()} | {command} | {version} | {name} | {found} | {read:,} | {files:.2f} |"
                    f" {all_rows:.2f} | {all_rows / files:.1f}x |",
                    flush=True,
                )
    finally:
        lab.close()


if __name__ == "__main__":
    main()
