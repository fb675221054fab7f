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

from sqb.build.checking import check_rows
from sqb.build.contracts import analysed, check_contract
from sqb.build.kinds.table import rebuild
from sqb.build.python_child import Answer, Call, Serve, call_of, run_child
from sqb.build.render import pinned
from sqb.build.turn import Outcome, Turn
from sqb.errors import BuildError
from sqb.errors_python import NotWritten
from sqb.lake.port import TableState
from sqb.names import At, quote
from sqb.plan.cascade import CHANGED
from sqb.plan.observed import MAKING

_STORAGE = ("partitioned_by", "sorted_by", "table_properties")


def unfinished(run_id: str) -> dict[str, str]:
    """Settings of a session whose commits say that they are not finished, until what they made is recorded."""
    return {f"spark.sql.iceberg.snapshot-property.{MAKING}": run_id}


def build_custom(turn: Turn, serve: Serve, stop: threading.Event, log: Callable[[str], None]) -> Outcome:
    """Let the model's materialisation write its relation, and record what that is."""
    turn.lake.ensure_schemas([turn.node.relation.schema])
    if turn.standing is not None and turn.standing.is_view:
        # No statement puts a table in the place of a view.
        _drop_view(turn)
    turn.announce("before stage", turn.node.name)
    with run_child(_call(turn), serve, stop, log) as answer:
        if answer.error is not None:
            raise answer.error
        if answer.status == "skipped":
            hint = "return ctx.unchanged() where there is nothing to do"
            raise _wrong(turn, "a materialization cannot skip its model", hint)
        turn.announce("written", turn.node.name)
        if answer.view:
            return _published(replace(turn, rows_from=f"global_temp.{quote(answer.view)}"))
    return _recorded(turn, answer)


def _drop_view(turn: Turn) -> None:
    from sqb.spark.statements import run_statement  # Spark is there when something runs

    run_statement(turn.session(), f"DROP VIEW IF EXISTS {turn.relation_text()}")


def _call(turn: Turn) -> Call:
    said, settings = turn.node.materialization, turn.node.settings
    names = {name: name for name in turn.node.upstream}
    names |= {name.rpartition(".")[2]: name for name in turn.node.upstream}
    extra = {
        "model": turn.node.name,
        "sql": turn.query().sql.strip(),
        "relation_name": turn.relation_text(),
        "config": dict(settings.get("config", {})),
        "settings": {key: settings[key] for key in _STORAGE if key in settings},
        "first_run": turn.standing is None,
        "full_refresh": turn.full_refresh or _is_anew(turn),
    }
    call = call_of(turn, "materialization", said["file"], said["function"], names, extra)
    return replace(call, relations={**call.relations, turn.node.name: turn.relation_text()})


def _is_anew(turn: Turn) -> bool:
    """Whether what stands is nothing to go on from: of another definition, or not what sqb left there."""
    standing = turn.standing
    if standing is None or standing.drifted or not standing.identity or MAKING in standing.identity:
        return True
    return turn.planned.reason in CHANGED or (turn.replay is not None and turn.replay.scope == "full")


def _published(turn: Turn) -> Outcome:
    """Make the rows that were returned the relation's, checked before anybody sees them."""
    session = turn.session()
    frame, columns = analysed(turn, session)
    return rebuild(turn, session, frame, columns)


# --- what it left -----------------------------------------------------------------------------------------------------


def _recorded(turn: Turn, answer: Answer) -> Outcome:
    """Check what stands now and commit what it is, on condition that it stays like that."""
    said = json.loads(answer.payload)
    state = _standing(turn, bool(said["written"]))
    _check_columns(turn)
    passed = check_rows(turn, pinned(turn.relation_text(), state))
    turn.confirm_files()
    turn.announce("before publish", turn.node.name)
    properties = {"sqb.model": turn.node.name, **_texts(turn.node.settings.get("table_properties", {}))}
    if turn.node.description:
        properties["comment"] = turn.node.description
    relation = turn.node.relation
    state = turn.lake.mark(relation, state.base, properties).state
    published = turn.lake.touch(relation, state.base, turn.identity(None, passed=passed.summary))
    turn.announce("published", turn.node.name)
    rows = said["rows"] if said["rows"] is not None else state.rows or 0
    return Outcome(
        rows if said["written"] else 0,
        published.snapshot_id,
        published.state,
        identical=not said["written"],
        notices=passed.notices,
        findings=passed.findings,
    )


def _texts(options: Mapping[str, Any]) -> dict[str, str]:
    return {key: str(value) for key, value in options.items()}


def _standing(turn: Turn, written: bool) -> TableState:
    """What stands at the relation; raises when it is not what the materialisation says."""
    relation, before = turn.node.relation, turn.standing
    pointer = turn.lake.pointers().get(relation)
    if pointer is None:
        hint = "write it to ctx.relation_name; what is not a table of the catalog is made by an @asset"
        raise _wrong(turn, f"{relation} is not there after it was written", hint)
    state = turn.lake.tables([pointer])[relation]
    if state.is_view:
        # Else it would stand there as somebody else's.
        _drop_view(turn)
        hint = "make a table; a view is made by the kind `view`, whose readers are pinned to what is beneath it"
        raise _wrong(turn, f"{relation} is a view", hint)
    if state.snapshot_id is None:
        raise _wrong(turn, f"{relation} has never been written", "write rows to it, or an empty result: INSERT INTO …")
    moved = before is None or (before.uuid, before.snapshot_id) != (state.uuid, state.snapshot_id)
    if written and not moved:
        raise _wrong(turn, f"{relation} is as it was before", "return ctx.unchanged() where there is nothing to do")
    if moved and not written:
        raise _wrong(turn, f"{relation} is said to be unchanged, and was written", "return ctx.written()")
    return state


def _check_columns(turn: Turn) -> None:
    if turn.node.contract is not None:
        from sqb.spark import frames  # Spark is there when something runs

        check_contract(turn, frames.columns_of(turn.session().table(turn.relation_text())))


def _wrong(turn: Turn, message: str, hint: str) -> BuildError:
    name = turn.node.materialization["name"]
    return NotWritten(f"the materialization {name}: {message}", at=At(*turn.node.materialization["at"]), hint=hint)
