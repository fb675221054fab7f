"""Hooks: a model's own statements before its rows are made and after they are published.

The commit that publishes a model with post-hooks says that they are still to run; a mark on the table says that they
have. The next build runs the hooks of a table without the mark again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from sqb.build.node.context import NodeContext, NodeOutcome
from sqb.build.node.render import Rendered
from sqb.compile.model import Hook
from sqb.errors.build import HookFailed
from sqb.lake.port import TableState
from sqb.names import At, quote
from sqb.plan.observed import HOOKS_DONE
from sqb.project.values import Statement
from sqb.sql.text.spans import fill_references, trace_offset

_SETTING = re.compile(r"\s*SET\s+`?([\w.\-]+)`?\s*=", re.IGNORECASE)
_SHOWN = 60


def build_with_hooks(context: NodeContext, build: Callable[[NodeContext], NodeOutcome]) -> NodeOutcome:
    """Build a node between its hooks."""
    if not context.node.hooks:
        return build(context)
    with _restore_settings(context):
        run_pre_hooks(context)
        return run_post_hooks(context, build(context))


def run_pre_hooks(context: NodeContext) -> None:
    """Run the statements before the model; what fails, fails before anything is written."""
    for hook in context.node.hooks:
        if hook.when == "pre":
            _run_hook(context, hook)


def run_post_hooks(context: NodeContext, outcome: NodeOutcome) -> NodeOutcome:
    """Run the statements after the model, and then say so beside its rows."""
    hooks = [h for h in context.node.hooks if h.when == "post"]
    if not hooks:
        return outcome
    for hook in hooks:
        _run_hook(context, hook)
    context.announce("post-hooks run", context.node.name)
    state = _mark_hooks_done(context, outcome)
    notices = outcome.notices
    if state is not None and state.drifted:
        notices = (*notices, "a post-hook wrote to the model's own table: the next build will see that as drift")
    return replace(outcome, state=state, notices=notices)


def _mark_hooks_done(context: NodeContext, outcome: NodeOutcome) -> TableState | None:
    done = {HOOKS_DONE: context.run_id}
    relation = context.node.relation
    if outcome.state is None or not outcome.state.is_view:
        return context.lake.set_properties(relation, outcome.state.base, done).state if outcome.state else None
    from sqb.spark.data import frames

    frames.set_view_properties(context.session(), context.format_relation(), done)
    return context.lake.read_tables([context.lake.list_pointers()[relation]])[relation]


@contextmanager
def _restore_settings(context: NodeContext) -> Iterator[None]:
    """Settings that hooks change are restored afterwards: other models use the session too."""
    keys = [match[1] for hook in context.node.hooks if (match := _SETTING.match(hook.text))]
    if not keys:
        yield
        return
    from sqb.spark.data.statements import restore_settings

    with restore_settings(context.session(), keys):
        yield


def _run_hook(context: NodeContext, hook: Hook) -> None:
    from sqb.spark.data.statements import run_statement
    from sqb.spark.errors import explain_failure

    rendered = render_hook(hook, context.catalog)
    try:
        run_statement(context.session(), rendered.sql)
    except Exception as error:
        failure = explain_failure(error, rendered.sql)
        if failure.kind != "query":
            raise
        at = _locate_failure(hook, rendered, failure.start, failure.stop) if failure.start >= 0 else hook.at
        words = " ".join(hook.written.split())
        excerpt = words if len(words) <= _SHOWN else f"{words[:_SHOWN]}…"
        raise HookFailed(
            f"the {hook.when}-hook `{excerpt}` failed: {failure.message}", at=at, hint=failure.hint
        ) from error


def render_hook(hook: Hook, catalog: str) -> Rendered:
    """A hook as it is run: names of the project's relations are whole names; values in a CALL are literals."""
    called = hook.text.lstrip()[:5].upper() == "CALL "

    def text_of(index: int) -> str:
        relation = hook.relations[index]
        whole = (catalog, relation.schema, relation.name)
        return f"'{'.'.join(whole)}'" if called else quote(*whole)

    sql, copied = fill_references(hook.text, hook.slots, {index: text_of(index) for index in range(len(hook.slots))})
    return Rendered(sql, tuple(copied))


def _locate_failure(hook: Hook, rendered: Rendered, start: int, stop: int) -> At:
    offset = trace_offset(hook.pieces, rendered.map_offset(start))
    return Statement(hook.written, hook.at).locate(min(offset, len(hook.written)), stop - start)
