"""Python nodes as the compiled project has them: plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal

from sqb.light_dataclass import dataclass
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
