"""Commands in the process of the tests: they say and do the same, and Python and what it loads is not started anew.

For what a command says where neither the process nor a Spark of its own is the question.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO
from unittest import mock


def run_here(arguments: tuple[str, ...], cwd: Path, env: Mapping[str, str]) -> tuple[int, str, str]:
    """How the command ended in that folder and environment, and what it said on either stream."""
    from sqb.cli import main  # tests without a lake do not wait for it

    with (
        # Files, since what the command itself starts, such as dbt, writes to them too.
        tempfile.TemporaryFile("w+", encoding="utf-8") as out,
        tempfile.TemporaryFile("w+", encoding="utf-8") as err,
        contextlib.chdir(cwd),
        mock.patch.dict(os.environ, env, clear=True),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code = main.run(list(arguments))
        return code, _text(out), _text(err)


def _text(file: IO[str]) -> str:
    file.flush()
    file.seek(0)
    return file.read()
