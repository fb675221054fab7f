"""From files to the compiled project: read, expand, resolve, hash. All errors are found before any is raised."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqb.compile.drafts import Analyst, derive_relation, is_enabled, read_python_model
from sqb.compile.errors import build_expansion_error
from sqb.compile.exposures import link_exposures
from sqb.compile.functions.calls import (
    Identities,
    list_used_functions,
)
from sqb.compile.hooks import link_hooks
from sqb.compile.lookups import add_lookups
from sqb.compile.materializations import load_materializations, refuse_unknown
from sqb.compile.model import How, Node, OtherTarget, Project, add_underlying_externals
from sqb.compile.nodes import build_node
from sqb.compile.python.nodes import (
    add_python,
    link_python,
    resolve_model_reads,
)
from sqb.compile.read_ahead import read_models
from sqb.compile.reading import add_checks, open_reading, resolve_check_reads
from sqb.compile.renames import refuse_wrong_renames
from sqb.compile.resolve import DbtReferences, Draft, Resolver, list_slots, locate_reference
from sqb.compile.seeds import read_seed
from sqb.compile.source_model import DeclaredSource
from sqb.compile.sources import (
    SourceReader,
    add_source_tokens,
    add_table_functions,
    refuse_untold_policies,
    refuse_views_of_files,
)
from sqb.compile.unit_tests import link_tests
from sqb.errors.base import Errors
from sqb.errors.project import Cycle, DuplicateRelation
from sqb.graph import format_cycle, sort_topologically
from sqb.project import files
from sqb.project.config.dbt_names import read_names
from sqb.project.exposures import load_exposures
from sqb.project.python.nodes import discover
from sqb.project.sources import load_sources
from sqb.project.unit_tests import load_tests
from sqb.project.values import Config, Source, Target

if TYPE_CHECKING:
    from sqb.project.packages.installed import InstalledPackage


@dataclass(frozen=True, slots=True)
class Compilation:
    """The project, and what else of the world its meaning depended on."""

    project: Project
    environment: Mapping[str, str | None]
    # Files of Python modules outside of the project's folders, with hashes of their contents.
    outside: Mapping[str, str] = field(default_factory=dict)
    # The folders of the packages that it uses, by their import names.
    packages: Mapping[str, str] = field(default_factory=dict)


def compile_project(
    root: Path,
    paths: Mapping[str, Any],
    config: Config,
    target: Target,
    variables: Mapping[str, Any],
    analyst: Analyst,
) -> Compilation:
    """Compile the files in `paths` for one target; raises all errors at once."""
    # What macros print is for people, who may be reading standard output as one JSON document.
    with redirect_stdout(sys.stderr):
        return _compile_files(root, paths, config, target, variables, analyst)


def _compile_files(
    root: Path,
    paths: Mapping[str, Any],
    config: Config,
    target: Target,
    variables: Mapping[str, Any],
    analyst: Analyst,
) -> Compilation:
    errors = Errors()
    reading = open_reading(root, paths, config, target, variables, analyst, errors)
    words, functions, reader = reading.words, reading.functions, reading.reader
    in_python = discover(root, paths, errors, root / ".sqb" / "cache" / "python.json")
    python_models = [w for w in in_python.nodes if w.kind == "model"]
    models = [p for p in paths if p.startswith("models/")]
    drafts = [
        *read_models(reading, models),
        *(read_python_model(w, config, target, words, reader, functions, errors) for w in python_models),
        *(read_seed(root, p, target, errors) for p in paths if p.startswith("seeds/") and p.endswith(".csv")),
    ]
    sources = load_sources(root, errors) if any(p.startswith("sources/") for p in paths) else ()
    resolver = _build_resolver(root, config, target, drafts, sources)
    in_sources = functions.extend_words(words)
    source_reader = SourceReader(
        in_sources, analyst.read, lambda problem, at: build_expansion_error(problem, at, words), resolver, errors, {}
    )
    declared = add_table_functions(source_reader.read_sources(sources), sources, functions, errors)
    identities = Identities(resolver, functions, reading.macros, load_materializations(root, paths, errors))
    schema = target.schema.replace("{folder}", "default")
    python = link_python(in_python, resolver, declared, schema, errors)
    declared = python.sources
    project = _link_project(config, target, drafts, sources, declared, identities, errors)
    if project is not None:
        project = add_lookups(project, {d.name: d for d in drafts}, analyst.joins, errors)
        project = add_python(project, python, reading.values, errors)
        if any(p.startswith("exposures/") for p in paths):
            project = replace(project, exposures=link_exposures(load_exposures(root, errors), project, errors))
    written = load_tests(root, (p for p in paths if p.startswith("tests/")), errors)
    if project is not None and written:
        variant = reading.make_variants(identities, project.nodes)
        disabled = (d.name for d in resolver.disabled.values())
        project = replace(project, tests=link_tests(written, project, disabled, variant, errors))
    functions.refuse_unloadable(list_used_functions(drafts, functions), errors)
    errors.raise_any()
    assert project is not None
    project = replace(project, functions=identities.build_functions(project, list_used_functions(drafts, functions)))
    texts = [x for d in drafts for x in (d.expanded, *(h.expanded for h in d.hooks)) if x is not None]
    environment = {k: v for text in (*texts, *functions.texts) for k, v in text.environment.items()}
    outside = {**in_python.outside, **_hash_packages(reading.packages)}
    environment = {**environment, **reader.environment, **source_reader.environment}
    return Compilation(project, environment, outside, {p.name: str(p.folder) for p in reading.packages})


def _hash_packages(packages: tuple[InstalledPackage, ...]) -> dict[str, str]:
    """What must be the same for packages to be the same: their files, folders and versions."""
    if not packages:
        return {}
    from sqb.project.packages.installed import list_watched  # few projects have any

    return {path.as_posix(): files.hash_path(path) for path in list_watched(packages)}


def _build_resolver(
    root: Path, config: Config, target: Target, drafts: list[Draft], sources: tuple[Source, ...]
) -> Resolver:
    enabled = [d for d in drafts if is_enabled(d)]
    disabled = [d for d in drafts if not is_enabled(d)]
    dbt = DbtReferences(True, read_names(root)) if config.dbt is not None else DbtReferences()
    return Resolver(enabled, disabled, sources, config.get_connection(target).catalog.name, dbt)


def _link_project(
    config: Config,
    target: Target,
    drafts: list[Draft],
    sources: tuple[Source, ...],
    declared: Mapping[str, DeclaredSource],
    identities: Identities,
    errors: Errors,
) -> Project | None:
    """The project of drafts whose names are resolved, in the order in which they are built; None after an error."""
    resolver = identities.resolver
    enabled = [d for d in drafts if is_enabled(d)]
    _refuse_shared_names(enabled, sources, errors)
    refuse_unknown(enabled, identities.materializations, errors)
    reads: dict[str, tuple[str, ...]] = {}
    called: dict[str, dict[str, str]] = {}
    for draft in enabled:
        if draft.python is not None:
            called[draft.name] = resolve_model_reads(draft, resolver, errors)
        reads[draft.name] = tuple(resolver.resolve(draft, i, errors) for i in range(len(list_slots(draft))))
    read = {d.name: {*reads[d.name], *called.get(d.name, {}).values()} for d in enabled}
    upstream = {name: tuple(sorted(r for r in names if r)) for name, names in read.items()}
    hooks = {
        d.name: link_hooks(d.hooks, d.relation, lambda slot, at: resolver.resolve_in_hook(slot, at, errors))
        for d in enabled
    }
    watched = {d.name: resolve_check_reads(d, resolver, errors) for d in enabled}
    order, cycles = sort_topologically(
        {n: (*above, *(w for w in watched[n].values() if w != n)) for n, above in upstream.items()}
    )
    refuse_wrong_renames(enabled, resolver.externals.values(), errors)
    by_name = {d.name: d for d in enabled}
    for cycle in cycles:
        errors.add(_build_cycle_error(cycle, by_name, reads, watched))
    if errors.found:
        return None
    nodes: dict[str, Node] = {}
    for name in order:
        node = build_node(by_name[name], reads[name], upstream[name], nodes, identities, hooks[name], called.get(name))
        nodes[name] = add_checks(add_source_tokens(node, declared), by_name[name], watched[name])
    refuse_views_of_files(nodes, declared, errors)
    refuse_untold_policies(nodes, lambda name: by_name[name].settings, declared, errors)
    schemas = tuple(sorted({n.relation.schema for n in nodes.values()}))
    externals = add_underlying_externals(resolver.externals, declared)
    project = Project(config.name, target.name, nodes, externals, schemas, sources=declared)
    return replace(project, other_target=_build_other_target(config, target, enabled))


def _build_other_target(config: Config, target: Target, drafts: list[Draft]) -> OtherTarget | None:
    """The relation of every node in the target that this one reads from."""
    other = config.targets.get(target.other_target or "")
    if other is None:
        return None
    how: How = "defer" if target.defer_sources_to else "copy" if target.reuse_hard_copy else "clone"
    there = {
        d.name: derive_relation(d.file, d.folder, d.name.rpartition(".")[2], other, d.settings, Errors())
        for d in drafts
    }
    return OtherTarget(other.name, how, there)


def _refuse_shared_names(drafts: list[Draft], sources: tuple[Source, ...], errors: Errors) -> None:
    """Two nodes with one name or one relation, and sources that the project builds itself."""
    drafts_by_name: dict[str, Draft] = {}
    named: dict[str, Draft] = {}
    for draft in drafts:
        key = str(draft.relation).lower()
        if draft.name.lower() in named and key not in drafts_by_name:
            other = named[draft.name.lower()]
            errors.add(
                DuplicateRelation(
                    f"{draft.name} is also the name of {other.file}", at=draft.at, hint="rename one of the files"
                )
            )
        named.setdefault(draft.name.lower(), draft)
        if key in drafts_by_name:
            errors.add(
                DuplicateRelation(
                    f"{draft.relation} is also built by {drafts_by_name[key].file}",
                    at=draft.at,
                    hint="rename one of the files, or set `schema` or `alias`",
                )
            )
        drafts_by_name.setdefault(key, draft)
    for source in sources:
        relation = str(source.relation or source.name).lower()
        built = named.get(source.name.lower()) or drafts_by_name.get(relation)
        if built is not None:
            errors.add(
                DuplicateRelation(
                    f'the source "{source.name}" is built by {built.file}',
                    at=source.at,
                    hint="it is both a model and a declared source; remove one",
                )
            )


def _build_cycle_error(
    cycle: list[str],
    drafts: Mapping[str, Draft],
    reads: Mapping[str, tuple[str, ...]],
    watched: Mapping[str, Mapping[str, str]],
) -> Cycle:
    first, second = cycle[0], cycle[1 % len(cycle)]
    draft = drafts[first]
    if draft.python is not None:
        at = draft.at
    elif second in reads[first]:
        at = locate_reference(draft, list_slots(draft)[reads[first].index(second)])
    else:
        named = [name for name, resolved in watched[first].items() if resolved == second]
        at = next(r.at for check in draft.checks for r in check.reads if r.name in named)
    return Cycle(
        f"models read each other in a circle: {format_cycle(cycle)}",
        at=at,
        hint="take one of these references out, for instance by moving the shared part into a model of its own",
    )
