"""Python models: a function gives the rows, and the kinds build them as they build those of a query.

A function that says `ctx.changes("x")` gives the change of its rows instead, with `_change` counting how often each
row comes (or, below zero, goes). Where what it reads otherwise has changed, or nothing is known of before, it is given
all rows as if they were new, and gives all of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from sqb.build.incremental.fallback import NotIncremental
from sqb.build.incremental.refresh import TableSlot, resolve_upstream_slots
from sqb.build.incremental.table_changes import read_slot_changes
from sqb.build.node.context import NodeContext, NodeOutcome
from sqb.build.python.child_process import Answer, Call, build_call, run_with_retries
from sqb.errors.build import BuildError
from sqb.names import At, quote
from sqb.plan.refresh.choose import FOLLOWED_REASONS

if TYPE_CHECKING:
    from sqb.build.python.run import PythonRunner

CHANGE = "_change"
_Build = Callable[[NodeContext], NodeOutcome]


class ModelSkipped(Exception):
    """A model's function reported that there is nothing to do."""

    def __init__(self, reason: str, mode: Literal["", "soft", "hard"]) -> None:
        super().__init__(reason)
        self.reason, self.mode = reason, mode


@dataclass(frozen=True, slots=True)
class IncrementalInputs:
    """What a function follows: the changes of each table that it asked for, or why it gets all rows."""

    slots: Mapping[str, TableSlot]
    full_reason: str = ""


def build_python_model(context: NodeContext, build: _Build, python: PythonRunner) -> NodeOutcome:
    """Run a model's function in a child, and let the kind publish what it returned while the child is there."""
    definition = context.node.python
    followed = (
        _resolve_incremental_inputs(context)
        if definition["changes"]
        else IncrementalInputs({}, "it does not ask for changes")
    )

    retries, delay = int(definition.get("retries", 0)), float(definition.get("retry_delay", 0.0))
    with ExitStack() as stack:
        serve = python.build_model_services(
            f"model {context.node.name}", _build_change_service(context, followed, stack)
        )
        call, stop, log = _build_call(context, followed), python.settings.stop, python.log
        view = _get_result_view(context, stack.enter_context(run_with_retries(call, serve, stop, log, retries, delay)))
        if definition["changes"]:
            return _apply_returned_change(context, build, followed, view)
        return build(replace(context, rows_from=f"global_temp.{quote(view)}"))


def _build_call(context: NodeContext, incremental_inputs: IncrementalInputs) -> Call:
    definition = context.node.python
    extra = {"is_full": bool(incremental_inputs.full_reason), "config": context.node.settings.get("config", {})}
    call = build_call(context, "model", definition["module"], definition["function"], definition["called"], extra)
    return replace(call, timeout=definition.get("timeout"))


def _get_result_view(context: NodeContext, answer: Answer) -> str:
    if answer.error is not None:
        raise answer.error
    if answer.status == "skipped":
        # Without a table there is no current version to read.
        raise ModelSkipped(answer.reason, answer.skip_mode if context.current is not None else "hard")
    if not answer.view:
        raise BuildError(
            f"{context.node.name} returned no Spark DataFrame",
            at=At(*context.node.python["at"]),
            hint="return ctx.ref(…) or ctx.query(…), or make one of rows with ctx.spark.createDataFrame(…)",
        )
    return answer.view


# --- changes --------------------------------------------------------------------------------------------------------


def _resolve_incremental_inputs(context: NodeContext) -> IncrementalInputs:
    try:
        return IncrementalInputs(_resolve_slots(context))
    except NotIncremental as why:
        return IncrementalInputs({}, str(why))


def _resolve_slots(context: NodeContext) -> dict[str, TableSlot]:
    """What changed in each table that the function follows; raises `NotIncremental` when it has to get all rows."""
    if context.planned.reason not in FOLLOWED_REASONS:
        raise NotIncremental(str(context.planned.reason).lower())
    if context.node.settings.get("refresh") == "full":
        raise NotIncremental("refresh full")
    followed = context.node.python["changes"]
    for name in context.node.upstream:
        node = context.project.nodes.get(name)
        if node is not None and node.kind == "view":
            raise NotIncremental(f"{name} is a view")
    slots = resolve_upstream_slots(context)
    for name, slot in slots.items():
        if slot.changed and name not in followed:
            raise NotIncremental(f"{name}, which it reads as a whole, changed")
    return {name: slot for name, slot in slots.items() if name in followed}


