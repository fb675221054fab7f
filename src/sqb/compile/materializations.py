"""Models of the kind `custom`: which materialisation each names, and what of it is part of their identity."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sqb import identity
from sqb.compile.resolve import Draft
from sqb.errors.base import Errors
from sqb.errors.project import BadCursor, Contradiction
from sqb.errors.python import CustomNotVirtual, UnknownMaterialization
from sqb.names import At, locate_offset, suggest_nearest
from sqb.project import files
from sqb.project.models.materializations import FOLDER, Materialization, parse_materializations
from sqb.sql.text.cursor_calls import iter_cursor_calls

# Before the name of a materialisation among the functions that a model uses.
PREFIX = "materialization "


def load_materializations(root: Path, paths: Iterable[str], errors: Errors) -> dict[str, Materialization]:
    """The materialisations of a project, by their names."""
    texts = {p: files.read_text(root, p, errors) for p in paths if p.startswith(f"{FOLDER}/") and p.endswith(".py")}
    return parse_materializations(root, {p: t for p, t in texts.items() if t is not None}, errors)


def refuse_unknown(drafts: Iterable[Draft], known: Mapping[str, Materialization], errors: Errors) -> None:
    """Report models that name a materialisation which is not there."""
    for draft in drafts:
        setting = draft.settings.get("materialization")
        if draft.kind == "custom" and draft.python is not None:
            message = f"{draft.name} is a function, and the kind custom is for queries"
            errors.add(Contradiction(message, at=draft.at, hint="let the function do it: return the rows"))
            continue
        if draft.kind != "custom" or setting is None or setting.value in known:
            continue
        hint = suggest_nearest(str(setting.value), known) or (
            f"there are {', '.join(sorted(known))}" if known else f"write it in {FOLDER}/, see docs/materializations.md"
        )
        message = f'no materialization is called "{setting.value}"'
        errors.add(UnknownMaterialization(message, at=setting.at, hint=hint))


def link_materialization(draft: Draft, known: Mapping[str, Materialization]) -> tuple[dict[str, str], dict[str, Any]]:
    """What a model's materialisation adds to its identity, and where the build finds it; nothing for other kinds."""
    setting = draft.settings.get("materialization")
    materialization = known.get(str(setting.value)) if setting is not None and draft.kind == "custom" else None
    if materialization is None:
        return {}, {}
    call = {
        "name": materialization.name,
        "file": materialization.file,
        "function": materialization.function,
        "at": list(asdict(materialization.at).values()),
    }
    function_hash = identity.digest(
        "materialization", materialization.name, materialization.function, materialization.hash
    )
    return {f"{PREFIX}{materialization.name}": function_hash}, call


def refuse_in_environment(environment: str, models: Iterable[tuple[str, str, At]]) -> None:
    """Refuse to build models of the kind `custom`, by name, kind and place, into a virtual environment.

    What they write they write under the name that they are given, where a virtual environment needs a version beside
    those of others.
    """
    errors = Errors()
    for name, kind, at in models:
        if kind == "custom":
            message = f"{name} is of the kind custom, which cannot be built into the virtual environment {environment}"
            hint = "build it in a target without virtual environments, or make the kind `table`"
            errors.add(CustomNotVirtual(message, at=at, hint=hint))
    errors.raise_any()


def check_cursor_use(draft: Draft, errors: Errors) -> None:
    """Report a cursor that the query does not have, and windows in the query of a model that has none."""
    if draft.expanded is None or draft.query is None:
        return
    for call in iter_cursor_calls(draft.expanded.text):
        at = locate_offset(draft.text, draft.expanded.trace_origin(call.start), draft.file, call.end - call.start)
        if draft.kind != "incremental":
            message = f"{call.name}() belongs to the kind incremental, and this model is a {draft.kind}"
            errors.add(BadCursor(message, at=at, hint="set `kind: incremental` and `cursor`, or remove the call"))
        elif not call.is_complete:
            errors.add(BadCursor(f"{call.name} takes no arguments", at=at, hint=f"write {call.name}()"))
    cursor = draft.settings.get("cursor")
    outputs = draft.query.outputs
    if draft.kind != "incremental" or cursor is None or outputs is None:
        return
    if cursor.value.lower() not in {name.lower() for name in outputs}:
        hint = suggest_nearest(cursor.value, outputs) or f"its columns are {', '.join(outputs)}"
        message = f'`cursor` names "{cursor.value}", and the query has no such column'
        errors.add(BadCursor(message, at=cursor.at, hint=hint))
