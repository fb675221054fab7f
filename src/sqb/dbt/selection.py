"""What of a dbt project was selected: dbt itself tells, and what it told is remembered."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from sqb.dbt.command import Dbt, asked
from sqb.dbt.current import keep_project, keep_selections, look_before, read_current
from sqb.dbt.values import DbtProject
from sqb.errors_dbt import NothingSelected

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Chosen:
    """The user's selection, in dbt's words."""

    select: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    selector: str | None = None
    resource_types: tuple[str, ...] = ()
    exclude_resource_types: tuple[str, ...] = ()
    indirect: str | None = None
    # The folder of a manifest that `state:` compares with.
    state: str | None = None

    @property
    def arguments(self) -> tuple[str, ...]:
        """The same as arguments of dbt."""
        words: list[str] = []
        for option, values in (("--select", self.select), ("--exclude", self.exclude)):
            words += [option, *values] if values else []
        for option, types in (
            ("--resource-type", self.resource_types),
            ("--exclude-resource-type", self.exclude_resource_types),
        ):
            words += [word for one in types for word in (option, one)]
        for option, value in (
            ("--selector", self.selector),
            ("--indirect-selection", self.indirect),
            ("--state", self.state),
        ):
            words += [option, value] if value is not None else []
        return tuple(words)

    @property
    def is_everything(self) -> bool:
        return not self.arguments


def read_project(dbt: Dbt, chosen: Chosen, tell: Tell) -> tuple[DbtProject, tuple[str, ...]]:
    """The dbt project and the ids of what is selected of it; dbt is asked only for what is not known."""
    key = json.dumps(chosen.arguments)
    project = read_current(dbt)
    # What a selection by state compares with may have changed.
    found = project.selections.get(key) if project is not None and chosen.state is None else None
    if project is not None and found is not None:
        return project, _refuse_nothing(chosen, found)
    tell("Asking dbt what is selected" if project is not None else "Asking dbt about its project")
    if project is not None:
        found = _listed(dbt, chosen)
        project = replace(project, selections={**project.selections, key: found})
        keep_selections(dbt, project)
        return project, _refuse_nothing(chosen, found)
    from sqb.dbt.context import read_context  # what reads manifests is not needed while a project is as it was
    from sqb.dbt.manifest import read_manifest

    basis = look_before(dbt)
    # Listing parses the project too, and writes its manifest.
    found = _listed(dbt, chosen)
    given = dbt.given
    context = read_context(
        dbt.project_dir,
        dbt.profiles_file.parent,
        profile=given.profile,
        target=given.target,
        variables=_variables(given.variables),
        catalog=dbt.catalog,
    )
    project = replace(read_manifest(dbt.manifest, context), selections={key: found})
    keep_project(dbt, basis, project)
    return project, _refuse_nothing(chosen, found)


def _variables(text: str | None) -> dict[str, Any]:
    """The values in dbt's --vars, which dbt has read already."""
    import yaml  # see above

    found = yaml.safe_load(text) if text else {}
    return found if isinstance(found, dict) else {}


def _listed(dbt: Dbt, chosen: Chosen) -> tuple[str, ...]:
    said = asked(dbt, "ls", "--quiet", "--output", "json", "--output-keys", "unique_id", *chosen.arguments)
    return tuple(_ids(said.splitlines()))


def _ids(lines: Iterable[str]) -> Iterable[str]:
    """The ids in what `dbt ls` printed; macros may have printed something too."""
    for line in lines:
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict) and isinstance(found.get("unique_id"), str):
            yield found["unique_id"]


def _refuse_nothing(chosen: Chosen, found: tuple[str, ...]) -> tuple[str, ...]:
    if not found and not chosen.is_everything:
        raise NothingSelected(
            f"nothing in the dbt project is selected by {' '.join(chosen.arguments)}",
            hint="`dbt ls` with the same options shows what they select",
        )
    return found
