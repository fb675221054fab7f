"""`custom`: a function of the project's own writes the relation; sqb says afterwards what it is, or that it failed.

A function that returns rows leaves everything to sqb: they are published as those of a table are. One that writes the
relation itself has made its rows visible before anything here could look at them.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from sqb.build.checks.run import check_rows
from sqb.build.kinds.table import rebuild_table
from sqb.build.node.analyse import analyse_node, check_contract
from sqb.build.node.context import NodeContext, NodeOutcome
from sqb.build.node.render import format_pinned
from sqb.build.python.child_process import Answer, Call, Serve, build_call, run_child
from sqb.errors.build import BuildError
from sqb.errors.python import NotWritten
from sqb.lake.port import TableState
from sqb.names import At, quote
from sqb.plan.recorded.commit_identity import IN_PROGRESS, MODEL
from sqb.plan.replay import CHANGE_REASONS

_STORAGE = ("partitioned_by", "sorted_by", "table_properties")


def build_unfinished_settings(run_id: str) -> dict[str, str]:
    """Settings of a session whose commits say that they are not finished, until what they made is recorded."""
    return {f"spark.sql.iceberg.snapshot-property.{IN_PROGRESS}": run_id}


def build_custom(context: NodeContext, serve: Serve, stop: threading.Event, log: Callable[[str], None]) -> NodeOutcome:
    """Let the model's materialisation write its relation, and record what that is."""
    context.lake.ensure_schemas([context.node.relation.schema])
    if context.current is not None and context.current.is_view:
        # No statement puts a table in the place of a view.
        _drop_view(context)
    context.announce("before stage", context.node.name)
    with run_child(_build_call(context), serve, stop, log) as answer:
        if answer.error is not None:
            raise answer.error
        if answer.status == "skipped":
            hint = "return ctx.unchanged() where there is nothing to do"
            raise _build_error(context, "a materialization cannot skip its model", hint)
        context.announce("written", context.node.name)
        if answer.view:
            return _publish_returned_rows(replace(context, rows_from=f"global_temp.{quote(answer.view)}"))
    return _record_written_relation(context, answer)


def _drop_view(context: NodeContext) -> None:
    from sqb.spark.data.statements import run_statement  # Spark is there when something runs

    run_statement(context.session(), f"DROP VIEW IF EXISTS {context.format_relation()}")


def _build_call(context: NodeContext) -> Call:
    materialization, settings = context.node.materialization, context.node.settings
    names = {name: name for name in context.node.upstream}
    names |= {name.rpartition(".")[2]: name for name in context.node.upstream}
    extra = {
        "model": context.node.name,
        "sql": context.render_query().sql.strip(),
        "relation_name": context.format_relation(),
        "config": dict(settings.get("config", {})),
        "settings": {key: settings[key] for key in _STORAGE if key in settings},
        "first_run": context.current is None,
        "full_refresh": context.full_refresh or _is_started_over(context),
    }
    call = build_call(context, "materialization", materialization["file"], materialization["function"], names, extra)
    return replace(call, relations={**call.relations, context.node.name: context.format_relation()})


def _is_started_over(context: NodeContext) -> bool:
    """Whether the build starts over: the current relation has another definition, or sqb did not leave it like this."""
    current = context.current
    if current is None or current.drifted or not current.identity or current.identity.in_progress:
        return True
    return context.planned.reason in CHANGE_REASONS or (context.replay is not None and context.replay.scope == "full")


def _publish_returned_rows(context: NodeContext) -> NodeOutcome:
    """Make the rows that were returned the relation's, checked before readers see them."""
    session = context.session()
    frame, columns = analyse_node(context, session)
    return rebuild_table(context, session, frame, columns)


# --- what it left -----------------------------------------------------------------------------------------------------


def _record_written_relation(context: NodeContext, answer: Answer) -> NodeOutcome:
    """Check the current relation and commit its identity, on condition that it does not change meanwhile."""
    declared = json.loads(answer.payload)
    state = _read_written_state(context, bool(declared["written"]))
    _check_columns(context)
    passed = check_rows(context, format_pinned(context.format_relation(), state))
    context.check_files()
    context.announce("before publish", context.node.name)
    properties = {MODEL: context.node.name, **_encode_options(context.node.settings.get("table_properties", {}))}
    if context.node.description:
        properties["comment"] = context.node.description
    relation = context.node.relation
    state = context.lake.set_properties(relation, state.base, properties).state
    identity = context.build_identity(None, passed=passed.identity)
    published = context.lake.touch(relation, state.base, identity.to_properties())
    context.announce("published", context.node.name)
    rows = declared["rows"] if declared["rows"] is not None else state.rows or 0
    return NodeOutcome(
        rows if declared["written"] else 0,
        published.snapshot_id,
        published.state,
        identical=not declared["written"],
        notices=passed.notices,
        findings=passed.findings,
    )


def _encode_options(options: Mapping[str, Any]) -> dict[str, str]:
    return {key: str(value) for key, value in options.items()}


def _read_written_state(context: NodeContext, written: bool) -> TableState:
    """Read the current state of the relation; raises when it is not what the materialisation declares."""
    relation, before = context.node.relation, context.current
    pointer = context.lake.list_pointers().get(relation)
    if pointer is None:
        hint = "write it to ctx.relation_name; what is not a table of the catalog is made by an @asset"
        raise _build_error(context, f"{relation} is not there after it was written", hint)
    state = context.lake.read_tables([pointer])[relation]
    if state.is_view:
        # Otherwise the relation would count as foreign.
        _drop_view(context)
        hint = "make a table; a view is made by the kind `view`, whose readers are pinned to what is beneath it"
        raise _build_error(context, f"{relation} is a view", hint)
    if state.snapshot_id is None:
        raise _build_error(
            context, f"{relation} has never been written", "write rows to it, or an empty result: INSERT INTO …"
        )
    moved = before is None or (before.uuid, before.snapshot_id) != (state.uuid, state.snapshot_id)
    if written and not moved:
        raise _build_error(
            context, f"{relation} is as it was before", "return ctx.unchanged() where there is nothing to do"
        )
    if moved and not written:
        raise _build_error(context, f"{relation} is declared unchanged, but was written", "return ctx.written()")
    return state


def _check_columns(context: NodeContext) -> None:
    if context.node.contract is not None:
        from sqb.spark.data import frames  # Spark is there when something runs

        check_contract(context, frames.list_columns(context.session().table(context.format_relation())))


def _build_error(context: NodeContext, message: str, hint: str) -> BuildError:
    name = context.node.materialization["name"]
    return NotWritten(f"the materialization {name}: {message}", at=At(*context.node.materialization["at"]), hint=hint)
