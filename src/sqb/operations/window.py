"""`--start-cursor` and `--end-cursor`: whether the window that they ask for can be one of the models selected."""

from __future__ import annotations

from datetime import UTC

from sqb.compiled import Project
from sqb.errors import CallError
from sqb.plan.values import Options
from sqb.project.cursors import is_point, point, type_of


def refuse_bad_window(project: Project, options: Options) -> None:
    """Refuse a window that no model is run for, or that is not one of a model's cursor."""
    given = {"--start-cursor": options.start_cursor, "--end-cursor": options.end_cursor}
    words = {option: text for option, text in given.items() if text is not None}
    if not words:
        return
    first = next(iter(words))
    if options.full_refresh:
        message = f"{first} and --full-refresh contradict each other"
        raise CallError(message, hint="a full refresh makes everything anew; leave one of the two out")
    chosen = [n for n in project if options.selected is None or n.name in options.selected]
    models = [n for n in chosen if n.kind == "incremental"]
    if not models:
        message = f"{first} is for models of the kind incremental, and none is selected"
        raise CallError(message, hint="select one with -s name")
    for model in models:
        kind = type_of(model.settings)
        for option, text in words.items():
            if not is_point(text, kind):
                what = "date or timestamp, such as 2024-01-31" if kind == "timestamp" else "whole number"
                message = f'{option}: "{text}" is no {what}, and the cursor of {model.name} is of the type {kind}'
                raise CallError(message, hint="with -s only models of one type of cursor can be selected")
    if len(words) == 2:
        form = type_of(models[0].settings)
        start, end = (point(text, form, UTC) for text in words.values())
        if start >= end:
            raise CallError("--start-cursor must be before --end-cursor", hint="a window is [start, end)")
