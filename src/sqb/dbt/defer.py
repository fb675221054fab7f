"""`--defer`: what dbt reads in another place, as the manifest of a state tells it.

dbt reads a node that it does not run where the state has it, if the node is not there in its own target or
`--favor-state` is given. So planning looks at the same tables, and records the versions that were read there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from sqb.dbt.model import BUILT
from sqb.errors.call import CallError
from sqb.names import Relation


@dataclass(frozen=True, slots=True)
class DeferredRelations:
    """The relations of a state, by the ids of the nodes that may be read there."""

    relations: Mapping[str, Relation]
    # Read there even where they exist in dbt's own target.
    favored: bool = False


@dataclass(frozen=True, slots=True)
class DeferOptions:
    """What the user set for it."""

    defer: bool = False
    favor_state: bool = False
    # The folder of the manifest, where it is not that of `--state`.
    defer_state: str | None = None

    @property
    def flags(self) -> tuple[str, ...]:
        """The same as arguments of dbt."""
        options = (("--defer", self.defer), ("--favor-state", self.favor_state))
        place = ("--defer-state", self.defer_state) if self.defer_state is not None else ()
        return (*(flag for flag, is_set in options if is_set), *place)


def resolve_folder(folder: str | None) -> str | None:
    """A folder as the user means it: dbt runs elsewhere, so that a path from here would lead it astray."""
    return os.path.abspath(folder) if folder is not None and os.path.isdir(folder) else folder


def read_deferred(
    options: DeferOptions, state: str | None, start: Path, run: Collection[str], schema: Callable[[str], str]
) -> DeferredRelations | None:
    """What may be read elsewhere when dbt runs no more than `run`; None without `--defer`."""
    if not options.defer:
        return None
    folder = options.defer_state or state or os.environ.get("DBT_DEFER_STATE") or os.environ.get("DBT_STATE")
    if not folder:
        raise CallError("--defer needs the state to defer to", hint="name the folder of its manifest.json with --state")
    path = start / folder / "manifest.json"
    try:
        nodes = json.loads(path.read_bytes())["nodes"]
        relations = {
            unique_id: Relation(schema(str(node["schema"])), str(node.get("alias") or node["name"]))
            for unique_id, node in nodes.items()
            if node["resource_type"] in BUILT and node["config"].get("materialized") != "ephemeral"
        }
    except OSError as error:
        raise CallError(
            f"the state of --defer cannot be read: {path}: {error.strerror}",
            hint="--state names the folder that holds the manifest.json of another run of dbt",
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise CallError(f"the state of --defer is not a manifest of dbt: {path}") from None
    return DeferredRelations({i: relation for i, relation in relations.items() if i not in run}, options.favor_state)
