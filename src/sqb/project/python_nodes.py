"""`python/**/*.py`: functions that decorators make nodes of the project, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

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
