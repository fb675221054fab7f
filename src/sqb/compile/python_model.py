"""Python nodes as the compiled project has them. Plain data, to and from the cache."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, field
from typing import Any, Literal

from sqb.names import At, Relation

PythonType = Literal["loader", "task", "asset", "check", "hook"]


@dataclass(frozen=True, slots=True)
class PythonNode:
    """A function of `python/` that is run as part of a build."""

    name: str
    type: PythonType
    # Of a loader how it writes, of a hook when it runs; else the type.
    kind: str
    file: str
    module: str
    function: str
    at: At
    # Where its state is kept.
    schema: str
    local_hash: str
    source_hash: str
    config_hash: str
    # Of the modules that it is made of, by their files.
    dependencies: Mapping[str, str] = field(default_factory=dict)
    # Names of nodes, Python nodes and externals that it depends on, each once, sorted.
    after: tuple[str, ...] = ()
    # The names by which it may call each of them.
    called: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    definition: str = ""
    tags: tuple[str, ...] = ()
    description: str = ""
    # Of a loader: the external that it fills, and the table of that.
    fills: str = ""
    relation: Relation | None = None


def dump_python(node: PythonNode) -> list[Any]:
    """A Python node as plain data."""
    relation = [node.relation.schema, node.relation.name] if node.relation is not None else None
    return [
        node.name,
        node.type,
        node.kind,
        node.file,
        node.module,
        node.function,
        astuple(node.at),
        node.schema,
        [node.local_hash, node.source_hash, node.config_hash],
        dict(node.dependencies),
        node.after,
        dict(node.called),
        dict(node.settings),
        node.definition,
        node.tags,
        node.description,
        node.fills,
        relation,
    ]


def load_python(data: list[Any]) -> PythonNode:
    """The Python node in data that `dump_python` made."""
    name, type_, kind, file, module, function, at, schema, hashes, dependencies, after, called = data[:12]
    settings, definition, tags, description, fills, relation = data[12:]
    return PythonNode(
        name,
        type_,
        kind,
        file,
        module,
        function,
        At(*at),
        schema,
        hashes[0],
        hashes[1],
        hashes[2],
        dependencies,
        tuple(after),
        called,
        settings,
        definition,
        tuple(tags),
        description,
        fills,
        Relation(*relation) if relation else None,
    )
