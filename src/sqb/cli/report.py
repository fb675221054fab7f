"""Errors of commands: printed for people or as a document, with the exit code that they end with."""

from __future__ import annotations

import json
import re
import sys
from itertools import pairwise
from pathlib import Path
from typing import TextIO

import click

from sqb.errors.base import InternalError, SqbError, flatten
from sqb.errors.call import CallError
from sqb.errors.project import ProjectError

# How click says that a group has no such command, and that a command takes no such word.
_NO_COMMAND = re.compile(r"No such command '([^']*)'")
_EXTRA = re.compile(r"Got unexpected extra arguments? \((.*)\)$")


def report_failure(error: Exception, arguments: list[str]) -> int:
    """Print what a command failed with, as its options want it, and return the exit code."""
    if isinstance(error, SqbError):
        return report_error(error, arguments, error)
    from sqb.project.config.secrets import hide_known

    wrapped = InternalError(
        f"{type(error).__name__}: {hide_known(str(error))}",
        hint="this is a mistake in sqb: please report it with the output of --debug",
    )
    return report_error(wrapped, arguments, error)


def build_usage_error(error: click.ClickException) -> CallError:
    """What is wrong with a call, in the words of all errors."""
    message = " ".join(error.format_message().split()).rstrip(".")
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "sqb"
    hint = f"`{command} --help` lists what it takes"
    if isinstance(error, click.NoSuchOption):
        message = f"{command} has no option {error.option_name}"
        close = next(iter(error.possibilities or ()), None)
        hint = f"did you mean {close}?" if close else hint
    elif isinstance(error, click.BadParameter) and error.param and isinstance(error.param.type, click.IntRange):
        numbers = error.param.type
        bounds = f"from {numbers.min} on" if numbers.max is None else f"from {numbers.min} to {numbers.max}"
        message = f"{message.partition(':')[0]}: it takes a whole number {bounds}"
    elif context is not None and (unknown := _NO_COMMAND.match(message)):
        from sqb.names import suggest_nearest

        message = f'there is no command "{command} {unknown[1]}"'
        hint = suggest_nearest(unknown[1], context.command.list_commands(context)) or f"`{command} --help` lists them"
    elif context is not None and (extra := _EXTRA.match(message)) and _has_select(context.command):
        hint = f"nodes are chosen with --select: {command} {' '.join(f'-s {word}' for word in extra[1].split())}"
    return CallError(message[:1].lower() + message[1:], hint=hint)


def _has_select(command: click.Command) -> bool:
    return any("--select" in parameter.opts for parameter in command.params)


def report_error(error: SqbError, arguments: list[str], cause: BaseException) -> int:
    """Print an error as the options of its command want it, and return the exit code."""
    from sqb.console.errors import encode_errors, print_error, print_traceback

    if "--debug" in arguments:
        print_traceback(cause)
    if _wants_events(arguments):
        from sqb.operations.event_log import EventLog  # people read lines

        log = EventLog(_choose_stream(arguments), None)
        for failure in encode_errors(error):
            log.write({"event": "error", **failure})
    if "--json" in arguments:
        print(json.dumps({"errors": encode_errors(error), "nodes": []}, indent=2, ensure_ascii=False))
    elif not _wants_events(arguments):
        print_error(error, _find_project_root())
    return choose_exit_code(error)


def choose_exit_code(error: SqbError) -> int:
    """2 where the call or the project is wrong, 1 where something else is."""
    wrong_call = all(isinstance(failure, CallError | ProjectError) for failure in flatten(error))
    return 2 if wrong_call else 1


def _wants_events(arguments: list[str]) -> bool:
    """Whether all that is printed is to be one JSON event a line."""
    return "--log-format=json" in arguments or ("--log-format", "json") in pairwise(arguments)


def _choose_stream(arguments: list[str]) -> TextIO:
    return sys.stderr if "--json" in arguments else sys.stdout


def _find_project_root() -> Path | None:
    """The project's folder, for showing lines of its files."""
    from sqb.project.files import find_root

    arguments = sys.argv
    start = Path(".")
    for index, argument in enumerate(arguments):
        if argument == "--project-dir" and index + 1 < len(arguments):
            start = Path(arguments[index + 1])
        elif argument.startswith("--project-dir="):
            start = Path(argument.partition("=")[2])
    try:
        return find_root(start)
    except SqbError:
        return None
