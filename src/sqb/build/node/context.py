"""The context of one node: everything that a kind needs to build it, and nothing of the build around it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import reduce
from pathlib import Path
from typing import Any

from sqb import __version__
from sqb.build.failpoints import Announce, ignore_step
from sqb.build.node.render import (
    AtVersion,
    Name,
    Rendered,
    build_live_names,
    build_pinned_names,
    build_version_names,
    render_query,
)
from sqb.build.observe.files import check_files
from sqb.compile.model import Node, Project
from sqb.lake.port import Base, Lake, Shape, TableState
from sqb.lake.storage.file_sources import Listing
from sqb.names import Relation, quote
from sqb.plan.changes.columns import parse_unchanged_columns
from sqb.plan.changes.functions import encode_functions
from sqb.plan.changes.session_settings import encode_settings
from sqb.plan.model import PlannedNode
from sqb.plan.observed import Input, Version, record_sources
from sqb.plan.recorded.commit_identity import IDENTITY_VERSION, MODEL, CommitIdentity
from sqb.plan.recorded.timings import Run, record_timing
from sqb.plan.replay import Replay, ReplayEvent, Span, encode_events, parse_events
from sqb.sql.analysis.canonical import compute_canonical_stamp
from sqb.sql.delta.cache import ClassificationCache
from sqb.workspace import Workspace


@dataclass(frozen=True, slots=True)
class NodeOutcome:
    """The outcome of building one node."""

    rows: int
    snapshot_id: int | None
    state: TableState | None
    identical: bool = False
    # How it was done, where that turned out otherwise than planned, and why.
    run_type: str | None = None
    detail: str = ""
    notices: tuple[str, ...] = ()
    # What of the table was written, in words; "" where that is unknown.
    wrote: str = ""
    # Checks that do not hold and do not block, for programs.
    findings: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class WindowRows:
    """What the rows of a window add to their commit."""

    # How far the rows go, and what the next run has to know.
    identity: CommitIdentity = CommitIdentity()
    # The window that a bounded replay covers.
    replayed: Span | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """Since when a node works, and the rows that it has to read; None where its time tells nothing of another run."""

    started: float = field(default_factory=time.monotonic)
    rows: int | None = None

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started


@dataclass(frozen=True, slots=True)
class NodeContext:
    """One node, the current state of its relation, and what it reads: read-only; who learns more makes another one.

    What others have to know while the node runs goes to callbacks: `announce`, `await_checks`, `report_replay`.
    """

    node: Node
    planned: PlannedNode
    workspace: Workspace
    lake: Lake
    current: TableState | None
    inputs: tuple[tuple[Input, Version], ...]
    # The state of a relation at the version of this build, and where externals are in the catalog.
    states: Callable[[Relation], TableState | None]
    externals: Mapping[str, Relation]
    session: Callable[[], Any]
    # What is proven of queries, from earlier runs and from this one.
    classifications: ClassificationCache
    run_id: str = ""
    git: str = ""
    announce: Announce = ignore_step
    # Waits until the checks of the whole build are known to fit: nothing is published before.
    await_checks: Callable[[], None] = lambda: None
    # Takes the window that a bounded replay covers as soon as it is known, for the history of a run that fails.
    report_replay: Callable[[Span], None] = lambda span: None
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
    # What the table that the rows are from, or a table beside them, adds to the identity of the rows.
    additions: Sequence[CommitIdentity] = ()
    # The files of sources that are files, as they were when the build looked.
    files: Mapping[str, Listing] = field(default_factory=dict)
    # Of a Python model: the view that has its rows.
    rows_from: str = ""
    work: Work = field(default_factory=lambda: Work())
    window_rows: WindowRows = WindowRows()

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
        return build_live_names(self.project, self.catalog, self.externals, self.files)

    @property
    def base(self) -> Base | None:
        """The table that the build of the node starts from; a view is replaced, not continued."""
        return self.current.base if self.current is not None and not self.current.is_view else None

    @property
    def view(self) -> Base | None:
        """The view whose place the node's table takes."""
        return self.current.base if self.current is not None and self.current.is_view else None

    def get_relation(self, name: str) -> Relation:
        """The relation of a table that the node reads, in the catalog."""
        node = self.project.nodes.get(name)
        return node.relation if node is not None else self.externals.get(name, self.project.externals[name].relation)

    def get_state(self, name: str) -> TableState | None:
        """A table that the node reads, at the version of this build."""
        return self.states(self.get_relation(name))

    def get_version_key(self, name: str) -> str:
        """The name under which the version of a table that was read is recorded."""
        node = self.project.nodes.get(name)
        return str(node.relation if node is not None else self.project.externals[name].relation)

    def render_query(self, window: Mapping[str, str] | None = None) -> Rendered:
        """The node's query at the versions of this build, for a window where it is one of windows."""
        if self.rows_from:
            return Rendered(f"SELECT * FROM {self.rows_from}", ())
        return render_query(self.node, self.pinned, self.live, window, self.at_version)

    @property
    def pinned(self) -> Name:
        """References as relations at the versions of this build."""
        return build_pinned_names(self.project, self.catalog, self.externals, self.states, self.files)

    @property
    def at_version(self) -> AtVersion:
        """Tables at the versions that the query itself asks for, as this build has found them."""
        return build_version_names(self.project, self.catalog, self.externals, self.states)

    def check_files(self) -> None:
        """Raise when files that the node has read are not what they were when the build looked at them."""
        check_files(self.node, self.project, self.files)

    def build_shape(self, columns: tuple[Any, ...], keeps_rows: bool = False) -> Shape:
        """What the node's table is to look like."""
        settings = self.node.settings
        comments = self.comments
        return Shape(
            keeps_rows=keeps_rows,
            columns=tuple(replace(c, comment=comments.get(c.name.lower(), "")) for c in columns),
            partitioned_by=tuple(settings.get("partitioned_by", ())),
            sorted_by=tuple(settings.get("sorted_by", ())),
            properties={
                MODEL: self.node.name,
                **({"comment": self.node.description} if self.node.description else {}),
                **{k: str(v) for k, v in settings.get("table_properties", {}).items()},
            },
        )

    @property
    def comments(self) -> dict[str, str]:
        """What the model says of its columns, by their names in lower case."""
        described = self.node.settings.get("columns", {}) if self.node.type == "model" else {}
        return {name.lower(): text for name, text in described.items() if text}

    @property
    def added_identity(self) -> CommitIdentity:
        """What is added to the identity of the rows; later additions win."""
        return reduce(CommitIdentity.merge, self.additions, self.window_rows.identity)

    def build_identity(
        self, content: str | None, run_type: str | None = None, passed: CommitIdentity | None = None
    ) -> CommitIdentity:
        """What is committed with the rows: who they are and what they were made from."""
        node = self.node
        identity = CommitIdentity(
            model=node.name,
            local_hash=node.local_hash,
            version_hash=node.version_hash,
            query_hash=node.query_hash,
            config_hash=node.config_hash,
            canonical=compute_canonical_stamp(),
            sources=record_sources(self.inputs),
            run_id=self.run_id,
            run_type=run_type or self.planned.run_type,
            seconds=f"{self.work.seconds:.3f}",
            timings=self._record_timing(run_type or self.planned.run_type),
            version=__version__,
            identity_version=str(IDENTITY_VERSION),
            functions=encode_functions(node),
            written_hash=node.written_hash,
            settings=encode_settings(node, self.project),
        )
        identity = identity.merge(passed or CommitIdentity()).merge(self.added_identity)
        if content is not None:
            identity = identity.merge(self._build_content_identity(content, identity.unchanged_columns))
        has_post_hooks = any(hook.when == "post" for hook in node.hooks)
        return identity.merge(CommitIdentity(git=self.git, post_hooks="due" if has_post_hooks else ""))

    def _record_timing(self, run_type: str) -> str:
        """The times of the last runs, with this one where it tells of the next."""
        before = self.current.known_identity if self.current is not None else CommitIdentity()
        past = before.timings if before.local_hash == self.node.local_hash else ""
        if self.work.rows is None:
            return past
        run: Run = "incremental" if run_type == "incremental" else "full"
        return record_timing(past, run, self.work.seconds, self.work.rows)

    def begin_work(self, rows: int | None = None) -> NodeContext:
        """The same node, which begins to work now: waiting for Spark is no part of it."""
        return replace(self, work=Work(rows=rows))

    def count_input_rows(self) -> int:
        """The rows of the tables that the node reads, as far as they are known."""
        states = [self.states(self.get_relation(name)) for name in self.node.upstream]
        return sum((state.rows or 0) if state is not None else 0 for state in states)

    def _build_content_identity(self, content: str, unchanged: str) -> CommitIdentity:
        """The content, and what was done again, for those who read the rows; a replay that leaves them is left out."""
        before = self.current.known_identity if self.current is not None else CommitIdentity()
        event = None
        if self.replay is not None and before.content != content:
            parts = (names for was, _, names in parse_unchanged_columns(unchanged) if was == before.content)
            span = self.window_rows.replayed
            replay = replace(self.replay, spans=(span,)) if span is not None else self.replay
            event = ReplayEvent(self.run_id, replay, tuple(map(frozenset, parts)))
        replays, seen = encode_events(parse_events(before), event), self.replays_seen
        return CommitIdentity(
            content=content, replays=replays if replays != "[]" else "", replays_seen=seen if seen != "{}" else ""
        )

    def format_relation(self) -> str:
        return quote(self.catalog, self.node.relation.schema, self.node.relation.name)
