"""`sources/*.yml`: the external tables and files a project reads, and how to tell that they have new data."""

from __future__ import annotations

import re
from pathlib import Path

from sqb.errors.base import Errors
from sqb.errors.project import BadYaml, Contradiction, DuplicateKey, MissingKey
from sqb.names import At, Relation, parse_duration
from sqb.project.config.located import Entry, Section
from sqb.project.config.yaml import read_list
from sqb.project.values import AgePolicy, Freshness, Source

SOURCE_KEYS = (
    "name",
    "description",
    "owner",
    "group",
    "path",
    "format",
    "options",
    "expression",
    "managed",
    "freshness",
)
FRESHNESS_KEYS = ("strategy", "column", "sql", "type", "filter", "lag_tolerance", "age_policy")
FORMATS = ("csv", "json", "parquet", "orc")
STRATEGIES = ("adapter", "column", "sql")
CURSOR_TYPES = ("timestamp", "integer", "string")
AGE_KEYS = ("warn_after", "error_after")
_TABLE_NAME = re.compile(r"[\w$-]+\.[\w$-]+")
_ANY_NAME = re.compile(r"[\w$-]+(\.[\w$-]+)?")
_ELSEWHERE = re.compile(r"(?!file:)[a-zA-Z][a-zA-Z0-9+.-]+:")


def load_sources(root: Path, errors: Errors) -> tuple[Source, ...]:
    """All declared sources, in the order of their files."""
    folder = root / "sources"
    files = sorted((*folder.glob("*.yml"), *folder.glob("*.yaml")))
    sources: dict[str, Source] = {}
    for path in files:
        for source in _read_file(path, path.relative_to(root).as_posix(), errors):
            first = sources.setdefault(source.name.lower(), source)
            if first is not source:
                message = f"source `{source.name}` is declared twice; it is also at {first.at}"
                errors.add(DuplicateKey(message, at=source.at, hint="keep one of the two"))
    return tuple(sources.values())


def _read_file(path: Path, file: str, errors: Errors) -> list[Source]:
    items = read_list(path, file, "sources", "- name: schema.table", errors)
    return [source for item in items if (source := _read_source(item, errors)) is not None]


def _read_source(item: Entry, errors: Errors) -> Source | None:
    if not isinstance(item.value, dict):
        errors.add(BadYaml("a source must be a mapping", at=item.at, hint="write `- name: schema.table`"))
        return None
    section = Section(item.value, "a source", item.at, errors)
    section.refuse_unknown(SOURCE_KEYS)
    if "name" not in section.entries:
        errors.add(MissingKey("the source has no `name`", at=item.at, hint="add `name: schema.table`"))
    managed = section.read_flag("managed")
    path, expression = section.read_text("path"), section.read_text("expression")
    _check_source_kind(section)
    file_format = _read_format(section, path)
    freshness = _read_freshness(section) if "freshness" in section.entries else None
    name = _read_name(section, bare=path is not None or expression is not None)
    if name is None:
        return None
    return Source(
        name=name,
        relation=Relation.parse(name) if path is None and expression is None else None,
        at=section.entries["name"].at,
        description=section.read_text("description") or "",
        owner=section.read_text("owner") or "",
        group=section.read_text("group") or "",
        path=path,
        format=file_format,
        options=section.read_options("options"),
        expression=expression,
        managed=managed or False,
        freshness=freshness,
        expression_at=section.entries["expression"].at if expression is not None else None,
    )


def _read_name(section: Section, bare: bool) -> str | None:
    name = section.read_text("name")
    if name is None:
        return None
    if bare and not _ANY_NAME.fullmatch(name):
        section.report("name", "a name, alone or with its schema")
    elif not bare and not _TABLE_NAME.fullmatch(name):
        section.report(
            "name", "schema.table", f"write `name: schema.{name}`" if re.fullmatch(r"[\w$-]+", name) else None
        )
    else:
        return name
    return None


def _check_source_kind(section: Section) -> None:
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
        section.report("path", "a path on this machine", "other file systems cannot be listed without starting Java")
    elif path is not None and isinstance(path.value, str) and not path.value.removeprefix("file:").strip("/ "):
        section.report("path", "the path of files or of a folder")


def _read_format(section: Section, path: str | None) -> str | None:
    if path is None or "format" in section.entries:
        return section.read_choice("format", FORMATS)
    suffixes = [suffix.removeprefix(".").lower() for suffix in Path(path).suffixes]
    for suffix in reversed(suffixes):
        if suffix in FORMATS:
            return suffix
    message = "the format of the files does not follow from their `path`"
    hint = f"add `format`: {', '.join(FORMATS)}"
    section.errors.add(MissingKey(message, at=section.entries["path"].at, hint=hint))
    return None


def _read_freshness(source: Section) -> Freshness:
    section = source.read_table("freshness", "`freshness`")
    section.refuse_unknown(FRESHNESS_KEYS)
    strategy = _read_strategy(section)
    kind = section.read_choice("type", CURSOR_TYPES)
    _check_policies(section, strategy, kind)
    policy = section.read_table("age_policy", "`age_policy`")
    policy.refuse_unknown(AGE_KEYS)
    warn_after, error_after = _read_duration(policy, "warn_after"), _read_duration(policy, "error_after")
    if warn_after and error_after and _parse_seconds(error_after) < _parse_seconds(warn_after):
        message = f"`error_after` ({error_after}) comes before `warn_after` ({warn_after})"
        hint = "make `error_after` the longer one"
        source.errors.add(Contradiction(message, at=policy.entries["error_after"].at, hint=hint))
    return Freshness(
        strategy=strategy,
        column=section.read_text("column"),
        sql=section.read_text("sql"),
        type=kind,
        filter=section.read_text("filter"),
        lag_tolerance=_read_duration(section, "lag_tolerance"),
        age_policy=AgePolicy(warn_after, error_after),
        at=_locate_question(section, strategy),
    )


def _locate_question(section: Section, strategy: str) -> At:
    """Where the question is written that tells the freshness."""
    entry = section.entries.get("filter") or section.entries.get(strategy)
    return entry.at if entry is not None else section.at


def _read_strategy(section: Section) -> str:
    entries = section.entries
    if "strategy" in entries:
        strategy = section.read_choice("strategy", STRATEGIES)
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


def _read_duration(section: Section, key: str) -> str | None:
    if key not in section.entries:
        return None
    value = section.entries[key].value
    if isinstance(value, str) and parse_duration(value) is not None:
        return value
    section.report(key, "a duration", "such as 90m, 24h or 1d12h")
    return None


def _parse_seconds(duration: str) -> float:
    return parse_duration(duration) or 0.0
