"""Running what a plan says: the command lines for it, and what dbt tells of each node afterwards.

A node is told to dbt by its fully qualified name. When everything that was selected runs, the user's own selection is
handed on as it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TextIO

from sqb.dbt.command import Dbt, asked, streamed
from sqb.dbt.values import DbtNode, DbtPlan, DbtProject

# Far below what Linux takes as one command line, environment included.
_LONGEST = 100_000
_ODD = re.compile(r"[^\w.-]")
# In dbt's words: of models, seeds and snapshots, and of tests.
_GOOD = ("success", "pass", "warn", "no-op")
_BAD = ("error", "fail", "runtime error", "partial success")


@dataclass(frozen=True, slots=True)
class DbtResult:
    """What became of one node, in dbt's words."""

    unique_id: str
    status: str
    seconds: float = 0.0
    message: str = ""
    compiled: str | None = None

    @property
    def ok(self) -> bool:
        return self.status in _GOOD

    @property
    def failed(self) -> bool:
        return self.status in _BAD


@dataclass(frozen=True, slots=True)
class DbtRun:
    """What became of all nodes that dbt was told to run."""

    results: Mapping[str, DbtResult] = field(default_factory=dict)
    # dbt's own, of the last command; 0 where none was needed.
    code: int = 0
    # How often dbt was started.
    commands: int = 0
    # Somebody asked it to stop.
    interrupted: bool = False
    # A command ended without telling what became of its nodes.
    lost: bool = False

    @property
    def succeeded(self) -> tuple[str, ...]:
        return tuple(r.unique_id for r in self.results.values() if r.ok)

    @property
    def failed(self) -> tuple[str, ...]:
        return tuple(r.unique_id for r in self.results.values() if r.failed)


@dataclass(frozen=True, slots=True)
class Passing:
    """What of the user's call is handed on to dbt."""

    verb: str = "build"
    # The user's selection, used where all of it runs; None where it is more than this run is about.
    selection: tuple[str, ...] | None = None
    # Everything else, such as --threads.
    flags: tuple[str, ...] = ()
    # What belongs to the user's selection and is needed without it too.
    beside: tuple[str, ...] = ()


def run_plan(dbt: Dbt, project: DbtProject, plan: DbtPlan, passing: Passing, out: TextIO | None = None) -> DbtRun:
    """Let dbt run what the plan says, and read what became of it."""
    wanted = [project.nodes[name] for name in plan.runs]
    if not wanted:
        return DbtRun()
    flags = (*passing.flags, *(("--full-refresh",) if plan.full_refresh else ()))
    if passing.selection is not None and len(wanted) == len(plan.nodes):
        chunks = [Chunk(tuple(wanted), passing.selection)]
    else:
        chunks = list(chunks_of(wanted, project))
    run = DbtRun()
    for chunk in chunks:
        left, skipped = _parted(project, chunk.nodes, run)
        run = replace(run, results={**run.results, **{n.unique_id: _skipped(n) for n in skipped}})
        if not left:
            continue
        selection = selection_of(left, project) if skipped else chunk.selection
        before = _invocation(dbt.run_results)
        beside = passing.beside if selection is not passing.selection else ()
        ended = streamed(dbt, passing.verb, *selection, *beside, *flags, out=out)
        told = _invocation(dbt.run_results) != before
        found = read_results(dbt.run_results) if told else {}
        code = ended.code or run.code
        run = DbtRun({**run.results, **found}, code, run.commands + 1, ended.interrupted, not told)
        # 1 is a node that failed, which is no reason to leave others; anything else is dbt that did.
        if ended.code not in (0, 1) or ended.interrupted or not told:
            break
    return run


@dataclass(frozen=True, slots=True)
class Chunk:
    """Nodes that one dbt command runs, and its selection."""

    nodes: tuple[DbtNode, ...]
    selection: tuple[str, ...]


