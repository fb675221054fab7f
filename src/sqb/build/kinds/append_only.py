"""What `append` and `scd2` share: rows stay, so that columns may be added or widened but nothing is ever lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from sqb.build.incremental.fallback import NotIncremental
from sqb.build.incremental.operators import follow_operators
from sqb.build.incremental.refresh import IncrementalRefresh, build_context_template, resolve_slots
from sqb.build.node.context import NodeContext
from sqb.errors.build import SchemaRefused
from sqb.lake.port import Column
from sqb.plan.model import Reason
from sqb.plan.recorded.commit_identity import CommitIdentity

_START_OVER_REASONS = (Reason.FIRST_RUN, Reason.RELATION_MISSING)


def is_started_over(context: NodeContext) -> bool:
    """Whether there are no rows to keep, or they are not to be kept."""
    current = context.current
    if current is None or current.is_view or context.full_refresh or context.planned.reason in _START_OVER_REASONS:
        return True
    return is_replacing_foreign_table(context)


def is_replacing_foreign_table(context: NodeContext) -> bool:
    """Whether a table that no model made is replaced, as was asked for: its rows are not a history of this model."""
    current = context.current
    if current is None or current.drifted or (current.identity and not current.identity.loader):
        return False
    return context.planned.reason is Reason.FORCED


def may_change_layout(context: NodeContext) -> bool:
    """Whether the table's layout or properties may have to change, though no row does: its settings are others."""
    before = context.current.identity if context.current is not None else CommitIdentity()
    return before.content.startswith("n:") and before.config_hash != context.node.config_hash


def evolve_columns(
    context: NodeContext, session: Any, columns: tuple[Column, ...], kind_columns: tuple[str, ...] = ()
) -> tuple[Column, ...]:
    """The columns of the table after this run, by the model's `on_schema_change`; `kind_columns` belong to the kind."""
    from sqb.spark.data import frames

    table_columns = frames.list_columns(session.sql(f"SELECT * FROM {context.format_relation()}"))
    table_columns = tuple(c for c in table_columns if c.name not in kind_columns)
    result_columns = {c.name.lower(): c for c in columns}
    table_names = {c.name.lower() for c in table_columns}
    added = tuple(c for c in columns if c.name.lower() not in table_names)
    dropped = [c.name for c in table_columns if c.name.lower() not in result_columns]
    policy = context.node.settings.get("on_schema_change", "append_new_columns")
    if policy == "fail" and (added or dropped):
        names = ", ".join([*(f"+{c.name}" for c in added), *(f"-{name}" for name in dropped)])
        raise SchemaRefused(
            f"the columns changed ({names}) and on_schema_change is fail", hint="change the policy, or --full-refresh"
        )
    retained = tuple(
        result_columns.get(c.name.lower(), c) if c.name.lower() in result_columns else c for c in table_columns
    )
    retained = tuple(Column(old.name, new.type) for old, new in zip(table_columns, retained, strict=True))
    if policy == "sync_all_columns":
        retained = tuple(c for c in retained if c.name.lower() in result_columns)
    return retained if policy == "ignore" else (*retained, *added)


def fit_columns(frame: Any, columns: tuple[Column, ...]) -> Any:
    """A result with the table's columns: those that it does not have are NULL, those that the table lacks are gone."""
    from sqb.spark.data import frames

    return frames.select_columns(frame, columns)


@contextmanager
def compute_incremental_change(context: NodeContext, session: Any, names: list[str]) -> Iterator[Any]:
    """The net change of the query's result since it was last evaluated; raises `NotIncremental` otherwise."""
    with ExitStack() as stack:
        refresh = IncrementalRefresh(context, session, names, "result", stack)
        affected = refresh.find_affected_keys()
        yield follow_operators(refresh).change if affected is None else refresh.compute_key_change(affected)


@contextmanager
def compute_full_change(context: NodeContext, session: Any, columns: tuple[Column, ...]) -> Iterator[Any]:
    """The query evaluated in full, now and at the versions of before, as a net change."""
    from sqb.spark.data import changes, frames

    template = build_context_template(context)
    # A changed definition goes on from here: what it reads for the first time is not news.
    new_inputs = context.planned.reason in (Reason.QUERY_CHANGED, Reason.CONFIG_CHANGED, Reason.FUNCTION_CHANGED)
    slots = resolve_slots(context, template, new_inputs, any_columns=True)
    before = frames.analyze_or_none(session, template.render(lambda i: slots[i].then))
    if before is None:
        raise NotIncremental("the query does not fit the columns that its tables had")
    names = [c.name for c in columns]
    now = changes.with_multiplicity(session.sql(template.render(lambda i: slots[i].now)), 1, names)
    then = changes.with_multiplicity(fit_columns(before, columns), -1, names)
    with (
        changes.persisted(now),
        changes.persisted(then),
        changes.persisted(changes.sum_changes(now.unionAll(then), names)) as change,
    ):
        yield change


def has_same_columns(context: NodeContext, session: Any, columns: tuple[Column, ...]) -> bool:
    """Whether the table already has these columns, with these types."""
    from sqb.spark.data import frames

    return frames.has_same_columns(
        frames.list_columns(session.sql(f"SELECT * FROM {format_current_version(context)}")), columns
    )


def format_current_version(context: NodeContext) -> str:
    """The node's own table at the snapshot that this build started from."""
    assert context.current is not None
    return f"{context.format_relation()} VERSION AS OF {context.current.snapshot_id}"
