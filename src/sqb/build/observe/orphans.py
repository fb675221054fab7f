"""Tables and views that sqb made from models that are gone: deleted, renamed or switched off."""

from __future__ import annotations

from sqb.compile.model import Project
from sqb.lake.port import STAGE_SCHEMA, STATE_TABLES, Lake
from sqb.light_dataclass import dataclass
from sqb.names import Relation
from sqb.plan.recorded.group_state import is_state_schema


@dataclass(frozen=True, slots=True)
class Orphan:
    """A relation that sqb made and that no model of the target makes any more."""

    relation: Relation
    model: str
    is_view: bool
    rows: int | None


def find_orphans(project: Project, lake: Lake) -> tuple[Orphan, ...]:
    """The relations in the target's schemas that sqb made from models which are not there.

    What sqb did not make is never among them, nor what a loader fills.
    """
    expected = {node.relation for node in project} | {external.relation for external in project.externals.values()}
    schemas = set(project.schemas)
    pointers = lake.list_pointers()
    # The next build takes these along to the new names of their models.
    expected |= {former for node in project if node.relation not in pointers for former in node.former_relations}
    unexpected = [
        pointer
        for relation, pointer in pointers.items()
        if relation.schema in schemas and relation not in expected and not _is_internal(relation)
    ]
    if not unexpected:
        return ()
    states = lake.read_tables(unexpected)
    return tuple(
        Orphan(relation, state.known_identity.model, state.is_view, state.rows)
        for relation, state in sorted(states.items())
        if state.known_identity.model and state.known_identity.model not in project.nodes
    )


def _is_internal(relation: Relation) -> bool:
    return relation.name in STATE_TABLES or relation.schema == STAGE_SCHEMA or is_state_schema(relation.schema)


def describe_orphans(orphans: tuple[Orphan, ...], has_new_models: bool) -> str:
    """That there are some, on one line; one of the models that are new may be one of them under another name."""
    few = ", ".join(str(orphan.relation) for orphan in orphans[:3])
    more = f" and {len(orphans) - 3} more" if len(orphans) > 3 else ""
    what = "a table" if len(orphans) == 1 else f"{len(orphans)} tables"
    are = "is" if len(orphans) == 1 else "are"
    them = "it" if are == "is" else "them"
    renamed = "; if a model was renamed, `renamed_from` in its header takes its table along" if has_new_models else ""
    return f"there {are} {what} of models that are gone: {few}{more}; `sqb drop` removes {them}{renamed}"
