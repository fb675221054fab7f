"""The installed command `sqb`: hands the call to the engine where there is one, and runs it in this process otherwise.

Loads almost nothing: on a warm engine that is all of Python that a command waits for.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line and exit with its code."""
    from sqb.engine.call import remember_environment
    from sqb.engine.hand_over import hand_over

    remember_environment()
    arguments = sys.argv[1:]
    try:
        code = hand_over(arguments)
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        code = 1
    except Exception as error:
        from sqb.cli.main import report_failure  # what is said then is said as everything else

        code = report_failure(error, arguments)
    if code is None:
        from sqb.cli.main import main as run_here  # loads all commands

        run_here()
    else:
        sys.stderr.flush()
        os._exit(code)
