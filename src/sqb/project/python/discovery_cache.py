"""What discovery found, kept beside the project for as long as nothing that it depends on changes."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from sqb.cache.files import read_value, stamp_code, write_value
from sqb.project.python.nodes import Discovered, WrittenNode

# The code that decides what is found, and how it is cached.
_CODE = (
    "cache",
    "decorators.py",
    "names.py",
    "project/functions/module_files.py",
    "project/python",
    "python_runtime/discovery_worker.py",
)


@dataclass(frozen=True, slots=True)
class _Cached:
    """What was found. Many nodes are made of the same texts, which are kept once: those of a node are their keys."""

    nodes: tuple[WrittenNode, ...]
    texts: Mapping[str, str]
    outside: Mapping[str, str]


def hash_content(path: Path) -> str:
    """A hash of a file's content; "" when it is not there."""
    with suppress(OSError):
        return hashlib.sha256(path.read_bytes()).hexdigest()[:32]
    return ""


def load_discovered(cache: Path, root: Path, contents: Mapping[str, str]) -> Discovered | None:
    """What was found when the files of `python/` had these contents, if all else is as it was too."""
    cached = read_value(cache, _build_key(contents), _Cached)
    if cached is None or any(hash_content(root / path) != then for path, then in cached.outside.items()):
        return None
    nodes = (replace(n, texts={f: cached.texts[key] for f, key in n.texts.items()}) for n in cached.nodes)
    return Discovered(tuple(nodes), cached.outside)


def save_discovered(cache: Path, contents: Mapping[str, str], discovered: Discovered) -> None:
    """Keep what was found."""
    texts: dict[str, str] = {}
    nodes = tuple(replace(node, texts=_add_texts(node.texts, texts)) for node in discovered.nodes)
    write_value(cache, _build_key(contents), _Cached(nodes, texts, discovered.outside), _Cached)


def _add_texts(files: Mapping[str, str], texts: dict[str, str]) -> dict[str, str]:
    keys = {}
    for file, text in files.items():
        keys[file] = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16]
        texts[keys[file]] = text
    return keys


def _build_key(contents: Mapping[str, str]) -> str:
    place = [sys.version, sys.executable, os.environ.get("PYTHONPATH", "")]
    return hashlib.sha256(json.dumps([sorted(contents.items()), stamp_code(*_CODE), place]).encode()).hexdigest()[:32]
