"""What years of history cost: a plan with nothing to do, before and after the janitor.

The tables stand without Spark: each is published with one row and the identity that a build would have given it. The
history is written through the same code as a build's, one commit a build; the long one in batches of builds, as nothing
of it is left in its commits once the janitor was there.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from layered import SEED_TYPES, write_project
from noop import markdown, sqb, started_jvm, table
from sqb.build.node.context import NodeContext
from sqb.build.observe.lake import build_relation_state, observe_lake
from sqb.build.observe.queries import open_classifications
from sqb.lake.iceberg import IcebergLake
from sqb.lake.open import open_lake
from sqb.lake.port import Column, TableState
from sqb.lake.state.rows import Fingerprint, NodeResult
from sqb.names import Relation
from sqb.plan.decide import make_plan
from sqb.plan.observed import find_version, list_inputs
from sqb.workspace import Workspace, open_workspace

HEADINGS = ("history", "command", "median s", "min s", "CPU s", "JVM started", "nodes to run")
EVERY = timedelta(minutes=30)
BATCH = 50
_FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class Spent:
    """One finished process: how long it took, and how long it computed, which others on the machine change less."""

    seconds: float
    cpu: float


def stand(project: Path, models: int) -> tuple[Workspace, IcebergLake]:
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
    seen = observe_lake(workspace, lake)
    states: dict[Relation, TableState] = {}
    relations = dict(seen.observed.relations)
    columns = tuple(Column(name, kind) for name, kind in SEED_TYPES["events"].items())
    for planned in make_plan(workspace.project, seen.observed).nodes:
        node = workspace.project.nodes[planned.name]
        versions = ((i, find_version(i, workspace.project, relations)) for i in list_inputs(node, workspace.project))
        turn = NodeContext(
            node=node,
            planned=planned,
            workspace=workspace,
            lake=lake,
            current=None,
            inputs=tuple((i, v) for i, v in versions if v is not None),
            states=states.get,
            externals={},
            session=lambda: None,
            classifications=open_classifications(workspace),
            run_id="20200101_000000_000000",
        )
        stage = lake.stage(node.relation, turn.build_shape(columns), None, turn.run_id)
        published = lake.publish(stage, turn.build_identity(f"n:1:{planned.name}"))
        states[node.relation] = published.state
        relations[node.relation] = build_relation_state(published.state)
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


def write_history(workspace: Workspace, lake: IcebergLake, builds: int, batch: int) -> None:
    """Append the history of so many builds, `batch` of them with one commit."""
    began = time.perf_counter()
    prints: list[Fingerprint] = []
    results: list[NodeResult] = []
    for number, (more, ended) in enumerate(rows_of(workspace, builds), 1):
        prints += more
        results += ended
        if number % batch == 0 or number == builds:
            lake.state.append_fingerprints(prints)
            lake.state.append_node_results(results)
            prints, results = [], []
        if number % max(1, builds // 10) == 0:
            print(f"  {number} of {builds} builds, {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)


def timed(command: Sequence[str], folder: Path) -> Spent:
    """Run a command to its end without showing its output."""
    start = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {process.returncode} in {folder}")
    return Spent(seconds, usage.ru_utime + usage.ru_stime)


def prepared(project: Path, models: int, builds: int, batch: int, clean: bool) -> None:
    """A project with so many builds of history; one that an earlier run has finished is taken as it is."""
    if (project / _FINISHED).exists():
        return
    workspace, lake = stand(project, models)
    write_history(workspace, lake, builds, batch)
    if clean:
        spent = timed([sqb(), "janitor"], project)
        print(f"  janitor: {spent.seconds:.1f} s, {spent.cpu:.1f} s of CPU", file=sys.stderr)
    (project / _FINISHED).touch()


def measured(project: Path, what: str, repeats: int) -> Iterator[tuple[str, ...]]:
    """A plan and a build with nothing to do, and a plan of somebody who has not looked at this lake before."""
    for verb in ("plan", "build"):
        command = [sqb(), verb]
        timed(command, project)
        spent = [timed(command, project) for _ in range(repeats)]
        jvm, found = started_jvm(command, project)
        summary = found["summary"]
        yield (what, f"sqb {verb}", *_figures(spent), jvm, str(summary.get("run", summary.get("ran", 0))))
    spent = [_forgetful(project) for _ in range(min(repeats, 3))]
    yield (what, "sqb plan, nothing remembered of the lake", *_figures(spent), "no", "0")


def _figures(spent: Sequence[Spent]) -> tuple[str, str, str]:
    seconds = [s.seconds for s in spent]
    cpu = statistics.median(s.cpu for s in spent)
    return f"{statistics.median(seconds):.3f}", f"{min(seconds):.3f}", f"{cpu:.3f}"


def _forgetful(project: Path) -> Spent:
    for name in ("tables", "fingerprints"):
        (project / ".sqb" / "cache" / name).unlink(missing_ok=True)
    return timed([sqb(), "plan"], project)


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=500)
    parser.add_argument("--builds", type=int, default=1000, help="builds before the janitor")
    parser.add_argument("--long", type=int, default=10_000, help="builds that the janitor finds")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="leave the projects here, and take those that are there"
    )
    arguments = parser.parse_args()
    place = nullcontext(str(arguments.keep)) if arguments.keep else tempfile.TemporaryDirectory(prefix="sqb-bench-")
    rows: list[tuple[str, ...]] = []
    with place as folder:
        before, after = (Path(folder).resolve() / name for name in ("before", "after"))
        prepared(before, arguments.models, arguments.builds, 1, clean=False)
        prepared(after, arguments.models, arguments.long, BATCH, clean=True)
        rows += measured(before, f"{arguments.builds:,} builds", arguments.repeats)
        rows += measured(after, f"{arguments.long:,} builds, after the janitor", arguments.repeats)
    print(table(HEADINGS, rows))
    command = f"bench/history.py --models {arguments.models} --builds {arguments.builds} --long {arguments.long}"
    print(f"\n{markdown(command, HEADINGS, rows)}")
    print(f"load average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
