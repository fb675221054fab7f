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

from sqb.names import At
from sqb.project.python_nodes import Discovered, WrittenNode

_FORMAT = 1
_PACKAGE = Path(__file__).parents[1]
# The code that decides what is found and how.
_CODE = (
    "decorators.py",
    "python_nodes/discovery.py",
    *(
        f"project/{name}.py"
        for name in (
            "discovery",
            "discovery_process",
            "modules",
            "node_options",
            "node_sources",
            "python_files",
            "python_nodes",
        )
    ),
)


def content(path: Path) -> str:
    """A hash of a file's content; "" when it is not there."""
    with suppress(OSError):
        return hashlib.sha256(path.read_bytes()).hexdigest()[:32]
    return ""


def load(cache: Path, root: Path, contents: Mapping[str, str]) -> Discovered | None:
    """What was found when the files of `python/` had these contents, if all else is as it was too."""
    try:
        kept = json.loads(cache.read_text(encoding="utf-8"))
        if kept["key"] != _key(contents):
            return None
        if any(content(root / path) != then for path, then in kept["outside"].items()):
            return None
        texts = kept["texts"]
        return Discovered(tuple(_node(data, texts) for data in kept["nodes"]), kept["outside"])
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return None


def save(cache: Path, contents: Mapping[str, str], found: Discovered) -> None:
    """Keep what was found; a cache that cannot be written is no error."""
    texts: dict[str, str] = {}
    nodes = [_data(node, texts) for node in found.nodes]
    data = {"key": _key(contents), "outside": dict(found.outside), "texts": texts, "nodes": nodes}
    with suppress(OSError):
        cache.parent.mkdir(parents=True, exist_ok=True)
        temporary = cache.with_name(f".{cache.name}.{os.getpid()}")
        temporary.write_text(json.dumps(data), encoding="utf-8")
        os.replace(temporary, cache)


def _key(contents: Mapping[str, str]) -> str:
    code = [content(_PACKAGE / path) for path in _CODE]
    place = [sys.version, sys.executable, os.environ.get("PYTHONPATH", "")]
    return hashlib.sha256(json.dumps([_FORMAT, sorted(contents.items()), code, place]).encode()).hexdigest()[:32]


def _data(node: WrittenNode, texts: dict[str, str]) -> dict[str, Any]:
    """A node as JSON values; many are made of the same texts, which are kept once."""
    kept = {}
    for file, text in node.texts.items():
        kept[file] = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16]
        texts[kept[file]] = text
    return {
        **{name: getattr(node, name) for name in _PLAIN},
        "at": astuple(node.at),
        "option_places": {name: astuple(at) for name, at in node.option_places.items()},
        "texts": kept,
        "refs": [[name, astuple(at)] for name, at in node.refs],
        "changes": list(node.changes),
    }


def _node(data: dict[str, Any], texts: Mapping[str, str]) -> WrittenNode:
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
