"""Promotes one virtual environment to another, and rolls one back. Nothing is built, and no Java starts."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from sqb.build.failpoints import read_failpoint
from sqb.environments.model import Checkpoint, Ref
from sqb.environments.promotion.promote import PromotionOptions, PromotionResult, promote
from sqb.environments.promotion.rollback import RollbackResult, roll_back
from sqb.environments.promotion.three_way_merge import Misfit, Step
from sqb.environments.selection import select_nodes
from sqb.environments.session import describe_owner, get_default_environment, open_workspace_store
from sqb.lake.open import open_lake
from sqb.operations.environment import open_environment
from sqb.operations.selection import Wanted, answer, describe_surroundings
from sqb.selection.selectors_file import find_selector
from sqb.workspace import Workspace

_CHANGES = ("added", "removed", "changed", "data")


@dataclass(frozen=True, slots=True)
class PromoteOptions:
    """Which environment is promoted to which, and how."""

    source: str
    to: str
    select: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    selector: str | None = None
    allow_partial_promotion: bool = False
    include_stale_upstreams: bool = False
    merged: bool = False
    dry_run: bool = False
    take_over: bool = False


@dataclass(frozen=True, slots=True)
class RollbackOptions:
    """Which environment is rolled back, and to which checkpoint."""

    virtual_env: str | None = None
    checkpoint: str | None = None
    dry_run: bool = False
    take_over: bool = False


@dataclass(frozen=True, slots=True)
class PromoteOutcome:
    """What `sqb promote` did, or would do."""

    result: PromotionResult
    dry_run: bool
    seconds: float

    def to_data(self) -> dict[str, Any]:
        """What `sqb promote --json` prints."""
        promotion, checkpoint = self.result.promotion, self.result.checkpoint
        return {
            "from": self.result.source,
            "to": self.result.target,
            "dry_run": self.dry_run,
            "status": str(promotion.status),
            "checkpoint": _encode_checkpoint(checkpoint) if checkpoint is not None else None,
            "nodes": [_encode_step(s) for s in promotion.steps],
            "included": list(promotion.included),
            "kept": list(promotion.unchanged),
            "unselected": list(promotion.unselected),
            "stale": [_encode_misfit(m) for m in promotion.misfits],
            "summary": _encode_summary(promotion.steps, self.result.views, self.seconds),
        }


@dataclass(frozen=True, slots=True)
class RollbackOutcome:
    """What `sqb rollback` did, or would do."""

    result: RollbackResult
    dry_run: bool
    seconds: float

    def to_data(self) -> dict[str, Any]:
        """What `sqb rollback --json` prints."""
        result = self.result
        return {
            "environment": result.environment,
            "dry_run": self.dry_run,
            "status": str(result.status),
            "checkpoint": _encode_checkpoint(result.checkpoint),
            "nodes": [_encode_step(s) for s in result.steps],
            "stale": [_encode_misfit(m) for m in result.left],
            "summary": _encode_summary(result.steps, result.views, self.seconds),
        }


def promote_environment(workspace: Workspace, options: PromoteOptions) -> PromoteOutcome:
    """Make one environment show what another one shows."""
    started_at = time.monotonic()
    with closing(open_workspace_store(workspace)) as store:
        result = promote(
            workspace,
            store,
            open_lake(workspace),
            options.source,
            options.to,
            _build_selection(workspace, options),
            PromotionOptions(
                allow_partial=options.allow_partial_promotion,
                include_stale_upstreams=options.include_stale_upstreams,
                dry_run=options.dry_run,
                take_over=options.take_over,
                merged=options.merged,
            ),
            describe_owner("promote"),
            read_failpoint(),
        )
    return PromoteOutcome(result, options.dry_run, time.monotonic() - started_at)


def _build_selection(
    workspace: Workspace, options: PromoteOptions
) -> Callable[[Mapping[str, Ref], Mapping[str, Ref]], frozenset[str] | None]:
    """What the selectors mean among the nodes of both; what was changed and what failed is asked of --from."""
    wanted = Wanted(options.select, options.exclude, options.selector)
    named = find_selector(workspace.root, wanted.selector) if wanted.selector is not None else None

    def ask(method: str, value: str) -> Collection[str]:
        return answer(open_environment(workspace, options.source), method, value)

    around = describe_surroundings(workspace.project, ask)
    return lambda mine, theirs: select_nodes(
        wanted.select, workspace.project, mine, theirs, around=around, exclude=wanted.exclude, named=named
    )


def roll_back_environment(workspace: Workspace, options: RollbackOptions) -> RollbackOutcome:
    """Make an environment show what it showed at a checkpoint."""
    started_at = time.monotonic()
    name = options.virtual_env if options.virtual_env is not None else get_default_environment(workspace)
    with closing(open_workspace_store(workspace)) as store:
        result = roll_back(
            workspace,
            store,
            open_lake(workspace),
            name,
            options.checkpoint,
            dry_run=options.dry_run,
            take_over=options.take_over,
            owner=describe_owner("rollback"),
            announce=read_failpoint(),
        )
    return RollbackOutcome(result, options.dry_run, time.monotonic() - started_at)


def _encode_checkpoint(checkpoint: Checkpoint) -> dict[str, Any]:
    return {
        "id": checkpoint.id,
        "number": checkpoint.number,
        "parent": checkpoint.parent or None,
        "reason": checkpoint.reason,
        "detail": checkpoint.detail,
        "created_at": checkpoint.created_at.isoformat(),
    }


def _encode_step(step: Step) -> dict[str, Any]:
    return {"name": step.name, "change": step.what, "before": step.before or None, "after": step.after or None}


def _encode_misfit(misfit: Misfit) -> dict[str, Any]:
    return {"name": misfit.name, "made_from_other_versions_of": list(misfit.reads)}


def _encode_summary(steps: Sequence[Step], views: int, seconds: float) -> dict[str, Any]:
    counts = {what: sum(s.what == what for s in steps) for what in _CHANGES}
    return {**counts, "views": views, "executed": 0, "seconds": round(seconds, 3)}
