"""The windows of an `incremental` model: `[start, end)` of its cursor, found in the table and in the query's result."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from sqb.build.kinds.append_only import format_current_version
from sqb.build.kinds.failed_replays import list_earlier_attempts, stage_attempt
from sqb.build.node.context import NodeContext
from sqb.errors.build import CursorUnfit
from sqb.names import suggest_nearest
from sqb.plan.replay import Replay, Span, get_policy
from sqb.project.models.cursor import (
    DAY,
    HIGHEST,
    LOWEST,
    Form,
    build_cursor,
    format_literal,
    format_point,
    parse_length,
    parse_point,
)
from sqb.sql.text.cursor_calls import END, START, iter_cursor_calls


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of a cursor; without a start or an end it has none on that side."""

    start: int | None = None
    end: int | None = None
    # What the table holds in it is made anew, whatever the strategy.
    replays: bool = False
    floor: int | None = None


class WindowResolver:
    """Computes the windows of one model for one build."""

    def __init__(self, context: NodeContext, session: Any, frame: Any) -> None:
        self.context, self.session = context, session
        self.cursor = build_cursor(context.node.settings)
        self.form = self._detect_form(frame)
        self.column = next(c for c in frame.columns if c.lower() == self.cursor.column.lower())
        self.uses = {call.name for call in iter_cursor_calls(context.node.sql)}
        self.step = self.cursor.get_step(self.form)
        self.unit = DAY if self.form == "date" else 1
        self.top: int | None = None
        # The result without an end, where the query asks for an end and the model declares no grain.
        self.without_end: Any = None
        self.notices: tuple[str, ...] = ()
        requested_window = context.window or (None, None)
        self.requested = tuple(self._parse_point(text) if text is not None else None for text in requested_window)

    def _detect_form(self, frame: Any) -> Form:
        from sqb.spark.data import cursor

        name, kind = self.cursor.column, self.cursor.type
        if name.lower() not in {c.lower() for c in frame.columns}:
            hint = suggest_nearest(name, frame.columns) or f"its columns are {', '.join(frame.columns)}"
            raise CursorUnfit(f'`cursor` names "{name}", and the result has no such column', hint=hint)
        form, spark_type = cursor.find_cursor_form(frame, name)
        if form is None or (form == "integer") != (kind == "integer"):
            other = "integer" if form == "integer" else "timestamp"
            cast = "CAST it to TIMESTAMP or DATE" if kind == "timestamp" else "CAST it to BIGINT"
            hint = f"set `cursor_type: {other}`" if form is not None else cast
            raise CursorUnfit(
                f'the cursor "{name}" is {spark_type} in the result, and `cursor_type` is {kind}', hint=hint
            )
        return form

    def _parse_point(self, text: str) -> int:
        return parse_point(text, self.form, self._get_zone())

    def _get_zone(self) -> ZoneInfo:
        from sqb.spark.data import frames as results

        return ZoneInfo(results.get_time_zone(self.session))

    def _compute_beginning(self) -> int | None:
        return self._parse_point(self.cursor.start) if self.cursor.start is not None else None

    # --- frames ---------------------------------------------------------------------------------------------------

    def build_query(self, window: Window) -> Any:
        """The model's query for a window; what of the result is in the window is another question."""
        from sqb.spark.data import frames

        kind = self.cursor.type
        ends = {
            START: format_literal(LOWEST[kind] if window.start is None else window.start, self.form),
            END: format_literal(HIGHEST[kind] if window.end is None else window.end, self.form),
        }
        return frames.analyze(self.session, self.context.render_query(ends).sql)

    def build_filter(self, window: Window) -> Any:
        """Whether a row is in a window."""
        from sqb.spark.data import cursor

        return cursor.build_window_condition(self.column, self.form, window.start, window.end)

    def select_rows(self, window: Window) -> Any:
        """The rows of the result that are in a window."""
        return self.build_query(window).where(self.build_filter(window))

    def read_table(self) -> Any:
        """What the model's table holds."""
        frame = self.session.sql(f"SELECT * FROM {format_current_version(self.context)}")
        if self.column.lower() not in {c.lower() for c in frame.columns}:
            message = f'the table has no column "{self.column}", so the end of its last window is unknown'
            raise CursorUnfit(message, hint="`--full-refresh` rebuilds the table")
        return frame

    def compute_largest(self, frame: Any) -> int | None:
        """The largest value of the cursor in a frame."""
        from sqb.spark.data import cursor

        return cursor.compute_range(frame, self.column, self.form)[1]

    # --- windows --------------------------------------------------------------------------------------------------

    def build_first(self) -> Window:
        """The window of a table that is made from nothing."""
        start, end = self.requested
        return self._resolve_bounds(Window(start if start is not None else self._compute_beginning(), end))

    def build_next(self, same_columns: bool) -> Window:
        """The window of a run that goes on from what the table holds."""
        self.top = self.compute_largest(self.read_table())
        usual = self.top - self.cursor.lookback if self.top is not None else self._compute_beginning()
        start, end = self.requested
        window = Window(start if start is not None else usual, end, floor=self._compute_floor(same_columns))
        if start is None:
            window = self._clip_to_floor(window)
        elif self.top is not None and start > self.top + self.step:
            self.notices = (
                f"nothing between {format_point(self.top, self.form)} and {format_point(start, self.form)}"
                " is looked at",
            )
        replay = self.context.replay
        if replay is not None and replay.scope == "bounded" and self.top is not None and self.context.window is None:
            return self._bound_to_replay(window, replay)
        return self._resolve_bounds(window)

    def _bound_to_replay(self, window: Window, replay: Replay) -> Window:
        """The window that is done again, and never less than what is new."""
        end = self._compute_end(window)
        assert end is not None and window.start is not None
        start = min(window.start, *self._list_replay_starts(replay, end), *self._list_earlier_starts(replay))
        # Known from here on, also to those who look at why the run failed.
        replayed = format_point(start, self.form), format_point(end, self.form)
        self.context.report_replay(replayed)
        stage_attempt(self.context, replayed)
        if END in self.uses:
            self._compute_end(Window(start))
        floor = None if self.cursor.strategy != "append" else start - self.unit
        return Window(start, end, replays=True, floor=floor)

    def _list_replay_starts(self, replay: Replay, end: int) -> list[int]:
        """From where on is to be done again what was done above, or so far back as the model's own policy says.

        What was replayed above in an earlier run ended there: its own policy counts back from that end, too.
        """
        length = parse_length(replay.length, self.cursor.type) or 0
        if get_policy(self.context.node) is not None:
            return [end - length, *(self._convert_point(until) - length for _, until in replay.spans)]
        return [self._convert_point(since) for since, _ in replay.spans] or [end - length]

    def _list_earlier_starts(self, replay: Replay) -> list[int]:
        """From where on runs of this replay were to go that have failed: the data has gone on since, and its end too.

        One that failed before it knew its end is taken to have ended with the table: that goes back at least as far.
        """
        assert self.top is not None
        length, end = parse_length(replay.length, self.cursor.type) or 0, self.top + self.step
        earlier = list_earlier_attempts(self.context)
        if earlier:
            self.notices = (
                *self.notices,
                "an earlier run of this replay failed or was killed: what it was to replay is replayed too",
            )
        return [(self._parse_point(attempt[1]) if attempt is not None else end) - length for attempt in earlier]

    def _convert_point(self, text: str) -> int:
        """A point of another model's cursor as one of this: a moment is a time on the wall in the session's zone."""
        if self.form in ("timestamp_ntz", "date") and text.endswith("Z"):
            moment = datetime.fromisoformat(text).astimezone(self._get_zone())
            text = moment.replace(tzinfo=None).isoformat(" ")
        return self._parse_point(text)

    def get_replayed_span(self, window: Window, largest: int | None) -> Span | None:
        """The window that a bounded replay covered, for those that read the model; None where it was none."""
        replay = self.context.replay
        if replay is None or replay.scope != "bounded" or self.context.window is not None:
            return None
        if window.replays and window.start is not None and window.end is not None:
            return format_point(window.start, self.form), format_point(window.end, self.form)
        if largest is None:
            return None
        # The table was made from nothing: what had to be done again is a part of it.
        end = largest + self.step
        return format_point(min(self._list_replay_starts(replay, end)), self.form), format_point(end, self.form)

    def _resolve_bounds(self, window: Window) -> Window:
        """A window with the ends that the query itself asks for."""
        if START in self.uses and window.start is None:
            from sqb.spark.data import cursor

            window = replace(window, start=cursor.compute_range(self.select_rows(window), self.column, self.form)[0])
        if END in self.uses and window.end is None:
            window = replace(window, end=self._compute_end(window))
        return window

    def _compute_end(self, window: Window) -> int | None:
        """One step after the largest value of the result, or of the table where that is larger."""
        from sqb.spark.data import cursor

        rows = self.select_rows(window)
        if END in self.uses and self.cursor.grain is None:
            largest, self.without_end = cursor.compute_largest_and_content(rows, self.column, self.form)
        else:
            # Asked for alone: other columns of it may be those that fail.
            largest, self.without_end = self.compute_largest(rows), None
        bounds = [x for x in (self.top, largest) if x is not None]
        return max(bounds) + self.step if bounds else None

    def check_end(self, rows: Any, window: Window) -> None:
        """Refuse a window whose end keeps the query from rows that belong to it."""
        from sqb.spark.data import changes

        if self.without_end is None or changes.compute_contents({"rows": rows})["rows"] == self.without_end:
            return
        end = format_point(window.end or 0, self.form)
        raise CursorUnfit(
            f"with the end of its window, {end}, the query gives other rows than without one",
            hint="a cursor that is rounded needs `cursor_grain`, such as 1d for days; any grain says it is meant",
        )

    def _compute_floor(self, same_columns: bool) -> int | None:
        """Up to where the rows of a log are of another definition, and so not to be compared with the result."""
        if self.cursor.strategy != "append" or self.context.current is None:
            return None
        if self.context.replay is not None or not same_columns:
            return self.top
        recorded = self.context.current.known_identity.cursor_floor
        return parse_point(recorded, self.form, UTC) if recorded else None

    def _clip_to_floor(self, window: Window) -> Window:
        if window.floor is None or window.start is None:
            return window
        return replace(window, start=max(window.start, window.floor + self.unit))

    def format_window(self, window: Window, largest: str | None = None) -> str:
        """A window as people write it."""
        end = window.end
        if end is None and largest is not None:
            end = parse_point(largest, self.form, UTC) + self.step
        ends = [format_point(x, self.form) if x is not None else "…" for x in (window.start, end)]
        return f"[{ends[0]}, {ends[1]})"
