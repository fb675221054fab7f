"""Models of the kind `custom`: which materialisation each names, and what of it is part of their identity."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sqb import identity
from sqb.errors import Contradiction, Errors
from sqb.errors_python import CustomNotVirtual, UnknownMaterialization
from sqb.names import At, did_you_mean
from sqb.project import files
from sqb.project.materializations import FOLDER, Materialization, declared_materializations
from sqb.resolve import Draft

# Before the name of a materialisation among the functions that a model uses.
PREFIX = "materialization "


def load_materializations(root: Path, paths: Iterable[str], errors: Errors) -> dict[str, Materialization]:
    """The materialisations of a project, by their names."""
    texts = {p: files.read_text(root, p, errors) for p in paths if p.startswith(f"{FOLDER}/") and p.endswith(".py")}
    return declared_materializations(root, {p: t for p, t in texts.items() if t is not None}, errors)


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
        hint = did_you_mean(str(setting.value), known) or (
            f"there are {', '.join(sorted(known))}" if known else f"write it in {FOLDER}/, see docs/materializations.md"
        )
        message = f'no materialization is called "{setting.value}"'
        errors.add(UnknownMaterialization(message, at=setting.at, hint=hint))


def materialization_of(draft: Draft, known: Mapping[str, Materialization]) -> tuple[dict[str, str], dict[str, Any]]:
    """What a model's materialisation adds to its identity, and where the build finds it; nothing for other kinds."""
    setting = draft.settings.get("materialization")
    one = known.get(str(setting.value)) if setting is not None and draft.kind == "custom" else None
    if one is None:
        return {}, {}
    found = {"name": one.name, "file": one.file, "function": one.function, "at": list(asdict(one.at).values())}
    own = identity.digest("materialization", one.name, one.function, one.hash)
    return {f"{PREFIX}{one.name}": own}, found


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
