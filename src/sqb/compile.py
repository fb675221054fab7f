"""From files to the compiled project: read, expand, resolve, hash. All errors are found before any is raised."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from sqb import identity
from sqb.checks.fitting import misfits
from sqb.checks.reading import ROLES, Reader, read_check, read_checks
from sqb.checks.stored import checks_hash, columns_watched, dump_checks
from sqb.checks.values import Check
from sqb.compile_calls import Identities, references_of, used_functions, with_functions, written_hash
from sqb.compile_checks import checks_reader
from sqb.compile_cursor import check_cursor_use
from sqb.compile_functions import Analyst as FunctionAnalyst
from sqb.compile_functions import Functions, load_functions
from sqb.compile_hooks import link_hooks, read_hooks
from sqb.compile_lookups import with_lookups
from sqb.compile_materializations import load_materializations, materialization_of, refuse_unknown
from sqb.compile_problems import expansion_error, sql_error
from sqb.compile_python import link_python, model_call, model_identity, model_reads, model_settings, with_python
from sqb.compile_sources import SourceReader, refuse_untold_policies, refuse_views_of_files, with_tokens
from sqb.compile_tables import table_calls, with_table_functions
from sqb.compile_tests import link_tests
from sqb.compiled import Contract, Elsewhere, Hook, How, Node, Project, with_beneath
from sqb.compiled_sources import DeclaredSource
from sqb.dbt_references import DbtReferences
from sqb.errors import (
    BadCall,
    BadName,
    Cycle,
    DuplicateRelation,
    Errors,
    UnknownVariable,
)
from sqb.graph import circle_text, ordered
from sqb.names import At, Relation, did_you_mean, place, quote
from sqb.project import files
from sqb.project.dbt_names import read_names
from sqb.project.entries import plain
from sqb.project.header import parse_header
from sqb.project.keys import KEYS, settings_of
from sqb.project.macros import Macros, load_macros
from sqb.project.python_nodes import WrittenNode, discover
from sqb.project.seeds import load_seed
from sqb.project.sources import load_sources
from sqb.project.unit_tests import WrittenTest, load_tests
from sqb.project.values import Call, Config, Seed, Setting, Source, Target
from sqb.resolve import Draft, Resolver, Written, slots_of, written_at
from sqb.sql.delta.joins import Joins
from sqb.sql.expand import ExpansionProblem, Words, expand, literal
from sqb.sql.inline import CallProblem
from sqb.sql.query import CANONICAL_VERSION, Query, QueryProblem
from sqb.sql.spans import Piece

_NAME = re.compile(r"[A-Za-z0-9_]+")


class Analyst(FunctionAnalyst, Protocol):
    """What reads SQL, and remembers what it read."""

    def read(self, text: str, forced: Mapping[int, str]) -> Query: ...
    def columns(self, text: str) -> tuple[str, ...]: ...
    def joins(self, text: str, count: int) -> Joins: ...


@dataclass(frozen=True, slots=True)
class Compilation:
    """The project, and what else of the world its meaning depended on."""

    project: Project
    environment: Mapping[str, str | None]
    # Files of Python modules outside of the project's folders, with hashes of their contents.
    outside: Mapping[str, str] = field(default_factory=dict)


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
        return _compiled(root, paths, config, target, variables, analyst)


def _compiled(
    root: Path,
    paths: Mapping[str, Any],
    config: Config,
    target: Target,
    variables: Mapping[str, Any],
    analyst: Analyst,
) -> Compilation:
    errors = Errors()
    macros = load_macros(root, errors) if any(p.startswith("macros/") for p in paths) else Macros({}, {}, root)
    values = {**config.vars, **variables}
    words = _words(values, macros)
    functions = _functions(root, paths, words, analyst, errors)
    reader = checks_reader(root, paths, functions.in_words(words), analyst.read, analyst.columns, errors)
    in_python = discover(root, paths, errors, root / ".sqb" / "cache" / "python.json")
    python_models = [w for w in in_python.nodes if w.kind == "model"]
    found = [
        *(_model(root, p, config, target, words, reader, functions, errors) for p in paths if p.startswith("models/")),
        *(_python_model(w, config, target, words, reader, functions, errors) for w in python_models),
        *(_seed(root, p, target, errors) for p in paths if p.startswith("seeds/") and p.endswith(".csv")),
    ]
    sources = load_sources(root, errors) if any(p.startswith("sources/") for p in paths) else ()
    resolver = _resolver(root, config, target, found, sources)
    in_sources = functions.in_words(words)
    asked = SourceReader(
        in_sources, analyst.read, lambda problem, at: expansion_error(problem, at, words), resolver, errors, {}
    )
    declared = with_table_functions(asked.declared(sources), sources, functions, errors)
    identities = Identities(resolver, functions, macros, load_materializations(root, paths, errors))
    schema = target.schema.replace("{folder}", "default")
    python = link_python(in_python, resolver, declared, schema, errors)
    declared = python.sources
    project = _link(config, target, found, sources, declared, identities, errors)
    if project is not None:
        project = with_lookups(project, {d.name: d for d in found}, analyst.joins, errors)
        project = with_python(project, python, values, errors)
    written = load_tests(root, (p for p in paths if p.startswith("tests/")), errors)
    if project is not None and written:
        nodes = project.nodes

        def variant(test: WrittenTest, model: Node) -> Node | None:
            own = _words({**values, **{name: plain(entry) for name, entry in test.vars.items()}}, macros)
            calls = _functions(root, paths, own, analyst, errors)
            draft = _model(root, model.file, config, target, own, reader, calls, errors)
            return _variant(test, draft, values, nodes, replace(identities, functions=calls), errors)

        disabled = (d.name for d in resolver.disabled.values())
        project = replace(project, tests=link_tests(written, project, disabled, variant, errors))
    functions.refuse_unloadable(used_functions(found, functions), errors)
    errors.raise_any()
    assert project is not None
    project = replace(project, functions=identities.compiled(project, used_functions(found, functions)))
    texts = [x for d in found for x in (d.expanded, *(h.expanded for h in d.hooks)) if x is not None]
    environment = {k: v for text in (*texts, *functions.texts) for k, v in text.environment.items()}
    return Compilation(project, {**environment, **reader.environment, **asked.environment}, in_python.outside)


def _functions(root: Path, paths: Iterable[str], words: Words, analyst: Analyst, errors: Errors) -> Functions:
    return load_functions(root, paths, words, analyst, lambda problem, at: expansion_error(problem, at, words), errors)


def _words(values: Mapping[str, Any], macros: Macros) -> Words:
    return Words(
        variable=lambda name: literal(values[name]) if name in values else None,
        environment=os.environ.get,
        macro=macros.found.get,
        known_variables=tuple(values),
        known_macros=tuple(macros.found),
    )


def _model(
    root: Path,
    path: str,
    config: Config,
    target: Target,
    words: Words,
    reader: Reader,
    functions: Functions,
    errors: Errors,
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
    in_hooks = functions.in_words(words)
    hooks = read_hooks(settings, in_hooks, lambda problem, at: expansion_error(problem, at, words), errors)
    draft = replace(draft, checks=_checks(settings, reader, errors), hooks=hooks)
    try:
        expanded = expand(text, header.body_start, words)
    except ExpansionProblem as problem:
        at = place(text, problem.start, path, problem.end - problem.start)
        errors.add(expansion_error(problem, at, words))
        return draft
    try:
        query = reader.query(expanded.text, expanded.forced)
    except QueryProblem as problem:
        errors.add(sql_error(problem, text, path, expanded))
        return draft
    draft = replace(draft, text=text, expanded=expanded, query=query)
    try:
        draft = with_functions(draft, functions, reader.query)
    except CallProblem as problem:
        at = place(text, expanded.origin(problem.start), path, max(1, problem.end - problem.start))
        errors.add(BadCall(problem.message, at=at, hint=problem.hint))
        return replace(draft, query=None)
    _refuse_misfits(draft, errors)
    check_cursor_use(draft, errors)
    return draft


def _python_model(
    one: WrittenNode,
    config: Config,
    target: Target,
    words: Words,
    reader: Reader,
    functions: Functions,
    errors: Errors,
) -> Draft:
    """A model that is a function."""
    settings = model_settings(one, config, errors)
    parts = one.file.removeprefix("python/models/").split("/")[:-1]
    folder = "_".join(parts) or "default"
    relation = _relation(one.file, folder, one.name, target, settings, errors)
    kind = _setting(settings, "kind", "table")
    draft = Draft(f"{folder}.{one.name}", folder, "model", kind, relation, one.file, one.at, settings, python=one)
    if not _is_enabled(draft):
        return draft
    hooks = read_hooks(
        settings, functions.in_words(words), lambda problem, at: expansion_error(problem, at, words), errors
    )
    return replace(draft, checks=_checks(settings, reader, errors), hooks=hooks)


def _checks(settings: Mapping[str, Setting], reader: Reader, errors: Errors) -> tuple[Check, ...]:
    """The checks that are written, and those that a contract's `not null` means."""
    checks = read_checks(settings, reader, errors)
    contract = settings.get("contract")
    if contract is None:
        return checks
    calls = [Call("not_null", (quote(c.name),), contract.at) for c in contract.value if c.not_null]
    promised = [read_check("constraint", call, reader, errors) for call in calls]
    return (*checks, *(check for check in promised if check is not None))


