"""A node's turn: everything that a kind needs to build one node, and nothing of the build around it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from sqb import __version__
from sqb.build.render import AtVersion, Name, Rendered, live_names, names_at_versions, pinned_names, render
from sqb.build.source_files import refuse_moved
from sqb.build.steps import Announce, silent
from sqb.compiled import Node, Project
from sqb.lake.files import Listing
from sqb.lake.iceberg import IcebergLake
from sqb.lake.port import Base, Shape, TableState
from sqb.lake.state import IDENTITY_KEY, IDENTITY_VERSION
from sqb.names import Relation, quote
from sqb.plan.cascade import REPLAYS, SEEN, Event, Replay, Span, events_in, record_events
from sqb.plan.functions import recorded
from sqb.plan.observed import HOOKS, KEPT, Input, Version, record_sources
from sqb.plan.schema import kept_contents
from sqb.plan.settings import record_settings
from sqb.plan.values import PlannedNode
from sqb.sql.canonical import canonical_stamp
from sqb.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a turn brought about."""

    rows: int
    snapshot_id: int | None
    state: TableState | None
    identical: bool = False
    # How it was done, where that turned out otherwise than planned, and why.
    run_type: str | None = None
    detail: str = ""
    notices: tuple[str, ...] = ()
    # What of the table was written, in words; "" where that is not told.
    wrote: str = ""
    # Checks that do not hold and do not block, for programs.
    findings: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Turn:
    """One node, what stands at its relation, and what it reads."""

    node: Node
    planned: PlannedNode
    workspace: Workspace
    lake: IcebergLake
    standing: TableState | None
    inputs: tuple[tuple[Input, Version], ...]
    # What stands at a relation at the version of this build, and where externals are in the catalog.
    states: Callable[[Relation], TableState | None]
    externals: Mapping[str, Relation]
    session: Callable[[], Any]
    run_id: str = ""
    git: str = ""
    announce: Announce = silent
    # What is recorded when the node's checks pass; "" when it has none.
    checks_token: str = ""
    store_failures: bool = False
    # All rows are to be made again, also those that the kind would keep.
    full_refresh: bool = False
    # Rows that the sources do not reach any more may go.
    allow_data_loss: bool = False
    # One moment for the whole build, so that histories of different models agree on when something changed.
    now: datetime = datetime.min
    # What is done again because a definition changed, here or above; the last of it that each input has done.
    replay: Replay | None = None
    replays_seen: str = "{}"
    # The window that was asked for: its start and its end, as written.
    window: tuple[str | None, str | None] | None = None
    # The window that a bounded replay covered, once it is known.
    spans: list[Span] = field(default_factory=list)
    # What the kind adds to the commit of the rows.
    said: dict[str, str] = field(default_factory=dict)
    # The files of sources that are files, as they were when the build looked.
    files: Mapping[str, Listing] = field(default_factory=dict)
    # Of a Python model: the view that has its rows.
    rows_from: str = ""
    started: float = field(default_factory=time.monotonic)

    @property
    def project(self) -> Project:
        return self.workspace.project

    @property
    def root(self) -> Path:
        return self.workspace.root

    @property
    def catalog(self) -> str:
        return self.workspace.connection.catalog.name

    @property
    def live(self) -> Name:
        """References as plain relation names."""
        return live_names(self.project, self.catalog, self.externals, self.files)

    @property
    def base(self) -> Base | None:
        """The table that the turn starts from; a view in its place is replaced, not continued."""
        return self.standing.base if self.standing is not None and not self.standing.is_view else None

    @property
    def view(self) -> Base | None:
        """The view whose place the node's table takes."""
        return self.standing.base if self.standing is not None and self.standing.is_view else None

    def relation_of(self, name: str) -> Relation:
        """Where a table that the node reads stands in the catalog."""
        node = self.project.nodes.get(name)
        return node.relation if node is not None else self.externals.get(name, self.project.externals[name].relation)

    def state_of(self, name: str) -> TableState | None:
        """A table that the node reads, at the version of this build."""
        return self.states(self.relation_of(name))

    def key_of(self, name: str) -> str:
        """The name under which the version of a table that was read is recorded."""
        node = self.project.nodes.get(name)
        return str(node.relation if node is not None else self.project.externals[name].relation)

    def query(self, window: Mapping[str, str] | None = None) -> Rendered:
        """The node's query at the versions of this build, for a window where it is one of windows."""
        if self.rows_from:
            return Rendered(f"SELECT * FROM {self.rows_from}", ())
        return render(self.node, self.pinned, self.live, window, self.at_version)

    @property
    def pinned(self) -> Name:
        """References as relations at the versions of this build."""
        return pinned_names(self.project, self.catalog, self.externals, self.states, self.files)

    @property
    def at_version(self) -> AtVersion:
        """Tables at the versions that the query itself asks for, as this build has found them."""
        return names_at_versions(self.project, self.catalog, self.externals, self.states)

    def confirm_files(self) -> None:
        """Raise when files that the node has read are not what they were when the build looked at them."""
        refuse_moved(self.node, self.project, self.files)

    def shape(self, columns: tuple[Any, ...], keeps_rows: bool = False) -> Shape:
        """What the node's table is to look like."""
        settings = self.node.settings
        comments = self.comments
        return Shape(
            keeps_rows=keeps_rows,
            columns=tuple(replace(c, comment=comments.get(c.name.lower(), "")) for c in columns),
            partitioned_by=tuple(settings.get("partitioned_by", ())),
            sorted_by=tuple(settings.get("sorted_by", ())),
            properties={
                "sqb.model": self.node.name,
                **({"comment": self.node.description} if self.node.description else {}),
                **{k: str(v) for k, v in settings.get("table_properties", {}).items()},
            },
        )

    @property
    def comments(self) -> dict[str, str]:
        """What the model says of its columns, by their names in lower case."""
        described = self.node.settings.get("columns", {}) if self.node.type == "model" else {}
        return {name.lower(): text for name, text in described.items() if text}

    def identity(
        self, content: str | None, run_type: str | None = None, passed: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """What is committed with the rows: who they are and what they were made from."""
        node = self.node
        found = {
            "sqb.model": node.name,
            "sqb.local_hash": node.local_hash,
            "sqb.version_hash": node.version_hash,
            "sqb.query_hash": node.query_hash,
            "sqb.config_hash": node.config_hash,
            "sqb.canonical": canonical_stamp(),
            "sqb.sources": record_sources(self.inputs),
            "sqb.run_id": self.run_id,
            "sqb.run_type": run_type or self.planned.run_type,
            "sqb.seconds": f"{time.monotonic() - self.started:.3f}",
            "sqb.version": __version__,
            IDENTITY_KEY: str(IDENTITY_VERSION),
            **recorded(node),
            **record_settings(node, self.project),
            **(passed or {}),
            **self.said,
        }
        if content is not None:
            found["sqb.content"] = content
            found |= self._replays(content, found.get(KEPT, ""))
        if self.git:
            found["sqb.git"] = self.git
        if any(hook.when == "post" for hook in node.hooks):
            found[HOOKS] = "due"
        return found

    def _replays(self, content: str, kept: str) -> dict[str, str]:
        """What was done again, for those who read the rows; what leaves the same rows is nothing to them."""
        before = (self.standing.identity or self.standing.left) if self.standing is not None else {}
        event = None
        if self.replay is not None and before.get("sqb.content") != content:
            parts = (names for was, _, names in kept_contents(kept) if was == before.get("sqb.content"))
            replay = replace(self.replay, spans=tuple(self.spans)) if self.spans else self.replay
            event = Event(self.run_id, replay, tuple(map(frozenset, parts)))
        found = {REPLAYS: record_events(events_in(before), event), SEEN: self.replays_seen}
        return {key: text for key, text in found.items() if text not in ("[]", "{}")}

    def relation_text(self) -> str:
        return quote(self.catalog, self.node.relation.schema, self.node.relation.name)
