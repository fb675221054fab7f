"""The nodes of a project that selectors mean. Starts no Java, and without questions about the lake does not open it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqb.compile.model import Node, Project
from sqb.operations.environment import open_environment
from sqb.operations.selection import Wanted, select_nodes
from sqb.workspace import Workspace

if TYPE_CHECKING:
    from sqb.build.spark_engine import OnDemandSpark
    from sqb.compile.python.model import PythonNode

RESOURCE_TYPES = ("model", "seed", "loader", "task", "asset", "check")
# What is printed of a node, in this order.
KEYS = ("name", "type", "kind", "relation", "file", "upstream", "tags", "owner", "group", "description")


@dataclass(frozen=True, slots=True)
class ListOptions:
    """Which nodes are listed."""

    select: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    selector: str | None = None
    virtual_env: str | None = None
    # Only nodes of these types; of all where there are none.
    resource_types: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse options that contradict each other."""
        Wanted(self.select, self.exclude, self.selector)


@dataclass(frozen=True, slots=True)
class ListedNodes:
    """The selected nodes, each after what it reads."""

    project: Project
    nodes: tuple[Node | PythonNode, ...]

    def to_data(self) -> dict[str, Any]:
        """What `sqb list --output json` prints."""
        edges = self.project.list_edges()
        return {
            "target": self.project.target,
            "nodes": [
                {
                    "name": n.name,
                    "type": n.type,
                    "kind": n.kind,
                    "relation": str(n.relation) if n.relation is not None else None,
                    "file": n.file,
                    "upstream": list(edges[n.name]),
                    "tags": list(n.tags),
                    "owner": n.settings.get("owner"),
                    "group": n.settings.get("group"),
                    "description": n.description or None,
                }
                for n in self.nodes
            ],
        }


def list_nodes(workspace: Workspace, options: ListOptions, spark: OnDemandSpark | None = None) -> ListedNodes:
    """Find the nodes that are selected; `spark` is asked where nothing else tells how fresh a source is."""
    environment = open_environment(workspace, options.virtual_env)
    project = environment.workspace.project
    wanted = Wanted(options.select, options.exclude, options.selector)
    types = options.resource_types or RESOURCE_TYPES
    chosen = select_nodes(environment, wanted, spark=spark).names
    return ListedNodes(project, tuple(n for n in project.walk() if n.name in chosen and n.type in types))
