"""A compiled project after edits of a few models: only these are read again, and the rest is taken over.

The result is the one that compiling everything gives, or None: then everything is compiled. It is None wherever an edit
could matter to more than the edited models and the versions of what reads them, and wherever something is wrong, so
that one code finds and reports all mistakes.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping
from contextlib import redirect_stdout
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from sqb import identity
from sqb.compile.drafts import Analyst, is_enabled
from sqb.compile.functions.calls import Identities
from sqb.compile.hooks import link_hooks
from sqb.compile.model import External, Node, Project, UnitTest
from sqb.compile.nodes import build_node
from sqb.compile.reading import Reading, add_checks, open_reading, resolve_check_reads
from sqb.compile.resolve import DbtReferences, Draft, Resolver, list_slots
from sqb.compile.sources import POLICY, add_source_tokens, refuse_views_of_files
from sqb.errors.base import Errors, SqbError
from sqb.graph import sort_topologically
from sqb.light_dataclass import dataclass
from sqb.names import At
from sqb.project.config.dbt_names import read_names
from sqb.project.values import Config, Source, Target

# Kinds that others must know more of than a name and a version; of logs, see `compile.lookups`.
_KINDS_APART = frozenset({"append", "custom"})
# Settings that say where a model is in other targets too.
_PLACE = ("schema", "alias")


@dataclass(frozen=True, slots=True)
class Recompilation:
    """The project after the edits, the nodes that are others than before, and what else the edited texts depend on."""

    project: Project
    changed: frozenset[str]
    environment: Mapping[str, str | None] = field(default_factory=dict)


class _TooMuch(Exception):
    """The edit may matter to more than its own model."""


def recompile_models(
    root: Path,
    paths: Mapping[str, Any],
    edited: Collection[str],
    project: Project,
    config: Config,
    target: Target,
    variables: Mapping[str, Any],
    analyst: Analyst,
) -> Recompilation | None:
    """The project with these model files read again; None where all has to be compiled."""
    nodes = {node.file: node for node in project}
    if not all(path in nodes and _can_be_read_alone(path, nodes[path]) for path in edited):
        return None
    errors = Errors()
    try:
        with redirect_stdout(sys.stderr):
            reading = open_reading(root, paths, config, target, variables, analyst, errors)
            linker = _Linker(project, reading, _build_resolver(root, project, config, target))
            result = linker.link([(nodes[path], reading.read_model(path)) for path in edited])
    except (_TooMuch, SqbError):
        return None
    return None if errors.found else result


def _can_be_read_alone(path: str, node: Node) -> bool:
    return path.startswith("models/") and node.kind not in _KINDS_APART and not node.python


def _build_resolver(root: Path, project: Project, config: Config, target: Target) -> Resolver:
    """What finds the names of the project: nodes by what is known of them, and the sources that files declare."""
    drafts = [
        Draft(
            *(n.name, n.name.partition(".")[0], n.type, n.kind, n.relation, n.file, At(n.file), {}),
            former_names=n.former_names,
        )
        for n in project
    ]
    sources = tuple(
        Source(s.name, None if s.path is not None or s.expression is not None else s.relation, s.at, path=s.path)
        for s in project.sources.values()
        if s.function is None and s.at.file.startswith("sources/")
    )
    dbt = DbtReferences(True, read_names(root)) if config.dbt is not None else DbtReferences()
    return Resolver(drafts, [], sources, config.get_connection(target).catalog.name, dbt)


class _Linker:
    """Puts edited models into the place of those that were compiled before."""

    def __init__(self, project: Project, reading: Reading, resolver: Resolver) -> None:
        self.project, self.reading, self.resolver = project, reading, resolver
        self.identities = Identities(resolver, reading.functions, reading.macros, {})

    def link(self, edits: Iterable[tuple[Node, Draft]]) -> Recompilation:
        nodes, externals = dict(self.project.nodes), dict(self.project.externals)
        environment: dict[str, str | None] = {}
        edited: dict[str, Node] = {}
        for before, draft in edits:
            _refuse_other_place(before, draft)
            node = self._build_node(before, draft)
            self._refuse_wider_change(before, node)
            externals |= self._find_moved_externals(draft.file)
            edited[node.name] = node
            environment |= _list_environment(draft)
        nodes = _sort_nodes({**nodes, **edited}, self.project, self.reading.paths)
        nodes = self._renew_versions(nodes, edited)
        project = replace(self.project, nodes=nodes, externals=externals)
        project = _sort_python(project, self.project)
        if self.reading.errors.found:
            raise _TooMuch
        changed = frozenset(n for n, node in nodes.items() if node is not self.project.nodes[n])
        tests = self._link_tests(project, edited.keys(), changed)
        more = self.reading.reader.environment
        return Recompilation(replace(project, tests=tests), changed, {**environment, **more})

    def _build_node(self, before: Node, draft: Draft) -> Node:
        resolver, errors = self.resolver, self.reading.errors
        resolver.externals = {}
        reads = tuple(resolver.resolve(draft, i, errors) for i in range(len(list_slots(draft))))
        upstream = tuple(sorted({r for r in reads if r}))
        hooks = link_hooks(draft.hooks, draft.relation, lambda slot, at: resolver.resolve_in_hook(slot, at, errors))
        watched = resolve_check_reads(draft, resolver, errors)
        if errors.found or draft.query is None:
            raise _TooMuch
        node = build_node(draft, reads, upstream, self.project.nodes, self.identities, hooks)
        node = add_checks(add_source_tokens(node, self.project.sources), draft, watched)
        refuse_views_of_files({node.name: node}, self.project.sources, errors)
        return node

    def _refuse_wider_change(self, before: Node, after: Node) -> None:
        """Stop where others than the model's own readers would have to be looked at again."""
        known = self.project.externals
        for old, new in ((before.upstream, after.upstream), (before.watches, after.watches)):
            # Where an external is read first, and whether at all, is recorded with it.
            if {n for n in old if n not in self.project.nodes} != {n for n in new if n not in self.project.nodes}:
                raise _TooMuch
        if not self.resolver.externals.keys() <= known.keys():
            raise _TooMuch
        # Which models use a function is recorded with the function.
        if _list_functions(before) != _list_functions(after):
            raise _TooMuch
        policies = [n for n in self.project if n.settings.get(POLICY, "always") != "always"]
        if after.settings.get(POLICY) != before.settings.get(POLICY) or (
            policies and before.upstream != after.upstream
        ):
            raise _TooMuch
        has_logs = any(n.kind == "append" for n in self.project)
        if has_logs and (after.kind == "view" or _list_keys(before) != _list_keys(after)):
            raise _TooMuch
        # The declarations of sources say what hooks may name of them.
        if after.hooks and self.project.sources:
            raise _TooMuch

    def _find_moved_externals(self, file: str) -> dict[str, External]:
        """Externals that are read first in an edited file, at their new places."""
        own = self.resolver.externals
        moved = [e for e in self.project.externals.values() if e.at.file == file]
        if not all(e.name in own for e in moved):
            raise _TooMuch
        return {e.name: replace(e, at=own[e.name].at) for e in moved}

    def _renew_versions(self, nodes: Mapping[str, Node], edited: Mapping[str, Node]) -> dict[str, Node]:
        """The nodes in order, with the versions that follow from those above them."""
        renewed: dict[str, Node] = {}
        moved: set[str] = set()
        for name, node in nodes.items():
            if name in edited or not moved.isdisjoint(node.upstream):
                above = (
                    renewed[u].version_hash if u in renewed else identity.digest("source", u) for u in node.upstream
                )
                version = identity.compute_version_hash(node.local_hash, above)
                node = add_source_tokens(replace(node, version_hash=version), self.project.sources)
                if node.version_hash != self.project.nodes[name].version_hash:
                    moved.add(name)
                elif name not in edited:
                    node = self.project.nodes[name]
            renewed[name] = node
        return renewed

    def _link_tests(self, project: Project, edited: Collection[str], changed: frozenset[str]) -> tuple[UnitTest, ...]:
        """The unit tests; those of edited models, and those with a model of their own below these, are read again."""
        due = {
            (t.at.file, t.name)
            for t in project.tests
            if t.model in edited or (t.variant is not None and not changed.isdisjoint(t.variant.upstream))
        }
        if not due:
            return project.tests
        from sqb.compile.unit_tests import link_tests  # few edited models have tests
        from sqb.project.unit_tests import load_tests

        errors = self.reading.errors
        written = load_tests(self.reading.root, sorted({file for file, _ in due}), errors)
        own = [test for test in written if (test.at.file, test.name) in due]
        variant = self.reading.make_variants(self.identities, project.nodes)
        linked = {(t.at.file, t.name): t for t in link_tests(own, project, (), variant, errors)}
        if errors.found or len(own) != len(due) or linked.keys() != due:
            raise _TooMuch
        return tuple(linked.get((t.at.file, t.name), t) for t in project.tests)


