"""Python nodes linked to the project: what they depend on, what loaders fill, and their place in the one order."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqb import identity
from sqb.checks.model import RelationRead
from sqb.compile.model import External, Project
from sqb.compile.python.model import PythonNode
from sqb.compile.resolve import Draft, Resolver
from sqb.compile.source_model import DeclaredSource
from sqb.errors.base import Errors
from sqb.errors.project import (
    AmbiguousReference,
    BadName,
    BadValue,
    Contradiction,
    Cycle,
    DuplicateRelation,
    SelfReference,
    UnknownReference,
)
from sqb.graph import format_cycle, sort_topologically
from sqb.light_dataclass import dataclass
from sqb.names import At, Relation, find_nearest, parse_duration
from sqb.project.models.keys import find_key, merge_settings
from sqb.project.models.kinds import KINDS
from sqb.project.python.nodes import HOOKS, Discovered, WrittenNode
from sqb.project.values import Config, Header, Setting
from sqb.sql.text.spans import Reference

_TYPES = ("loader", "task", "asset", "check")
_KINDS = {"model": "model", "seed": "seed", "source": "source"}
_DURATIONS = ("timeout", "retry_delay")
_OF_THE_RUN = ("depends_on", "retries", *_DURATIONS)
_PYTHON_KINDS = tuple(kind.name for kind in KINDS.values() if kind.in_python)
_CHANGES_KINDS = tuple(kind.name for kind in KINDS.values() if kind.takes_changes)
_SETTINGS = ("retries", "mode", "key", "columns", "severity", *_DURATIONS)


@dataclass(frozen=True, slots=True)
class LinkedPython:
    """The Python nodes of a project with their names resolved, and the sources that their loaders make."""

    nodes: Mapping[str, PythonNode]
    sources: dict[str, DeclaredSource]


def link_python(
    discovered: Discovered,
    resolver: Resolver,
    declared: Mapping[str, DeclaredSource],
    schema: str,
    errors: Errors,
) -> LinkedPython:
    """Resolve what Python nodes name; what is wrong is reported."""
    enabled = [w for w in discovered.nodes if w.options.get("enabled", True) is not False and w.kind != "model"]
    linker = _Linker(
        resolver, {w.name.lower(): w for w in enabled}, dict(declared), schema, errors, discovered.complete
    )
    # Sources first: a node may depend on what another one's loader fills.
    filled = {w.name: linker.fill(w) for w in enabled if w.kind == "loader"}
    nodes = {w.name: linker.link_node(w, filled.get(w.name)) for w in enabled}
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
        external = self._build_external(source.name if source else name, source.relation if source else None, at)
        other = next(
            (w for w in self.written.values() if w is not loader and self._is_filled_by(w, external.name)), None
        )
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

    def _is_filled_by(self, loader: WrittenNode, name: str) -> bool:
        return loader.kind == "loader" and str(loader.options["source"]).lower() == name.lower()

    def _build_external(self, name: str, relation: Relation | None, at: At) -> External:
        relation = relation or Relation.parse(name)
        same = (e for e in self.resolver.externals.values() if str(e.relation).lower() == str(relation).lower())
        external = next(same, None) or External(name, relation, True, at)
        self.resolver.externals[external.name] = replace(external, declared=True)
        return external

    def link_node(self, written_node: WrittenNode, filled: External | None) -> PythonNode:
        """A node with its dependencies resolved; those that are wrong are reported and left out."""
        options = written_node.options
        hook = written_node.kind in HOOKS
        for name, at in written_node.refs:
            if name in written_node.changes:
                message = f"a {'hook' if hook else written_node.kind} cannot follow changes"
                self.errors.add(Contradiction(message, at=at, hint="ctx.changes is for models; ctx.ref has all rows"))
        called = {
            name: target
            for name in _to_list(options.get("depends_on"))
            if (target := self._resolve_dependency(name, written_node))
        }
        settings: dict[str, Any] = {key: options[key] for key in _SETTINGS if options.get(key) is not None}
        settings |= {key: parse_duration(settings[key]) for key in _DURATIONS if key in settings}
        local_hash = identity.digest(
            "python node",
            written_node.kind,
            written_node.source_hash,
            written_node.config_hash,
            *(f"{file} {own}" for file, own in sorted(written_node.dependencies.items())),
        )
        mode = str(options.get("mode") or "replace")
        return PythonNode(
            written_node.name,
            "hook" if hook else written_node.kind,  # type: ignore[arg-type]
            mode if written_node.kind == "loader" else written_node.kind,
            written_node.file,
            written_node.module,
            written_node.function,
            written_node.at,
            self.schema,
            local_hash,
            written_node.source_hash,
            written_node.config_hash,
            written_node.dependencies,
            tuple(sorted(set(called.values()))),
            called,
            settings,
            _format_definition(written_node),
            tuple(_to_list(options.get("tags"))),
            str(options.get("description") or ""),
            filled.name if filled is not None else "",
            filled.relation if filled is not None else None,
        )

    def _resolve_dependency(self, name: str, written_node: WrittenNode) -> str:
        """The node, Python node or external that a dependency names; "" when it is reported as wrong."""
        at = written_node.option_places.get("depends_on", written_node.at)
        before, colon, after = name.partition(":")
        method, plain = (before, after) if colon else ("", name)
        python = self.written.get(plain.lower())
        if python is written_node and not method and self.resolver.by_file.get(plain.lower()):
            python = None  # a node cannot mean itself, so that it means the model with its name
        if python is not None and (python.kind in HOOKS or python.name == written_node.name):
            what = "itself" if python.name == written_node.name else f"the hook {python.name}"
            self.errors.add(UnknownReference(f"{written_node.name} cannot depend on {what}", at=at))
            return ""
        if method in _TYPES:
            if python is not None and python.kind == method:
                return python.name
            return self._report_unknown(name, at)
        slot = Reference(tuple(plain.split(".")), 0, 0, None, (), _KINDS.get(method))
        node = self.resolver.find_node(slot, at, self.errors)
        if python is not None and not method:
            if isinstance(node, Draft):
                message = f'"{name}" could be the {python.kind} {python.name} or {node.name}'
                hint = f'write "{python.kind}:{python.name}" or "{node.name}"'
                self.errors.add(AmbiguousReference(message, at=at, hint=hint))
                return ""
            return python.name
        if isinstance(node, Draft):
            return node.name
        if node is False:
            return ""
        if method in ("model", "seed") or (method and method not in _KINDS):
            return self._report_unknown(name, at)
        return self._resolve_source(plain, name, at)

    def _resolve_source(self, plain: str, name: str, at: At) -> str:
        source = next((s for s in self.declared.values() if s.name.lower() == plain.lower()), None)
        if source is not None:
            self.resolver.externals.setdefault(source.name, External(source.name, source.relation, True, at))
            return source.name
        if len(plain.split(".")) == 2:
            return self._add_undeclared(plain, at)
        return self._report_unknown(name, at)

    def _add_undeclared(self, name: str, at: At) -> str:
        relation = Relation.parse(name)
        same = (e for e in self.resolver.externals.values() if str(e.relation).lower() == str(relation).lower())
        external = next(same, None) or External(name, relation, False, at)
        self.resolver.externals.setdefault(external.name, external)
        return external.name

    def _report_unknown(self, name: str, at: At) -> str:
        if not self.complete:
            return ""
        names = [
            *self.resolver.by_file,
            *self.resolver.by_name,
            *self.declared,
            *(w.name for w in self.written.values()),
        ]
        close = find_nearest(name.rpartition(":")[2], names)
        hint = f"did you mean {' or '.join(repr(c) for c in close)}?" if close else None
        self.errors.add(UnknownReference(f'no node or source is called "{name}"', at=at, hint=hint))
        return ""


def read_model_settings(written_node: WrittenNode, config: Config, errors: Errors) -> Mapping[str, Setting]:
    """The settings of a model that is a function: what its decorator says, and what the project says of its path."""
    decorator_settings: dict[str, Setting] = {}
    for word, value in written_node.options.items():
        key = find_key(word)
        if key is None or value is None or word in _OF_THE_RUN:
            continue
        decorator_settings[key.name] = Setting(value, written_node.option_places.get(word, written_node.at))
    kind = decorator_settings.get("kind")
    if kind is not None and str(kind.value) in KINDS and not KINDS[str(kind.value)].in_python:
        message = f"a Python model cannot be of the kind {kind.value}"
        errors.add(BadValue(message, at=kind.at, hint=f"it is one of {', '.join(_PYTHON_KINDS)}"))
        del decorator_settings["kind"]
    settings = merge_settings(written_node.file, Header(decorator_settings, 0), config, errors)
    kind_setting = settings.get("kind")
    if written_node.changes and kind_setting is not None and kind_setting.value not in _CHANGES_KINDS:
        message = f"ctx.changes has no meaning for the kind {kind_setting.value}"
        errors.add(
            Contradiction(message, at=written_node.at, hint=f"it is for {', '.join(_CHANGES_KINDS)}; use ctx.ref")
        )
    return settings


def resolve_model_reads(draft: Draft, resolver: Resolver, errors: Errors) -> dict[str, str]:
    """What a Python model reads, by the names that it calls them."""
    assert draft.python is not None
    places = dict(draft.python.refs)
    at = draft.python.option_places.get("depends_on", draft.python.at)
    places |= {name: at for name in _to_list(draft.python.options.get("depends_on")) if name not in places}
    called: dict[str, str] = {}
    for name, place in places.items():
        method, colon, plain = name.partition(":")
        kind = _KINDS.get(method) if colon else None
        target = resolver.resolve_name(RelationRead(plain if colon else name, place, kind=kind), errors)
        if target == draft.name:
            errors.add(SelfReference(f"{draft.name} reads itself", at=place, hint="a model cannot read its own rows"))
        elif target:
            called[name] = target
    return called


def compute_model_identity(written_node: WrittenNode, called: Mapping[str, str]) -> tuple[str, dict[str, Any]]:
    """The hash of what a Python model says, and what it was made of."""
    modules = [f"{file} {module_hash}" for file, module_hash in sorted(written_node.dependencies.items())]
    names = [f"{name} {target}" for name, target in sorted(called.items())]
    definition = {
        "sql": written_node.source,
        "dependencies": dict(written_node.dependencies),
        "texts": dict(written_node.texts),
    }
    return identity.digest("python model", written_node.source_hash, *modules, "\0", *names), definition


def build_model_call(written_node: WrittenNode, called: Mapping[str, str]) -> dict[str, Any]:
    """What running a Python model takes."""
    options = {
        key: written_node.options[key] for key in ("retries", *_DURATIONS) if written_node.options.get(key) is not None
    }
    options |= {key: parse_duration(options[key]) for key in _DURATIONS if key in options}
    changes = sorted({called[name] for name in written_node.changes if name in called})
    place = [written_node.at.file, written_node.at.line, written_node.at.column, written_node.at.length]
    call = {
        "module": written_node.module,
        "function": written_node.function,
        "called": dict(called),
        "changes": changes,
        "at": place,
    }
    return {**call, **options}


def _to_list(value: Any) -> list[str]:
    return [] if value is None else [value] if isinstance(value, str) else list(value)


def _format_definition(written_node: WrittenNode) -> str:
    """What a node is, for people who want to see what changed."""
    return json.dumps(
        {
            "source": written_node.source,
            "config": dict(written_node.options),
            "dependencies": dict(written_node.dependencies),
            "texts": dict(written_node.texts),
        },
        default=str,
    )


def add_python(project: Project, linked: LinkedPython, variables: Mapping[str, Any], errors: Errors) -> Project:
    """The project with its Python nodes, and all nodes in one order; circles are reported."""
    if linked.nodes or any(n.python or n.kind == "custom" for n in project):
        project = replace(project, variables=dict(variables))
    if not linked.nodes:
        return project
    project = replace(project, python=linked.nodes)
    order, cycles = sort_topologically(project.list_edges())
    for cycle in cycles:
        first = next((name for name in cycle if name in linked.nodes), cycle[0])
        at = linked.nodes[first].at if first in linked.nodes else At(project.nodes[first].file)
        turned = [*cycle[cycle.index(first) :], *cycle[: cycle.index(first)]]
        message = f"nodes wait for each other in a circle: {format_cycle(turned)}"
        hint = "take one of these dependencies out; a model waits for the loaders of the sources that it reads"
        errors.add(Cycle(message, at=at, hint=hint))
    schemas = {n.schema for n in linked.nodes.values()}
    return replace(project, order=tuple(order), schemas=tuple(sorted({*project.schemas, *schemas})))
