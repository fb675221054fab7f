"""`sqb completion`: the script with which a shell completes words of `sqb`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

VARIABLE = "_SQB_COMPLETE"


def run_completion(shell: str, command: click.Command) -> int:
    """Print the script of a shell."""
    kind = get_completion_class(shell)
    assert kind is not None
    complete = kind(command, {}, "sqb", VARIABLE)
    # Its own check of bash's version starts bash, and says nothing that this needs.
    print(complete.source_template % complete.source_vars())
    return 0
