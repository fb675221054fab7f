"""`sources/*.yml`: the external tables and files a project reads, and how to tell that they have new data."""

from __future__ import annotations

import re
from pathlib import Path

from sqb.errors import BadYaml, Contradiction, DuplicateKey, Errors, MissingKey
from sqb.names import At, Relation, duration_seconds
from sqb.project.entries import Entry, Section
from sqb.project.values import AgePolicy, Freshness, Source
from sqb.project.yaml_entries import read_list

_SOURCE = ("name", "description", "path", "format", "options", "expression", "managed", "freshness")
_FRESHNESS = ("strategy", "column", "sql", "type", "filter", "lag_tolerance", "age_policy")
_FORMATS = ("csv", "json", "parquet", "orc")
_STRATEGIES = ("adapter", "column", "sql")
_TYPES = ("timestamp", "integer", "string")
_TABLE_NAME = re.compile(r"[\w$-]+\.[\w$-]+")
_ANY_NAME = re.compile(r"[\w$-]+(\.[\w$-]+)?")
_ELSEWHERE = re.compile(r"(?!file:)[a-zA-Z][a-zA-Z0-9+.-]+:")


def load_sources(root: Path, errors: Errors) -> tuple[Source, ...]:
    """All declared sources, in the order of their files."""
    folder = root / "sources"
    files = sorted((*folder.glob("*.yml"), *folder.glob("*.yaml")))
    found: dict[str, Source] = {}
    for path in files:
        for source in _read_file(path, path.relative_to(root).as_posix(), errors):
            first = found.setdefault(source.name.lower(), source)
            if first is not source:
                message = f"source `{source.name}` is declared twice; it is also at {first.at}"
                errors.add(DuplicateKey(message, at=source.at, hint="keep one of the two"))
    return tuple(found.values())


def _read_file(path: Path, file: str, errors: Errors) -> list[Source]:
    items = read_list(path, file, "sources", "- name: schema.table", errors)
    return [source for item in items if (source := _source(item, errors)) is not None]


def _source(item: Entry, errors: Errors) -> Source | None:
    if not isinstance(item.value, dict):
        errors.add(BadYaml("a source must be a mapping", at=item.at, hint="write `- name: schema.table`"))
        return None
    section = Section(item.value, "a source", item.at, errors)
    section.only(_SOURCE)
    if "name" not in section.entries:
        errors.add(MissingKey("the source has no `name`", at=item.at, hint="add `name: schema.table`"))
    managed = section.flag("managed")
    path, expression = section.text("path"), section.text("expression")
    _check_kind_of_source(section)
    file_format = _format(section, path)
    freshness = _freshness(section) if "freshness" in section.entries else None
    name = _name(section, bare=path is not None or expression is not None)
    if name is None:
        return None
    return Source(
        name=name,
        relation=Relation.parse(name) if path is None and expression is None else None,
        at=section.entries["name"].at,
        description=section.text("description") or "",
        path=path,
        format=file_format,
        options=section.options("options"),
        expression=expression,
        managed=managed or False,
        freshness=freshness,
        expression_at=section.entries["expression"].at if expression is not None else None,
    )


def _name(section: Section, bare: bool) -> str | None:
    name = section.text("name")
    if name is None:
        return None
    if bare and not _ANY_NAME.fullmatch(name):
        section.bad("name", "a name, alone or with its schema")
    elif not bare and not _TABLE_NAME.fullmatch(name):
        section.bad("name", "schema.table", f"write `name: schema.{name}`" if re.fullmatch(r"[\w$-]+", name) else None)
    else:
        return name
    return None


def _check_kind_of_source(section: Section) -> None:
    entries = section.entries
    if "path" in entries and "expression" in entries:
        message = "a source is files (`path`) or a query (`expression`), not both"
        section.errors.add(Contradiction(message, at=entries["expression"].key_at, hint="keep one of the two"))
    if "managed" in entries and entries["managed"].value is True:
        for key in ("path", "expression"):
            if key in entries:
                message = f"a managed source is filled by a loader, so `{key}` has no meaning for it"
                section.errors.add(Contradiction(message, at=entries[key].key_at, hint="keep one of the two"))
    for key in ("format", "options"):
        if key in entries and "path" not in entries:
            message = f"`{key}` is about files, and the source has no `path`"
            section.errors.add(Contradiction(message, at=entries[key].key_at))
    if "expression" in entries and "freshness" in entries:
        message = "an expression is not observed by itself, so `freshness` has no meaning for it"
        hint = "declare the tables that it reads, and give them `freshness`"
        section.errors.add(Contradiction(message, at=entries["freshness"].key_at, hint=hint))
    path = entries.get("path")
    if path is not None and isinstance(path.value, str) and _ELSEWHERE.match(path.value):
        section.bad("path", "a path on this machine", "other file systems cannot be listed without starting Java")
    elif path is not None and isinstance(path.value, str) and not path.value.removeprefix("file:").strip("/ "):
        section.bad("path", "the path of files or of a folder")


