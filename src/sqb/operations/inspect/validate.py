"""Everything that can be known of a project without running it: all errors at once. Starts no Java."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqb.build.observe.columns import observe_columns
from sqb.build.observe.lake import LakeState
from sqb.build.observe.mistakes import has_own_rules, iter_node_errors
from sqb.errors.base import SqbError, flatten
from sqb.errors.lake import LakeError
from sqb.operations.environment import open_environment
from sqb.plan.observed import Observed
from sqb.workspace import Workspace


@dataclass(frozen=True, slots=True)
class ValidateOptions:
    """Which environment's tables are looked at."""

    virtual_env: str | None = None


@dataclass(frozen=True, slots=True)
class Validation:
    """What was looked at, and everything that is wrong with it."""

    models: int
    errors: tuple[SqbError, ...] = ()
    warnings: tuple[str, ...] = ()

    def to_data(self) -> dict[str, Any]:
        """What `sqb validate --json` prints."""
        errors = [error.to_data() for error in self.errors]
        return {"models": self.models, "errors": errors, "warnings": list(self.warnings)}


def validate_project(open_workspace: Callable[[], Workspace], options: ValidateOptions) -> Validation:
    """Compile a project and derive the columns of all its models, as if everything ran."""
    try:
        workspace = open_workspace()
        environment = open_environment(workspace, options.virtual_env)
        workspace = environment.workspace
        seen = _observe(environment.observe, workspace)
    except SqbError as error:
        return Validation(0, tuple(sorted(flatten(error), key=SqbError.key)))
    nodes = workspace.project.nodes
    models = sum(node.type == "model" for node in nodes.values())
    if has_own_rules(workspace):
        return Validation(models)
    after = observe_columns(workspace, seen, frozenset(nodes))
    errors = [error for node in nodes.values() for error in iter_node_errors(workspace, node, after)]
    return Validation(models, tuple(sorted(errors, key=SqbError.key)))


def _observe(observe: Callable[[Workspace], LakeState], workspace: Workspace) -> LakeState:
    """The lake, or nothing of it where it cannot be reached: then only seeds have columns that are known."""
    try:
        return observe(workspace)
    except LakeError:
        return LakeState(Observed({}), {})
