"""`sqb promote` and `sqb rollback`: their output."""

from __future__ import annotations

import sys
from typing import Any

from sqb.cli.options import parse_call
from sqb.cli.output import print_document, print_lines
from sqb.console.environments.promotion import format_promotion, format_rollback
from sqb.console.style import Paint
from sqb.operations.environments.promotion import (
    PromoteOptions,
    RollbackOptions,
    promote_environment,
    roll_back_environment,
)


def run_promote(**values: Any) -> int:
    """Make one environment show what another one shows, and print what changed."""
    common, options = parse_call(PromoteOptions, values)
    outcome = promote_environment(common.open_workspace(), options)
    if common.as_json:
        print_document(outcome.to_data())
    else:
        print_lines(format_promotion(outcome, common.verbose, Paint(sys.stdout)))
    return 0


def run_rollback(**values: Any) -> int:
    """Make an environment show what it showed at a checkpoint, and print what changed."""
    common, options = parse_call(RollbackOptions, values)
    outcome = roll_back_environment(common.open_workspace(), options)
    if common.as_json:
        print_document(outcome.to_data())
    else:
        print_lines(format_rollback(outcome, common.verbose, Paint(sys.stdout)))
    return 0
