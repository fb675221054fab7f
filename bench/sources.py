"""What it costs to observe many Iceberg sources: whole processes, without Java.

The tables are written without Spark. Three moments are told apart: the first time, when every metadata file is read; a
time later, when some tables have new snapshots; and when nothing is new.
"""

from __future__ import annotations

import argparse
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from noop import HEADINGS, Row, markdown, sqb, started_jvm, table, timed
from sqb.lake.iceberg import IcebergLake
from sqb.lake.port import Column, Shape
from sqb.names import Relation
from sqb.project.config.connections.lake_location import LakeLocation

COLUMNS = (Column("id", "long"), Column("ts", "timestamp"))
START = datetime(2024, 1, 1, tzinfo=UTC)
ROWS = 10


def write_sources(project: Path, count: int, by_column: int) -> IcebergLake:
    """A project that declares `count` tables, the first `by_column` of them with the strategy `column`."""
    (project / "sources").mkdir(parents=True)
    (project / "sqlbuild_project.toml").write_text('name = "bench"\n', encoding="utf-8")
    lines = ["sources:"]
    for index in range(count):
        lines.append(f"  - name: raw.t{index}")
        if index < by_column:
            lines.append("    freshness: {column: ts, type: timestamp, lag_tolerance: 1h}")
    (project / "sources" / "raw.yml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    lake = IcebergLake(LakeLocation.embedded(project / "lake" / "catalog.db", project / "lake" / "data"))
    lake.ensure_schemas(["raw"])
    for index in range(count):
        append(lake, index, 0)
    return lake


def append(lake: IcebergLake, index: int, turn: int) -> None:
    """A new snapshot of one table."""
    relation = Relation("raw", f"t{index}")
    pointer = lake.list_pointers().get(relation)
    base = lake.read_tables([pointer])[relation].base if pointer is not None else None
    stage = lake.stage(relation, Shape(COLUMNS, keeps_rows=base is not None), base, f"bench_{turn}")
    first = turn * ROWS
    lake.fill(stage, [list(range(first, first + ROWS)), [START + timedelta(minutes=first + i) for i in range(ROWS)]])
    lake.publish(stage, {}, [] if base is not None else None)


def measure(project: Path, count: int, by_column: int, repeats: int) -> list[Row]:
    """Observe for the first time, after some tables moved, and with nothing new."""
    lake = write_sources(project, count, by_column)
    command = [sqb(), "freshness"]
    first = timed(command, project)
    jvm, _ = started_jvm(command, project)
    again = tuple(timed(command, project) for _ in range(repeats))
    moved = []
    for turn in range(1, repeats + 1):
        for index in range(0, count, 10):
            append(lake, index, turn)
        moved.append(timed(command, project))
    what = f"{count} sources" + (f", {by_column} by column" if by_column else "")
    return [
        Row(count, f"{what}: first look", (first,), jvm, 0),
        Row(count, f"{what}: a tenth moved", tuple(moved), jvm, 0),
        Row(count, f"{what}: nothing new", again, jvm, 0),
    ]


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sources", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    rows: list[Row] = []
    for by_column in (0, arguments.sources):
        with tempfile.TemporaryDirectory(prefix="sqb-bench-") as folder:
            rows += measure(Path(folder).resolve() / "project", arguments.sources, by_column, arguments.repeats)
    headings = ("sources", *HEADINGS[1:])
    cells = [row.cells() for row in rows]
    print(table(headings, cells))
    command = f"bench/sources.py --sources {arguments.sources} --repeats {arguments.repeats}"
    print(f"\n{markdown(command, headings, cells)}")


if __name__ == "__main__":
    main()
