"""`sqb state`: the output of its commands, and what they ask before they go on."""

from __future__ import annotations

import sys
from typing import Any

from sqb.cli.confirm import build_confirm
from sqb.cli.options import CommonOptions, parse_call
from sqb.cli.output import print_document, print_lines, print_remark
from sqb.console.environments.state import StateResult, format_state
from sqb.console.style import get_terminal_width
from sqb.errors.call import CallError
from sqb.operations.environments.checkpoints import CheckpointOptions, read_checkpoints
from sqb.operations.environments.state import (
    AdoptOptions,
    AttachmentOptions,
    RemoveOptions,
    ShowOptions,
    adopt_into_baseline,
    detach_environment,
    init_state,
    migrate_state,
    pair_state,
    reattach_environment,
    remove_environment,
    show_state,
)


def run_init(**values: Any) -> int:
    """Set the database up."""
    common = CommonOptions(**values)
    return _print_result(common, init_state(common.open_workspace()))


def run_migrate(**values: Any) -> int:
    """Bring the tables of an older sqb to this one's version."""
    common = CommonOptions(**values)
    return _print_result(common, migrate_state(common.open_workspace()))


def run_pair(yes: bool, **values: Any) -> int:
    """Let the lake and the state belong together, whatever either says."""
    common = CommonOptions(**values)
    return _print_result(common, pair_state(common.open_workspace(), build_confirm(yes)))


def run_show(**values: Any) -> int:
    """Print all environments, or one with what it shows."""
    common, options = parse_call(ShowOptions, values)
    return _print_result(common, show_state(common.open_workspace(), options, _print_warning))


def run_detach(**values: Any) -> int:
    """Refuse builds, promotions and rollbacks of an environment from now on."""
    common, options = parse_call(AttachmentOptions, values)
    return _print_result(common, detach_environment(common.open_workspace(), options))


def run_reattach(**values: Any) -> int:
    """Allow builds, promotions and rollbacks of an environment again."""
    common, options = parse_call(AttachmentOptions, values)
    return _print_result(common, reattach_environment(common.open_workspace(), options))


def run_remove(yes: bool, **values: Any) -> int:
    """Remove an environment with its views and checkpoints."""
    common, options = parse_call(RemoveOptions, values)
    return _print_result(common, remove_environment(common.open_workspace(), options, build_confirm(yes)))


def run_adopt(yes: bool, **values: Any) -> int:
    """Take tables that were built before there were environments into the baseline."""
    common, options = parse_call(AdoptOptions, values)
    return _print_result(common, adopt_into_baseline(common.open_workspace(), options, build_confirm(yes)))


def run_checkpoints(words: tuple[str, ...], virtual_env: str | None, **values: Any) -> int:
    """Print checkpoints, one of them with what it holds, or what differs between two."""
    common = CommonOptions(**values)
    workspace = common.open_workspace()
    options = CheckpointOptions(_parse_references(words), virtual_env)
    return _print_result(common, read_checkpoints(workspace, options, _print_warning))


def _parse_references(words: tuple[str, ...]) -> tuple[str, ...]:
    """The checkpoints that are named: one to show, two to compare, none to list all."""
    match words:
        case () | ("list",):
            return ()
        case ("show", _) | ("diff", _, _):
            return words[1:]
        case _:
            ways = "`sqb state checkpoints [list]`, `… show ID` and `… diff ID ID`"
            raise CallError(f'"{" ".join(words)}" is not a command for checkpoints', hint=f"there are {ways}")


def _print_result(common: CommonOptions, result: StateResult) -> int:
    """Print lines for people, or one document."""
    if common.as_json:
        print_document(result.to_data())
    else:
        print_lines(format_state(result, get_terminal_width(sys.stdout)))
    return 0


def _print_warning(text: str) -> None:
    print_remark(f"warning: {text}", "yellow")
