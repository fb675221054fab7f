"""What a plan has to know of nodes that run because of changes: their queries, and how much their tables changed.

Reads metadata files only, each once, and only those of tables that changed under a node that runs: no Spark and no
pyiceberg.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from sqb.build.node.render import build_live_names, build_version_names
from sqb.build.observe.lake import LakeState
from sqb.build.observe.matching import count_matching_rows
from sqb.build.observe.queries import build_node_template, observe_query, open_classifications
from sqb.build.observe.snapshots import SnapshotHistories
from sqb.cache.forks import count_processes, map_ahead
from sqb.compile.model import Node, Project
from sqb.lake.port import Lake
from sqb.names import Relation
from sqb.plan.changes.data import has_data_changes, list_moved_tables
from sqb.plan.model import Plan
from sqb.plan.observed import Compared, SnapshotChange
from sqb.plan.refresh.choose import QueryObservation, build_case, can_follow, list_compared
from sqb.workspace import Workspace


def observe_refreshes(workspace: Workspace, lake: Lake, lake_state: LakeState, plan: Plan) -> LakeState:
    """The lake's state, with what is to be known of the nodes that run by this plan to say how they are refreshed."""
    nodes = workspace.project.nodes
    running = [n for n in plan.nodes if n.name in nodes and has_data_changes(n)]
    followers = [nodes[n.name] for n in running if can_follow(n, nodes[n.name])]
    return observe_nodes(workspace, lake, lake_state, [nodes[n.name] for n in running], followers)


def observe_nodes(
    workspace: Workspace,
    lake: Lake,
    lake_state: LakeState,
    nodes: Iterable[Node],
    followers: Iterable[Node],
    histories: SnapshotHistories | None = None,
) -> LakeState:
    """The lake's state with what happened to the tables that nodes read, and with the queries of some of them."""
    project = workspace.project
    queries = _observe_queries(workspace, lake_state, followers)
    observed = replace(lake_state.observed, queries=queries)
    pairs = {pair for node in nodes for _, pair in list_moved_tables(node, project, observed)}
    pairs |= {pair for name in queries for pair in list_compared(build_case(project.nodes[name], project, observed))}
    changes = compare_snapshots(histories or SnapshotHistories(lake), project, lake_state.externals, pairs)
    observed = replace(observed, changes=changes)
    matching = {name: count_matching_rows(lake, build_case(project.nodes[name], project, observed)) for name in queries}
    return replace(lake_state, observed=replace(observed, matching=matching))


def _observe_queries(workspace: Workspace, lake_state: LakeState, nodes: Iterable[Node]) -> dict[str, QueryObservation]:
    project, externals = workspace.project, lake_state.externals
    live = build_live_names(project, lake_state.catalog, externals, lake_state.files)
    at_version = build_version_names(project, lake_state.catalog, externals, lake_state.states.get)
    relations, classifications = lake_state.observed.relations, open_classifications(workspace)

    def observe(node: Node) -> QueryObservation:
        template = build_node_template(node, project, live, at_version)
        return observe_query(node, project, template, externals, relations.get, classifications)

    def learn(share: Sequence[Node]) -> bytes:
        for node in share:
            observe(node)
        return classifications.dump_answers()

    nodes = list(nodes)
    processes = count_processes(classifications.count_unknown([node.name for node in nodes]))
    if processes > 1:
        from sqb.sql.delta import classify  # noqa: F401  # every process needs it: loaded before there are several
    queries = map_ahead(nodes, processes, observe, learn, classifications.load_answers)
    classifications.save(project.nodes)
    return {node.name: query for node, query in zip(nodes, queries, strict=True)}


def compare_snapshots(
    histories: SnapshotHistories, project: Project, externals: Mapping[str, Relation], pairs: Iterable[Compared]
) -> dict[Compared, SnapshotChange]:
    """What happened between pairs of snapshots; a table is read by the name that the catalog has for it."""
    relations = {str(n.relation): n.relation for n in project}
    relations |= {str(e.relation): externals.get(name, e.relation) for name, e in project.externals.items()}
    return {
        (key, old, new): histories.compare(relations[key], old, new) if key in relations else SnapshotChange()
        for key, old, new in pairs
    }
