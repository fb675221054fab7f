"""Hashes: what makes a node the same node.

A hash is taken over canonical text with references as logical names, so that it is the same in every target.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def digest(*parts: str) -> str:
    """A hash of texts that cannot be confused with the hash of other texts."""
    whole = hashlib.sha256()
    for part in parts:
        raw = part.encode()
        whole.update(len(raw).to_bytes(8, "big"))
        whole.update(raw)
    return whole.hexdigest()[:32]


def compute_query_hash(canonical: Sequence[str], logical: Sequence[str]) -> str:
    """The hash of a query: its canonical text between references, and what each reference means."""
    return digest("query", *canonical, "\0", *logical)


def compute_config_hash(settings: Mapping[str, Any]) -> str:
    """The hash of the settings that affect a result or its storage."""
    return digest("config", json.dumps(settings, sort_keys=True, default=str))


def compute_local_hash(query: str, config: str, functions: Mapping[str, str] | None = None) -> str:
    """The hash of one node by itself, with those of the functions that it uses."""
    return digest(
        "local",
        query,
        config,
        *(f"{name} {function_hash}" for name, function_hash in sorted((functions or {}).items())),
    )


def compute_function_hash(declared: Sequence[str], canonical: Sequence[str], logical: Sequence[str]) -> str:
    """The hash of a SQL function by itself: its signature, its body, and what its references mean."""
    return digest("function", *declared, "\0", *canonical, "\0", *logical)


def compute_version_hash(local: str, upstream: Iterable[str]) -> str:
    """The hash of a node and of everything that it is built from."""
    return digest("version", local, *sorted(upstream))
