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

from sqb.build.incremental import Hole, WhyNot, hole_of
from sqb.build.python_child import Answer, Call, call_of, with_retries
from sqb.build.turn import Outcome, Turn
from sqb.errors import BuildError
from sqb.names import At, quote
from sqb.plan.values import Reason

if TYPE_CHECKING:
    from sqb.build.python_turns import PythonTurns

CHANGE = "_change"
_Build = Callable[[Turn], Outcome]


class ModelSkipped(Exception):
    """A model's function said that there is nothing to do."""

    def __init__(self, reason: str, mode: Literal["", "soft", "hard"]) -> None:
        super().__init__(reason)
        self.reason, self.mode = reason, mode


@dataclass(frozen=True, slots=True)
class Followed:
    """What a function follows: the changes of each table that it asked for, or why it gets all rows."""

    holes: Mapping[str, Hole]
    why_not: str = ""


def build_python_model(turn: Turn, build: _Build, python: PythonTurns) -> Outcome:
    """Run a model's function in a child, and let the kind publish what it returned while the child is there."""
    said = turn.node.python
    followed = _followed(turn) if said["changes"] else Followed({}, "it does not ask for changes")

    retries, delay = int(said.get("retries", 0)), float(said.get("retry_delay", 0.0))
    with ExitStack() as stack:
        serve = python.services(f"model {turn.node.name}", _changes(turn, followed, stack))
        call, stop, log = _call(turn, followed), python.settings.stop, python.log
        view = _view_of(turn, stack.enter_context(with_retries(call, serve, stop, log, retries, delay)))
        if said["changes"]:
            return _with_changes(turn, build, followed, view)
        return build(replace(turn, rows_from=f"global_temp.{quote(view)}"))


def _call(turn: Turn, followed: Followed) -> Call:
    said = turn.node.python
    extra = {"is_full": bool(followed.why_not), "config": turn.node.settings.get("config", {})}
    call = call_of(turn, "model", said["module"], said["function"], said["called"], extra)
    return replace(call, timeout=said.get("timeout"))


def _view_of(turn: Turn, answer: Answer) -> str:
    if answer.error is not None:
        raise answer.error
    if answer.status == "skipped":
        # Without a table nobody can read what is not there.
        raise ModelSkipped(answer.reason, answer.skip_mode if turn.standing is not None else "hard")
    if not answer.view:
        raise BuildError(
            f"{turn.node.name} returned no Spark DataFrame",
            at=At(*turn.node.python["at"]),
            hint="return ctx.ref(…) or ctx.query(…), or make one of rows with ctx.spark.createDataFrame(…)",
        )
    return answer.view


# --- changes --------------------------------------------------------------------------------------------------------


def _followed(turn: Turn) -> Followed:
    try:
        return Followed(_holes(turn))
    except WhyNot as why:
        return Followed({}, str(why))


def _holes(turn: Turn) -> dict[str, Hole]:
    """What changed in each table that the function follows; raises `WhyNot` when it has to get all rows."""
    if turn.planned.reason not in (Reason.SOURCE_CHANGED, Reason.UPSTREAM_CHANGED):
        raise WhyNot(str(turn.planned.reason).lower())
    if turn.node.settings.get("refresh") == "full":
        raise WhyNot("refresh full")
    followed = turn.node.python["changes"]
    for name in turn.node.upstream:
        node = turn.project.nodes.get(name)
        if node is not None and node.kind == "view":
            raise WhyNot(f"{name} is a view")
    holes = {name: hole_of(turn, index, name) for index, name in enumerate(turn.node.upstream)}
    for name, hole in holes.items():
        if hole.changed and name not in followed:
            raise WhyNot(f"{name}, which it reads as a whole, changed")
    return {name: hole for name, hole in holes.items() if name in followed}


def _changes(turn: Turn, followed: Followed, stack: ExitStack) -> Callable[[str], str]:
    """What answers a function that asks for the changes of a table: the name of a view that has them."""
    called = turn.node.python["called"]

    def changes_of(name: str) -> str:
        from sqb.spark import changes

        meant = called.get(name)
        if meant is None or meant not in turn.node.python["changes"]:
            raise BuildError(
                f'ctx.changes("{name}"): what a model follows must be written as a name',
                hint='write ctx.changes("name") with the name in quotes, so that it can be seen without running it',
            )
        session = turn.session()
        hole = followed.holes.get(meant)
        if hole is None:
            frame = session.sql(f"SELECT *, 1L AS {changes.TIMES} FROM {turn.pinned(meant)}")
        elif not hole.changed:
            frame = session.sql(f"SELECT *, 1L AS {changes.TIMES} FROM {hole.nothing}")
        else:
            columns = [c.name for c in hole.state.columns]
            assert hole.old is not None and hole.state.snapshot_id is not None
            how: Any = hole.how
            frame = changes.source_changes(session, hole.table, hole.old, hole.state.snapshot_id, columns, how)
        return str(stack.enter_context(_shared(frame.withColumnRenamed(changes.TIMES, CHANGE), turn, meant)))

    return changes_of


