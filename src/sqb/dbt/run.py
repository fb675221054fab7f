"""Running what a plan says: the command lines for it, and what dbt tells of each node afterwards.

dbt selects a node by its fully qualified name. When everything that was selected runs, the user's own selection is
handed on as it is.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TextIO

from sqb.cache.files import read_value, write_value
from sqb.dbt.command import Dbt, query_dbt, stream_dbt
from sqb.dbt.model import DbtNode, DbtPlan, DbtProject
from sqb.sql.text.lexer import tokenize_code

# Far below what Linux takes as one command line, environment included.
_MAX_LENGTH = 100_000
_SPECIAL = re.compile(r"[^\w.-]")
# In dbt's words: of models, seeds and snapshots, and of tests.
_OK_STATUSES = ("success", "pass", "warn", "no-op")
_FAILED_STATUSES = ("error", "fail", "runtime error", "partial success")


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
        return self.status in _OK_STATUSES

    @property
    def failed(self) -> bool:
        return self.status in _FAILED_STATUSES


@dataclass(frozen=True, slots=True)
class DbtRun:
    """The results of all nodes that dbt was started for."""

    results: Mapping[str, DbtResult] = field(default_factory=dict)
    # dbt's own, of the last command; 0 where none was needed.
    code: int = 0
    # How often dbt was started.
    commands: int = 0
    # The user interrupted it.
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
class PassThrough:
    """The parts of the user's call that are passed through to dbt."""

    verb: str = "build"
    # The user's selection, used where all of it runs; None where it is more than this run is about.
    selection: tuple[str, ...] | None = None
    # Everything else, such as --threads.
    flags: tuple[str, ...] = ()
    # What belongs to the user's selection and is needed without it too.
    required: tuple[str, ...] = ()


def run_plan(dbt: Dbt, project: DbtProject, plan: DbtPlan, options: PassThrough, out: TextIO | None = None) -> DbtRun:
    """Let dbt run what the plan says, and read what became of it."""
    nodes = [project.nodes[name] for name in plan.runs]
    if not nodes:
        return DbtRun()
    flags = (*options.flags, *(("--full-refresh",) if plan.full_refresh else ()))
    if options.selection is not None and len(nodes) == len(plan.nodes):
        chunks = [Chunk(tuple(nodes), options.selection)]
    else:
        chunks = list(split_nodes(nodes, project))
    run = DbtRun()
    for chunk in chunks:
        runnable, skipped = _split_skipped(project, chunk.nodes, run)
        run = replace(run, results={**run.results, **{n.unique_id: _build_skipped(n) for n in skipped}})
        if not runnable:
            continue
        selection = build_selection(runnable, project) if skipped else chunk.selection
        before = _read_invocation(dbt.run_results)
        beside = options.required if selection is not options.selection else ()
        exit = stream_dbt(dbt, options.verb, *selection, *beside, *flags, out=out)
        reported = _read_invocation(dbt.run_results) != before
        results = read_results(dbt.run_results) if reported else {}
        code = exit.code or run.code
        run = DbtRun({**run.results, **results}, code, run.commands + 1, exit.interrupted, not reported)
        # 1 is a node that failed, which does not stop the others; any other code is a failure of dbt itself.
        if exit.code not in (0, 1) or exit.interrupted or not reported:
            break
    return run


@dataclass(frozen=True, slots=True)
class Chunk:
    """Nodes that one dbt command runs, and its selection."""

    nodes: tuple[DbtNode, ...]
    selection: tuple[str, ...]


def split_nodes(nodes: Sequence[DbtNode], project: DbtProject, longest: int = _MAX_LENGTH) -> Iterator[Chunk]:
    """The nodes in as few commands as the length of a command line allows, in their order."""
    part: list[DbtNode] = []
    length = 0
    terms = dict(zip((n.unique_id for n in nodes), build_terms(nodes, project), strict=True))
    for node in nodes:
        size = len(terms[node.unique_id].encode()) + 1
        if part and length + size > longest:
            yield Chunk(tuple(part), build_selection(part, project))
            part, length = [], 0
        part.append(node)
        length += size
    if part:
        yield Chunk(tuple(part), build_selection(part, project))


def build_selection(nodes: Sequence[DbtNode], project: DbtProject) -> tuple[str, ...]:
    """The arguments that select exactly these nodes, tests only where they are among them."""
    return ("--select", *build_terms(nodes, project), "--indirect-selection", "empty")


def build_terms(nodes: Sequence[DbtNode], project: DbtProject) -> list[str]:
    """One term of dbt's selection for each node, that no other node fits."""
    # A name is a prefix of the nodes in a folder of that name, and dbt selects prefixes.
    counts: dict[tuple[str, tuple[str, ...]], int] = {}
    for node in project.nodes.values():
        for end in range(1, len(node.fqn) + 1):
            key = (node.resource_type, node.fqn[:end])
            counts[key] = counts.get(key, 0) + 1
    return [_format_term(node, counts[(node.resource_type, node.fqn)] > 1) for node in nodes]


