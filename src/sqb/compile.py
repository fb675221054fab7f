"""From files to the compiled project: read, expand, resolve, hash. All errors are found before any is raised."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sqb import identity
from sqb.compiled import External, Node, Project
from sqb.errors import (
    AmbiguousReference,
    BadMacro,
    BadName,
    BadSql,
    Cycle,
    DuplicateRelation,
    EmptyModel,
    Errors,
    ManyStatements,
    NotASelect,
    ProjectError,
    SelfReference,
    UnknownReference,
    UnknownVariable,
)
from sqb.graph import ordered
from sqb.names import At, Relation, did_you_mean, nearest, place
from sqb.project import files
from sqb.project.header import parse_header
from sqb.project.keys import KEYS, settings_of
from sqb.project.macros import load_macros
from sqb.project.seeds import load_seed
from sqb.project.sources import load_sources
from sqb.project.values import Config, Seed, Setting, Source, Target
from sqb.sql.expand import Expanded, ExpansionProblem, Words, expand, literal
from sqb.sql.query import CANONICAL_VERSION, Query, QueryProblem
from sqb.sql.spans import Piece, Reference

_NAME = re.compile(r"[A-Za-z0-9_]+")
_SQL_PROBLEMS = {"empty": EmptyModel, "many": ManyStatements, "not a select": NotASelect, "parse": BadSql}

ReadQuery = Callable[[str, Mapping[int, str]], Query]


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


@dataclass(frozen=True, slots=True)
class Compilation:
    """The project, and what else of the world its meaning depended on."""

    project: Project
    environment: Mapping[str, str]


def compile_project(
    root: Path, paths: Mapping[str, Any], config: Config, target: Target, variables: Mapping[str, Any], read: ReadQuery
) -> Compilation:
    """Compile the files in `paths` for one target; raises all errors at once."""
    # What macros print is for people, who may be reading standard output as one JSON document.
    with redirect_stdout(sys.stderr):
        return _compiled(root, paths, config, target, variables, read)


def _compiled(
    root: Path, paths: Mapping[str, Any], config: Config, target: Target, variables: Mapping[str, Any], read: ReadQuery
) -> Compilation:
    errors = Errors()
    macros = load_macros(root, errors) if any(p.startswith("macros/") for p in paths) else {}
    values = {**config.vars, **variables}
    words = Words(
        variable=lambda name: literal(values[name]) if name in values else None,
        environment=os.environ.get,
        macro=macros.get,
        known_variables=tuple(values),
        known_macros=tuple(macros),
    )
    found = [
        *(_model(root, p, config, target, words, read, errors) for p in paths if p.startswith("models/")),
        *(_seed(root, p, target, errors) for p in paths if p.startswith("seeds/") and p.endswith(".csv")),
    ]
    sources = load_sources(root, errors) if any(p.startswith("sources/") for p in paths) else ()
    project = _link(config, target, found, sources, errors)
    errors.raise_any()
    assert project is not None
    environment = {k: v for d in found if d.expanded for k, v in d.expanded.environment.items()}
    return Compilation(project, environment)


def _model(
    root: Path, path: str, config: Config, target: Target, words: Words, read: ReadQuery, errors: Errors
) -> Draft:
    """A model; one that is reported as wrong has no query, but still the name that others call it by."""
    text = files.read_text(root, path, errors)
    header = parse_header(text or "", path, errors)
    settings = settings_of(path, header, config, errors)
    folder, name = _folder_and_name(path, "models")
    relation = _relation(path, folder, name, target, settings, errors)
    draft = Draft(
        f"{folder}.{name}", folder, "model", _setting(settings, "kind", "table"), relation, path, At(path), settings
    )
    if text is None or _setting(settings, "enabled", True) is False:
        return draft
    try:
        expanded = expand(text, header.body_start, words)
    except ExpansionProblem as problem:
        errors.add(_expansion_error(problem, text, path, words))
        return draft
    try:
        query = read(expanded.text, expanded.forced)
    except QueryProblem as problem:
        errors.add(_sql_error(problem, text, path, expanded))
        return draft
    return replace(draft, text=text, expanded=expanded, query=query)


def _seed(root: Path, path: str, target: Target, errors: Errors) -> Draft:
    """A seed; one that is reported as wrong has no rows, but still the name that others call it by."""
    seed = load_seed(root, root / path, errors)
    if seed is None:
        name = Path(path).stem
        relation = Relation(target.schema.replace("{folder}", "seeds"), name)
        return Draft(f"seeds.{name}", "seeds", "seed", "seed", relation, path, At(path), {})
    relation = _relation(path, "seeds", seed.name, target, seed.settings, errors)
    return Draft(f"seeds.{seed.name}", "seeds", "seed", "seed", relation, path, At(path), seed.settings, seed=seed)


def _folder_and_name(path: str, top: str) -> tuple[str, str]:
    parts = path.removeprefix(f"{top}/").removesuffix(".sql").split("/")
    return "_".join(parts[:-1]) or "default", parts[-1]


def _setting(settings: Mapping[str, Setting], key: str, default: Any) -> Any:
    return settings[key].value if key in settings else default


def _relation(
    path: str, folder: str, name: str, target: Target, settings: Mapping[str, Setting], errors: Errors
) -> Relation:
    schema = _setting(settings, "schema", None) or target.schema.replace("{folder}", folder)
    table = _setting(settings, "alias", None) or name
    for word, what in ((schema, "schema"), (table, "name")):
        if not _NAME.fullmatch(word):
            key = "schema" if what == "schema" else "alias"
            at = settings[key].at if key in settings else At(path)
            errors.add(
                BadName(
                    f'"{word}" cannot be the {what} of a relation',
                    at=at,
                    hint=f"use letters, digits and underscores: rename the file or folder, or set `{key}`",
                )
            )
    if table.lower().startswith("_sqlbuild"):
        errors.add(BadName(f'"{table}" is a name that sqb keeps for its own tables', at=At(path)))
    return Relation(schema, table)


def _expansion_error(problem: ExpansionProblem, text: str, path: str, words: Words) -> ProjectError:
    at = place(text, problem.start, path, problem.end - problem.start)
    match problem.kind:
        case "unknown variable":
            return UnknownVariable(
                f"the variable @@{problem.message} has no value",
                at=at,
                hint=did_you_mean(problem.message, words.known_variables)
                or "set it under [vars] in sqlbuild_project.toml, or with --vars",
            )
        case "variable":
            return UnknownVariable(problem.message, at=at, hint=problem.hint)
        case "unknown macro":
            return BadMacro(
                f"there is no macro @{problem.message}",
                at=at,
                hint=did_you_mean(problem.message, words.known_macros) or "macros are functions in macros/*.py",
            )
        case "reference":
            return BadSql(problem.message, at=at, hint=problem.hint)
        case _:
            return BadMacro(problem.message, at=at, hint=problem.hint)


def _sql_error(problem: QueryProblem, text: str, path: str, expanded: Expanded) -> BadSql:
    start = expanded.origin(problem.start)
    if problem.kind == "empty":
        start = min(start, max(0, len(text.rstrip()) - 1))
    at = place(text, start, path, max(1, problem.end - problem.start))
    kind: Any = _SQL_PROBLEMS[problem.kind]
    error: BadSql = kind(problem.message, at=at, hint=problem.hint)
    return error


def _link(
    config: Config, target: Target, drafts: list[Draft], sources: tuple[Source, ...], errors: Errors
) -> Project | None:
    enabled = [d for d in drafts if _setting(d.settings, "enabled", True) is not False]
    _refuse_shared_names(enabled, sources, errors)
    resolver = _Resolver(
        enabled, [d for d in drafts if d not in enabled], sources, config.connection_of(target).catalog.name
    )
    reads: dict[str, tuple[str, ...]] = {}
    for draft in enabled:
        reads[draft.name] = tuple(resolver.resolve(draft, i, errors) for i in range(len(_slots(draft))))
    upstream = {d.name: tuple(sorted({r for r in reads[d.name] if r})) for d in enabled}
    order, cycles = ordered(upstream)
    by_name = {d.name: d for d in enabled}
    for cycle in cycles:
        errors.add(_cycle_error(cycle, by_name, reads))
    if errors.found:
        return None
    nodes: dict[str, Node] = {}
    for name in order:
        nodes[name] = _node(by_name[name], reads[name], upstream[name], nodes, resolver)
    schemas = tuple(sorted({n.relation.schema for n in nodes.values()}))
    return Project(config.name, target.name, nodes, dict(sorted(resolver.externals.items())), schemas)


def _slots(draft: Draft) -> tuple[Reference, ...]:
    return draft.query.slots if draft.query else ()


def _refuse_shared_names(drafts: list[Draft], sources: tuple[Source, ...], errors: Errors) -> None:
    """Two nodes with one name or one relation, and sources that the project builds itself."""
    seen: dict[str, Draft] = {}
    named: dict[str, Draft] = {}
    for draft in drafts:
        key = str(draft.relation).lower()
        if draft.name.lower() in named and key not in seen:
            other = named[draft.name.lower()]
            errors.add(
                DuplicateRelation(
                    f"{draft.name} is also the name of {other.file}", at=draft.at, hint="rename one of the files"
                )
            )
        named.setdefault(draft.name.lower(), draft)
        if key in seen:
            errors.add(
                DuplicateRelation(
                    f"{draft.relation} is also built by {seen[key].file}",
                    at=draft.at,
                    hint="rename one of the files, or set `schema` or `alias`",
                )
            )
        seen.setdefault(key, draft)
    for source in sources:
        relation = str(source.relation or source.name).lower()
        built = named.get(source.name.lower()) or seen.get(relation)
        if built is not None:
            errors.add(
                DuplicateRelation(
                    f'the source "{source.name}" is built by {built.file}',
                    at=source.at,
                    hint="what the project builds is no source: remove one of the two",
                )
            )


def _cycle_error(cycle: list[str], drafts: Mapping[str, Draft], reads: Mapping[str, tuple[str, ...]]) -> Cycle:
    first, second = cycle[0], cycle[1 % len(cycle)]
    draft = drafts[first]
    slot = _slots(draft)[reads[first].index(second)]
    return Cycle(
        f"models read each other in a circle: {' → '.join([*cycle, first])}",
        at=_written_at(draft, slot),
        hint="take one of these references out, for instance by moving the shared part into a model of its own",
    )


def _written_at(draft: Draft, slot: Reference) -> At:
    """Where a reference stands in the file."""
    assert draft.expanded and draft.query
    if draft.query.runnable != draft.expanded.text:
        same = [r for r in draft.query.references if r.name.lower() == slot.name.lower()]
        slot = same[0] if same else slot
    start = draft.expanded.origin(slot.start)
    return place(draft.text, start, draft.file, len(slot.name))


def _node(
    draft: Draft, reads: tuple[str, ...], upstream: tuple[str, ...], nodes: Mapping[str, Node], resolver: _Resolver
) -> Node:
    settings = {k: s.value for k, s in draft.settings.items()}
    identity_settings = {k: v for k, v in settings.items() if k in KEYS and KEYS[k].identity}
    identity_settings["kind"] = draft.kind
    if draft.seed is not None:
        query = draft.seed.content_hash
        settings["columns"] = [[c.name, c.type] for c in draft.seed.columns]
        settings["delimiter"], settings["null_values"] = draft.seed.delimiter, list(draft.seed.null_values)
        settings["rows"] = draft.seed.rows
        definition: dict[str, Any] = {"seed": draft.seed.content_hash, "config": identity_settings}
    else:
        assert draft.query and draft.expanded
        by_slot = dict(zip((s.name.lower() for s in draft.query.slots), reads, strict=True))
        logical = [resolver.logical(by_slot[r.name.lower()]) for r in draft.query.references]
        query = identity.query_hash(draft.query.canonical, logical)
        spans = [[r.start, r.end, name] for r, name in zip(draft.query.references, logical, strict=True)]
        definition = {"sql": draft.expanded.text, "references": spans, "config": identity_settings}
    config = identity.config_hash(identity_settings)
    local = identity.local_hash(query, config)
    version = identity.version_hash(
        local, (nodes[u].version_hash if u in nodes else identity.digest("source", u) for u in upstream)
    )
    return Node(
        name=draft.name,
        type="seed" if draft.seed else "model",
        kind=draft.kind,
        relation=draft.relation,
        file=draft.file,
        local_hash=local,
        query_hash=query,
        config_hash=config,
        version_hash=version,
        upstream=upstream,
        sql=draft.query.runnable if draft.query else "",
        slots=_slots(draft),
        reads=reads,
        pieces=_way_back(draft),
        settings=settings,
        definition=json.dumps({**definition, "canonical": CANONICAL_VERSION}, default=str),
        tags=tuple(settings.get("tags", ())),
        description=settings.get("description", ""),
        volatile=tuple(dict.fromkeys(name for name, _ in draft.query.volatile)) if draft.query else (),
    )


def _way_back(draft: Draft) -> tuple[Piece, ...]:
    """How offsets of the query that is run lead to the file; nothing for a query that had to be rewritten."""
    if draft.expanded is None or draft.query is None or draft.query.runnable != draft.expanded.text:
        return ()
    return draft.expanded.pieces


class _Resolver:
    """Finds what a table name in a query means."""

    def __init__(self, enabled: list[Draft], disabled: list[Draft], sources: tuple[Source, ...], catalog: str) -> None:
        self.catalog = catalog.lower()
        self.by_name = {d.name.lower(): d for d in enabled}
        self.by_relation = {str(d.relation).lower(): d for d in enabled}
        self.by_file: dict[str, list[Draft]] = {}
        for draft in enabled:
            self.by_file.setdefault(draft.name.rpartition(".")[2].lower(), []).append(draft)
        self.disabled = {d.name.lower(): d for d in disabled} | {d.name.rpartition(".")[2].lower(): d for d in disabled}
        self.sources = {s.name.lower(): s for s in sources}
        self.externals: dict[str, External] = {}

    def logical(self, name: str) -> str:
        return f"source:{name.lower()}" if name in self.externals else f"node:{name.lower()}"

    def resolve(self, draft: Draft, index: int, errors: Errors) -> str:
        """The name of the node or external behind a reference; "" when it is reported as wrong."""
        slot = _slots(draft)[index]
        found = self._node(slot, draft, errors)
        if isinstance(found, Draft):
            if found.name == draft.name:
                errors.add(
                    SelfReference(
                        f"{draft.name} reads itself",
                        at=_written_at(draft, slot),
                        hint="give the CTE or the table that you mean another name, or qualify it",
                    )
                )
                return ""
            return found.name
        return self._external(slot, draft, errors) if found is None else ""

    def _node(self, slot: Reference, draft: Draft, errors: Errors) -> Draft | bool | None:
        parts = [p.lower() for p in slot.parts]
        if len(parts) == 3 and parts[0] == self.catalog:
            parts = parts[1:]
        if slot.kind == "source":
            return None
        if len(parts) > 1:
            return self.by_name.get(".".join(parts)) or self.by_relation.get(".".join(parts))
        candidates = [d for d in self.by_file.get(parts[0], ()) if slot.kind in (None, d.type)]
        if len(candidates) > 1:
            names = ", ".join(sorted(d.name for d in candidates))
            errors.add(
                AmbiguousReference(
                    f'"{slot.name}" could be {names}',
                    at=_written_at(draft, slot),
                    hint=f"write the one that you mean, for instance {min(d.name for d in candidates)}",
                )
            )
            return False
        return candidates[0] if candidates else None

    def _external(self, slot: Reference, draft: Draft, errors: Errors) -> str:
        at = _written_at(draft, slot)
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
            errors.add(self._unknown(slot, at))
            return ""
        relation = Relation(parts[0], parts[1]) if len(parts) == 2 else Relation("default", parts[0])
        known = next((e for e in self.externals.values() if str(e.relation).lower() == str(relation).lower()), None)
        if known is None:
            known = self.externals[str(relation)] = External(str(relation), relation, False, at)
        return known.name

    def _unknown(self, slot: Reference, at: At) -> UnknownReference:
        kinds = {"model": "model", "seed": "seed", "source": "declared source", "dbt": "dbt model"}
        what = kinds.get(slot.kind or "", "model, seed, source or table")
        names = [*self.by_file, *(d.name for d in self.by_name.values()), *self.sources]
        close = nearest(slot.name, names)
        hint = f"did you mean {' or '.join(repr(c) for c in close)}?" if close else None
        return UnknownReference(f'no {what} is called "{slot.name}"', at=at, hint=hint)
