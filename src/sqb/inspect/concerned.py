"""Who is concerned when nodes run: the exposures that read them, and the owners and groups they belong to."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqb.compile.model import Exposure, Project
from sqb.light_dataclass import dataclass
from sqb.plan.model import Plan


@dataclass(frozen=True, slots=True)
class Concerned:
    """The exposures with what each reads of the nodes, and the nodes of each owner and group."""

    exposures: tuple[tuple[Exposure, tuple[str, ...]], ...] = ()
    owners: tuple[tuple[str, tuple[str, ...]], ...] = ()
    groups: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.exposures or self.owners or self.groups)

    def to_data(self) -> dict[str, Any]:
        """What `--json` prints under `concerned`."""
        return {
            "exposures": [
                {"name": e.name, "type": e.type, "owner": e.owner or None, "url": e.url or None, "reads": list(reads)}
                for e, reads in self.exposures
            ],
            "owners": {owner: list(names) for owner, names in self.owners},
            "groups": {group: list(names) for group, names in self.groups},
        }


def find_concerned(project: Project, plan: Plan) -> Concerned:
    """Who is concerned when a plan is carried out."""
    names = {n.name for n in plan.nodes if n.action == "run" and n.run_type != "check"}
    if not names:
        return Concerned()
    exposures = [(e, _list_read(e.depends_on, names, project)) for e in project.exposures.values()]
    return Concerned(
        tuple((exposure, reads) for exposure, reads in exposures if reads),
        _group_by("owner", names, project),
        _group_by("group", names, project),
    )


def _list_read(depends_on: Collection[str], names: Collection[str], project: Project) -> tuple[str, ...]:
    """The nodes among those named that are read, also through views, which do not run themselves."""
    read: dict[str, None] = {}
    stack = list(reversed(list(depends_on)))
    while stack:
        name = stack.pop()
        if name in names:
            read[name] = None
        elif name in project.nodes and project.nodes[name].kind == "view":
            stack.extend(reversed(project.nodes[name].upstream))
    return tuple(read)


def _group_by(key: str, names: Collection[str], project: Project) -> tuple[tuple[str, tuple[str, ...]], ...]:
    by_name: dict[str, list[str]] = {}
    for name, node in project.graph.items():
        if name in names and node.settings.get(key):
            by_name.setdefault(str(node.settings[key]), []).append(name)
    return tuple((owner, tuple(listed)) for owner, listed in by_name.items())
