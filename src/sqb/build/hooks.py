"""Hooks: a model's own statements before its rows are made and after they are published.

The commit that publishes a model with post-hooks says that they are still to run; a mark on the table says that they
have. What stands without the mark is run again by the next build.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from sqb.build.render import Rendered
from sqb.build.turn import Outcome, Turn
from sqb.compiled import Hook
from sqb.errors import HookFailed
from sqb.lake.port import TableState
from sqb.names import At, quote
from sqb.plan.observed import HOOKS_DONE
from sqb.project.values import Statement
from sqb.sql.spans import fill, trace

_SETTING = re.compile(r"\s*SET\s+`?([\w.\-]+)`?\s*=", re.IGNORECASE)
_SHOWN = 60


def with_hooks(turn: Turn, build: Callable[[Turn], Outcome]) -> Outcome:
    """Build a node between its hooks."""
    if not turn.node.hooks:
        return build(turn)
    with _own_settings(turn):
        run_pre_hooks(turn)
        return run_post_hooks(turn, build(turn))


def run_pre_hooks(turn: Turn) -> None:
    """Run the statements before the model; what fails, fails before anything is written."""
    for hook in turn.node.hooks:
        if hook.when == "pre":
            _run(turn, hook)


def run_post_hooks(turn: Turn, outcome: Outcome) -> Outcome:
    """Run the statements after the model, and then say so beside its rows."""
    hooks = [h for h in turn.node.hooks if h.when == "post"]
    if not hooks:
        return outcome
    for hook in hooks:
        _run(turn, hook)
    turn.announce("post-hooks run", turn.node.name)
    state = _mark(turn, outcome)
    notices = outcome.notices
    if state is not None and state.drifted:
        notices = (*notices, "a post-hook wrote to the model's own table: the next build will see that as drift")
    return replace(outcome, state=state, notices=notices)


def _mark(turn: Turn, outcome: Outcome) -> TableState | None:
    done = {HOOKS_DONE: turn.run_id}
    relation = turn.node.relation
    if outcome.state is None or not outcome.state.is_view:
        return turn.lake.mark(relation, outcome.state.base, done).state if outcome.state else None
    from sqb.spark import frames

    frames.set_view_properties(turn.session(), turn.relation_text(), done)
    return turn.lake.tables([turn.lake.pointers()[relation]])[relation]


@contextmanager
def _own_settings(turn: Turn) -> Iterator[None]:
    """Settings that hooks change are as they were when the turn ends: other models use the session too."""
    keys = [found[1] for hook in turn.node.hooks if (found := _SETTING.match(hook.text))]
    if not keys:
        yield
        return
    from sqb.spark.statements import settings_kept

    with settings_kept(turn.session(), keys):
        yield


def _run(turn: Turn, hook: Hook) -> None:
    from sqb.spark.failures import explain
    from sqb.spark.statements import run_statement

    rendered = render_hook(hook, turn.catalog)
    try:
        run_statement(turn.session(), rendered.sql)
    except Exception as error:
        failure = explain(error, rendered.sql)
        if failure.kind != "query":
            raise
        at = _place(hook, rendered, failure.start, failure.stop) if failure.start >= 0 else hook.at
        words = " ".join(hook.written.split())
        shown = words if len(words) <= _SHOWN else f"{words[:_SHOWN]}…"
        raise HookFailed(
            f"the {hook.when}-hook `{shown}` failed: {failure.message}", at=at, hint=failure.hint
        ) from error


def render_hook(hook: Hook, catalog: str) -> Rendered:
    """A hook as it is run: names of the project's relations are whole names; values in a CALL are literals."""
    called = hook.text.lstrip()[:5].upper() == "CALL "

    def text_of(index: int) -> str:
        relation = hook.relations[index]
        whole = (catalog, relation.schema, relation.name)
        return f"'{'.'.join(whole)}'" if called else quote(*whole)

    sql, copied = fill(hook.text, hook.slots, {index: text_of(index) for index in range(len(hook.slots))})
    return Rendered(sql, tuple(copied))


def _place(hook: Hook, rendered: Rendered, start: int, stop: int) -> At:
    offset = trace(hook.pieces, rendered.origin(start))
    return Statement(hook.written, hook.at).place(min(offset, len(hook.written)), stop - start)