def _build_change_service(
    context: NodeContext, incremental_inputs: IncrementalInputs, stack: ExitStack
) -> Callable[[str], str]:
    """What answers a function that asks for the changes of a table: the name of a view that has them."""
    called = context.node.python["called"]

    def changes_of(name: str) -> str:
        from sqb.spark.data import changes

        meant = called.get(name)
        if meant is None or meant not in context.node.python["changes"]:
            raise BuildError(
                f'ctx.changes("{name}"): what a model follows must be written as a name',
                hint='write ctx.changes("name") with the name in quotes, so that it can be seen without running it',
            )
        session = context.session()
        slot = incremental_inputs.slots.get(meant)
        if slot is None:
            frame = session.sql(f"SELECT *, 1L AS {changes.MULTIPLICITY} FROM {context.pinned(meant)}")
        elif not slot.changed:
            frame = session.sql(f"SELECT *, 1L AS {changes.MULTIPLICITY} FROM {slot.nothing}")
        else:
            columns = [c.name for c in slot.state.columns]
            frame = read_slot_changes(context, session, slot, columns, stack)
        return str(
            stack.enter_context(_share_frame(frame.withColumnRenamed(changes.MULTIPLICITY, CHANGE), context, meant))
        )

    return changes_of


@contextmanager
def _share_frame(frame: Any, context: NodeContext, what: str) -> Iterator[str]:
    """A frame under a name that all sessions know, for a while."""
    from sqb.spark.data import frames

    name = f"sqb_{context.run_id}_{context.node.name}_{what}".replace(".", "_").lower()
    frame.createOrReplaceGlobalTempView(name)
    try:
        yield name
    finally:
        frames.drop_view(context.session(), name)


def _apply_returned_change(
    context: NodeContext, build: _Build, incremental_inputs: IncrementalInputs, view: str
) -> NodeOutcome:
    """Put the change that a function returned into its table."""
    from sqb.spark.data import changes, frames

    session = context.session()
    frame = session.table(f"global_temp.{quote(view)}")
    names = [c for c in frame.columns if c.lower() != CHANGE]
    if len(names) < len(frame.columns):
        frame = changes.sum_changes(changes.use_multiplicity_column(frame, CHANGE), names)
    else:
        frame = changes.with_multiplicity(frame, 1, names)
    if incremental_inputs.full_reason:
        return _rebuild_from_change(context, build, frame, names, incremental_inputs.full_reason)
    columns = frames.list_columns(frame.select(*[quote(c) for c in names]))
    with changes.persisted(frame) as change:
        try:
            return _apply_change(context, session, change, columns)
        except NotIncremental as why:
            raise BuildError(
                f"the change that {context.node.name} returned does not fit its table: {why}",
                at=At(*context.node.python["at"]),
                hint=f"run it once with --full-refresh -s {context.node.name}, which gives it all rows",
            ) from why


def _rebuild_from_change(context: NodeContext, build: _Build, change: Any, names: list[str], why: str) -> NodeOutcome:
    """All rows were given as new ones, so that the change is the whole."""
    from sqb.spark.data import changes

    with changes.persisted(change) as whole, ExitStack() as stack:
        if changes.MeasuredChange(whole, names).rows_removed:
            raise BuildError(
                f"{context.node.name} takes rows away that are not there",
                at=At(*context.node.python["at"]),
                hint=f"all rows were given with {CHANGE} = 1, so that nothing in the result can be below zero",
            )
        rows = stack.enter_context(_share_frame(changes.expand_rows(whole, 1, names), context, "rows"))
        outcome = build(replace(context, rows_from=f"global_temp.{quote(rows)}"))
    return replace(outcome, detail=f"{context.planned.detail}; all rows: {why}".removeprefix("; "))


def _apply_change(context: NodeContext, session: Any, change: Any, columns: Any) -> NodeOutcome:
    from sqb.build.kinds.append import add_change
    from sqb.build.kinds.table import apply_change
    from sqb.build.node.analyse import check_contract

    check_contract(context, columns)
    if context.node.kind == "append":
        return add_change(context, session, change, columns)
    assert context.current is not None
    content = context.current.identity.content
    if not content.startswith("n:"):
        raise NotIncremental("its content was never recorded")
    if context.node.kind == "merge":
        change = _derive_keyed_change(context, session, change, [c.name for c in columns])
    return apply_change(context, session, change, columns, content)


def _derive_keyed_change(context: NodeContext, session: Any, change: Any, names: list[str]) -> Any:
    """The change of a table with a key: rows that come take the place of those that have their key, or take it away."""
    from sqb.spark.data import changes, keys

    key = list(context.node.settings["unique_key"])
    keys.refuse_missing_columns(key, names, "unique_key")
    added_rows = changes.expand_rows(change, 1, names)
    keys.refuse_bad_keys(added_rows, key)
    assert context.current is not None
    at = f"{context.format_relation()} VERSION AS OF {context.current.snapshot_id}"
    table_rows = session.sql(f"SELECT {', '.join(quote(n) for n in names)} FROM {at}")
    affected = change.select(*[quote(k) for k in key]).distinct()
    condition = [table_rows[quote(k)].eqNullSafe(affected[quote(k)]) for k in key]
    gone = table_rows.join(affected, condition, "left_semi")
    return changes.sum_changes(
        changes.with_multiplicity(added_rows, 1, names).unionAll(changes.with_multiplicity(gone, -1, names)), names
    )
