"""Python nodes linked to the project: what they depend on, what loaders fill, and their place in the one order."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqb import identity
from sqb.checks.values import Read
from sqb.compiled import External, Project
from sqb.compiled_python import PythonNode
from sqb.compiled_sources import DeclaredSource
from sqb.errors import (
    AmbiguousReference,
    BadName,
    BadValue,
    Contradiction,
    Cycle,
    DuplicateRelation,
    Errors,
    SelfReference,
    UnknownReference,
)
from sqb.graph import circle_text, ordered
from sqb.names import At, Relation, duration_seconds, nearest
from sqb.project.keys import find_key, settings_of
from sqb.project.python_nodes import HOOKS, Discovered, WrittenNode
from sqb.project.values import Config, Header, Setting
from sqb.resolve import Draft, Resolver
from sqb.sql.spans import Reference

_TYPES = ("loader", "task", "asset", "check")
_KINDS = {"model": "model", "seed": "seed", "source": "source"}
_DURATIONS = ("timeout", "retry_delay")
_OF_THE_RUN = ("depends_on", "retries", *_DURATIONS)
PYTHON_KINDS = ("table", "append", "merge", "scd2", "tracked")
# The kinds whose rows can be told by a change alone.
FOLLOWING_KINDS = ("table", "append", "merge")
_NOT_IN_PYTHON = ("view", "incremental", "custom")
_SETTINGS = ("retries", "mode", "key", "columns", "severity", *_DURATIONS)


@dataclass(frozen=True, slots=True)
class LinkedPython:
    """The Python nodes of a project with their names resolved, and the sources that their loaders make."""

    nodes: Mapping[str, PythonNode]
    sources: dict[str, DeclaredSource]


def link_python(
    found: Discovered,
    resolver: Resolver,
    declared: Mapping[str, DeclaredSource],
    schema: str,
    errors: Errors,
) -> LinkedPython:
    """Resolve what Python nodes name; what is wrong is reported."""
    enabled = [w for w in found.nodes if w.options.get("enabled", True) is not False and w.kind != "model"]
    linker = _Linker(resolver, {w.name.lower(): w for w in enabled}, dict(declared), schema, errors, found.complete)
    # Sources first: a node may depend on what another one's loader fills.
    filled = {w.name: linker.fill(w) for w in enabled if w.kind == "loader"}
    nodes = {w.name: linker.node(w, filled.get(w.name)) for w in enabled}
    return LinkedPython(nodes, linker.declared)


@dataclass(frozen=True, slots=True)
class _Linker:
    resolver: Resolver
    written: Mapping[str, WrittenNode]
    declared: dict[str, DeclaredSource]
    schema: str
    errors: Errors
    # Whether all nodes are known; otherwise a name that is not may be one of those that could not be found.
    complete: bool

    def fill(self, loader: WrittenNode) -> External | None:
        """The source that a loader fills, which is managed from now on."""
        name = str(loader.options["source"])
        at = loader.option_places.get("source", loader.at)
        parts = [part.lower() for part in name.split(".")]
        source = self.resolver.sources.get(name.lower())
        built = self.resolver.by_name.get(".".join(parts)) or self.resolver.by_relation.get(".".join(parts))
        if built is not None:
            message = f'"{name}" is built by the project ({built.file}), so that no loader can fill it'
            self.errors.add(DuplicateRelation(message, at=at, hint="let the loader fill a table that the model reads"))
            return None
        if source is not None and source.relation is None:
            what = "files" if source.path is not None else "an expression"
            message = f'"{name}" is {what}, which no loader can fill'
            self.errors.add(Contradiction(message, at=at, hint="a loader fills a table: name it schema.table"))
            return None
        if source is None and len(parts) != 2:
            message = f'"{name}" is not the name of a table that a loader could fill'
            self.errors.add(BadName(message, at=at, hint='write source="schema.table"'))
            return None
        external = self._external(source.name if source else name, source.relation if source else None, at)
        other = next((w for w in self.written.values() if w is not loader and self._fills(w, external.name)), None)
        if other is not None and other.name < loader.name:
            message = f"{external.name} is also filled by {other.name} ({other.at})"
            self.errors.add(DuplicateRelation(message, at=at, hint="one loader fills a source; join the two"))
        known = self.declared.get(external.name)
        self.declared[external.name] = (
            replace(known, managed=True)
            if known is not None
            else DeclaredSource(
                external.name, external.relation, at, loader.options.get("description", ""), managed=True
            )
        )
        return external

    def _fills(self, one: WrittenNode, name: str) -> bool:
        return one.kind == "loader" and str(one.options["source"]).lower() == name.lower()

    def _external(self, name: str, relation: Relation | None, at: At) -> External:
        relation = relation or Relation.parse(name)
        same = (e for e in self.resolver.externals.values() if str(e.relation).lower() == str(relation).lower())
        found = next(same, None) or External(name, relation, True, at)
        self.resolver.externals[found.name] = replace(found, declared=True)
        return found

    def node(self, one: WrittenNode, filled: External | None) -> PythonNode:
        """A node with its dependencies resolved; those that are wrong are reported and left out."""
        options = one.options
        hook = one.kind in HOOKS
        for name, at in one.refs:
            if name in one.changes:
                message = f"a {'hook' if hook else one.kind} cannot follow changes"
                self.errors.add(Contradiction(message, at=at, hint="ctx.changes is for models; ctx.ref has all rows"))
        called = {name: meant for name in _listed(options.get("depends_on")) if (meant := self._meant(name, one))}
        settings: dict[str, Any] = {key: options[key] for key in _SETTINGS if options.get(key) is not None}
        settings |= {key: duration_seconds(settings[key]) for key in _DURATIONS if key in settings}
        own = identity.digest(
            "python node",
            one.kind,
            one.source_hash,
            one.config_hash,
            *(f"{file} {own}" for file, own in sorted(one.dependencies.items())),
        )
        mode = str(options.get("mode") or "replace")
        return PythonNode(
            one.name,
            "hook" if hook else one.kind,  # type: ignore[arg-type]
            mode if one.kind == "loader" else one.kind,
            one.file,
            one.module,
            one.function,
            one.at,
            self.schema,
            own,
            one.source_hash,
            one.config_hash,
            one.dependencies,
            tuple(sorted(set(called.values()))),
            called,
            settings,
            _definition(one),
            tuple(_listed(options.get("tags"))),
            str(options.get("description") or ""),
            filled.name if filled is not None else "",
            filled.relation if filled is not None else None,
        )

    def _meant(self, name: str, one: WrittenNode) -> str:
        """The node, Python node or external that a dependency names; "" when it is reported as wrong."""
        at = one.option_places.get("depends_on", one.at)
        before, colon, after = name.partition(":")
        method, plain = (before, after) if colon else ("", name)
        python = self.written.get(plain.lower())
        if python is one and not method and self.resolver.by_file.get(plain.lower()):
            python = None  # a node cannot mean itself, so that it means the model with its name
        if python is not None and (python.kind in HOOKS or python.name == one.name):
            what = "itself" if python.name == one.name else f"the hook {python.name}"
            self.errors.add(UnknownReference(f"{one.name} cannot depend on {what}", at=at))
            return ""
        if method in _TYPES:
            if python is not None and python.kind == method:
                return python.name
            return self._unknown(name, at)
        slot = Reference(tuple(plain.split(".")), 0, 0, None, (), _KINDS.get(method))
        found = self.resolver.find_node(slot, at, self.errors)
        if python is not None and not method:
            if isinstance(found, Draft):
                message = f'"{name}" could be the {python.kind} {python.name} or {found.name}'
                hint = f'write "{python.kind}:{python.name}" or "{found.name}"'
                self.errors.add(AmbiguousReference(message, at=at, hint=hint))
                return ""
            return python.name
        if isinstance(found, Draft):
            return found.name
        if found is False:
            return ""
        if method in ("model", "seed") or (method and method not in _KINDS):
            return self._unknown(name, at)
        return self._source(plain, name, at)

    def _source(self, plain: str, name: str, at: At) -> str:
        source = next((s for s in self.declared.values() if s.name.lower() == plain.lower()), None)
        if source is not None:
            self.resolver.externals.setdefault(source.name, External(source.name, source.relation, True, at))
            return source.name
        if len(plain.split(".")) == 2:
            return self._undeclared(plain, at)
        return self._unknown(name, at)

    def _undeclared(self, name: str, at: At) -> str:
        relation = Relation.parse(name)
        same = (e for e in self.resolver.externals.values() if str(e.relation).lower() == str(relation).lower())
        found = next(same, None) or External(name, relation, False, at)
        self.resolver.externals.setdefault(found.name, found)
        return found.name

    def _unknown(self, name: str, at: At) -> str:
        if not self.complete:
            return ""
        names = [
            *self.resolver.by_file,
            *self.resolver.by_name,
            *self.declared,
            *(w.name for w in self.written.values()),
        ]
        close = nearest(name.rpartition(":")[2], names)
        hint = f"did you mean {' or '.join(repr(c) for c in close)}?" if close else None
        self.errors.add(UnknownReference(f'no node or source is called "{name}"', at=at, hint=hint))
        return ""


def model_settings(one: WrittenNode, config: Config, errors: Errors) -> Mapping[str, Setting]:
    """The settings of a model that is a function: what its decorator says, and what the project says of its path."""
    own: dict[str, Setting] = {}
    for word, value in one.options.items():
        key = find_key(word)
        if key is None or value is None or word in _OF_THE_RUN:
            continue
        own[key.name] = Setting(value, one.option_places.get(word, one.at))
    kind = own.get("kind")
    if kind is not None and str(kind.value) in _NOT_IN_PYTHON:
        message = f"a Python model cannot be of the kind {kind.value}"
        errors.add(BadValue(message, at=kind.at, hint=f"it is one of {', '.join(PYTHON_KINDS)}"))
        del own["kind"]
    settings = settings_of(one.file, Header(own, 0), config, errors)
    found = settings.get("kind")
    if one.changes and found is not None and found.value not in FOLLOWING_KINDS:
        message = f"ctx.changes has no meaning for the kind {found.value}"
        errors.add(Contradiction(message, at=one.at, hint=f"it is for {', '.join(FOLLOWING_KINDS)}; use ctx.ref"))
    return settings


def model_reads(draft: Draft, resolver: Resolver, errors: Errors) -> dict[str, str]:
    """What a Python model reads, by the names that it calls them."""
    assert draft.python is not None
    places = dict(draft.python.refs)
    at = draft.python.option_places.get("depends_on", draft.python.at)
    places |= {name: at for name in _listed(draft.python.options.get("depends_on")) if name not in places}
    called: dict[str, str] = {}
    for name, place in places.items():
        method, colon, plain = name.partition(":")
        kind = _KINDS.get(method) if colon else None
        found = resolver.resolve_name(Read(plain if colon else name, place, kind=kind), errors)
        if found == draft.name:
            errors.add(SelfReference(f"{draft.name} reads itself", at=place, hint="a model cannot read its own rows"))
        elif found:
            called[name] = found
    return called


def model_identity(one: WrittenNode, called: Mapping[str, str]) -> tuple[str, dict[str, Any]]:
    """The hash of what a Python model says, and what it was made of."""
    modules = [f"{file} {own}" for file, own in sorted(one.dependencies.items())]
    names = [f"{name} {meant}" for name, meant in sorted(called.items())]
    definition = {"sql": one.source, "dependencies": dict(one.dependencies), "texts": dict(one.texts)}
    return identity.digest("python model", one.source_hash, *modules, "\0", *names), definition


def model_call(one: WrittenNode, called: Mapping[str, str]) -> dict[str, Any]:
    """What running a Python model takes."""
    options = {key: one.options[key] for key in ("retries", *_DURATIONS) if one.options.get(key) is not None}
    options |= {key: duration_seconds(options[key]) for key in _DURATIONS if key in options}
    changes = sorted({called[name] for name in one.changes if name in called})
    place = [one.at.file, one.at.line, one.at.column, one.at.length]
    found = {"module": one.module, "function": one.function, "called": dict(called), "changes": changes, "at": place}
    return {**found, **options}


def _listed(value: Any) -> list[str]:
    return [] if value is None else [value] if isinstance(value, str) else list(value)


def _definition(one: WrittenNode) -> str:
    """What a node is, for people who want to see what changed."""
    return json.dumps(
        {
            "source": one.source,
            "config": dict(one.options),
            "dependencies": dict(one.dependencies),
            "texts": dict(one.texts),
        },
        default=str,
    )


def with_python(project: Project, linked: LinkedPython, variables: Mapping[str, Any], errors: Errors) -> Project:
    """The project with its Python nodes, and all nodes in one order; circles are reported."""
    if linked.nodes or any(n.python or n.kind == "custom" for n in project):
        project = replace(project, variables=dict(variables))
    if not linked.nodes:
        return project
    project = replace(project, python=linked.nodes)
    order, cycles = ordered(project.edges())
    for cycle in cycles:
        first = next((name for name in cycle if name in linked.nodes), cycle[0])
        at = linked.nodes[first].at if first in linked.nodes else At(project.nodes[first].file)
        turned = [*cycle[cycle.index(first) :], *cycle[: cycle.index(first)]]
        message = f"nodes wait for each other in a circle: {circle_text(turned)}"
        hint = "take one of these dependencies out; a model waits for the loaders of the sources that it reads"
        errors.add(Cycle(message, at=at, hint=hint))
    schemas = {n.schema for n in linked.nodes.values()}
    return replace(project, order=tuple(order), schemas=tuple(sorted({*project.schemas, *schemas})))
