"""What years of history cost: a plan with nothing to do, before and after the janitor.

The tables stand without Spark: each is published with one row and the identity that a build would have given it. The
history is written through the same code as a build's, one commit a build; the long one in batches of builds, as nothing
of it is left in its commits once the janitor was there.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from layered import SEED_TYPES, write_project
from noop import Row, Run, markdown, sqb, started_jvm, table, timed
from sqb.build.observe import look, open_lake, standing_of
from sqb.build.turn import Turn
from sqb.lake.jdbc import JdbcLake
from sqb.lake.port import Column, TableState
from sqb.lake.state import Fingerprint, NodeResult
from sqb.names import Relation
from sqb.plan.decide import make_plan
from sqb.plan.observed import inputs_of, version_of
from sqb.workspace import Workspace, open_workspace

HEADINGS = ("history", "command", "median s", "min s", "JVM started", "nodes to run")
EVERY = timedelta(minutes=30)


def stand(project: Path, models: int) -> tuple[Workspace, JdbcLake]:
    """A project whose nodes all stand as they are defined, in one schema."""
    files = write_project(project, models)
    settings = project / "sqlbuild_project.toml"
    settings.write_text(settings.read_text().replace("{folder}", "dev"))
    for file in files:
        # Views are Spark's to make, and are not what this is about.
        file.write_text(file.read_text().replace("@kind: view", "@kind: table").replace("kind view", "kind table"))
    workspace = open_workspace(project)
    lake = open_lake(workspace)
    lake.ensure_schemas(workspace.project.schemas)
    seen = look(workspace, lake)
    states: dict[Relation, TableState] = {}
    relations = dict(seen.observed.relations)
    columns = tuple(Column(name, kind) for name, kind in SEED_TYPES["events"].items())
    for planned in make_plan(workspace.project, seen.observed).nodes:
        node = workspace.project.nodes[planned.name]
        versions = ((i, version_of(i, workspace.project, relations)) for i in inputs_of(node, workspace.project))
        turn = Turn(
            node=node,
            planned=planned,
            workspace=workspace,
            lake=lake,
            standing=None,
            inputs=tuple((i, v) for i, v in versions if v is not None),
            states=states.get,
            externals={},
            session=lambda: None,
            run_id="20200101_000000_000000",
        )
        stage = lake.stage(node.relation, turn.shape(columns), None, turn.run_id)
        published = lake.publish(stage, turn.identity(f"n:1:{planned.name}"))
        states[node.relation] = published.state
        relations[node.relation] = standing_of(published.state)
    return workspace, lake


def rows_of(workspace: Workspace, builds: int, first: int = 0) -> Iterator[tuple[list[Fingerprint], list[NodeResult]]]:
    """The history of builds in which every node ran, oldest first, the last one just now."""
    now = datetime.now(UTC)
    said = json.dumps({"run_type": "incremental", "reason": "Source changed", "rows": 12345, "seconds": 1.234})
    for number in range(builds):
        moment = now - EVERY * (builds - number)
        run = f"{moment:%Y%m%d_%H%M%S}_{number + first:06x}"
        prints, results = [], []
        for node in workspace.project:
            at = (node.type, node.name, node.relation.schema)
            prints.append(
                Fingerprint(
                    *at,
                    target_name=node.relation.name,
                    run_id=run,
                    local_hash=node.local_hash,
                    version_hash=node.version_hash,
                    schema_hash="",
                    definition=node.definition,
                    metadata=said,
                    ts=moment,
                )
            )
            results.append(
                NodeResult(*at, run_id=run, status="ok", payload="", metadata=said, error_message="", ts=moment)
            )
        yield prints, results


def write_history(workspace: Workspace, lake: JdbcLake, builds: int, batch: int) -> None:
    """Append the history of so many builds, `batch` of them with one commit."""
    began = time.perf_counter()
    prints: list[Fingerprint] = []
    results: list[NodeResult] = []
    for number, (more, ended) in enumerate(rows_of(workspace, builds), 1):
        prints += more
        results += ended
        if number % batch == 0 or number == builds:
            lake.append_fingerprints(prints)
            lake.append_node_results(results)
            prints, results = [], []
        if number % max(1, builds // 10) == 0:
            print(f"  {number} of {builds} builds, {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)


def measured(project: Path, what: str, repeats: int) -> list[Row]:
    """A plan and a build with nothing to do, and a plan of somebody who has not looked at this lake before."""
    rows = []
    for verb in ("plan", "build"):
        timed([sqb(), verb], project)
        runs = tuple(timed([sqb(), verb], project) for _ in range(repeats))
        jvm, found = started_jvm([sqb(), verb], project)
        summary = found["summary"]
        rows.append(Row(0, f"sqb {verb}", runs, jvm, int(summary.get("run", summary.get("ran", 0)))))
    runs = tuple(_forgetful(project) for _ in range(min(repeats, 3)))
    rows.append(Row(0, "sqb plan, .sqb/cache of the lake deleted", runs, "no", 0))
    return [replace(row, command=f"{what}\t{row.command}") for row in rows]


def _forgetful(project: Path) -> Run:
    for name in ("tables", "fingerprints"):
        (project / ".sqb" / "cache" / name).unlink(missing_ok=True)
    return timed([sqb(), "plan"], project)


def cells(row: Row) -> tuple[str, ...]:
    """A line of the result; what the children's memory peaks at is this process's, so it is left out."""
    what, _, command = row.command.partition("\t")
    _, _, median, least, _, jvm, nodes = row.cells()
    return (what, command, median, least, jvm, nodes)


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=500)
    parser.add_argument("--builds", type=int, default=1000, help="builds before the janitor")
    parser.add_argument("--long", type=int, default=10_000, help="builds that the janitor finds")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave the project here")
    arguments = parser.parse_args()
    if arguments.keep is not None:
        shutil.rmtree(arguments.keep, ignore_errors=True)
    place = nullcontext(str(arguments.keep)) if arguments.keep else tempfile.TemporaryDirectory(prefix="sqb-bench-")
    rows: list[Row] = []
    with place as folder:
        project = Path(folder).resolve() / "history"
        workspace, lake = stand(project, arguments.models)
        write_history(workspace, lake, arguments.builds, 1)
        rows += measured(project, f"{arguments.builds:,} builds", arguments.repeats)
        write_history(workspace, lake, arguments.long - arguments.builds, 50)
        run = timed([sqb(), "janitor"], project)
        print(f"janitor: {run.seconds:.1f} s", file=sys.stderr)
        rows += measured(project, f"{arguments.long:,} builds, after the janitor", arguments.repeats)
    shown = [cells(row) for row in rows]
    print(table(HEADINGS, shown))
    command = f"bench/history.py --models {arguments.models} --builds {arguments.builds} --long {arguments.long}"
    print(f"\n{markdown(command, HEADINGS, shown)}")
    print(f"load average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