def _format_term(node: DbtNode, shared: bool) -> str:
    # Characters that mean something in a selection match as any character.
    name = _SPECIAL.sub("?", ".".join(node.fqn))
    file = f",file:{_SPECIAL.sub('?', Path(node.path).name)}" if shared and node.path else ""
    return f"fqn:{name},resource_type:{node.resource_type}{file}"


def _split_skipped(
    project: DbtProject, nodes: Iterable[DbtNode], run: DbtRun
) -> tuple[tuple[DbtNode, ...], tuple[DbtNode, ...]]:
    """What can run after earlier commands, and what dbt would have skipped because of them."""
    bad = {name for name, result in run.results.items() if not result.ok}
    # A node whose test failed is bad for those who read it.
    bad |= {parent for name in bad if (n := project.nodes.get(name)) and n.is_test for parent in n.depends_on}
    runnable: list[DbtNode] = []
    skipped: list[DbtNode] = []
    for node in nodes:
        if bad.intersection(node.depends_on):
            skipped.append(node)
            bad.add(node.unique_id)
        else:
            runnable.append(node)
    return tuple(runnable), tuple(skipped)


def _build_skipped(node: DbtNode) -> DbtResult:
    return DbtResult(node.unique_id, "skipped", message="something that it reads failed")


def _read_invocation(path: Path) -> str | None:
    try:
        return str(json.loads(path.read_bytes())["metadata"]["invocation_id"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def read_results(path: Path) -> dict[str, DbtResult]:
    """What run_results.json tells, by unique id; nothing where there is no such file."""
    try:
        results = json.loads(path.read_bytes())["results"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return {
        result["unique_id"]: DbtResult(
            result["unique_id"],
            result["status"],
            float(result.get("execution_time") or 0.0),
            result.get("message") or "",
            result.get("compiled_code"),
        )
        for result in results
    }


def compile_nodes(dbt: Dbt, project: DbtProject, names: Iterable[str]) -> dict[str, str]:
    """The SQL that dbt makes of these nodes today; an error of dbt's where it would have to ask Spark for it."""
    nodes = [project.nodes[name] for name in names]
    texts: dict[str, str] = {}
    for chunk in split_nodes(nodes, project):
        query_dbt(dbt, "compile", "--quiet", "--no-populate-cache", "--no-introspect", *chunk.selection)
        texts |= {r.unique_id: r.compiled for r in read_results(dbt.run_results).values() if r.compiled is not None}
    return {name: texts[name] for name in names if name in texts}


_CACHE_FILE = ".sqb/cache/dbt_compiled.json"
# The identity of each node and its compiled SQL, by unique id.
_Compiled = dict[str, tuple[str, str]]


def read_compiled(dbt: Dbt, project: DbtProject, names: Iterable[str]) -> dict[str, str]:
    """The SQL that dbt makes of these nodes today; dbt compiles only those that are not cached."""
    requested = list(names)
    texts = _read_cache(dbt, project)
    missing = [name for name in requested if name not in texts]
    if missing:
        texts |= compile_nodes(dbt, project, missing)
        _write_cache(dbt, project, texts)
    return {name: texts[name] for name in requested if name in texts}


def read_cached_compiled(dbt: Dbt, project: DbtProject) -> dict[str, str]:
    """The compiled SQL that is known without asking dbt, of nodes that are as they were then."""
    return _read_cache(dbt, project)


def _read_cache(dbt: Dbt, project: DbtProject) -> dict[str, str]:
    texts = read_value(dbt.root / _CACHE_FILE, _hash_call(dbt, project), _Compiled) or {}
    nodes = project.nodes
    return {n: sql for n, (identity, sql) in texts.items() if n in nodes and nodes[n].identity == identity}


def _write_cache(dbt: Dbt, project: DbtProject, texts: Mapping[str, str]) -> None:
    entries = {name: (project.nodes[name].identity, sql) for name, sql in sorted(texts.items())}
    write_value(dbt.root / _CACHE_FILE, _hash_call(dbt, project), entries, _Compiled)


def _hash_call(dbt: Dbt, project: DbtProject) -> str:
    """What a compiled text depends on beside the identity of its node: names of relations, and dbt itself."""
    relations = [f"{n.unique_id} {n.relation}" for n in project.nodes.values()]
    sources = [f"{s.unique_id} {s.relation}" for s in project.sources.values()]
    words = (
        *dbt.command,
        *dbt.arguments.command_line,
        str(dbt.profiles_file),
        project.dbt_version,
        *relations,
        *sources,
    )
    return hashlib.sha256("\0".join(words).encode("utf-8", "surrogateescape")).hexdigest()[:32]


def is_same_sql(before: str, now: str) -> bool:
    """Whether two queries differ in nothing but comments, white space, and the case of keywords."""
    from sqb.sql.analysis.canonical import recompute_canonical  # loads sqlglot, which nothing unchanged needs

    if before == now:
        return True
    try:
        return recompute_canonical(before, ()) == recompute_canonical(now, ())
    except ValueError:
        # Several statements have no canonical form; their tokens are compared.
        return [t.text for t in tokenize_code(before)] == [t.text for t in tokenize_code(now)]
