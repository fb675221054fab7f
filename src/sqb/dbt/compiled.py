"""Compiled SQL: kept between a plan and the build after it, and compared by its canonical form, never as text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping

from sqb.dbt.command import Dbt
from sqb.dbt.running import compiled_of
from sqb.dbt.values import DbtProject
from sqb.sql.lexer import code
from sqb.workspace import write_atomically

_FILE = ".sqb/cache/dbt_compiled.json"


def compiled_now(dbt: Dbt, project: DbtProject, names: Iterable[str]) -> dict[str, str]:
    """The SQL that dbt makes of these nodes today; dbt is asked only for those of which nobody knows it yet."""
    wanted = list(names)
    known = _read(dbt, project)
    missing = [name for name in wanted if name not in known]
    if missing:
        known |= compiled_of(dbt, project, missing)
        _write(dbt, project, known)
    return {name: known[name] for name in wanted if name in known}


def known_compiled(dbt: Dbt, project: DbtProject) -> dict[str, str]:
    """The compiled SQL that is known without asking dbt, of nodes that are as they were then."""
    return _read(dbt, project)


def _read(dbt: Dbt, project: DbtProject) -> dict[str, str]:
    try:
        document = json.loads((dbt.root / _FILE).read_bytes())
        texts = document["texts"] if document["call"] == _call(dbt, project) else {}
        nodes = project.nodes
        return {n: sql for n, (identity, sql) in texts.items() if n in nodes and nodes[n].identity == identity}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _write(dbt: Dbt, project: DbtProject, texts: Mapping[str, str]) -> None:
    kept = {name: [project.nodes[name].identity, sql] for name, sql in sorted(texts.items())}
    write_atomically(dbt.root / _FILE, json.dumps({"call": _call(dbt, project), "texts": kept}))


def _call(dbt: Dbt, project: DbtProject) -> str:
    """What a compiled text depends on beside the identity of its node: names of relations, and dbt itself."""
    relations = [f"{n.unique_id} {n.relation}" for n in project.nodes.values()]
    sources = [f"{s.unique_id} {s.relation}" for s in project.sources.values()]
    words = (*dbt.command, *dbt.given.arguments, str(dbt.profiles_file), project.dbt_version, *relations, *sources)
    return hashlib.sha256("\0".join(words).encode("utf-8", "surrogateescape")).hexdigest()[:32]


def same_sql(before: str, now: str) -> bool:
    """Whether two queries differ in nothing but comments, white space, and the case of keywords."""
    from sqb.sql.canonical import canonical_again  # loads sqlglot, which nothing unchanged needs

    if before == now:
        return True
    try:
        return canonical_again(before, ()) == canonical_again(now, ())
    except ValueError:
        # What is no single query has no canonical form; what it is made of still tells.
        return [t.text for t in code(before)] == [t.text for t in code(now)]
