"""The selection of a dbt project: `dbt ls` resolves it, and the result is cached."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from sqb.dbt.command import Dbt, query_dbt
from sqb.dbt.model import DbtProject
from sqb.dbt.project.cache import read_current, read_inputs, write_project, write_selections
from sqb.errors.dbt import NothingSelected

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class DbtSelection:
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
            words += [word for type_name in types for word in (option, type_name)]
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


def read_project(dbt: Dbt, selection: DbtSelection, report: Report) -> tuple[DbtProject, tuple[str, ...]]:
    """The dbt project and the ids of what is selected of it; dbt is asked only for what is not known."""
    key = json.dumps(selection.arguments)
    project = read_current(dbt)
    # What a selection by state compares with may have changed.
    ids = project.selections.get(key) if project is not None and selection.state is None else None
    if project is not None and ids is not None:
        return project, _check_not_empty(selection, ids)
    report("Asking dbt what is selected" if project is not None else "Asking dbt about its project")
    if project is not None:
        ids = _list_selected(dbt, selection)
        project = replace(project, selections={**project.selections, key: ids})
        write_selections(dbt, project)
        return project, _check_not_empty(selection, ids)
    from sqb.dbt.project.context import read_context  # what reads manifests is not needed while a project is as it was
    from sqb.dbt.project.manifest import read_manifest

    inputs = read_inputs(dbt)
    # Listing parses the project too, and writes its manifest.
    ids = _list_selected(dbt, selection)
    arguments = dbt.arguments
    context = read_context(
        dbt.project_dir,
        dbt.profiles_file.parent,
        profile=arguments.profile,
        target=arguments.target,
        variables=_parse_variables(arguments.variables),
        catalog=dbt.catalog,
    )
    project = replace(read_manifest(dbt.manifest, context), selections={key: ids})
    write_project(dbt, inputs, project)
    return project, _check_not_empty(selection, ids)


def _parse_variables(text: str | None) -> dict[str, Any]:
    """The values in dbt's --vars, which dbt has read already."""
    import yaml  # see above

    variables = yaml.safe_load(text) if text else {}
    return variables if isinstance(variables, dict) else {}


def _list_selected(dbt: Dbt, selection: DbtSelection) -> tuple[str, ...]:
    output = query_dbt(dbt, "ls", "--quiet", "--output", "json", "--output-keys", "unique_id", *selection.arguments)
    return tuple(_parse_ids(output.splitlines()))


def _parse_ids(lines: Iterable[str]) -> Iterable[str]:
    """The ids in what `dbt ls` printed; macros may have printed something too."""
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict) and isinstance(entry.get("unique_id"), str):
            yield entry["unique_id"]


def _check_not_empty(selection: DbtSelection, ids: tuple[str, ...]) -> tuple[str, ...]:
    if not ids and not selection.is_everything:
        raise NothingSelected(
            f"nothing in the dbt project is selected by {' '.join(selection.arguments)}",
            hint="`dbt ls` with the same options shows what they select",
        )
    return ids