def _format(section: Section, path: str | None) -> str | None:
    if path is None or "format" in section.entries:
        return section.choice("format", _FORMATS)
    suffixes = [suffix.removeprefix(".").lower() for suffix in Path(path).suffixes]
    for suffix in reversed(suffixes):
        if suffix in _FORMATS:
            return suffix
    message = "the format of the files cannot be told from their `path`"
    hint = f"add `format`: {', '.join(_FORMATS)}"
    section.errors.add(MissingKey(message, at=section.entries["path"].at, hint=hint))
    return None


def _freshness(source: Section) -> Freshness:
    section = source.table("freshness", "`freshness`")
    section.only(_FRESHNESS)
    strategy = _strategy(section)
    kind = section.choice("type", _TYPES)
    _check_policies(section, strategy, kind)
    policy = section.table("age_policy", "`age_policy`")
    policy.only(("warn_after", "error_after"))
    warn_after, error_after = _duration(policy, "warn_after"), _duration(policy, "error_after")
    if warn_after and error_after and _seconds(error_after) < _seconds(warn_after):
        message = f"`error_after` ({error_after}) comes before `warn_after` ({warn_after})"
        hint = "make `error_after` the longer one"
        source.errors.add(Contradiction(message, at=policy.entries["error_after"].at, hint=hint))
    return Freshness(
        strategy=strategy,
        column=section.text("column"),
        sql=section.text("sql"),
        type=kind,
        filter=section.text("filter"),
        lag_tolerance=_duration(section, "lag_tolerance"),
        age_policy=AgePolicy(warn_after, error_after),
        at=_asked_at(section, strategy),
    )


def _asked_at(section: Section, strategy: str) -> At:
    """Where the question is written that tells the freshness."""
    entry = section.entries.get("filter") or section.entries.get(strategy)
    return entry.at if entry is not None else section.at


def _strategy(section: Section) -> str:
    entries = section.entries
    if "strategy" in entries:
        strategy = section.choice("strategy", _STRATEGIES)
        if strategy is None:
            return "adapter"
    else:
        strategy = "column" if "column" in entries else "sql" if "sql" in entries else "adapter"
    if strategy != "adapter" and strategy not in entries:
        message = f"strategy `{strategy}` needs `{strategy}`"
        at = entries["strategy"].at
        section.errors.add(MissingKey(message, at=at, hint=f"add `{strategy}: …` beside it"))
    for key, only in (("column", "column"), ("sql", "sql"), ("filter", "column")):
        if key in entries and strategy != only:
            message = f"`{key}` has no meaning for the strategy `{strategy}`"
            section.errors.add(Contradiction(message, at=entries[key].key_at))
    if strategy == "adapter" and "type" in entries and entries["type"].value in ("integer", "string"):
        message = "the strategy `adapter` knows versions and their times, so `type` can only be timestamp"
        section.errors.add(Contradiction(message, at=entries["type"].at, hint="remove it"))
    return strategy


def _check_policies(section: Section, strategy: str, kind: str | None) -> None:
    if kind == "timestamp":
        return
    for key in ("lag_tolerance", "age_policy"):
        if key in section.entries and not (key == "age_policy" and strategy == "adapter"):
            message = f"`{key}` needs a time to compare with, so `type` must be timestamp"
            section.errors.add(Contradiction(message, at=section.entries[key].key_at, hint="add `type: timestamp`"))


def _duration(section: Section, key: str) -> str | None:
    if key not in section.entries:
        return None
    value = section.entries[key].value
    if isinstance(value, str) and duration_seconds(value) is not None:
        return value
    section.bad(key, "a duration", "such as 90m, 24h or 1d12h")
    return None


def _seconds(duration: str) -> float:
    return duration_seconds(duration) or 0.0
