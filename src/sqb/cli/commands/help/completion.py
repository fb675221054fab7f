"""`sqb completion`: the script with which a shell completes words of `sqb`."""

from __future__ import annotations

import os

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    add_completion_class,
    get_completion_class,
    split_arg_string,
)

VARIABLE = "_SQB_COMPLETE"


class ColonComplete(BashComplete):
    """Bash takes `tag:x` for three words and completes the last: here a word is what stands between spaces."""

    source_template = BashComplete.source_template.replace(
        'env COMP_WORDS="', 'env COMP_LINE="${COMP_LINE:0:$COMP_POINT}" COMP_BREAKS="$COMP_WORDBREAKS" COMP_WORDS="'
    )

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the one that is completed, and what is there of it."""
        line = os.environ.get("COMP_LINE")
        if line is None:
            return super().get_completion_args()
        words = split_arg_string(line)[1:]
        return (words, "") if line[-1:].isspace() or not words else (words[:-1], words[-1])

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        """What the word may go on as, from where bash puts it."""
        items: list[CompletionItem] = super().get_completions(args, incomplete)
        lead = incomplete[: incomplete.rfind(":") + 1] if ":" in os.environ.get("COMP_BREAKS", "") else ""
        for item in items:
            item.value = str(item.value).removeprefix(lead)
        return items


def register_bash() -> None:
    """Have words completed by `ColonComplete` where bash asks."""
    add_completion_class(ColonComplete)


def run_completion(shell: str, command: click.Command) -> int:
    """Print the script of a shell."""
    register_bash()
    kind = get_completion_class(shell)
    assert kind is not None
    complete = kind(command, {}, "sqb", VARIABLE)
    # Its own check of bash's version starts bash, and says nothing that this needs.
    print(complete.source_template % complete.source_vars())
    return 0
