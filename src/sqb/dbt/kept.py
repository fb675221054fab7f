"""What is known of a dbt project between two commands, in `.sqb/cache/dbt.json`; always safe to delete.

The file has three lines: a head, which says what the rest was made of and belongs to whoever asks dbt; the names that
`__dbt_ref` may use, for those who compile; and the project.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from sqb.dbt.values import DbtNode, DbtProject, DbtSource
from sqb.names import Relation
from sqb.project.dbt_names import summary_file
from sqb.workspace import write_atomically

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Kept:
    """A summary that was kept: its head, and the project, decoded when somebody asks."""

    head: Mapping[str, Any]
    text: str

    def project(self) -> DbtProject:
        return load(self.text)


def keep(root: Path, head: Mapping[str, Any], project: DbtProject) -> None:
    """Write the summary of the sqb project at `root`."""
    names = {n.unique_id: _name_data(n) for n in project.nodes.values() if not n.is_test}
    lines = [json.dumps({**head, "format": _FORMAT}), json.dumps(names, separators=(",", ":")), dump(project)]
    write_atomically(summary_file(root), "\n".join(lines))


def kept(root: Path) -> Kept | None:
    """The summary that was kept; None when there is none that can be read."""
    try:
        head, _, text = summary_file(root).read_text(encoding="utf-8").split("\n")
        document = json.loads(head)
        return Kept(document, text) if document["format"] == _FORMAT else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _name_data(node: DbtNode) -> list[Any]:
    relation = [node.relation.schema, node.relation.name] if node.relation is not None else None
    return [node.name, node.package, relation, node.path, node.is_latest]


def dump(project: DbtProject) -> str:
    """A project as text of one line."""
    nodes = [_node_data(n) for n in project.nodes.values()]
    sources = [_source_data(s) for s in project.sources.values()]
    document = [project.name, project.dbt_version, nodes, sources, dict(project.selections), project.adapter]
    return json.dumps(document, separators=(",", ":"))


def load(text: str) -> DbtProject:
    """The project in a text that `dump` made."""
    name, version, nodes, sources, selections, adapter = json.loads(text)
    return DbtProject(
        name,
        version,
        {n[0]: _node(n) for n in nodes},
        {s[0]: _source(s) for s in sources},
        {key: tuple(ids) for key, ids in selections.items()},
        adapter,
    )


def _node_data(n: DbtNode) -> list[Any]:
    return [
        n.unique_id,
        n.resource_type,
        n.name,
        n.fqn,
        n.package,
        [n.relation.schema, n.relation.name] if n.relation is not None else None,
        n.schema,
        n.materialized,
        n.language,
        n.checksum,
        n.identity,
        dict(n.parts),
        n.depends_on,
        n.attached,
        n.path,
        n.code,
        n.told_by_sql,
        n.is_latest,
    ]


def _node(data: list[Any]) -> DbtNode:
    unique_id, kind, name, fqn, package, relation, *texts, parts, depends_on, attached, path, code, told, latest = data
    schema, materialized, language, checksum, identity = texts
    return DbtNode(
        unique_id,
        kind,
        name,
        tuple(fqn),
        package,
        Relation(*relation) if relation is not None else None,
        schema,
        materialized,
        language,
        checksum,
        identity,
        parts,
        tuple(depends_on),
        attached,
        path,
        code,
        told,
        latest,
    )


def _source_data(source: DbtSource) -> list[Any]:
    unique_id, name, _, *rest = astuple(source)
    return [unique_id, name, [source.relation.schema, source.relation.name], *rest]


def _source(data: list[Any]) -> DbtSource:
    unique_id, name, relation, *rest = data
    return DbtSource(unique_id, name, Relation(*relation), *rest)