def _refuse_misfits(draft: Draft, errors: Errors) -> None:
    """Report checks on columns that the query does not have, where its columns can be told from its text."""
    # What a materialisation writes need not have the columns of its query.
    if draft.checks and draft.query is not None and draft.query.outputs is not None and draft.kind != "custom":
        own = ("valid_from", "valid_to", "is_current") if draft.kind == "scd2" else ()
        for error in misfits(draft.checks, dict.fromkeys((*draft.query.outputs, *own))):
            errors.add(error)


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


def _resolver(root: Path, config: Config, target: Target, drafts: list[Draft], sources: tuple[Source, ...]) -> Resolver:
    enabled = [d for d in drafts if _is_enabled(d)]
    disabled = [d for d in drafts if not _is_enabled(d)]
    dbt = DbtReferences(True, read_names(root)) if config.dbt is not None else DbtReferences()
    return Resolver(enabled, disabled, sources, config.connection_of(target).catalog.name, dbt)


def _is_enabled(draft: Draft) -> bool:
    return _setting(draft.settings, "enabled", True) is not False


def _link(
    config: Config,
    target: Target,
    drafts: list[Draft],
    sources: tuple[Source, ...],
    declared: Mapping[str, DeclaredSource],
    identities: Identities,
    errors: Errors,
) -> Project | None:
    resolver = identities.resolver
    enabled = [d for d in drafts if _is_enabled(d)]
    _refuse_shared_names(enabled, sources, errors)
    refuse_unknown(enabled, identities.materializations, errors)
    reads: dict[str, tuple[str, ...]] = {}
    called: dict[str, dict[str, str]] = {}
    for draft in enabled:
        if draft.python is not None:
            called[draft.name] = model_reads(draft, resolver, errors)
        reads[draft.name] = tuple(resolver.resolve(draft, i, errors) for i in range(len(slots_of(draft))))
    read = {d.name: {*reads[d.name], *called.get(d.name, {}).values()} for d in enabled}
    upstream = {name: tuple(sorted(r for r in names if r)) for name, names in read.items()}
    hooks = {
        d.name: link_hooks(d.hooks, d.relation, lambda slot, at: resolver.named_in_hook(slot, at, errors))
        for d in enabled
    }
    watched = {d.name: _watched(d, resolver, errors) for d in enabled}
    order, cycles = ordered({n: (*above, *(w for w in watched[n].values() if w != n)) for n, above in upstream.items()})
    by_name = {d.name: d for d in enabled}
    for cycle in cycles:
        errors.add(_cycle_error(cycle, by_name, reads, watched))
    if errors.found:
        return None
    nodes: dict[str, Node] = {}
    for name in order:
        node = _node(by_name[name], reads[name], upstream[name], nodes, identities, hooks[name], called.get(name))
        nodes[name] = _with_checks(with_tokens(node, declared), by_name[name], watched[name])
    refuse_views_of_files(nodes, declared, errors)
    refuse_untold_policies(nodes, lambda name: by_name[name].settings, declared, errors)
    schemas = tuple(sorted({n.relation.schema for n in nodes.values()}))
    externals = with_beneath(resolver.externals, declared)
    project = Project(config.name, target.name, nodes, externals, schemas, sources=declared)
    return replace(project, elsewhere=_elsewhere(config, target, enabled))


