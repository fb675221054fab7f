"""A node's turn: everything that a kind needs to build one node, and nothing of the build around it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqb import __version__
from sqb.build.render import Name, live_names, pinned_names, render
from sqb.build.steps import Announce, silent
from sqb.compiled import Node, Project
from sqb.lake.jdbc import JdbcLake
from sqb.lake.port import Base, Published, Shape, TableState
from sqb.names import Relation, quote
from sqb.plan.observed import Input, Version, record_sources
from sqb.plan.values import PlannedNode
from sqb.sql.canonical import canonical_stamp
from sqb.workspace import Workspace

if TYPE_CHECKING:
    from sqb.build.render import Rendered


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


@dataclass(frozen=True, slots=True)
class Turn:
    """One node, what stands at its relation, and what it reads."""

    node: Node
    planned: PlannedNode
    workspace: Workspace
    lake: JdbcLake
    standing: TableState | None
    inputs: tuple[tuple[Input, Version], ...]
    # What stands at a relation at the version of this build, and where externals are in the catalog.
    states: Callable[[Relation], TableState | None]
    externals: Mapping[str, Relation]
    session: Callable[[], Any]
    run_id: str = ""
    git: str = ""
    announce: Announce = silent
    # One moment for the whole build, so that histories of different models agree on when something changed.
    now: datetime = datetime.min
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
        return live_names(self.project, self.catalog, self.externals)

    @property
    def base(self) -> Base | None:
        """The table that the turn starts from; a view in its place is replaced, not continued."""
        return self.standing.base if self.standing is not None and not self.standing.is_view else None

    def relation_of(self, name: str) -> Relation:
        """Where a table that the node reads stands in the catalog."""
        node = self.project.nodes.get(name)
        return node.relation if node is not None else self.externals[name]

    def state_of(self, name: str) -> TableState | None:
        """A table that the node reads, at the version of this build."""
        return self.states(self.relation_of(name))

    def key_of(self, name: str) -> str:
        """The name under which the version of a table that was read is recorded."""
        node = self.project.nodes.get(name)
        return str(node.relation if node is not None else self.project.externals[name].relation)

    def query(self) -> Rendered:
        """The node's query at the versions of this build."""
        pinned = pinned_names(self.project, self.catalog, self.externals, self.states)
        return render(self.node, pinned, self.live)

    def shape(self, columns: tuple[Any, ...], keeps_rows: bool = False) -> Shape:
        """What the node's table is to look like."""
        settings = self.node.settings
        return Shape(
            keeps_rows=keeps_rows,
            columns=columns,
            partitioned_by=tuple(settings.get("partitioned_by", ())),
            sorted_by=tuple(settings.get("sorted_by", ())),
            properties={
                "sqb.model": self.node.name,
                **({"comment": self.node.description} if self.node.description else {}),
                **{k: str(v) for k, v in settings.get("table_properties", {}).items()},
            },
        )

    def identity(self, content: str | None, run_type: str | None = None) -> dict[str, str]:
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
        }
        if content is not None:
            found["sqb.content"] = content
        if self.git:
            found["sqb.git"] = self.git
        return found

    def relation_text(self) -> str:
        return quote(self.catalog, self.node.relation.schema, self.node.relation.name)


def publish_or_keep(
    turn: Turn, stage: Any, rows: int, content: str, gone: Collection[str] | None = None, run_type: str | None = None
) -> Outcome:
    """Publish staged rows, or keep the present ones under the new identity when they are the same rows.

    Keeping is the early cutoff: what reads this relation sees that its content did not change, and does not run.
    """
    standing = turn.standing
    same = (
        standing is not None
        and not standing.drifted
        and stage.same_shape
        and standing.identity.get("sqb.content") == content
    )
    turn.announce("before publish", turn.node.name)
    published: Published
    if same and turn.base is not None:
        published = turn.lake.touch(turn.node.relation, turn.base, turn.identity(content, run_type))
        turn.lake.discard(stage)
    else:
        published = turn.lake.publish(stage, turn.identity(content, run_type), gone)
    turn.announce("published", turn.node.name)
    return Outcome(0 if same else rows, published.snapshot_id, published.state, identical=same, run_type=run_type)


def keep_rows(turn: Turn, content: str | None, run_type: str) -> Outcome:
    """Record that the node is up to date with what it read, without touching a row."""
    assert turn.base is not None
    turn.announce("before publish", turn.node.name)
    published = turn.lake.touch(turn.node.relation, turn.base, turn.identity(content, run_type))
    turn.announce("published", turn.node.name)
    return Outcome(0, published.snapshot_id, published.state, identical=True, run_type=run_type)


@contextmanager
def stage_for(turn: Turn, shape: Shape) -> Iterator[Any]:
    """A stage for a node's rows; whatever fails before the publish leaves nothing behind."""
    turn.announce("before stage", turn.node.name)
    stage = turn.lake.stage(turn.node.relation, shape, turn.base, turn.run_id)
    try:
        turn.announce("staged", turn.node.name)
        yield stage
    except BaseException:
        turn.lake.discard(stage)
        raise


def stage_text(turn: Turn, stage: Any) -> str:
    """A stage's name in SQL."""
    return quote(turn.catalog, stage.relation.schema, stage.relation.name)
