"""What `append` and `scd2` share: rows stay, so that columns may be added or widened but nothing is ever lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from sqb.build.incremental import Following, WhyNot, holes_of, template_of
from sqb.build.turn import Turn
from sqb.errors import SchemaRefused
from sqb.lake.port import Column
from sqb.plan.observed import LOADER
from sqb.plan.values import Reason

_STARTS_ANEW = (Reason.FIRST_RUN, Reason.RELATION_MISSING)


def starts_anew(turn: Turn) -> bool:
    """Whether there are no rows to keep, or they are not to be kept."""
    standing = turn.standing
    if standing is None or standing.is_view or turn.full_refresh or turn.planned.reason in _STARTS_ANEW:
        return True
    return replaces_foreign(turn)


def replaces_foreign(turn: Turn) -> bool:
    """Whether a table that no model made is replaced, as was asked for: its rows are no history of this model."""
    standing = turn.standing
    theirs = standing is not None and (not standing.identity or LOADER in standing.identity) and not standing.drifted
    return theirs and turn.planned.reason is Reason.FORCED


def may_be_laid_out_anew(turn: Turn) -> bool:
    """Whether the table's layout or properties may have to change, though no row does: its settings are others."""
    before = turn.standing.identity if turn.standing is not None else {}
    is_known = before.get("sqb.content", "").startswith("n:")
    return is_known and before.get("sqb.config_hash") != turn.node.config_hash


def evolved(turn: Turn, session: Any, columns: tuple[Column, ...], own: tuple[str, ...] = ()) -> tuple[Column, ...]:
    """The columns of the table after this run, by the model's `on_schema_change`; `own` columns are the kind's."""
    from sqb.spark import frames

    there = frames.columns_of(session.sql(f"SELECT * FROM {turn.relation_text()}"))
    there = tuple(c for c in there if c.name not in own)
    wanted = {c.name.lower(): c for c in columns}
    have = {c.name.lower() for c in there}
    added = tuple(c for c in columns if c.name.lower() not in have)
    dropped = [c.name for c in there if c.name.lower() not in wanted]
    policy = turn.node.settings.get("on_schema_change", "append_new_columns")
    if policy == "fail" and (added or dropped):
        names = ", ".join([*(f"+{c.name}" for c in added), *(f"-{name}" for name in dropped)])
        raise SchemaRefused(
            f"the columns changed ({names}) and on_schema_change is fail", hint="change the policy, or --full-refresh"
        )
    stay = tuple(wanted.get(c.name.lower(), c) if c.name.lower() in wanted else c for c in there)
    stay = tuple(Column(old.name, new.type) for old, new in zip(there, stay, strict=True))
    if policy == "sync_all_columns":
        stay = tuple(c for c in stay if c.name.lower() in wanted)
    return stay if policy == "ignore" else (*stay, *added)


def fitted(frame: Any, columns: tuple[Column, ...]) -> Any:
    """A result with the table's columns: those that it does not have are NULL, those that the table lacks are gone."""
    from sqb.spark import frames

    return frames.with_columns(frame, columns)


@contextmanager
def followed(turn: Turn, session: Any, names: list[str]) -> Iterator[Any]:
    """The net change of the query's result since it was last evaluated; raises `WhyNot` when it cannot be followed."""
    with ExitStack() as stack:
        following = Following(turn, session, names, "result", stack)
        yield following.changes(following.touched())


@contextmanager
def compared(turn: Turn, session: Any, columns: tuple[Column, ...]) -> Iterator[Any]:
    """The query evaluated in full, now and at the versions of before, as a net change."""
    from sqb.spark import changes, frames

    template = template_of(turn.node, turn.project, turn.live, turn.at_version)
    # A changed definition goes on from here: what it reads for the first time is not news.
    new_inputs = turn.planned.reason in (Reason.QUERY_CHANGED, Reason.CONFIG_CHANGED, Reason.FUNCTION_CHANGED)
    holes = holes_of(turn, template, new_inputs, any_columns=True)
    before = frames.analysed(session, template.render(lambda i: holes[i].then))
    if before is None:
        raise WhyNot("the query does not fit the columns that its tables had")
    names = [c.name for c in columns]
    now = changes.signed(session.sql(template.render(lambda i: holes[i].now)), 1, names)
    then = changes.signed(fitted(before, columns), -1, names)
    with changes.kept(now), changes.kept(then), changes.kept(changes.net(now.unionAll(then), names)) as change:
        yield change


def same_columns(turn: Turn, session: Any, columns: tuple[Column, ...]) -> bool:
    """Whether the table already has these columns, with these types."""
    from sqb.spark import frames

    return frames.same_columns(frames.columns_of(session.sql(f"SELECT * FROM {text_at(turn)}")), columns)


def text_at(turn: Turn) -> str:
    """The node's own table as it stood when its turn came."""
    assert turn.standing is not None
    return f"{turn.relation_text()} VERSION AS OF {turn.standing.snapshot_id}"
