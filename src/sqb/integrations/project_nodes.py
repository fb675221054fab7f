"""What integrations show of a project: its nodes, or those that selectors mean."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import sqb


def open_project(project: str | Path | sqb.Project, target: str | None) -> sqb.Project:
    """The project, where its folder is given; a target that is given with a project must be its own."""
    if not isinstance(project, sqb.Project):
        return sqb.Project(project, target=target)
    if target is not None and target != project.target:
        raise ValueError(f"the project is opened for the target {project.target}, and target is {target}")
    return project


def list_nodes(project: sqb.Project, select: str | Iterable[str], exclude: str | Iterable[str]) -> list[sqb.Node]:
    """The nodes that are selected, each after what it reads."""
    if not (select or exclude):
        return list(project.nodes)
    chosen = {node["name"] for node in project.list(select=select, exclude=exclude)["nodes"]}
    return [node for node in project.nodes if node.name in chosen]
