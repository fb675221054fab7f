"""What reads models one by one: the project's words, functions and checks, prepared once for all of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqb.checks.node_checks import NodeChecks
from sqb.checks.parse import CheckReader
from sqb.checks.stored import hash_checks, list_watched_columns, store_checks
from sqb.compile.check_files import build_checks_reader
from sqb.compile.drafts import Analyst, read_model
from sqb.compile.errors import build_expansion_error
from sqb.compile.functions.calls import Identities
from sqb.compile.functions.definitions import Functions, load_functions
from sqb.compile.model import Node
from sqb.compile.nodes import build_node
from sqb.compile.resolve import Draft, Resolver, list_slots
from sqb.errors.base import Errors
from sqb.errors.project import UnknownVariable
from sqb.light_dataclass import dataclass
from sqb.names import suggest_nearest
from sqb.project.config.located import to_plain_value
from sqb.project.functions.macros import Macros, load_macros
from sqb.project.values import Config, Target
from sqb.sql.text.expand import ExpansionContext
from sqb.types.literals import format_literal

if TYPE_CHECKING:
    from sqb.compile.unit_tests import Variant
    from sqb.project.packages.installed import InstalledPackage
    from sqb.project.unit_tests import WrittenTest


@dataclass(frozen=True, slots=True)
class Reading:
    """Everything that a model's text is read with; mistakes are added to `errors`."""

    root: Path
    paths: Iterable[str]
    config: Config
    target: Target
    values: Mapping[str, Any]
    macros: Macros
    words: ExpansionContext
    functions: Functions
    reader: CheckReader
    analyst: Analyst
    errors: Errors
    packages: tuple[InstalledPackage, ...] = ()

    def read_model(self, path: str) -> Draft:
        """A model as its file says."""
        return read_model(
            self.root, path, self.config, self.target, self.words, self.reader, self.functions, self.errors
        )

    def make_variants(self, identities: Identities, nodes: Mapping[str, Node]) -> Variant:
        """What makes a model as it is with a test's own variables."""

        def build_variant(test: WrittenTest, model: Node) -> Node | None:
            more = {name: to_plain_value(entry) for name, entry in test.vars.items()}
            words = build_words({**self.values, **more}, self.macros)
            calls = _load_functions(self.root, self.paths, words, self.analyst, self.errors)
            draft = read_model(self.root, model.file, self.config, self.target, words, self.reader, calls, self.errors)
            own = replace(identities, functions=calls)
            return _build_variant(test, draft, self.values, nodes, own, self.errors)

        return build_variant


def open_reading(
    root: Path,
    paths: Iterable[str],
    config: Config,
    target: Target,
    variables: Mapping[str, Any],
    analyst: Analyst,
    errors: Errors,
) -> Reading:
    """Load what models are read with: macros, functions, custom audits."""
    packages = _find_packages(config)
    has_macros = packages or any(p.startswith("macros/") for p in paths)
    macros = load_macros(root, packages, errors) if has_macros else Macros({}, {}, root)
    paths = [*paths, *(path.as_posix() for package in packages for path in package.list_files())]
    values = {**config.vars, **variables}
    words = build_words(values, macros)
    functions = _load_functions(root, paths, words, analyst, errors)
    reader = build_checks_reader(root, paths, functions.extend_words(words), analyst.read, analyst.columns, errors)
    return Reading(root, paths, config, target, values, macros, words, functions, reader, analyst, errors, packages)


def _find_packages(config: Config) -> tuple[InstalledPackage, ...]:
    if not config.packages:
        return ()
    from sqb.project.packages.installed import find_packages  # few projects have any

    problems = Errors()
    packages = find_packages(config.packages, problems)
    # What models call of a package that is missing would be reported beside it, call by call.
    problems.raise_any()
    return packages


def _load_functions(
    root: Path, paths: Iterable[str], words: ExpansionContext, analyst: Analyst, errors: Errors
) -> Functions:
    return load_functions(
        root, paths, words, analyst, lambda problem, at: build_expansion_error(problem, at, words), errors
    )


def build_words(values: Mapping[str, Any], macros: Macros) -> ExpansionContext:
    """What `@@` and `@` stand for in texts."""
    return ExpansionContext(
        variable=lambda name: format_literal(values[name]) if name in values else None,
        environment=os.environ.get,
        macro=macros.functions.get,
        known_variables=tuple(values),
        known_macros=tuple(macros.functions),
    )


def resolve_check_reads(draft: Draft, resolver: Resolver, errors: Errors) -> dict[str, str]:
    """The nodes and externals that a model's checks read, by the names that they are called there."""
    names: dict[str, str] = {}
    for read in (r for check in draft.checks for r in check.reads):
        if read.name not in names:
            name = resolver.resolve_name(read, errors)
            if name:
                names[read.name] = name
    return names


def add_checks(node: Node, draft: Draft, watched: Mapping[str, str]) -> Node:
    """The node with its checks, and with what only they read."""
    if not draft.checks:
        return node
    watches = tuple(sorted({w for w in watched.values() if w != node.name}))
    # Where a check reads the model itself, it reads the rows that are to be published.
    checks = NodeChecks(store_checks(draft.checks), dict(watched), list_watched_columns(draft.checks, watched))
    return replace(node, checks=checks, checks_hash=hash_checks(draft.checks), watches=watches)


def _build_variant(
    test: WrittenTest,
    draft: Draft,
    values: Mapping[str, Any],
    nodes: Mapping[str, Node],
    identities: Identities,
    errors: Errors,
) -> Node | None:
    """A model as it is with a test's own variables; what only the test reads is not an input of the project."""
    before = len(errors.found)
    for name, entry in test.vars.items():
        if name not in values and f"@@{name}" not in draft.text:
            hint = suggest_nearest(name, values) or "`vars` overrides the values under [vars] in sqlbuild_project.toml"
            errors.add(UnknownVariable(f"there is no variable @@{name}", at=entry.key_at, hint=hint))
    if draft.query is None or len(errors.found) > before:
        return None
    resolver = identities.resolver
    known, resolver.externals = resolver.externals, dict(resolver.externals)
    reads = tuple(resolver.resolve(draft, i, errors) for i in range(len(list_slots(draft))))
    upstream = tuple(sorted(set(reads)))
    node = build_node(draft, reads, upstream, nodes, identities, ((), {})) if len(errors.found) == before else None
    resolver.externals = known
    return node
