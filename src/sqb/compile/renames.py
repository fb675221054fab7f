"""`renamed_from`: what a model was called before, and where its relation was then."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from sqb.compile.model import External
from sqb.compile.resolve import Draft
from sqb.errors.base import Errors
from sqb.errors.project import BadRename
from sqb.names import At, Relation

RENAMED_FROM = "renamed_from"


def add_former_names(draft: Draft, relations: Mapping[str, Relation]) -> Draft:
    """The model with its former names, and with the relations that it had under them."""
    return replace(draft, former_names=tuple(relations), former_relations=tuple(relations.values()))


def list_former_names(draft: Draft) -> tuple[str, ...]:
    """The names that the header says, with their folders; one without a folder was in the model's own."""
    setting = draft.settings.get(RENAMED_FROM)
    words: Sequence[str] = setting.value if setting is not None else ()
    return tuple(word if "." in word else f"{draft.folder}.{word}" for word in words)


def refuse_wrong_renames(drafts: Sequence[Draft], externals: Iterable[External], errors: Errors) -> None:
    """A former name may belong to nothing else: neither to a model, nor to a table that the project reads."""
    names = {draft.name.lower(): draft for draft in drafts}
    outside = {str(external.relation).lower(): external for external in externals}
    claimed: dict[str, Draft] = {}
    for draft in drafts:
        for name, relation in zip(draft.former_names, draft.former_relations, strict=True):
            at = _locate(draft)
            if (other := names.get(name.lower())) is not None:
                errors.add(
                    BadRename(
                        f"{draft.name} says that it was called {name}, and {other.file} still is",
                        at=at,
                        hint="a renamed model takes its table along: delete the old file, or remove `renamed_from`",
                    )
                )
            elif (first := claimed.get(name.lower())) is not None:
                message = f"{first.file} says that it was called {name} too"
                errors.add(BadRename(message, at=at, hint="one model takes the table along: remove one of the two"))
            elif (read := outside.get(str(relation).lower())) is not None and relation != draft.relation:
                message = f"{relation}, which was the table of {name}, is still read as a table"
                errors.add(BadRename(message, at=read.at, hint=f"write {draft.name} there"))
            claimed.setdefault(name.lower(), draft)


def _locate(draft: Draft) -> At:
    return draft.settings[RENAMED_FROM].at