@contextmanager
def _shared(frame: Any, turn: Turn, what: str) -> Iterator[str]:
    """A frame under a name that all sessions know, for a while."""
    from sqb.spark import frames

    name = f"sqb_{turn.run_id}_{turn.node.name}_{what}".replace(".", "_").lower()
    frame.createOrReplaceGlobalTempView(name)
    try:
        yield name
    finally:
        frames.forget_view(turn.session(), name)


def _with_changes(turn: Turn, build: _Build, followed: Followed, view: str) -> Outcome:
    """Put the change that a function returned into its table."""
    from sqb.spark import changes, frames

    session = turn.session()
    frame = session.table(f"global_temp.{quote(view)}")
    names = [c for c in frame.columns if c.lower() != CHANGE]
    if len(names) < len(frame.columns):
        frame = changes.net(changes.counted(frame, CHANGE), names)
    else:
        frame = changes.signed(frame, 1, names)
    if followed.why_not:
        return _rebuilt(turn, build, frame, names, followed.why_not)
    columns = frames.columns_of(frame.select(*[quote(c) for c in names]))
    with changes.kept(frame) as change:
        try:
            return _applied(turn, session, change, columns)
        except WhyNot as why:
            raise BuildError(
                f"the change that {turn.node.name} returned does not fit its table: {why}",
                at=At(*turn.node.python["at"]),
                hint=f"run it once with --full-refresh -s {turn.node.name}, which gives it all rows",
            ) from why


def _rebuilt(turn: Turn, build: _Build, change: Any, names: list[str], why: str) -> Outcome:
    """All rows were given as new ones, so that the change is the whole."""
    from sqb.spark import changes

    with changes.kept(change) as whole, ExitStack() as stack:
        if changes.Measured(whole, names).went:
            raise BuildError(
                f"{turn.node.name} takes rows away that are not there",
                at=At(*turn.node.python["at"]),
                hint=f"all rows were given with {CHANGE} = 1, so that nothing in the result can be below zero",
            )
        rows = stack.enter_context(_shared(changes.rows_of(whole, 1, names), turn, "rows"))
        outcome = build(replace(turn, rows_from=f"global_temp.{quote(rows)}"))
    return replace(outcome, detail=f"{turn.planned.detail}; all rows: {why}".removeprefix("; "))


def _applied(turn: Turn, session: Any, change: Any, columns: Any) -> Outcome:
    from sqb.build.contracts import check_contract
    from sqb.build.kinds.append import add_change
    from sqb.build.kinds.table import apply_change

    check_contract(turn, columns)
    if turn.node.kind == "append":
        return add_change(turn, session, change, columns)
    assert turn.standing is not None
    content = turn.standing.identity.get("sqb.content", "")
    if not content.startswith("n:"):
        raise WhyNot("its content was never recorded")
    if turn.node.kind == "merge":
        change = _by_key(turn, session, change, [c.name for c in columns])
    return apply_change(turn, session, change, columns, content)


def _by_key(turn: Turn, session: Any, change: Any, names: list[str]) -> Any:
    """The change of a table with a key: rows that come take the place of those that have their key, or take it away."""
    from sqb.spark import changes, keys

    key = list(turn.node.settings["unique_key"])
    keys.refuse_missing_columns(key, names, "unique_key")
    came = changes.rows_of(change, 1, names)
    keys.refuse_bad_keys(came, key)
    assert turn.standing is not None
    at = f"{turn.relation_text()} VERSION AS OF {turn.standing.snapshot_id}"
    there = session.sql(f"SELECT {', '.join(quote(n) for n in names)} FROM {at}")
    touched = change.select(*[quote(k) for k in key]).distinct()
    condition = [there[quote(k)].eqNullSafe(touched[quote(k)]) for k in key]
    gone = there.join(touched, condition, "left_semi")
    return changes.net(changes.signed(came, 1, names).unionAll(changes.signed(gone, -1, names)), names)
