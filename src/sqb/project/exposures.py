"""`exposures/*.yml`: what people use of a project, who it belongs to, and what it reads."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from sqb.errors.base import Errors
from sqb.errors.project import BadYaml, DuplicateKey, MissingKey
from sqb.names import At
from sqb.project.config.located import Entry, Section
from sqb.project.config.yaml import read_list

EXPOSURE_KEYS = ("name", "type", "label", "owner", "depends_on", "description", "url")
OWNER_KEYS = ("name", "email")
_NAME = re.compile(r"[\w.-]+")
# As dbt writes it: a model by ref('x'), a source by source('raw', 'x').
_REF = re.compile(r"ref\(\s*(?:['\"][^'\"]+['\"]\s*,\s*)?['\"]([^'\"]+)['\"]\s*\)")
_SOURCE = re.compile(r"source\(\s*['\"]([^'\"]+)['\"]\s*,\s*['\"]([^'\"]+)['\"]\s*\)")


@dataclass(frozen=True, slots=True)
class WrittenDependency:
    """Something that an exposure reads, as its file names it; without columns, all of them."""

    name: str
    at: At
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WrittenExposure:
    """An exposure as its file has it."""

    name: str
    type: str
    at: At
    depends_on: tuple[WrittenDependency, ...] = ()
    owner: str = ""
    description: str = ""
    url: str = ""


def load_exposures(root: Path, errors: Errors) -> tuple[WrittenExposure, ...]:
    """All exposures, in the order of their files."""
    folder = root / "exposures"
    exposures: dict[str, WrittenExposure] = {}
    for path in sorted((*folder.rglob("*.yml"), *folder.rglob("*.yaml"))):
        file = path.relative_to(root).as_posix()
        for item in read_list(path, file, "exposures", "- name: weekly_report", errors):
            exposure = _read_exposure(item, errors)
            if exposure is None:
                continue
            first = exposures.setdefault(exposure.name.lower(), exposure)
            if first is not exposure:
                message = f"the exposure `{exposure.name}` is there twice; it is also at {first.at}"
                errors.add(DuplicateKey(message, at=exposure.at, hint="keep one of the two"))
    return tuple(exposures.values())


def _read_exposure(item: Entry, errors: Errors) -> WrittenExposure | None:
    if not isinstance(item.value, dict):
        errors.add(BadYaml("an exposure must be a mapping", at=item.at, hint="write `- name: weekly_report`"))
        return None
    section = Section(item.value, "an exposure", item.at, errors)
    section.refuse_unknown(EXPOSURE_KEYS)
    if "name" not in section.entries:
        errors.add(MissingKey("the exposure has no `name`", at=item.at, hint="add `name: weekly_report`"))
        return None
    name = section.read_text("name")
    if name is None:
        return None
    if not _NAME.fullmatch(name):
        section.report("name", "a name without spaces", "`label` may be any text")
        return None
    description, label = section.read_text("description"), section.read_text("label")
    return WrittenExposure(
        name=name,
        type=section.read_text("type") or "exposure",
        at=section.entries["name"].at,
        depends_on=_read_dependencies(section),
        owner=_read_owner(section),
        description=description or label or "",
        url=section.read_text("url") or "",
    )


def _read_owner(section: Section) -> str:
    """A name, or as dbt writes it a mapping with `name` and `email`."""
    entry = section.entries.get("owner")
    if entry is None:
        return ""
    if not isinstance(entry.value, dict):
        return section.read_text("owner") or ""
    owner = Section(entry.value, "`owner`", entry.at, section.errors)
    owner.refuse_unknown(OWNER_KEYS)
    name, email = owner.read_text("name"), owner.read_text("email")
    return f"{name} <{email}>" if name and email else name or email or ""


def _read_dependencies(section: Section) -> tuple[WrittenDependency, ...]:
    entry = section.entries.get("depends_on")
    if entry is None or entry.value is None:
        return ()
    if not isinstance(entry.value, list):
        section.report("depends_on", "a list", "write `depends_on: [fct_orders]`")
        return ()
    items = [_read_dependency(item, section.errors) for item in entry.value]
    return tuple(dependency for dependency in items if dependency is not None)


def _read_dependency(item: Entry, errors: Errors) -> WrittenDependency | None:
    """`fct_orders`, `ref('fct_orders')`, `source('raw', 'events')`, or `fct_orders: [a, b]` with the columns."""
    match item.value:
        case str() as text:
            return WrittenDependency(_strip_call(text.strip()), item.at)
        case dict() as table if len(table) == 1:
            ((name, columns),) = table.items()
            listed = columns.value if isinstance(columns.value, list) else [columns]
            if all(isinstance(column.value, str) for column in listed):
                return WrittenDependency(_strip_call(name), columns.key_at, tuple(str(c.value) for c in listed))
    hint = "write `- fct_orders`, or with its columns `- fct_orders: [order_id, amount]`"
    errors.add(BadYaml("each of `depends_on` is the name of a model or a source", at=item.at, hint=hint))
    return None


def _strip_call(text: str) -> str:
    if match := _REF.fullmatch(text):
        return match[1]
    if match := _SOURCE.fullmatch(text):
        return f"{match[1]}.{match[2]}"
    return text
