"""Tables of models that have another name now: looked up by their old names, and given the new ones.

A rename is one step of the catalog: before it the old name has the table, after it the new one. What is in the table
stays, its snapshots and its identity too, so that nothing has to be built again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqb.compile.model import Node, Project
from sqb.errors.project import BadRename
from sqb.lake.port import Pointer, Relations, build_conflict
from sqb.light_dataclass import dataclass
from sqb.names import At, Relation


@dataclass(frozen=True, slots=True)
class Rename:
    """A table or view that gets the name that its model has now."""

    model: str
    former_model: str
    pointer: Pointer
    relation: Relation

    @property
    def text(self) -> str:
        """What it is, in words."""
        what = "view" if self.pointer.is_view else "table"
        return f"{self.model}: renamed from {self.former_model}, with its {what} {self.pointer.relation}"


def find_renames(
    project: Project, lake: Relations, pointers: Mapping[Relation, Pointer] | None = None
) -> tuple[Rename, ...]:
    """The relations that still have the former name of a model; refused where the new name has one too.

    The catalog is asked for its pointers, if they are not given, only where a model was renamed.
    """
    renamed = [node for node in project if node.former_names]
    if not renamed:
        return ()
    pointers = lake.list_pointers() if pointers is None else pointers
    due = [
        (node, name, pointers[relation])
        for node in renamed
        for name, relation in zip(node.former_names, node.former_relations, strict=True)
        if relation != node.relation and relation in pointers
    ]
    if not due:
        return ()
    states = lake.read_tables([pointer for _, _, pointer in due])
    renames: dict[str, Rename] = {}
    for node, name, pointer in due:
        made_by = states[pointer.relation].known_identity.model if pointer.relation in states else ""
        if made_by.lower() not in {former.lower() for former in node.former_names}:
            # Something else has the name by now.
            continue
        if node.relation in pointers or node.name in renames:
            taken = renames[node.name].pointer.relation if node.name in renames else node.relation
            raise _build_conflict_error(node, pointer.relation, taken)
        renames[node.name] = Rename(node.name, name, pointer, node.relation)
    return tuple(renames.values())


def _build_conflict_error(node: Node, before: Relation, after: Relation) -> BadRename:
    return BadRename(
        f"{node.name} was renamed, and both {before} and {after} are there: which rows are its own is not known",
        at=At(node.file),
        hint=f"drop the one that you do not need, or remove `renamed_from`: then {before} is a table without a model",
    )


def project_renames(pointers: Mapping[Relation, Pointer], renames: Sequence[Rename]) -> Mapping[Relation, Pointer]:
    """The catalog as it will be when these renames are done."""
    if not renames:
        return pointers
    moved = {rename.relation: replace(rename.pointer, relation=rename.relation) for rename in renames}
    gone = {rename.pointer.relation for rename in renames}
    return {**{relation: pointer for relation, pointer in pointers.items() if relation not in gone}, **moved}


def apply_renames(lake: Relations, renames: Sequence[Rename]) -> None:
    """Rename relations, each in one step; one that has changed meanwhile is a conflict, and stays."""
    for rename in renames:
        if not lake.rename(rename.pointer, rename.relation):
            raise build_conflict(rename.pointer.relation)