def _elsewhere(config: Config, target: Target, drafts: list[Draft]) -> Elsewhere | None:
    """Where every node stands in the target that this one looks at."""
    other = config.targets.get(target.other or "")
    if other is None:
        return None
    how: How = "defer" if target.defer_sources_to else "copy" if target.reuse_hard_copy else "clone"
    there = {
        d.name: _relation(d.file, d.folder, d.name.rpartition(".")[2], other, d.settings, Errors()) for d in drafts
    }
    return Elsewhere(other.name, how, there)


def _watched(draft: Draft, resolver: Resolver, errors: Errors) -> dict[str, str]:
    """The nodes and externals that a model's checks read, by the names that they are called there."""
    found: dict[str, str] = {}
    for read in (r for check in draft.checks for r in check.reads):
        if read.name not in found:
            name = resolver.resolve_name(read, errors)
            if name:
                found[read.name] = name
    return found


def _with_checks(node: Node, draft: Draft, watched: Mapping[str, str]) -> Node:
    if not draft.checks:
        return node
    watches = tuple(sorted({w for w in watched.values() if w != node.name}))
    # Where a check reads the model itself, it reads the rows that are to be published.
    checks = (dump_checks(draft.checks), dict(watched), columns_watched(draft.checks, watched))
    return replace(node, checks=checks, checks_hash=checks_hash(draft.checks), watches=watches)


