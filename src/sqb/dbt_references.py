"""`__dbt_ref("model")`: what a name means in the dbt project."""

from __future__ import annotations

from dataclasses import dataclass

from sqb.errors import Errors
from sqb.errors_dbt import DbtNotRead, UnknownDbtModel
from sqb.names import At, Relation, did_you_mean
from sqb.project.dbt_names import DbtName, DbtNames

# The kind of a reference that is written as `__dbt_ref`.
DBT = "dbt"


@dataclass(frozen=True, slots=True)
class DbtReferences:
    """The names of the dbt project, as far as they are known."""

    # The project has a section [dbt].
    configured: bool = False
    # None when the dbt project has not been read yet.
    names: DbtNames | None = None

    def find(self, name: str, at: At, errors: Errors) -> tuple[str, Relation] | None:
        """The id and the relation of what a name means; None when it is reported as wrong."""
        if not self.configured:
            message = f'"{name}" is to be a dbt model, but the project has no [dbt] section'
            hint = 'add to sqlbuild_project.toml: [dbt] and project_dir = "../dbt_project"'
            errors.add(UnknownDbtModel(message, at=at, hint=hint))
            return None
        if self.names is None:
            message = f'"{name}" is a dbt model, and the dbt project has not been read yet'
            errors.add(DbtNotRead(message, at=at, hint="run `sqb dbt plan` once"))
            return None
        found = self.names.named(name)
        if len(found) == 1 and found[0].relation is not None:
            return found[0].unique_id, found[0].relation
        errors.add(_refusal(name, found, self.names, at))
        return None


def _refusal(name: str, found: tuple[DbtName, ...], names: DbtNames, at: At) -> UnknownDbtModel:
    if len(found) > 1:
        full = sorted(f"{one.package}.{one.name}" for one in found)
        hint = f"write the one that you mean, for instance {full[0]}"
        return UnknownDbtModel(f'"{name}" could be {", ".join(full)} of the dbt project', at=at, hint=hint)
    if found:
        hint = "give it another materialization, or read what it reads"
        return UnknownDbtModel(f'the dbt model "{name}" is ephemeral and leaves no table to read', at=at, hint=hint)
    hint = did_you_mean(name, names.names) or "models that are new in the dbt project are found by `sqb dbt plan`"
    return UnknownDbtModel(f'no dbt model is called "{name}"', at=at, hint=hint)
