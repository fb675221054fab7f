"""Cursors of models held against their queries: what can be told before anything runs."""

from __future__ import annotations

from sqb.errors import BadCursor, Errors
from sqb.names import did_you_mean, place
from sqb.resolve import Draft
from sqb.sql.cursor import cursor_calls


def check_cursor_use(draft: Draft, errors: Errors) -> None:
    """Report a cursor that the query does not have, and windows in the query of a model that has none."""
    if draft.expanded is None or draft.query is None:
        return
    for call in cursor_calls(draft.expanded.text):
        at = place(draft.text, draft.expanded.origin(call.start), draft.file, call.end - call.start)
        if draft.kind != "incremental":
            message = f"{call.name}() belongs to the kind incremental, and this model is a {draft.kind}"
            errors.add(BadCursor(message, at=at, hint="set `kind: incremental` and `cursor`, or remove the call"))
        elif not call.whole:
            errors.add(BadCursor(f"{call.name} takes no arguments", at=at, hint=f"write {call.name}()"))
    cursor = draft.settings.get("cursor")
    outputs = draft.query.outputs
    if draft.kind != "incremental" or cursor is None or outputs is None:
        return
    if cursor.value.lower() not in {name.lower() for name in outputs}:
        hint = did_you_mean(cursor.value, outputs) or f"its columns are {', '.join(outputs)}"
        message = f'`cursor` names "{cursor.value}", and the query has no such column'
        errors.add(BadCursor(message, at=cursor.at, hint=hint))