def chunks_of(wanted: Sequence[DbtNode], project: DbtProject, longest: int = _LONGEST) -> Iterator[Chunk]:
    """The nodes in as few commands as the length of a command line allows, in their order."""
    part: list[DbtNode] = []
    length = 0
    terms = dict(zip((n.unique_id for n in wanted), terms_of(wanted, project), strict=True))
    for node in wanted:
        size = len(terms[node.unique_id].encode()) + 1
        if part and length + size > longest:
            yield Chunk(tuple(part), selection_of(part, project))
            part, length = [], 0
        part.append(node)
        length += size
    if part:
        yield Chunk(tuple(part), selection_of(part, project))


def selection_of(nodes: Sequence[DbtNode], project: DbtProject) -> tuple[str, ...]:
    """The arguments that select exactly these nodes, tests only where they are among them."""
    return ("--select", *terms_of(nodes, project), "--indirect-selection", "empty")


def terms_of(nodes: Sequence[DbtNode], project: DbtProject) -> list[str]:
    """One term of dbt's selection for each node, that no other node fits."""
    # A name is a prefix of what stands in a folder of that name, and dbt selects prefixes.
    beneath: dict[tuple[str, tuple[str, ...]], int] = {}
    for node in project.nodes.values():
        for end in range(1, len(node.fqn) + 1):
            key = (node.resource_type, node.fqn[:end])
            beneath[key] = beneath.get(key, 0) + 1
    return [_term(node, beneath[(node.resource_type, node.fqn)] > 1) for node in nodes]


def _term(node: DbtNode, shared: bool) -> str:
    # Characters that mean something in a selection match as any character.
    name = _ODD.sub("?", ".".join(node.fqn))
    file = f",file:{_ODD.sub('?', Path(node.path).name)}" if shared and node.path else ""
    return f"fqn:{name},resource_type:{node.resource_type}{file}"


def _parted(
    project: DbtProject, nodes: Iterable[DbtNode], run: DbtRun
) -> tuple[tuple[DbtNode, ...], tuple[DbtNode, ...]]:
    """What can run after earlier commands, and what dbt would have skipped because of them."""
    bad = {name for name, result in run.results.items() if not result.ok}
    # A node whose test failed is bad for those who read it.
    bad |= {parent for name in bad if (n := project.nodes.get(name)) and n.is_test for parent in n.depends_on}
    left: list[DbtNode] = []
    skipped: list[DbtNode] = []
    for node in nodes:
        if bad.intersection(node.depends_on):
            skipped.append(node)
            bad.add(node.unique_id)
        else:
            left.append(node)
    return tuple(left), tuple(skipped)


def _skipped(node: DbtNode) -> DbtResult:
    return DbtResult(node.unique_id, "skipped", message="something that it reads failed")


def _invocation(path: Path) -> str | None:
    try:
        return str(json.loads(path.read_bytes())["metadata"]["invocation_id"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def read_results(path: Path) -> dict[str, DbtResult]:
    """What run_results.json tells, by unique id; nothing where there is no such file."""
    try:
        found = json.loads(path.read_bytes())["results"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return {
        one["unique_id"]: DbtResult(
            one["unique_id"],
            one["status"],
            float(one.get("execution_time") or 0.0),
            one.get("message") or "",
            one.get("compiled_code"),
        )
        for one in found
    }


def compiled_of(dbt: Dbt, project: DbtProject, names: Iterable[str]) -> dict[str, str]:
    """The SQL that dbt makes of these nodes today; an error of dbt's where it would have to ask Spark for it."""
    nodes = [project.nodes[name] for name in names]
    texts: dict[str, str] = {}
    for chunk in chunks_of(nodes, project):
        asked(dbt, "compile", "--quiet", "--no-populate-cache", "--no-introspect", *chunk.selection)
        texts |= {r.unique_id: r.compiled for r in read_results(dbt.run_results).values() if r.compiled is not None}
    return {name: texts[name] for name in names if name in texts}
