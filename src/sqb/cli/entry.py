"""The installed command `sqb`: hands the call to the engine where there is one, and runs it in this process otherwise.

Loads almost nothing: on a warm engine that is all of Python that a command waits for.
"""

from __future__ import annotations

import gc
import os
import sys

# A command makes many values that stay and little garbage. Looking for that after every 700 values, as Python does by
# itself, was a tenth of a plan of 2,000 models; after every 50,000, a tenth of a plan after one edit.
_VALUES_BETWEEN_COLLECTIONS = 200_000


def main() -> None:
    """Run the command line and exit with its code."""
    from sqb.engine.call import remember_environment
    from sqb.engine.hand_over import hand_over

    remember_environment()
    arguments = sys.argv[1:]
    try:
        # A prompt needs the terminal for itself.
        code = None if _asks_for_queries(arguments) else hand_over(arguments)
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        code = 1
    except Exception as error:
        from sqb.cli.report import report_failure  # what is said then is said as everything else

        code = report_failure(error, arguments)
    if code is None:
        gc.set_threshold(_VALUES_BETWEEN_COLLECTIONS)
        from sqb.cli.main import main as run_here  # loads all commands

        run_here()
    else:
        sys.stderr.flush()
        os._exit(code)


def _asks_for_queries(arguments: list[str]) -> bool:
    """Whether it is `sqb query` at a terminal without a query; where that is in doubt, it is said to be."""
    if arguments[:1] != ["query"] or not sys.stdin.isatty():
        return False
    return not any(word == "-f" or word.startswith("--file") or word == "-" or " " in word for word in arguments)
