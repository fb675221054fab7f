"""What the selectors of a command mean: in the project, in `selectors.yml`, in the lake and in the last run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from sqb.compile.model import Project
from sqb.errors.call import CallError
from sqb.light_dataclass import dataclass
from sqb.selection.methods import Nodes
from sqb.selection.select import Selection, Surroundings, select

if TYPE_CHECKING:
    from sqb.build.spark_engine import OnDemandSpark
    from sqb.operations.environment import BuildEnvironment
    from sqb.plan.observed import Observed

# How people call the ends that nodes come to, and how history does.
RESULTS = {"error": ("failed",), "fail": ("failed",), "success": ("ok",), "skipped": ("blocked", "skipped", "skip")}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a command was asked for: words after --select and --exclude, and the name after --selector."""

    select: Sequence[str] = ()
    exclude: Sequence[str] = ()
    selector: str | None = None

    def __post_init__(self) -> None:
        if self.select and self.selector is not None:
            raise CallError("--select and --selector are two selections", hint="give one of them")

    def __bool__(self) -> bool:
        return bool(self.select or self.exclude or self.selector is not None)


def select_nodes(
    environment: BuildEnvironment, wanted: Wanted, nodes: Nodes | None = None, spark: OnDemandSpark | None = None
) -> Selection:
    """The nodes that a command is about: of those given, or of all, and then with the loaders of what they read.

    `spark` is asked where nothing else tells how fresh a source is.
    """
    workspace = environment.workspace
    project = workspace.project
    named = None
    if wanted.selector is not None:
        from sqb.selection.selectors_file import find_selector  # few calls name one

        named = find_selector(workspace.root, wanted.selector)

    def ask(method: str, value: str) -> Collection[str]:
        return answer(environment, method, value, spark)

    around = describe_surroundings(project, ask, with_loaders=nodes is None)
    return select(nodes if nodes is not None else project.graph, around, wanted.select, wanted.exclude, named)


def describe_surroundings(
    project: Project, ask: Callable[[str, str], Collection[str]] | None = None, with_loaders: bool = False
) -> Surroundings:
    """What selectors may name in a project beside its nodes."""
    edges = project.list_edges() if with_loaders and project.python else None
    underlying = {s.name: s.expression.reads for s in project.sources.values() if s.expression is not None}
    return Surroundings(tuple(project.externals), project.map_exposures(), edges, ask, underlying)


def answer(
    environment: BuildEnvironment, method: str, value: str, spark: OnDemandSpark | None = None
) -> Collection[str]:
    """The nodes, or of `source_status` the sources, that a question about the lake or the last run means."""
    match method:
        case "state":
            return _find_by_state(environment, value)
        case "result":
            return _find_by_result(environment, value)
        case _:
            return _find_fresher_sources(environment, spark)


def _find_by_state(environment: BuildEnvironment, value: str) -> Collection[str]:
    """The nodes whose definitions are not those that were built, or are: `modified` are those that are new too."""
    names = environment.workspace.project.graph.keys()
    changed = environment.find_changed_definitions()
    match value:
        case "new":
            return changed.new
        case "old":
            return names - changed.new
        case "modified":
            return changed.new | changed.modified
        case _:
            return names - changed.new - changed.modified


def _find_by_result(environment: BuildEnvironment, value: str) -> Collection[str]:
    """The nodes that came to such an end in the last run."""
    project = environment.workspace.project
    rows = environment.lake.state.read_node_results(project.schemas)
    if not rows:
        return ()
    # Names tell the second; of runs within one, times tell which was first.
    last = max(rows, key=lambda row: (row.run_id.rpartition("_")[0], row.ts)).run_id
    return {row.node_name for row in rows if row.run_id == last and row.status in RESULTS[value]}


def _find_fresher_sources(environment: BuildEnvironment, spark: OnDemandSpark | None) -> Collection[str]:
    """The sources with data that something which reads them has not been built from."""
    from sqb.build.spark_engine import OnDemandSpark  # loaded only where this is asked
    from sqb.operations.plan import observe_environment

    workspace = environment.workspace
    project = workspace.project
    used = spark or OnDemandSpark(workspace, lambda text: None, "select_")
    try:
        observed = observe_environment(environment, workspace, None, used).observed
    finally:
        if spark is None:
            used.stop()
    return find_fresher_sources(project, observed)


def find_fresher_sources(project: Project, observed: Observed) -> set[str]:
    """The sources with data that something which reads them has not been built from, by what was observed."""
    from sqb.plan.observed import list_changed_inputs, list_inputs

    fresher = {name for name, source in observed.sources.items() if source.verdict in ("new", "changed")}
    for node in project:
        current = observed.get(node)
        inputs = list_inputs(node, project)
        changed = inputs if current is None else list_changed_inputs(node, project, current, observed.relations)
        fresher |= {i.name for i in changed if i.external}
    return fresher
