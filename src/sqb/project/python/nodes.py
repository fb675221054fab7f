"""`python/**/*.py`: functions that decorators make nodes of the project, as values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Literal

from sqb.errors.base import Errors
from sqb.light_dataclass import dataclass
from sqb.names import At

NodeKind = Literal["loader", "task", "asset", "check", "on_run_start", "on_run_end", "on_failure", "model"]
FOLDER = "python/"
HOOKS = ("on_run_start", "on_run_end", "on_failure")


@dataclass(frozen=True, slots=True)
class WrittenNode:
    """A decorated function of `python/`."""

    name: str
    kind: NodeKind
    file: str
    # How it is imported: `python/` is the root.
    module: str
    function: str
    at: At
    # The decorator's arguments as plain values, durations still as texts; and where each is written, if that is known.
    options: Mapping[str, Any]
    option_places: Mapping[str, At]
    # Its own text, and hashes of what it says and of the arguments, whatever their layout.
    source: str
    source_hash: str
    config_hash: str
    # What else it is made of: files of modules, relative to the git root, with a hash of what each says; their texts.
    dependencies: Mapping[str, str]
    texts: Mapping[str, str]
    # Names written in `ctx.ref("x")` and `ctx.changes("x")`, and those of them in the second.
    refs: tuple[tuple[str, At], ...] = ()
    changes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Discovered:
    """The Python nodes of a project."""

    nodes: tuple[WrittenNode, ...] = ()
    # Files outside of `python/` that they are made of, relative to the project, with hashes of their contents; "" for
    # one that is not there and would be imported if it were.
    outside: Mapping[str, str] = field(default_factory=dict)
    # Whether every file could be imported: otherwise there may be undiscovered nodes.
    complete: bool = True


def discover(root: Path, paths: Iterable[str], errors: Errors, cache: Path | None = None) -> Discovered:
    """Find the Python nodes of a project in its files (relative to the root); what is wrong is reported."""
    from sqb.project.python.discovery import find_nodes  # an unchanged project is served without looking at any Python

    return find_nodes(root, [path for path in paths if path.startswith(FOLDER)], errors, cache)
