"""How two environments, targets or snapshots differ, as Markdown for a comment on a pull request.

A comment has room for 65,536 characters: the examples of rows are left out first, then the last nodes of the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqb.console.environments.diff import diff_queries
from sqb.console.inspect.diff import format_cell
from sqb.console.markdown import format_code, format_fence, format_grid, format_html_code
from sqb.names import format_seconds

if TYPE_CHECKING:
    from sqb.environments.diff import Comparison, Difference
    from sqb.inspect.diff import ColumnChange, DiffResult
    from sqb.operations.inspect.build_cost import BuildCost
    from sqb.operations.inspect.diff import EnvironmentDiff, EnvironmentNodeDiff, NodeDiff

# What GitHub takes is 65,536; the workflow adds a mark of its own.
MAX_LENGTH = 60_000
_MAX_TABLE_LENGTH = 40_000
# How many columns the examples of rows have.
_MAX_COLUMNS = 8
_HEADER = ("Model", "What differs", "Rows", "Added", "Removed", "Changed", "Columns")
_NUMBERS = frozenset({3, 4, 5})
_CHANGES = {"changed": "changed", "added": "new", "removed": "removed", "data": "with other rows"}


@dataclass(frozen=True, slots=True)
class _Node:
    """One line of the table: a node that differs."""

    name: str
    what: str
    columns: Sequence[ColumnChange]
    # Where rows were compared.
    rows: DiffResult | None
    # Rows before and now, as far as they are known.
    counts: tuple[int | None, int | None]
    # Both sides show the same rows, which is known without comparing them.
    same_rows: bool = False
    # What changed in the query.
    definition: str = ""


def format_markdown_diff(result: NodeDiff | EnvironmentDiff | EnvironmentNodeDiff, verbose: bool) -> str:
    """A heading, a sentence, a table of the nodes that differ, examples of rows, and what the build cost.

    Only a sentence where nothing differs; `verbose` adds what changed in the queries.
    """
    from sqb.operations.inspect.diff import EnvironmentDiff, NodeDiff

    if isinstance(result, NodeDiff):
        return _format_node(result)
    comparison = result.comparison
    if not result.differs and not comparison.differences:
        return f"{_format_sides(comparison)}: nothing differs ({_count(comparison.unchanged, 'node')} the same).\n"
    if isinstance(result, EnvironmentDiff):
        rows: Mapping[str, DiffResult] = result.rows
    else:
        rows = {comparison.differences[0].name: result.rows} if result.rows is not None else {}
    nodes = [_describe_node(d, comparison, rows.get(d.name), verbose) for d in comparison.differences]
    summary = _format_summary(comparison, nodes)
    return _assemble(f"### {_format_sides(comparison)}", summary, nodes, result.cost)


def _format_sides(comparison: Comparison) -> str:
    return f"{format_code(comparison.source)} compared with {format_code(comparison.target)}"


def _format_node(result: NodeDiff) -> str:
    answer = result.result
    name = answer.question.node.name
    title = f"{format_code(name)}: {answer.before.what} → {answer.now.what}"
    if answer.same:
        return f"{title}: nothing differs ({_count(answer.before.rows or 0, 'row')}).\n"
    what = " and ".join(
        word for word, differs in (("columns", answer.columns), ("rows", answer.differing_rows)) if differs
    )
    node = _Node(name, what, answer.columns, answer, (answer.before.rows, answer.now.rows))
    return _assemble(f"### {title}", _format_row_sum([node]), [node], result.cost)


def _describe_node(difference: Difference, comparison: Comparison, rows: DiffResult | None, verbose: bool) -> _Node:
    return _Node(
        difference.name,
        _format_what(difference, comparison),
        difference.columns,
        rows,
        (rows.before.rows, rows.now.rows)
        if rows is not None
        else (comparison.get_rows(difference.before), comparison.get_rows(difference.now)),
        difference.has_same_snapshot,
        diff_queries(difference, comparison) if verbose else "",
    )


def _format_what(difference: Difference, comparison: Comparison) -> str:
    match difference.change:
        case "added":
            return f"new: only in {format_code(comparison.source)}"
        case "removed":
            return f"removed: only in {format_code(comparison.target)}"
        case "data":
            return "other rows of the same version"
        case _:
            through = difference.through if difference.reason == "Upstream changed" else ()
            names = ", ".join(map(format_code, through[:3])) + (f" and {len(through) - 3} more" if through[3:] else "")
            return f"{difference.reason}{': ' + names if names else ''}"


# --- the whole --------------------------------------------------------------------------------------------------------


def _assemble(title: str, summary: str, nodes: Sequence[_Node], cost: BuildCost | None) -> str:
    """The parts in their order, as much as a comment has room for."""
    table = _fit_table(nodes)
    tail = [_format_cost(cost)] if cost is not None else []
    parts = [title, *([summary] if summary else []), *table]
    length = sum(len(part) + 2 for part in (*parts, *tail))
    sections = [section for node in nodes if (section := "\n".join(_format_details(node)))]
    for done, section in enumerate(sections):
        length += len(section) + 2
        if length > MAX_LENGTH:
            parts.append(f"The examples of {_count(len(sections) - done, 'more model')} are left out.")
            break
        parts.append(section)
    return "\n\n".join([*parts, *tail]) + "\n"


def _fit_table(nodes: Sequence[_Node]) -> list[str]:
    lines = list(format_grid(_HEADER, map(_format_line, nodes), _NUMBERS))
    length = 0
    for index, line in enumerate(lines):
        length += len(line) + 1
        if length > _MAX_TABLE_LENGTH:
            more = _count(len(lines) - index, "more node")
            return ["\n".join(lines[:index]), f"And {more}: `sqb diff` prints all of them."]
    return ["\n".join(lines)]


def _format_summary(comparison: Comparison, nodes: Sequence[_Node]) -> str:
    count = len(nodes)
    counts = [(sum(d.change == change for d in comparison.differences), word) for change, word in _CHANGES.items()]
    kinds = ", ".join(f"{number:,} {word}" for number, word in counts if number)
    sentence = f"**{_count(count, 'node')} {'differs' if count == 1 else 'differ'}** ({kinds})"
    sentence += f", {comparison.unchanged:,} the same."
    return " ".join(part for part in (sentence, _format_row_sum(nodes)) if part)


def _format_row_sum(nodes: Sequence[_Node]) -> str:
    """How many rows differ in the nodes whose rows were compared."""
    compared = [node.rows.rows for node in nodes if node.rows is not None and node.rows.rows is not None]
    if not compared:
        return ""
    kinds = [(sum(getattr(rows, kind) for rows in compared), kind) for kind in ("added", "removed", "changed")]
    words = ", ".join(f"{number:,} {kind}" for number, kind in kinds if number)
    return f"Rows: {words}." if words else "No row differs."


def _format_line(node: _Node) -> tuple[str, ...]:
    return (
        format_code(node.name),
        node.what,
        _format_counts(node.counts),
        *_format_row_numbers(node),
        ", ".join(map(_format_column, node.columns)),
    )


def _format_counts(counts: tuple[int | None, int | None]) -> str:
    numbers = dict.fromkeys(f"{count:,}" for count in counts if count is not None)
    return " → ".join(numbers)


def _format_row_numbers(node: _Node) -> tuple[str, str, str]:
    if node.same_rows:
        return "0", "0", "0"
    if node.rows is None or node.rows.rows is None:
        return "", "", ""
    rows = node.rows.rows
    # Without a key rows are only there or not.
    return f"{rows.added:,}", f"{rows.removed:,}", f"{rows.changed:,}" if node.rows.key else ""


def _format_column(change: ColumnChange) -> str:
    if change.before is None:
        return f"added {format_code(f'{change.name} {change.now}')}"
    if change.now is None:
        return f"removed {format_code(f'{change.name} {change.before}')}"
    return f"retyped {format_code(f'{change.name} {change.before} → {change.now}')}"


def _format_cost(cost: BuildCost) -> str:
    nodes = [f"{cost.ran:,} ran"]
    nodes += [f"{cost.skipped:,} skipped"] if cost.skipped is not None else []
    nodes += [f"{cost.failed:,} failed"] if cost.failed else []
    times = [f"nodes {format_seconds(cost.node_seconds)}"]
    times += [f"the start of Spark {format_seconds(cost.spark_seconds)}"] if cost.spark_seconds is not None else []
    sentence = (
        f"Last build {format_code(cost.run_id)}: {format_seconds(cost.seconds)} ({', '.join(times)});"
        f" {_count(cost.ran + cost.failed + (cost.skipped or 0), 'node')}: {', '.join(nodes)};"
        f" {_count(cost.rows, 'row')} in what ran."
    )
    if cost.runs > 1:
        sentence += f" {cost.runs:,} builds so far: {format_seconds(cost.all_seconds)}."
    return sentence


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


# --- examples ---------------------------------------------------------------------------------------------------------


def _format_details(node: _Node) -> Iterator[str]:
    """A section that is closed at first: some rows by key, notes, and what changed in the query."""
    content = [*_format_samples(node), *_format_definition(node)]
    if not content:
        return
    yield f"<details><summary>{format_html_code(node.name)}{_describe_content(node)}</summary>"
    yield ""
    yield from content
    yield "</details>"


def _describe_content(node: _Node) -> str:
    answer = node.rows
    if answer is None or answer.rows is None or not answer.differing_rows:
        return ""
    by = f" by {', '.join(map(format_html_code, answer.key))}" if answer.key else ", whole rows compared"
    kinds = ((answer.rows.added, "added"), (answer.rows.removed, "removed"), (answer.rows.changed, "changed"))
    return f": {', '.join(f'{number:,} {word}' for number, word in kinds if number)}{by}"


def _format_samples(node: _Node) -> Iterator[str]:
    answer = node.rows
    if answer is None:
        return
    rows = answer.rows
    if rows is not None:
        if rows.by_column:
            per = sorted(rows.by_column.items(), key=lambda item: (-item[1], item[0]))
            yield f"Changed in {', '.join(f'{format_code(name)} ({count:,})' for name, count in per)}"
            yield ""
        names = [*answer.key, *(c for c in answer.compared if c not in answer.key)]
        if not answer.key:
            names = _put_telling_first(names, rows.added_rows, rows.removed_rows)
        yield from _format_changed_rows(rows.changed_rows, rows.changed)
        yield from _format_whole_rows("Added", names, rows.added_rows, rows.added)
        yield from _format_whole_rows("Removed", names, rows.removed_rows, rows.removed)
    for note in answer.notes:
        yield f"Note: {format_code(note)}"
        yield ""


def _put_telling_first(names: Sequence[str], added: Sequence[Any], removed: Sequence[Any]) -> list[str]:
    """The columns of rows without a key: where not all have room, those go in that differ between both samples."""

    def list_values(rows: Sequence[Any], name: str) -> list[str]:
        return sorted(format_cell(row[name]) for row in rows)

    telling = [n for n in names if added and removed and list_values(added, n) != list_values(removed, n)]
    shown = list(dict.fromkeys([*names[:1], *telling, *names]))[:_MAX_COLUMNS]
    return [*(n for n in names if n in shown), *(n for n in names if n not in shown)]


def _format_changed_rows(rows: Sequence[Any], total: int) -> Iterator[str]:
    """Keys, and in each column that differs in one of the rows its value before and now."""
    if not rows:
        return
    keys = list(rows[0].key)
    names = list(dict.fromkeys(name for row in rows for name in row.changes))
    shown = names[: max(1, _MAX_COLUMNS - len(keys))]
    yield _format_sample_title("Changed", len(rows), total, len(names) - len(shown))
    yield ""
    table = (
        [
            *(format_code(format_cell(row.key[name])) for name in keys),
            *(_format_change(row.changes[name]) if name in row.changes else "" for name in shown),
        ]
        for row in rows
    )
    yield from format_grid([format_code(name) for name in (*keys, *shown)], table, frozenset())
    yield ""


def _format_change(values: tuple[Any, Any]) -> str:
    return " → ".join(format_code(format_cell(value)) for value in values)


def _format_whole_rows(title: str, names: Sequence[str], rows: Sequence[Any], total: int) -> Iterator[str]:
    if not rows:
        return
    shown = names[:_MAX_COLUMNS]
    yield _format_sample_title(title, len(rows), total, len(names) - len(shown))
    yield ""
    table = ([format_code(format_cell(row[name])) for name in shown] for row in rows)
    yield from format_grid([format_code(name) for name in shown], table, frozenset())
    yield ""


def _format_sample_title(title: str, shown: int, total: int, columns: int) -> str:
    rows = f"{title}, {shown:,} of {total:,}" if shown < total else title
    return f"{rows}, without {_count(columns, 'column')}:" if columns else f"{rows}:"


def _format_definition(node: _Node) -> Iterator[str]:
    if node.definition:
        yield from format_fence(node.definition, "diff")
        yield ""
