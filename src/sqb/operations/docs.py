"""The project in a browser: all that is known of it as one document, and as a folder of static pages. No Java."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqb import __version__
from sqb.build.observe.columns import observe_columns
from sqb.build.observe.lake import LakeState
from sqb.build.observe.refreshes import observe_nodes
from sqb.build.observe.snapshots import SnapshotHistories
from sqb.build.spark_engine import OnDemandSpark
from sqb.cache.codec import pause_collection
from sqb.compile.model import Node, Project
from sqb.docs_site.describe_environments import describe_environments, map_bindings
from sqb.docs_site.describe_nodes import Facts, describe_nodes
from sqb.docs_site.describe_runs import describe_runs, map_runs_of_nodes
from sqb.docs_site.privacy import build_scrubber
from sqb.docs_site.sql_texts import join_parts, split_at_links
from sqb.docs_site.trace_columns import trace_columns
from sqb.errors.base import Errors, SqbError, flatten
from sqb.errors.sources import FreshnessUnknown
from sqb.inspect.concerned import find_concerned
from sqb.inspect.explain import estimate_refresh
from sqb.lake.port import Lake, PastSnapshot
from sqb.lake.state.rows import STAGED, NodeResult
from sqb.operations.documents import encode_plan
from sqb.operations.environment import BuildEnvironment, VirtualEnvironment, open_environment
from sqb.operations.inspect.definition_diffs import read_definition_diffs
from sqb.operations.plan import PlannedWorkspace, add_reader_notices, decide_plan, observe_environment
from sqb.operations.selection import RESULTS, describe_surroundings, find_fresher_sources
from sqb.plan.model import Options, Plan
from sqb.project.models.kinds import FOLLOWING_KINDS
from sqb.selection.select import select
from sqb.workspace import Workspace

# The version of the document. It grows with every change that a reader of the one before could stumble over.
VERSION = 1
_RUNS = 200
_RUNS_OF_NODE = 30
# Texts of nodes with links in them.
_LINKED = ("sql", "sql_run")


@dataclass(frozen=True, slots=True)
class DocsOptions:
    """What is written: where to, for which environment, and whether with rows of tables."""

    output: Path | None = None
    virtual_env: str | None = None
    sample: int = 0


@dataclass(frozen=True, slots=True)
class Docs:
    """The document, and the folder with the pages where they were written."""

    document: Mapping[str, Any]
    folder: Path | None = None
    pages: int = 0

    def to_data(self) -> dict[str, Any]:
        """What `sqb docs build --json` prints."""
        return dict(self.document)


class WithoutSpark(OnDemandSpark):
    """Stands for Spark where nothing may start it: what only Spark can tell stays unknown."""

    def session(self) -> Any:
        raise FreshnessUnknown(
            "only Spark can tell how fresh it is, and the pages are made without Spark",
            hint="`sqb freshness` asks Spark, and its answer is kept for as long as the table stays as it is",
        )


def get_default_output(workspace: Workspace) -> Path:
    """Where pages are written when nothing else is said."""
    return workspace.folder / "docs"


def build_docs(workspace: Workspace, options: DocsOptions) -> Docs:
    """Collect all that is known of a project, and write its pages where a folder is named."""
    with pause_collection():
        document = collect_document(workspace, options)
        if options.output is None:
            return Docs(document)
        from sqb.docs_site.write import write_site

        return Docs(document, options.output, write_site(document, options.output))


def collect_document(workspace: Workspace, options: DocsOptions) -> dict[str, Any]:
    """All that is known of a project, as one JSON value without secrets or local paths."""
    spark = WithoutSpark(workspace, lambda text: None, "docs_")
    environment = open_environment(workspace, options.virtual_env)
    opened, lake = environment.workspace, environment.lake
    project = opened.project
    seen, plan, errors = _plan(environment, spark)
    rows = _read_results(lake, project)
    upstream = _map_upstream(project)
    runs = describe_runs(rows, upstream, _RUNS)
    freshness = _read_freshness(workspace, options.virtual_env, spark)
    environments = describe_environments(workspace) if workspace.virtual.enabled else None
    facts = _gather_facts(environment, seen, plan, runs, freshness, environments)
    nodes = describe_nodes(facts)
    if options.sample:
        from sqb.docs_site.sample_rows import add_samples

        add_samples(nodes, project, lake, options.sample)
    document = {
        "sqb_docs": VERSION,
        "sqb_version": __version__,
        "generated_at": time.time(),
        "project": {
            "name": project.name,
            "target": project.target,
            "environment": _name_environment(environment),
        },
        "nodes": nodes,
        "plan": _describe_plan(opened, environment, plan, errors),
        "runs": runs,
        "sources": list(freshness.values()),
        "environments": environments,
        "selections": _answer_selectors(environment, seen, runs),
    }
    return _clean(document, workspace)


def _clean(document: dict[str, Any], workspace: Workspace) -> dict[str, Any]:
    """The document without secrets or local paths; links stay on the words that they are on."""
    for node in document["nodes"].values():
        node |= {key: split_at_links(node[key]) for key in _LINKED if node.get(key)}
    cleaned: dict[str, Any] = build_scrubber(workspace).clean(document)
    for node in cleaned["nodes"].values():
        node |= {key: join_parts(node[key]) for key in _LINKED if node.get(key)}
    return cleaned


def _name_environment(environment: BuildEnvironment) -> str | None:
    return environment.session.name if isinstance(environment, VirtualEnvironment) else None


def _list_views(environment: BuildEnvironment) -> dict[str, str]:
    """The views by which people read a virtual environment, by the names of nodes."""
    if not isinstance(environment, VirtualEnvironment):
        return {}
    session = environment.session
    return {n.name: str(session.get_view(n.relation)) for n in session.direct}


def _plan(environment: BuildEnvironment, spark: OnDemandSpark) -> tuple[LakeState, Plan, list[SqbError]]:
    """What a build would do now; mistakes do not keep the pages from being made, and are part of them."""
    workspace, lake = environment.workspace, environment.lake
    seen = observe_environment(environment, workspace, None, spark)
    errors: list[SqbError] = []
    plan = decide_plan(workspace, lake, seen, Options())
    if not plan.nothing_to_do:
        from sqb.build.observe.mistakes import list_mistakes

        errors = [error for mistake in list_mistakes(workspace, seen, plan) for error in flatten(mistake)]
    planned = PlannedWorkspace(workspace, lake, seen, plan, spark, environment)
    return seen, add_reader_notices(planned), errors


def _read_results(lake: Lake, project: Project) -> list[NodeResult]:
    return [r for r in lake.state.read_node_results(project.schemas) if r.status != STAGED]


def _map_upstream(project: Project) -> dict[str, Sequence[str]]:
    """What each node waits for, with views in between: they are read through."""
    return dict(project.list_edges())


def _read_freshness(workspace: Workspace, virtual_env: str | None, spark: OnDemandSpark) -> dict[str, dict[str, Any]]:
    if not workspace.project.externals and not workspace.project.sources:
        return {}
    from sqb.operations.inspect.freshness import FreshnessOptions, observe_freshness

    try:
        rows = observe_freshness(workspace, FreshnessOptions(virtual_env=virtual_env), spark).to_data()["sources"]
    except SqbError as error:
        # Such as a declared source that nothing reads and that is not there: the rest can be looked at all the same.
        return {name: {"name": name, "status": "failed", "error": error.message} for name in workspace.project.sources}
    return {row["name"]: row for row in rows}


def _gather_facts(
    environment: BuildEnvironment,
    seen: LakeState,
    plan: Plan,
    runs: list[dict[str, Any]],
    freshness: Mapping[str, Mapping[str, Any]],
    environments: Mapping[str, Any] | None,
) -> Facts:
    workspace, lake = environment.workspace, environment.lake
    project = workspace.project
    histories = SnapshotHistories(lake)
    running = {n.name for n in plan.nodes if n.action == "run"}
    followers = [n for n in project if n.type == "model" and n.kind in FOLLOWING_KINDS and not n.python]
    priors = seen.project_priors(project)
    with trace_columns(workspace, seen) as finish_tracing:
        observed = observe_nodes(workspace, lake, priors, list(project), followers, histories)
        columns = observe_columns(workspace, seen, running)
        lineage = finish_tracing()

    # Where a new version has no table yet, the one that is shown until then is what people see.
    current = {n.name: p.relation if (p := seen.observed.priors.get(n.name)) else n.relation for n in project}

    def list_snapshots(name: str) -> list[PastSnapshot]:
        state = seen.states.get(current[name])
        return list(histories.get(current[name]).values()) if state is not None and not state.is_view else []

    def estimate(node: Node) -> Any:
        return estimate_refresh(node, workspace, observed)

    return Facts(
        workspace,
        workspace.connection.catalog.name,
        {n.name: n for n in plan.nodes},
        columns,
        lineage,
        map_runs_of_nodes(runs, _RUNS_OF_NODE),
        list_snapshots,
        estimate,
        freshness,
        map_bindings(environments) if environments is not None else {},
        {n.name: s.rows for n in project if (s := seen.states.get(current[n.name])) is not None},
        _name_environment(environment),
        _list_views(environment),
        {str(relation): name for name, relation in current.items()} | {str(n.relation): n.name for n in project},
    )


def _describe_plan(
    workspace: Workspace, environment: BuildEnvironment, plan: Plan, errors: Sequence[SqbError]
) -> dict[str, Any]:
    data = encode_plan(plan)
    more = {n.name: {"pending": n.pending, "notices": list(n.notices)} for n in plan.nodes}
    concerned = find_concerned(workspace.project, plan)
    return {
        "summary": data["summary"],
        "nodes": [{**n, **more[n["name"]]} for n in data["nodes"]],
        "warnings": list(plan.warnings),
        "errors": [{"code": e.code, "message": e.message, "at": str(e.at or ""), "hint": e.hint or ""} for e in errors],
        "diffs": read_definition_diffs(workspace, environment, plan),
        "concerned": concerned.to_data() if concerned else None,
    }


def _answer_selectors(
    environment: BuildEnvironment, seen: LakeState, runs: Sequence[Mapping[str, Any]]
) -> dict[str, list[str]]:
    """What the selectors mean that ask the lake and the last run; pages have neither."""
    project = environment.workspace.project
    changed, names = environment.find_changed_definitions(), project.graph.keys()
    modified = changed.new | changed.modified
    ended = {n["name"]: n["status"] for n in runs[0]["nodes"]} if runs else {}
    answers: dict[str, Collection[str]] = {
        "state:new": changed.new,
        "state:old": names - changed.new,
        "state:modified": modified,
        "state:unmodified": names - modified,
        "source_status:fresher": find_fresher_sources(project, seen.observed),
    }
    for value, statuses in RESULTS.items():
        answers[f"result:{value}"] = {name for name, status in ended.items() if status in statuses}
    answers |= _select_named(environment, answers)
    return {selector: sorted(item) for selector, item in answers.items()}


def _select_named(environment: BuildEnvironment, answers: Mapping[str, Collection[str]]) -> dict[str, Collection[str]]:
    """What the selections of `selectors.yml` mean; one that is wrong is left to the command that names it."""
    from sqb.selection.selectors_file import load_selectors

    project = environment.workspace.project
    around = describe_surroundings(project, lambda method, value: answers[f"{method}:{value}"])
    by_name: dict[str, Collection[str]] = {}
    for name, named in load_selectors(environment.workspace.root, Errors()).items():
        with suppress(SqbError):
            by_name[f"selector:{name}"] = select(project.graph, around, named=named.expression).names
    return by_name
