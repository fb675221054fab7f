"""The named steps of a build at which it may be cut off, and the seam where tests do so.

A step is announced before it is taken. In production there is no listener.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Literal

Step = Literal[
    "planned",
    "engine started",
    "before stage",
    "staged",
    "written",
    "before publish",
    "published",
    "view created",
    "post-hooks run",
    "before history",
    "history written",
    "version begun",
    "environment begun",
    "views moved",
    "environment moved",
    "state published",
    "before rename",
    "renamed",
]
# Those that only builds into virtual environments take.
ENVIRONMENT_STEPS: tuple[Step, ...] = ("version begun", "environment begun", "views moved", "environment moved")
# Those that only builds of models with a state of their groups take.
STATE_STEPS: tuple[Step, ...] = ("state published",)
# Those that only builds of projects with renamed models take.
RENAME_STEPS: tuple[Step, ...] = ("before rename", "renamed")
STEPS: tuple[Step, ...] = tuple(
    s
    for s in Step.__args__  # type: ignore[attr-defined]
    if s not in (*ENVIRONMENT_STEPS, *STATE_STEPS, *RENAME_STEPS)
)

Announce = Callable[[Step, str], None]


def ignore_step(step: Step, node: str) -> None:
    """Ignore the step: the listener of a production build."""


def read_failpoint() -> Announce:
    """`SQB_FAULT=kill:<step>:<node>:<publishes>` ends the process without warning; for the tests of crashes.

    It ends at that step of that node, or of any, as soon as that many nodes have been published.
    """
    fault = os.environ.get("SQB_FAULT", "")
    if not fault.startswith("kill:"):
        return ignore_step
    _, step_name, node, publishes = (fault + ":::").split(":")[:4]
    published: set[str] = set()

    def announce(step: Step, at: str) -> None:
        if step == step_name and node in ("", at) and len(published) >= int(publishes or 0):
            os.kill(os.getpid(), 9)
        if step in ("published", "view created"):
            published.add(at)

    return announce
