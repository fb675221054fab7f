"""What a table name means: a node, a source, a table of the catalog, or by `__dbt_ref` a dbt model."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sqb.checks.model import Check, RelationRead
from sqb.compile.hooks import HookDraft, Meaning
from sqb.compile.model import External
from sqb.errors.base import Errors
from sqb.errors.dbt import DbtNotRead, UnknownDbtModel
from sqb.errors.project import AmbiguousReference, SelfReference, UnknownReference
from sqb.light_dataclass import dataclass
from sqb.names import At, Relation, locate_offset, suggest_nearest
from sqb.project.config.dbt_names import DbtName, DbtNames
from sqb.project.python.nodes import WrittenNode
from sqb.project.values import Seed, Setting, Source
from sqb.sql.analysis.query import Query
from sqb.sql.text.calls import FUNCTION
from sqb.sql.text.expand import Expanded
from sqb.sql.text.spans import Reference

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
        matches = self.names.find(name)
        if len(matches) == 1 and matches[0].relation is not None:
            return matches[0].unique_id, matches[0].relation
        errors.add(_build_refusal(name, matches, self.names, at))
        return None


def _build_refusal(name: str, matches: tuple[DbtName, ...], names: DbtNames, at: At) -> UnknownDbtModel:
    if len(matches) > 1:
        full = sorted(f"{match.package}.{match.name}" for match in matches)
        hint = f"write the one that you mean, for instance {full[0]}"
        return UnknownDbtModel(f'"{name}" could be {", ".join(full)} of the dbt project', at=at, hint=hint)
    if matches:
        hint = "give it another materialization, or read what it reads"
        return UnknownDbtModel(f'the dbt model "{name}" is ephemeral and leaves no table to read', at=at, hint=hint)
    hint = suggest_nearest(name, names.names) or "models that are new in the dbt project are found by `sqb dbt plan`"
    return UnknownDbtModel(f'no dbt model is called "{name}"', at=at, hint=hint)


# `__ref("name")` and the like.
_CALL = re.compile(r"__\w+\s*\([^)\n]*\)")


@dataclass(frozen=True, slots=True)
class WrittenQuery:
    """A query before functions took the place of their calls."""

    text: str
    query: Query


@dataclass(frozen=True, slots=True)
class Draft:
    """A model or seed before its references are resolved."""

    name: str
    folder: str
    type: str
    kind: str
    relation: Relation
    file: str
    at: At
    settings: Mapping[str, Setting]
    text: str = ""
    expanded: Expanded | None = None
    query: Query | None = None
    seed: Seed | None = None
    checks: tuple[Check, ...] = ()
    hooks: tuple[HookDraft, ...] = ()
    # Only where the query calls functions: how it was written, and the functions that it uses, directly or not.
    written: WrittenQuery | None = None
    functions: tuple[str, ...] = ()
    # A model that is a function of `python/models/`.
    python: WrittenNode | None = None
    # What it was called before, and where its relation was then, the newest first.
    former_names: tuple[str, ...] = ()
    former_relations: tuple[Relation, ...] = ()


class Resolver:
    """Finds what a table name in a query means."""

    def __init__(
        self,
        enabled: list[Draft],
        disabled: list[Draft],
        sources: tuple[Source, ...],
        catalog: str,
        dbt: DbtReferences = DbtReferences(),
    ) -> None:
        self.catalog = catalog.lower()
        self.dbt = dbt
        self.by_name = {d.name.lower(): d for d in enabled}
        self.by_relation = {str(d.relation).lower(): d for d in enabled}
        self.by_file: dict[str, list[Draft]] = {}
        for draft in enabled:
            self.by_file.setdefault(draft.name.rpartition(".")[2].lower(), []).append(draft)
        self.disabled = {d.name.lower(): d for d in disabled} | {d.name.rpartition(".")[2].lower(): d for d in disabled}
        self.sources = {s.name.lower(): s for s in sources}
        self.externals: dict[str, External] = {}
        # A model that was renamed is the one that it was: hashes know it by its first name.
        self._first_names = {d.name: d.former_names[-1] for d in enabled if d.former_names}

    def get_logical_name(self, name: str) -> str:
        if name in self.externals:
            return f"source:{name.lower()}"
        return f"node:{self._first_names.get(name, name).lower()}"

    def resolve(self, draft: Draft, index: int, errors: Errors) -> str:
        """The name of the node or external behind a reference; "" when it is reported as wrong."""
        slot = list_slots(draft)[index]
        at = locate_reference(draft, slot)
        if slot.kind == FUNCTION:
            name = slot.name.lower()
            self.externals.setdefault(name, External(name, build_function_relation(name), True, at))
            return name
        node = self._search_node(slot, at, errors, draft.name)
        if isinstance(node, Draft):
            if node.name == draft.name:
                errors.add(
                    SelfReference(
                        f"{draft.name} reads itself",
                        at=at,
                        hint="give the CTE or the table that you mean another name, or qualify it",
                    )
                )
                return ""
            return node.name
        return self._resolve_external(slot, at, errors) if node is None else ""

    def resolve_in_hook(self, slot: Reference, at: At, errors: Errors) -> Meaning:
        """What a name in a hook means; a table that the project does not know is left to Spark."""
        if slot.kind == DBT:
            dbt_model = self.dbt.find(slot.name, at, errors)
            return (f"source:{dbt_model[0].lower()}", dbt_model[1]) if dbt_model is not None else None
        node = self._search_node(slot, at, errors)
        if isinstance(node, Draft):
            return f"node:{node.name.lower()}", node.relation
        source = self.sources.get(slot.name.lower())
        if node is None and source is not None and source.relation is None and slot.kind in (None, "source"):
            what = "files" if source.path is not None else "an expression"
            message = f'"{slot.name}" is {what}, not a table that a hook can name'
            errors.add(UnknownReference(message, at=at, hint="name the model that reads it"))
            return None
        if node is None and source is not None and slot.kind in (None, "source"):
            return f"source:{source.name.lower()}", source.relation or Relation.parse(source.name)
        if node is None and slot.kind is not None:
            errors.add(self._build_unknown_error(slot, at))
        return None

    def resolve_name(self, read: RelationRead, errors: Errors) -> str:
        """The name of the node or external that a check reads; "" when it is reported as wrong."""
        slot = Reference(tuple(read.name.split(".")), 0, 0, None, (), read.kind)
        node = self._search_node(slot, read.at, errors)
        if isinstance(node, Draft):
            return node.name
        return self._resolve_external(slot, read.at, errors) if node is None else ""

    def resolve_in_source(self, slot: Reference, at: At, errors: Errors) -> str:
        """The external that a declared source reads; "" when it is reported as wrong."""
        if slot.kind == DBT or slot.name.lower() in self.sources:
            return self._resolve_external(slot, at, errors)
        node = self._search_node(slot, at, errors)
        if isinstance(node, Draft):
            errors.add(
                UnknownReference(
                    f'"{slot.name}" is built by the project; a source can only read what the project does not build',
                    at=at,
                    hint="make a model of the query: it belongs in models/",
                )
            )
            return ""
        return self._resolve_external(slot, at, errors) if node is None else ""

    def find_node(self, slot: Reference, at: At, errors: Errors) -> Draft | bool | None:
        """The node that a name means; None for none, False when it is reported as ambiguous."""
        return self._search_node(slot, at, errors)

    def _search_node(self, slot: Reference, at: At, errors: Errors, reader: str = "") -> Draft | bool | None:
        parts = [p.lower() for p in slot.parts]
        if len(parts) == 3 and parts[0] == self.catalog:
            parts = parts[1:]
        if slot.kind in ("source", DBT):
            return None
        if len(parts) > 1:
            return self.by_name.get(".".join(parts)) or self.by_relation.get(".".join(parts))
        candidates = [d for d in self.by_file.get(parts[0], ()) if slot.kind in (None, d.type)]
        if len(candidates) > 1 or parts[0] in self.sources:
            # No model reads itself, so that its own name means the other one that has it, or the source.
            candidates = [d for d in candidates if d.name != reader]
        if len(candidates) > 1:
            names = ", ".join(sorted(d.name for d in candidates))
            errors.add(
                AmbiguousReference(
                    f'"{slot.name}" could be {names}',
                    at=at,
                    hint=f"write the one that you mean, for instance {min(d.name for d in candidates)}",
                )
            )
            return False
        return candidates[0] if candidates else None

    def _resolve_external(self, slot: Reference, at: At, errors: Errors) -> str:
        if slot.kind == DBT:
            return self._resolve_dbt(slot, at, errors)
        parts = list(slot.parts)
        if len(parts) == 3 and parts[0].lower() == self.catalog:
            parts = parts[1:]
        name = ".".join(parts)
        source = self.sources.get(name.lower())
        if source is not None:
            relation = source.relation or Relation.parse(source.name)
            self.externals.setdefault(source.name, External(source.name, relation, True, at))
            return source.name
        off = self.disabled.get(name.lower())
        if off is not None:
            errors.add(
                UnknownReference(
                    f'"{slot.name}" is switched off', at=at, hint=f"{off.file} says `enabled false`: turn it on"
                )
            )
            return ""
        if slot.kind is not None or len(parts) > 2:
            errors.add(self._build_unknown_error(slot, at))
            return ""
        relation = Relation(parts[0], parts[1]) if len(parts) == 2 else Relation("default", parts[0])
        known = next((e for e in self.externals.values() if str(e.relation).lower() == str(relation).lower()), None)
        if known is None:
            known = self.externals[str(relation)] = External(str(relation), relation, False, at)
        return known.name

    def _resolve_dbt(self, slot: Reference, at: At, errors: Errors) -> str:
        """The external that a dbt model is; "" when it is reported as wrong."""
        dbt_model = self.dbt.find(slot.name, at, errors)
        if dbt_model is None:
            return ""
        name, relation = dbt_model
        self.externals.setdefault(name, External(name, relation, False, at, dbt=True))
        return name

    def _build_unknown_error(self, slot: Reference, at: At) -> UnknownReference:
        kinds = {"model": "model", "seed": "seed", "source": "declared source"}
        what = kinds.get(slot.kind or "", "model, seed, source or table")
        # Only what may be in this place: a hint that does not work is worse than none.
        fitting = [d for d in self.by_name.values() if slot.kind in (None, d.type)]
        names = [n for d in fitting for n in (d.name, d.name.rpartition(".")[2])]
        if slot.kind in (None, "source"):
            names += [s.name for s in self.sources.values()]
        hint = suggest_nearest(slot.name, names)
        return UnknownReference(f'no {what} is called "{slot.name}"', at=at, hint=hint)


def build_function_relation(name: str) -> Relation:
    """What stands for a table function where relations are told apart: no schema can be called so."""
    return Relation("table function", name)


def list_slots(draft: Draft) -> tuple[Reference, ...]:
    """The places of a model's query where relations are named."""
    return draft.query.slots if draft.query else ()


def locate_reference(draft: Draft, slot: Reference) -> At:
    """Where a reference is in the file."""
    assert draft.expanded and draft.query
    if draft.query.runnable != draft.expanded.text:
        same = [r for r in draft.query.references if r.name.lower() == slot.name.lower()]
        slot = same[0] if same else slot
    start = draft.expanded.trace_origin(slot.start)
    call = _CALL.match(draft.text, start)
    return locate_offset(draft.text, start, draft.file, len(call[0] if call else slot.name))