def _refuse_other_place(before: Node, draft: Draft) -> None:
    """Stop where the model is not what others know it by."""
    settings = [before.settings.get(key) for key in _PLACE]
    written = [draft.settings[key].value if key in draft.settings else None for key in _PLACE]
    same = (draft.name, draft.relation, draft.kind, settings) == (before.name, before.relation, before.kind, written)
    # Its readers know it by its first name.
    same = same and draft.former_names == before.former_names and draft.former_relations == before.former_relations
    if not same or not is_enabled(draft):
        raise _TooMuch


def _list_keys(node: Node) -> tuple[Any, ...]:
    """What tells that no two rows of a node are the same."""
    return node.checks_hash, *(node.settings.get("unique_key") or ())


def _list_functions(node: Node) -> dict[str, str]:
    """The functions of the project that a model uses; macros are part of its text."""
    return {name: hash_ for name, hash_ in node.functions.items() if not name.startswith("@")}


def _list_environment(draft: Draft) -> dict[str, str | None]:
    texts = [x for x in (draft.expanded, *(h.expanded for h in draft.hooks)) if x is not None]
    return {key: value for text in texts for key, value in text.environment.items()}


def _sort_nodes(nodes: Mapping[str, Node], before: Project, paths: Iterable[str]) -> dict[str, Node]:
    """The nodes in the order that compiling everything gives them; as they were where nothing reads anything else."""
    if all(node.after == before.nodes[name].after for name, node in nodes.items()):
        return dict(nodes)
    if any(node.python for node in nodes.values()):
        # Their order is that in which they are discovered.
        raise _TooMuch
    by_file = {node.file: name for name, node in nodes.items()}
    models = [by_file[p] for p in paths if p.startswith("models/") and p in by_file]
    seeds = [by_file[p] for p in paths if p.startswith("seeds/") and p in by_file]
    order, cycles = sort_topologically({n: nodes[n].after for n in (*models, *seeds)})
    if cycles or len(order) != len(nodes):
        raise _TooMuch
    return {name: nodes[name] for name in order}


def _sort_python(project: Project, before: Project) -> Project:
    """The project with one order of all nodes, Python nodes too."""
    if not before.order or all(node.after == before.nodes[name].after for name, node in project.nodes.items()):
        return project
    order, cycles = sort_topologically(project.list_edges())
    if cycles:
        raise _TooMuch
    return replace(project, order=tuple(order))
