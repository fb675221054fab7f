"""What is shown of the thing under the mouse, as Markdown: columns, types, origins, last build, why it would run."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

from sqb.checks.catalogue import find_check
from sqb.compile.model import Node
from sqb.lsp.completion import build_lookup
from sqb.lsp.functions import FunctionText, describe_own, load_spark_texts
from sqb.lsp.key_texts import KEY_TEXTS, KIND_TEXTS
from sqb.lsp.model_names import find_output, read_uses
from sqb.lsp.places import Place
from sqb.lsp.python_names import list_macros, list_variables
from sqb.lsp.scope import FromItem, find_item_start, list_columns, read_ctes
from sqb.lsp.snapshot import Snapshot
from sqb.lsp.symbols import (
    ColumnSymbol,
    LocalSymbol,
    Symbol,
    TableSymbol,
    WordSymbol,
    find_audit,
    find_symbol,
    trace_column,
)
from sqb.names import format_age
from sqb.plan.decide import make_plan
from sqb.project.models.keys import Shape, find_key

_MOST_COLUMNS = 40
_MOST_STEPS = 20


def hover(snapshot: Snapshot, path: str, offset: int) -> tuple[str, Place] | None:
    """What to show at an offset of a file, and the span that it is about."""
    result = find_symbol(snapshot, path, offset)
    if result is None:
        return None
    symbol, place = result
    text = describe_symbol(snapshot, symbol, path)
    return (text, place) if text else None


def describe_symbol(snapshot: Snapshot, symbol: Symbol, path: str) -> str:
    """A symbol as Markdown; "" where there is nothing to say."""
    match symbol:
        case TableSymbol(name):
            return describe_table(snapshot, name)
        case ColumnSymbol():
            return _describe_column(snapshot, symbol)
        case LocalSymbol():
            return _describe_local(snapshot, symbol, path)
        case WordSymbol(kind, name):
            return _describe_word(snapshot, kind, name)


def describe_table(snapshot: Snapshot, name: str) -> str:
    """A model, seed or source: what it is, its columns, its last build and why it would run."""
    assert snapshot.workspace is not None
    project = snapshot.workspace.project
    node, source = project.nodes.get(name), project.sources.get(name)
    lines = [f"**{name}** · {node.kind if node is not None else 'source'}"]
    description = node.description if node is not None else source.description if source is not None else ""
    if description:
        lines += ["", description]
    lines += ["", *_list_columns(snapshot, name)]
    if node is not None:
        lines += ["", *_describe_state(snapshot, node)]
    return "\n".join(lines).strip()


def _list_columns(snapshot: Snapshot, name: str) -> Iterator[str]:
    columns = snapshot.get_columns(name)
    if not columns.columns:
        yield "*Its columns are not known.*"
        return
    described = _get_descriptions(snapshot, name)
    yield "| column | type | |"
    yield "|---|---|---|"
    for column, kind in columns.columns[:_MOST_COLUMNS]:
        shown = kind if kind != "unknown" else "?"
        yield f"| {column or '?'} | {shown} | {described.get((column or '').lower(), '')} |"
    if len(columns.columns) > _MOST_COLUMNS:
        yield f"\n… and {len(columns.columns) - _MOST_COLUMNS} more"
    if columns.is_open:
        yield "\n… and others that are not known"


def _get_descriptions(snapshot: Snapshot, name: str) -> dict[str, str]:
    node = snapshot.workspace.project.nodes.get(name) if snapshot.workspace else None
    described = node.settings.get("columns") if node is not None and node.type == "model" else None
    if not isinstance(described, dict):
        return {}
    return {str(column).lower(): str(text or "") for column, text in described.items()}


def _describe_state(snapshot: Snapshot, node: Node) -> Iterator[str]:
    """When it was last built, with how many rows, and what a build would do about it now."""
    assert snapshot.workspace is not None
    state = snapshot.seen.observed.relations.get(node.relation)
    if state is None:
        yield "*Never built.*"
    elif state.built_at is not None:
        rows = f", {state.rows:,} {'row' if state.rows == 1 else 'rows'}" if state.rows is not None else ""
        yield f"*Built {format_age(max(0.0, time.time() - state.built_at))} ago{rows}.*"
    plan = make_plan(snapshot.workspace.project, snapshot.seen.observed)
    planned = next((p for p in plan.nodes if p.name == node.name), None)
    if planned is None:
        return
    if planned.action == "run":
        detail = f" ({planned.detail})" if planned.detail else ""
        when = " if its inputs change" if planned.pending else ""
        yield f"\nWould run{when}: {planned.reason}{detail}."
    elif state is not None:
        yield "\nUp to date."


def _describe_column(snapshot: Snapshot, symbol: ColumnSymbol) -> str:
    kinds = {(n or "").lower(): kind for n, kind in snapshot.get_columns(symbol.owner).columns}
    kind = kinds.get(symbol.column.lower(), "")
    lines = [f"**{symbol.column}** {kind if kind != 'unknown' else ''} · {symbol.owner}".replace("  ", " ")]
    description = _get_descriptions(snapshot, symbol.owner).get(symbol.column.lower(), "")
    if description:
        lines += ["", description]
    steps = list(iter_origins(snapshot, symbol))
    if steps:
        lines += ["", "from " + " ← ".join(f"`{s.owner}.{s.column}`" for s in steps)]
    last = steps[-1] if steps else symbol
    expression = _find_expression(snapshot, last)
    if expression:
        lines += ["", "```sql", expression, "```"]
    return "\n".join(lines)


def iter_origins(snapshot: Snapshot, symbol: ColumnSymbol) -> Iterator[ColumnSymbol]:
    """The columns that a column is, unchanged, table by table upwards."""
    seen = {symbol}
    current = trace_column(snapshot, symbol)
    while current is not None and current not in seen and len(seen) < _MOST_STEPS:
        seen.add(current)
        yield current
        current = trace_column(snapshot, current)


def _find_expression(snapshot: Snapshot, symbol: ColumnSymbol) -> str:
    """What a model computes a column by: the item of its list that has this alias."""
    node = snapshot.workspace.project.nodes.get(symbol.owner) if snapshot.workspace else None
    output = find_output(snapshot, node, symbol.column) if node is not None else None
    start = getattr(output.origin, "start", -1) if output is not None else -1
    if node is None or start < 0:
        return ""
    begin = find_item_start(node.sql, start)
    text = node.sql[begin:start].strip()
    return text.removesuffix("AS").removesuffix("as").strip()


def _describe_local(snapshot: Snapshot, symbol: LocalSymbol, path: str) -> str:
    kinds = _read_local_types(snapshot, path)
    if not symbol.is_column:
        return "\n".join([f"**{symbol.name}** · CTE", "", *_list_cte_columns(snapshot, symbol, path, kinds)]).strip()
    return f"**{symbol.name}** {kinds.get(symbol.name, '')} · column of this query".replace("  ", " ")


def _read_local_types(snapshot: Snapshot, path: str) -> dict[str, str]:
    """The types of the names that a query gives itself, as far as they are known."""
    node = snapshot.find_node(path)
    uses = read_uses(snapshot, node).uses if node is not None else ()
    named = [(getattr(use.origin, "name", None), str(use.type)) for use in reversed(uses)]
    return {name: kind for name, kind in named if name is not None and kind != "unknown"}


def _list_cte_columns(snapshot: Snapshot, cte: LocalSymbol, path: str, kinds: Mapping[str, str]) -> Iterator[str]:
    text = snapshot.read_text(path)
    ctes = read_ctes(text, cte.place.start)
    columns = list_columns(text, FromItem(cte.name, (cte.name,)), ctes, lambda parts: build_lookup(snapshot, parts))
    if columns:
        yield "| column | type |"
        yield "|---|---|"
    for name, kind in columns[:_MOST_COLUMNS]:
        yield f"| {name} | {kind or kinds.get(name, '?')} |"
    if len(columns) > _MOST_COLUMNS:
        yield f"\n… and {len(columns) - _MOST_COLUMNS} more"


def _describe_word(snapshot: Snapshot, kind: str, name: str) -> str:
    match kind:
        case "function":
            function = _find_function(snapshot, name)
            if function is None:
                return ""
            returns = f" → {function.returns}" if function.returns else ""
            return f"```\n{function.call}{returns}\n```\n{function.text}"
        case "macro":
            macro = next((m for m in list_macros(snapshot) if m.name == name), None)
            return f"```python\n@{macro.call}\n```\n{macro.text}\n\n{macro.file}" if macro is not None else ""
        case "variable":
            values = list_variables(snapshot)
            return f"**@@{name}** = `{values[name]!r}`" if name in values else ""
        case "key":
            return _describe_key(name)
        case _:
            check = find_check(name)
            return (
                f"```\n{check.usage}\n```"
                if check is not None
                else f"**{name}** · {find_audit(snapshot, name) or name}"
            )


def _find_function(snapshot: Snapshot, name: str) -> FunctionText | None:
    own = snapshot.workspace.project.functions if snapshot.workspace else ()
    described = next((describe_own(f) for f in own if f.name.lower() == name), None)
    return described or load_spark_texts().get(name)


def _describe_key(word: str) -> str:
    key = find_key(word)
    if key is None:
        return ""
    lines = [f"**{key.name}**", "", KEY_TEXTS.get(key.name, "")]
    if key.shape is Shape.CHOICE:
        lines.append("")
        lines += [f"- `{c}` {KIND_TEXTS.get(c, '') if key.name == 'kind' else ''}".rstrip() for c in key.choices]
    if key.kinds:
        lines += ["", f"For {', '.join(key.kinds)}."]
    return "\n".join(lines)
