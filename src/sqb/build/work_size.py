"""How much Spark will have to read, from metadata, before it starts: small work is compiled quickly. Reads no rows.

Rows are counted as often as a node reads them. What is not known, such as what Python makes of its inputs, is None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from math import prod
from pathlib import Path

from sqb.build.observe.lake import LakeState
from sqb.compile.model import Node, Project
from sqb.plan.model import Plan
from sqb.sql.text.lexer import Token, find_closing, tokenize_code

# Rows in files that are not tables are thought to be so long.
_BYTES_PER_ROW = 40
# These make rows of numbers.
_GENERATORS = ("range", "sequence")


def estimate_plan_rows(plan: Plan, project: Project, lake_state: LakeState, root: Path) -> int | None:
    """The rows that the nodes of a plan will read, if all of them run."""
    running = {n.name for n in plan.nodes if n.action == "run"}
    count_rows = build_row_counter(project, lake_state, running, root)
    total = 0
    for name in running:
        node = project.nodes.get(name)
        if node is None or _is_opaque(node):
            return None
        rows = _sum_rows(map(count_rows, node.after)) if node.type == "model" else 0
        if rows is None:
            return None
        total += rows + estimate_generated_rows(node.sql)
    return total


def build_row_counter(
    project: Project, lake_state: LakeState, running: Iterable[str] = (), root: Path | None = None
) -> Callable[[str], int | None]:
    """A function from the name of a node or an external to the rows that reading it reads."""
    new = frozenset(running)

    @cache
    def count_rows(name: str) -> int | None:
        if name in lake_state.files:
            return sum(size for _, size, _ in lake_state.files[name].files) // _BYTES_PER_ROW
        node = project.nodes.get(name)
        if node is None:
            return _count_external(name, project, lake_state, new)
        if node.type == "seed" and name in new and root is not None:
            return _count_seed_rows(root / node.file)
        if node.kind == "view":
            return _sum_rows(map(count_rows, node.upstream))
        state = lake_state.states.get(node.relation)
        if state is not None and state.rows is not None:
            return state.rows
        # What is made of small tables is thought to be small.
        return _sum_rows(map(count_rows, node.upstream)) if name in new and not _is_opaque(node) else None

    return count_rows


def estimate_generated_rows(sql: str) -> int:
    """The rows that a query makes of nothing, as far as its text has numbers for it."""
    if not any(name in sql.lower() for name in _GENERATORS):
        return 0
    counts = [max(_iter_numbers(call), default=1) for call in _iter_generator_calls(tokenize_code(sql))]
    return prod(counts) if counts else 0


def _count_external(name: str, project: Project, lake_state: LakeState, running: frozenset[str]) -> int | None:
    """The rows of a table that the project does not build; of one that a loader is about to fill nothing is known."""
    if name not in lake_state.externals or project.loaders.get(name) in running:
        return None
    state = lake_state.states.get(lake_state.externals[name])
    return state.rows if state is not None else None


def _is_opaque(node: Node) -> bool:
    return bool(node.python or node.materialization or node.table_calls)


def _count_seed_rows(file: Path) -> int | None:
    try:
        return file.stat().st_size // _BYTES_PER_ROW
    except OSError:
        return None


def _sum_rows(counts: Iterable[int | None]) -> int | None:
    total = 0
    for rows in counts:
        if rows is None:
            return None
        total += rows
    return total


def _iter_generator_calls(tokens: list[Token]) -> Iterator[list[Token]]:
    for index, token in enumerate(tokens[:-1]):
        if token.text.lower() in _GENERATORS and tokens[index + 1].text == "(":
            closing = find_closing(tokens, index + 1)
            yield tokens[index + 2 : closing if closing is not None else len(tokens)]


def _iter_numbers(tokens: list[Token]) -> Iterator[int]:
    return (int(token.text.rstrip("lL")) for token in tokens if token.text.rstrip("lL").isdigit())
