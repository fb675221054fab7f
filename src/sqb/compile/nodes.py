"""From a draft whose references are resolved to a node: its identity, and all that planning and building need."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sqb import identity
from sqb.checks.parse import ROLES
from sqb.compile.functions.calls import (
    Identities,
    compute_written_hash,
    list_references,
)
from sqb.compile.materializations import link_materialization
from sqb.compile.model import Contract, Hook, Node
from sqb.compile.python.nodes import (
    build_model_call,
    compute_model_identity,
)
from sqb.compile.resolve import Draft, WrittenQuery, list_slots
from sqb.compile.sources import (
    list_table_calls,
)
from sqb.names import locate_offset
from sqb.project.models.keys import KEYS
from sqb.project.values import Seed
from sqb.sql.analysis.query import CANONICAL_VERSION
from sqb.sql.text.spans import Piece
from sqb.types.iceberg import to_stored_type


def build_node(
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
    contract = _build_contract(draft)
    identity_settings |= {"kind": draft.kind, **hooks[1], **_identify_contract(contract)}
    functions = identities.hash_functions(draft, reads)
    if draft.seed is not None:
        query, definition = draft.seed.content_hash, {"seed": draft.seed.content_hash}
        settings |= _build_seed_settings(draft.seed)
    elif draft.python is not None:
        query, definition = compute_model_identity(draft.python, called or {})
    else:
        query, definition = _compute_query_identity(draft, reads, functions, identities)
    config = identity.compute_config_hash(identity_settings)
    local = identity.compute_local_hash(query, config, functions)
    version = identity.compute_version_hash(
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
        slots=list_slots(draft),
        reads=reads,
        pieces=_list_pieces(draft),
        settings=settings,
        definition=json.dumps({**definition, "config": identity_settings, "canonical": CANONICAL_VERSION}, default=str),
        tags=tuple(settings.get("tags", ())),
        description=settings.get("description", ""),
        volatile=tuple(dict.fromkeys(name for name, _ in draft.query.volatile)) if draft.query else (),
        unread=_describe_unread(draft),
        hooks=hooks[0],
        contract=contract,
        reading=draft.query.reading if draft.query else (),
        columns=_hash_columns(draft, identities.list_logical_names(draft, reads, list_references(draft)), config),
        functions={**functions, **identities.hash_macros(draft)},
        written_hash=compute_written_hash(draft),
        table_calls=list_table_calls(draft),
        python=build_model_call(draft.python, called or {}) if draft.python is not None else {},
        materialization=link_materialization(draft, identities.materializations)[1],
        former_names=draft.former_names,
        former_relations=draft.former_relations,
    )


def _build_seed_settings(seed: Seed) -> dict[str, Any]:
    """What loading a seed needs to know of its file."""
    return {
        "columns": [[c.name, str(to_stored_type(c.type))] for c in seed.columns],
        "delimiter": seed.delimiter,
        "null_values": list(seed.null_values),
        "rows": seed.rows,
    }


def _compute_query_identity(
    draft: Draft, reads: tuple[str, ...], functions: Mapping[str, str], identities: Identities
) -> tuple[str, dict[str, Any]]:
    """The hash of a model's query, and what it was made of."""
    assert draft.query and draft.expanded
    written = draft.written or WrittenQuery(draft.expanded.text, draft.query)
    logical = identities.list_logical_names(draft, reads, written.query.references)
    spans = [[r.start, r.end, name] for r, name in zip(written.query.references, logical, strict=True)]
    definition: dict[str, Any] = {"sql": written.text, "references": spans}
    if functions:
        definition |= {"functions": functions, "bodies": identities.list_definitions(draft, reads)}
    return identity.compute_query_hash(written.query.canonical, logical), definition


def _hash_columns(draft: Draft, logical: list[str], config: str) -> dict[str, str]:
    """Hashes of a view's columns that stand alone, and under "" of everything else."""
    parts = draft.query.columns if draft.query is not None and draft.kind == "view" else None
    if parts is None:
        return {}
    return {"": identity.digest("rest", config, *parts.rest, "\0", *logical)} | {
        name: identity.digest("column", text) for name, text in parts.independent
    }


def _build_contract(draft: Draft) -> Contract | None:
    setting = draft.settings.get("contract")
    return Contract(setting.value, setting.at) if setting is not None else None


def _identify_contract(contract: Contract | None) -> dict[str, Any]:
    """What of a contract is identity: its columns, in whatever order they are written."""
    if contract is None:
        return {}
    return {"contract": sorted(f"{column.name.lower()} {column}" for column in contract.columns)}


def _describe_unread(draft: Draft) -> str:
    if draft.query is None or draft.query.unread is None or draft.expanded is None:
        return ""
    words, offset = draft.query.unread
    return f"{locate_offset(draft.text, draft.expanded.trace_origin(offset), draft.file)}: {words}"


def _list_pieces(draft: Draft) -> tuple[Piece, ...]:
    """How offsets of the query that is run lead to the file; nothing for a query that had to be rewritten."""
    if draft.expanded is None or draft.query is None or draft.query.runnable != draft.expanded.text:
        return ()
    return draft.expanded.pieces