def _variant(
    test: WrittenTest,
    draft: Draft,
    values: Mapping[str, Any],
    nodes: Mapping[str, Node],
    identities: Identities,
    errors: Errors,
) -> Node | None:
    """A model as it is with a test's own variables; what only the test reads is no input of the project."""
    before = len(errors.found)
    for name, entry in test.vars.items():
        if name not in values and f"@@{name}" not in draft.text:
            hint = did_you_mean(name, values) or "`vars` overrides what stands under [vars] in sqlbuild_project.toml"
            errors.add(UnknownVariable(f"there is no variable @@{name}", at=entry.key_at, hint=hint))
    if draft.query is None or len(errors.found) > before:
        return None
    resolver = identities.resolver
    known, resolver.externals = resolver.externals, dict(resolver.externals)
    reads = tuple(resolver.resolve(draft, i, errors) for i in range(len(slots_of(draft))))
    upstream = tuple(sorted(set(reads)))
    node = _node(draft, reads, upstream, nodes, identities, ((), {})) if len(errors.found) == before else None
    resolver.externals = known
    return node


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


def _cycle_error(
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
        at = written_at(draft, slots_of(draft)[reads[first].index(second)])
    else:
        named = [name for name, resolved in watched[first].items() if resolved == second]
        at = next(r.at for check in draft.checks for r in check.reads if r.name in named)
    return Cycle(
        f"models read each other in a circle: {circle_text(cycle)}",
        at=at,
        hint="take one of these references out, for instance by moving the shared part into a model of its own",
    )


def _node(
    draft: Draft,
    reads: tuple[str, ...],
    upstream: tuple[str, ...],
    nodes: Mapping[str, Node],
    identities: Identities,
    hooks: tuple[tuple[Hook, ...], dict[str, list[str]]],
    called: Mapping[str, str] | None = None,
) -> Node:
    apart = (*ROLES, "pre_hooks", "post_hooks", "contract")
    settings = {k: s.value for k, s in draft.settings.items() if k not in apart}
    identity_settings = {k: v for k, v in settings.items() if k in KEYS and KEYS[k].identity}
    contract = _contract(draft)
    identity_settings |= {"kind": draft.kind, **hooks[1], **_promised(contract)}
    functions = identities.functions_of(draft, reads)
    if draft.seed is not None:
        query, definition = draft.seed.content_hash, {"seed": draft.seed.content_hash}
        settings |= _seed_settings(draft.seed)
    elif draft.python is not None:
        query, definition = model_identity(draft.python, called or {})
    else:
        query, definition = _query_identity(draft, reads, functions, identities)
    config = identity.config_hash(identity_settings)
    local = identity.local_hash(query, config, functions)
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
        slots=slots_of(draft),
        reads=reads,
        pieces=_way_back(draft),
        settings=settings,
        definition=json.dumps({**definition, "config": identity_settings, "canonical": CANONICAL_VERSION}, default=str),
        tags=tuple(settings.get("tags", ())),
        description=settings.get("description", ""),
        volatile=tuple(dict.fromkeys(name for name, _ in draft.query.volatile)) if draft.query else (),
        unread=_unread(draft),
        hooks=hooks[0],
        contract=contract,
        reading=draft.query.reading if draft.query else (),
        columns=_columns_alone(draft, identities.logical_names(draft, reads, references_of(draft)), config),
        functions={**functions, **identities.macros_of(draft)},
        written_hash=written_hash(draft),
        table_calls=table_calls(draft),
        python=model_call(draft.python, called or {}) if draft.python is not None else {},
        materialization=materialization_of(draft, identities.materializations)[1],
    )


