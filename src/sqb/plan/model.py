"""A Plan is data: it prints, round-trips through JSON, and is what is executed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, field
from enum import StrEnum
from typing import Any, Literal

from sqb.light_dataclass import dataclass
from sqb.names import Relation
from sqb.plan.recorded.versions import RecordedVersion, decode_sources

Action = Literal["run", "skip", "blocked"]
RunType = Literal["skip", "backfill", "incremental", "full", "reuse", "check"]


class Reason(StrEnum):
    """Why a node runs, is skipped or is blocked, in the order of precedence."""

    FIRST_RUN = "First run"
    RELATION_MISSING = "Relation missing"
    QUERY_CHANGED = "Query changed"
    CONFIG_CHANGED = "Config changed"
    FUNCTION_CHANGED = "Function changed"
    CODE_CHANGED = "Code changed"
    SCHEMA_CHANGED = "Schema changed"
    CHANGED_OUTSIDE = "Changed outside sqb"
    FORCED = "Forced"
    FULL_REFRESH = "Full refresh"
    SOURCE_CHANGED = "Source changed"
    UPSTREAM_CHANGED = "Upstream changed"
    HOOKS_MISSING = "Post-hooks missing"
    RUN_DESPITE_UNCHANGED = "Run despite unchanged"
    LAST_RUN_FAILED = "Last run failed"
    EVERY_BUILD = "Every build"
    CHECKS_CHANGED = "Checks changed"
    NORMAL = "Normal"
    SOURCE_TOO_OLD = "Source too old"
    SOURCE_UNKNOWN = "Source unknown"
    RELATION_FOREIGN = "Relation not made by sqb"
    UPSTREAM_MISSING = "Upstream missing"
    UPSTREAM_BLOCKED = "Upstream blocked"
    UPSTREAM_FAILED = "Upstream failed"


@dataclass(frozen=True, slots=True)
class Cause:
    """A reason to run or to be blocked, what was compared, and whether it is certain before anything has run."""

    reason: Reason
    detail: str = ""
    pending: bool = False


@dataclass(frozen=True, slots=True)
class Reuse:
    """What a node takes over from another target instead of being built."""

    relation: Relation
    snapshot_id: int
    # The versions that it was made from, by their names in this target.
    sources: Mapping[str, RecordedVersion]
    # The inputs that have moved on since, or may do so in this build: their changes come on top.
    moved: tuple[str, ...] = ()
    # Its checks have passed there.
    checked: bool = True
    # Its rows are copied, not shared.
    copied: bool = False
    target: str = ""

    def to_data(self) -> dict[str, Any]:
        sources = {key: version.to_json() for key, version in self.sources.items()}
        return {**asdict(self), "relation": str(self.relation), "sources": sources, "moved": list(self.moved)}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Reuse:
        sources = decode_sources(data["sources"])
        relation = Relation.parse(data["relation"])
        return cls(**{**data, "relation": relation, "sources": sources, "moved": tuple(data["moved"])})


@dataclass(frozen=True, slots=True)
class Prior:
    """The version of a node that its new version begins as: a clone, which is then brought up to date."""

    relation: Relation
    snapshot_id: int
    # Its checks have passed there.
    checked: bool = True

    def to_data(self) -> dict[str, Any]:
        return {"relation": str(self.relation), "snapshot_id": self.snapshot_id, "checked": self.checked}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Prior:
        return cls(**{**data, "relation": Relation.parse(data["relation"])})


@dataclass(frozen=True, slots=True)
class Root:
    """A node or source that started a cascade, and what happened to it."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class DataChange:
    """How much a table that a node reads has changed since the node read it, as far as snapshots tell.

    The rows are None where they do not; `estimated` where they are an upper bound: rows that were rewritten as they
    were count as removed and added.
    """

    source: str
    rows_added: int | None
    rows_removed: int | None
    from_snapshot: int | None
    to_snapshot: int | None
    estimated: bool = False

    def to_data(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "rows_added": self.rows_added,
            "rows_removed": self.rows_removed,
            "from": self.from_snapshot,
            "to": self.to_snapshot,
            "estimated": self.estimated,
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> DataChange:
        return cls(
            data["source"], data["rows_added"], data["rows_removed"], data["from"], data["to"], data["estimated"]
        )


@dataclass(frozen=True, slots=True)
class PlannedNode:
    """The decision about one node, and what it rests on."""

    name: str
    type: str
    kind: str
    # None for a Python node that has no table.
    relation: Relation | None
    action: Action
    run_type: RunType
    reason: Reason
    detail: str = ""
    incremental: Mapping[str, Any] | None = None
    upstream: tuple[str, ...] = ()
    # It runs only if its upstream nodes turn out different once they have run.
    pending: bool = False
    notices: tuple[str, ...] = ()
    # Of an `incremental` model that does something again: the scope, and the node whose change is the cause.
    replay: Mapping[str, str] | None = None
    reuse: Reuse | None = None
    # In a virtual environment: the version that stands for it until now, where the one to come has no table yet.
    prior: Prior | None = None
    # What started the cascade that it is part of, and how much the tables that it reads have changed.
    root: tuple[Root, ...] = ()
    changes: tuple[DataChange, ...] = ()
    # Of a log: the tables whose changes it adds, and those that it reads at their newest version.
    drivers: tuple[str, ...] = ()
    lookups: tuple[str, ...] = ()

    def to_data(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "type": self.type,
            "kind": self.kind,
            "relation": str(self.relation) if self.relation is not None else None,
            "action": self.action,
            "run_type": self.run_type,
            "reason": str(self.reason),
            "detail": self.detail,
            "incremental": dict(self.incremental) if self.incremental else None,
            "upstream": list(self.upstream),
            "pending": self.pending,
            "notices": list(self.notices),
            "replay": dict(self.replay) if self.replay else None,
            "reuse": self.reuse.to_data() if self.reuse else None,
            "prior": self.prior.to_data() if self.prior else None,
            "root": [{"name": r.name, "reason": r.reason} for r in self.root],
            "changes": [c.to_data() for c in self.changes],
            "drivers": list(self.drivers),
            "lookups": list(self.lookups),
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> PlannedNode:
        return cls(
            name=data["name"],
            type=data["type"],
            kind=data["kind"],
            relation=Relation.parse(data["relation"]) if data["relation"] is not None else None,
            action=data["action"],
            run_type=data["run_type"],
            reason=Reason(data["reason"]),
            detail=data["detail"],
            incremental=data["incremental"],
            upstream=tuple(data["upstream"]),
            pending=data["pending"],
            notices=tuple(data["notices"]),
            replay=data["replay"],
            reuse=Reuse.from_data(data["reuse"]) if data["reuse"] else None,
            prior=Prior.from_data(data["prior"]) if data["prior"] else None,
            root=tuple(Root(r["name"], r["reason"]) for r in data["root"]),
            changes=tuple(DataChange.from_data(c) for c in data["changes"]),
            drivers=tuple(data.get("drivers", ())),
            lookups=tuple(data.get("lookups", ())),
        )


def is_producing_rows(above: PlannedNode | None) -> bool:
    """Whether an upstream node is built again; a run of its checks alone leaves its rows."""
    return above is not None and above.action == "run" and above.run_type != "check"


@dataclass(frozen=True, slots=True)
class Options:
    """What the caller asked for."""

    selected: frozenset[str] | None = None
    force: bool = False
    full_refresh: bool = False
    # The window that `incremental` models are to be run for, as written; None where it is to be found out.
    start_cursor: str | None = None
    end_cursor: str | None = None

    @property
    def has_window(self) -> bool:
        return self.start_cursor is not None or self.end_cursor is not None


@dataclass(frozen=True, slots=True)
class Plan:
    """What a build would do, node by node, each after what it reads."""

    target: str
    nodes: tuple[PlannedNode, ...]
    warnings: tuple[str, ...] = ()
    options: Options = field(default=Options())

    @property
    def summary(self) -> dict[str, int]:
        return {a: sum(n.action == a for n in self.nodes) for a in ("run", "skip", "blocked")}

    @property
    def nothing_to_do(self) -> bool:
        return not any(n.action == "run" for n in self.nodes)

    def to_data(self) -> dict[str, Any]:
        return {
            "target": self.target,
            "nodes": [n.to_data() for n in self.nodes],
            "summary": self.summary,
            "warnings": list(self.warnings),
        }

    def to_json(self) -> str:
        options = asdict(self.options)
        options["selected"] = sorted(self.options.selected) if self.options.selected is not None else None
        return json.dumps({**self.to_data(), "options": options})

    @classmethod
    def from_json(cls, text: str) -> Plan:
        data = json.loads(text)
        options = data["options"]
        selected = frozenset(options["selected"]) if options["selected"] is not None else None
        return cls(
            data["target"],
            tuple(PlannedNode.from_data(n) for n in data["nodes"]),
            tuple(data["warnings"]),
            Options(**{**options, "selected": selected}),
        )
