"""The classes of queries, cached between runs: a text is parsed once for the columns that its tables have."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from sqb.cache import codec
from sqb.cache.files import read_entries, write_entries
from sqb.sql.delta.facts import Facts
from sqb.sql.text.template import Template

# A model is read with other columns in other targets and environments.
_PER_NODE = 4


class ClassificationCache:
    """Classifies queries, from the cache where the same text was classified over the same columns by the same code."""

    def __init__(self, path: Path, code: str) -> None:
        self.path, self.code = path, code
        # By node and what was classified, the newest last.
        self._entries = read_entries(path, code)
        self._is_new = False
        self._lock = threading.Lock()

    def classify(
        self, node: str, template: Template, schemas: Sequence[Mapping[str, str]], scalars: Collection[str]
    ) -> Facts:
        """What is proven of a node's query whose slots have these columns; `scalars` are the project's functions."""
        key = f"{_compute_key(template, schemas, scalars)} {node}"
        with self._lock:
            text = self._entries.get(key)
        if text is not None:
            try:
                return codec.decode(Facts, text)
            except codec.Undecodable:
                pass
        from sqb.sql.delta.classify import classify_query  # loads sqlglot, which nothing unchanged needs

        facts = classify_query(template, schemas, frozenset(scalars))
        with self._lock:
            self._entries[key] = codec.encode(facts)
            self._is_new = True
        return facts

    def count_unknown(self, nodes: Collection[str]) -> int:
        """How many of these nodes have no class yet."""
        known = {key.partition(" ")[2] for key in self._entries}
        return sum(node not in known for node in nodes)

    def dump_answers(self) -> bytes:
        """What is known in this process, for one that classifies the same queries."""
        return json.dumps(self._entries).encode()

    def load_answers(self, data: bytes) -> None:
        """Take over what another process of this program classified."""
        with self._lock:
            self._entries |= json.loads(data)
            self._is_new = True

    def save(self, nodes: Collection[str]) -> None:
        """Keep what is known of these nodes, where there is something new."""
        with self._lock:
            if not self._is_new:
                return
            by_node: dict[str, list[str]] = {}
            for key in self._entries:
                by_node.setdefault(key.partition(" ")[2], []).append(key)
            keys = [key for node, known in by_node.items() if node in nodes for key in known[-_PER_NODE:]]
            self._entries = {key: self._entries[key] for key in keys}
            self._is_new = False
            write_entries(self.path, self.code, self._entries)


def _compute_key(template: Template, schemas: Sequence[Mapping[str, str]], scalars: Collection[str]) -> str:
    parts = [template.texts, [list(schema.items()) for schema in schemas], sorted(scalars)]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]
