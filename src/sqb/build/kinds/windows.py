"""The windows of an `incremental` model: `[start, end)` of its cursor, found in the table and in the query's result."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from sqb.build.kinds.log import text_at
from sqb.build.turn import Turn
from sqb.errors import CursorUnfit
from sqb.names import did_you_mean
from sqb.plan.cascade import Replay, Span, policy_of
from sqb.project.cursors import DAY, HIGHEST, LOWEST, Form, cursor_of, length_of, literal, point, shown
from sqb.sql.cursor import END, START, cursor_calls

# In the commit of a log: up to here its rows were made by other definitions, of its own or above it.
FLOOR = "sqb.cursor_floor"


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of a cursor; without a start or an end it has none on that side."""

    start: int | None = None
    end: int | None = None
    # What the table holds in it is made anew, whatever the strategy.
    replays: bool = False
    floor: int | None = None


class Windows:
    """Finds the windows of one model in its turn."""

    def __init__(self, turn: Turn, session: Any, frame: Any) -> None:
        self.turn, self.session = turn, session
        self.cursor = cursor_of(turn.node.settings)
        self.form = self._form(frame)
        self.column = next(c for c in frame.columns if c.lower() == self.cursor.column.lower())
        self.uses = {call.name for call in cursor_calls(turn.node.sql)}
        self.step = self.cursor.step(self.form)
        self.unit = DAY if self.form == "date" else 1
        self.top: int | None = None
        # What the query gives without an end, where it asks for one of which nobody said how far it may be off.
        self.without_end: Any = None
        self.notices: tuple[str, ...] = ()
        asked = turn.window or (None, None)
        self.asked = tuple(self._point(text) if text is not None else None for text in asked)

    def _form(self, frame: Any) -> Form:
        from sqb.spark import cursors

        name, kind = self.cursor.column, self.cursor.type
        if name.lower() not in {c.lower() for c in frame.columns}:
            hint = did_you_mean(name, frame.columns) or f"its columns are {', '.join(frame.columns)}"
            raise CursorUnfit(f'`cursor` names "{name}", and the result has no such column', hint=hint)
        form, found = cursors.form_of(frame, name)
        if form is None or (form == "integer") != (kind == "integer"):
            other = "integer" if form == "integer" else "timestamp"
            cast = "CAST it to TIMESTAMP or DATE" if kind == "timestamp" else "CAST it to BIGINT"
            hint = f"set `cursor_type: {other}`" if form is not None else cast
            raise CursorUnfit(f'the cursor "{name}" is {found} in the result, and `cursor_type` is {kind}', hint=hint)
        return form

    def _point(self, text: str) -> int:
        return point(text, self.form, self._zone())

    def _zone(self) -> ZoneInfo:
        from sqb.spark import results

        return ZoneInfo(results.time_zone(self.session))

    def _beginning(self) -> int | None:
        return self._point(self.cursor.start) if self.cursor.start is not None else None

    # --- frames ---------------------------------------------------------------------------------------------------

    def query(self, window: Window) -> Any:
        """The model's query for a window; what of the result is in the window is another question."""
        from sqb.spark import frames

        kind = self.cursor.type
        ends = {
            START: literal(LOWEST[kind] if window.start is None else window.start, self.form),
            END: literal(HIGHEST[kind] if window.end is None else window.end, self.form),
        }
        return frames.analyse(self.session, self.turn.query(ends).sql)

    def inside(self, window: Window) -> Any:
        """Whether a row is in a window."""
        from sqb.spark import cursors

        return cursors.inside(self.column, self.form, window.start, window.end)

    def rows(self, window: Window) -> Any:
        """The rows of the result that are in a window."""
        return self.query(window).where(self.inside(window))

    def table(self) -> Any:
        """What the model's table holds."""
        frame = self.session.sql(f"SELECT * FROM {text_at(self.turn)}")
        if self.column.lower() not in {c.lower() for c in frame.columns}:
            message = f'the table has no column "{self.column}", so nobody knows how far it has got'
            raise CursorUnfit(message, hint="`--full-refresh` makes the table anew")
        return frame

    def largest(self, frame: Any) -> int | None:
        """The largest value of the cursor in a frame."""
        from sqb.spark import cursors

        return cursors.reach(frame, self.column, self.form)[1]

    # --- windows --------------------------------------------------------------------------------------------------

    def first(self) -> Window:
        """The window of a table that is made from nothing."""
        start, end = self.asked
        return self._settled(Window(start if start is not None else self._beginning(), end))

    def next(self, same_columns: bool) -> Window:
        """The window of a run that goes on from what the table holds."""
        self.top = self.largest(self.table())
        usual = self.top - self.cursor.lookback if self.top is not None else self._beginning()
        start, end = self.asked
        window = Window(start if start is not None else usual, end, floor=self._floor(same_columns))
        if start is None:
            window = self._above_floor(window)
        elif self.top is not None and start > self.top + self.step:
            self.notices = (f"nothing between {shown(self.top, self.form)} and {shown(start, self.form)} is looked at",)
        replay = self.turn.replay
        if replay is not None and replay.scope == "bounded" and self.top is not None and self.turn.window is None:
            return self._bounded(window, replay)
        return self._settled(window)

    def _bounded(self, window: Window, replay: Replay) -> Window:
        """The window that is done again, and never less than what is new."""
        end = self._end(window)
        assert end is not None and window.start is not None
        start = min(window.start, *self._starts(replay, end))
        if END in self.uses:
            self._end(Window(start))
        floor = None if self.cursor.strategy != "append" else start - self.unit
        return Window(start, end, replays=True, floor=floor)

    def _starts(self, replay: Replay, end: int) -> list[int]:
        """From where on is to be done again what was done above, or so far back as the model's own policy says.

        What was replayed above in an earlier run ended there: its own policy counts back from that end, too.
        """
        length = length_of(replay.length, self.cursor.type) or 0
        if policy_of(self.turn.node) is not None:
            return [end - length, *(self._across(until) - length for _, until in replay.spans)]
        return [self._across(since) for since, _ in replay.spans] or [end - length]

    def _across(self, text: str) -> int:
        """A point of another model's cursor as one of this: a moment is a time on the wall in the session's zone."""
        if self.form in ("timestamp_ntz", "date") and text.endswith("Z"):
            moment = datetime.fromisoformat(text).astimezone(self._zone())
            text = moment.replace(tzinfo=None).isoformat(" ")
        return self._point(text)

    def replayed(self, window: Window, largest: int | None) -> Span | None:
        """The window that a bounded replay covered, for those that read the model; None where it was none."""
        replay = self.turn.replay
        if replay is None or replay.scope != "bounded" or self.turn.window is not None:
            return None
        if window.replays and window.start is not None and window.end is not None:
            return shown(window.start, self.form), shown(window.end, self.form)
        if largest is None:
            return None
        # The table was made from nothing: what had to be done again is a part of it.
        end = largest + self.step
        return shown(min(self._starts(replay, end)), self.form), shown(end, self.form)

    def _settled(self, window: Window) -> Window:
        """A window with the ends that the query itself asks for."""
        if START in self.uses and window.start is None:
            from sqb.spark import cursors

            window = replace(window, start=cursors.reach(self.rows(window), self.column, self.form)[0])
        if END in self.uses and window.end is None:
            window = replace(window, end=self._end(window))
        return window

    def _end(self, window: Window) -> int | None:
        """One step after the largest value of the result, or of the table where that is larger."""
        from sqb.spark import cursors

        largest, content = cursors.survey(self.rows(window), self.column, self.form)
        self.without_end = content if END in self.uses and self.cursor.grain is None else None
        found = [x for x in (self.top, largest) if x is not None]
        return max(found) + self.step if found else None

    def refuse_cut(self, rows: Any, window: Window) -> None:
        """Refuse a window whose end keeps the query from rows that belong to it."""
        from sqb.spark import changes

        if self.without_end is None or changes.contents({"rows": rows})["rows"] == self.without_end:
            return
        end = shown(window.end or 0, self.form)
        raise CursorUnfit(
            f"with the end of its window, {end}, the query gives other rows than without one",
            hint="a cursor that is rounded needs `cursor_grain`, such as 1d for days; any grain says it is meant",
        )

    def _floor(self, same_columns: bool) -> int | None:
        """Up to where the rows of a log are of another definition, and so not to be compared with the result."""
        if self.cursor.strategy != "append" or self.turn.standing is None:
            return None
        if self.turn.replay is not None or not same_columns:
            return self.top
        recorded = (self.turn.standing.identity or self.turn.standing.left).get(FLOOR)
        return point(recorded, self.form, UTC) if recorded else None

    def _above_floor(self, window: Window) -> Window:
        if window.floor is None or window.start is None:
            return window
        return replace(window, start=max(window.start, window.floor + self.unit))

    def text(self, window: Window, largest: str | None = None) -> str:
        """A window as people write it."""
        end = window.end
        if end is None and largest is not None:
            end = point(largest, self.form, UTC) + self.step
        ends = [shown(x, self.form) if x is not None else "…" for x in (window.start, end)]
        return f"[{ends[0]}, {ends[1]})"