def _seed_settings(seed: Seed) -> dict[str, Any]:
    """What loading a seed needs to know of its file."""
    return {
        "columns": [[c.name, c.type] for c in seed.columns],
        "delimiter": seed.delimiter,
        "null_values": list(seed.null_values),
        "rows": seed.rows,
    }


def _query_identity(
    draft: Draft, reads: tuple[str, ...], functions: Mapping[str, str], identities: Identities
) -> tuple[str, dict[str, Any]]:
    """The hash of a model's query, and what it was made of."""
    assert draft.query and draft.expanded
    own = draft.written or Written(draft.expanded.text, draft.query)
    logical = identities.logical_names(draft, reads, own.query.references)
    spans = [[r.start, r.end, name] for r, name in zip(own.query.references, logical, strict=True)]
    definition: dict[str, Any] = {"sql": own.text, "references": spans}
    if functions:
        definition |= {"functions": functions, "bodies": identities.definitions_of(draft, reads)}
    return identity.query_hash(own.query.canonical, logical), definition


def _columns_alone(draft: Draft, logical: list[str], config: str) -> dict[str, str]:
    """Hashes of a view's columns that stand alone, and under "" of everything else."""
    parts = draft.query.columns if draft.query is not None and draft.kind == "view" else None
    if parts is None:
        return {}
    return {"": identity.digest("rest", config, *parts.rest, "\0", *logical)} | {
        name: identity.digest("column", text) for name, text in parts.alone
    }


def _contract(draft: Draft) -> Contract | None:
    setting = draft.settings.get("contract")
    return Contract(setting.value, setting.at) if setting is not None else None


def _promised(contract: Contract | None) -> dict[str, Any]:
    """What of a contract is identity: its columns, in whatever order they are written."""
    if contract is None:
        return {}
    return {"contract": sorted(f"{column.name.lower()} {column}" for column in contract.columns)}


def _unread(draft: Draft) -> str:
    if draft.query is None or draft.query.unread is None or draft.expanded is None:
        return ""
    words, offset = draft.query.unread
    return f"{place(draft.text, draft.expanded.origin(offset), draft.file)}: {words}"


def _way_back(draft: Draft) -> tuple[Piece, ...]:
    """How offsets of the query that is run lead to the file; nothing for a query that had to be rewritten."""
    if draft.expanded is None or draft.query is None or draft.query.runnable != draft.expanded.text:
        return ()
    return draft.expanded.pieces
