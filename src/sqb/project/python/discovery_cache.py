"""What discovery found, kept beside the project for as long as nothing that it depends on changes."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import astuple
from pathlib import Path
from typing import Any

from sqb.code import stamp_code
from sqb.names import At
from sqb.project.python.nodes import Discovered, WrittenNode

_FORMAT = 1
# The code that decides what is found and how.
_CODE = ("decorators.py", "project/functions/module_files.py", "project/python", "python_runtime/discovery_worker.py")


def hash_content(path: Path) -> str:
    """A hash of a file's content; "" when it is not there."""
    with suppress(OSError):
        return hashlib.sha256(path.read_bytes()).hexdigest()[:32]
    return ""


def load_discovered(cache: Path, root: Path, contents: Mapping[str, str]) -> Discovered | None:
    """What was found when the files of `python/` had these contents, if all else is as it was too."""
    try:
        cached = json.loads(cache.read_text(encoding="utf-8"))
        if cached["key"] != _build_key(contents):
            return None
        if any(hash_content(root / path) != then for path, then in cached["outside"].items()):
            return None
        texts = cached["texts"]
        return Discovered(tuple(_load_node(data, texts) for data in cached["nodes"]), cached["outside"])
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return None


def save_discovered(cache: Path, contents: Mapping[str, str], discovered: Discovered) -> None:
    """Keep what was found; a cache that cannot be written is not an error."""
    texts: dict[str, str] = {}
    nodes = [_dump_node(node, texts) for node in discovered.nodes]
    data = {"key": _build_key(contents), "outside": dict(discovered.outside), "texts": texts, "nodes": nodes}
    with suppress(OSError):
        cache.parent.mkdir(parents=True, exist_ok=True)
        temporary = cache.with_name(f".{cache.name}.{os.getpid()}")
        temporary.write_text(json.dumps(data), encoding="utf-8")
        os.replace(temporary, cache)


def _build_key(contents: Mapping[str, str]) -> str:
    place = [sys.version, sys.executable, os.environ.get("PYTHONPATH", "")]
    return hashlib.sha256(
        json.dumps([_FORMAT, sorted(contents.items()), stamp_code(*_CODE), place]).encode()
    ).hexdigest()[:32]


def _dump_node(node: WrittenNode, texts: dict[str, str]) -> dict[str, Any]:
    """A node as JSON values; many are made of the same texts, which are kept once."""
    fields = {}
    for file, text in node.texts.items():
        fields[file] = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16]
        texts[fields[file]] = text
    return {
        **{name: getattr(node, name) for name in _PLAIN},
        "at": astuple(node.at),
        "option_places": {name: astuple(at) for name, at in node.option_places.items()},
        "texts": fields,
        "refs": [[name, astuple(at)] for name, at in node.refs],
        "changes": list(node.changes),
    }


def _load_node(data: dict[str, Any], texts: Mapping[str, str]) -> WrittenNode:
    return WrittenNode(
        **{name: data[name] for name in _PLAIN},
        at=At(*data["at"]),
        option_places={name: At(*at) for name, at in data["option_places"].items()},
        texts={file: texts[key] for file, key in data["texts"].items()},
        refs=tuple((name, At(*at)) for name, at in data["refs"]),
        changes=tuple(data["changes"]),
    )


_PLAIN = (
    "name",
    "kind",
    "file",
    "module",
    "function",
    "options",
    "source",
    "source_hash",
    "config_hash",
    "dependencies",
)
