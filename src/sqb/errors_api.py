"""Errors that only the Python API raises, as a part of the tree in `sqb.errors`.

CallError
└── PlanOutOfDate     SQB-C008  what a plan was made of has changed: nothing was run
BuildError
└── BuildFailed       SQB-B011  a result was asked to be a good one, and is not
"""

from __future__ import annotations

from collections.abc import Sequence

from sqb.errors import BuildError, CallError, SqbError


class PlanOutOfDate(CallError):
    """A plan was to be built, and the build would do something that it does not show. Nothing was run."""

    code = "SQB-C008"


class BuildFailed(BuildError):
    """Nodes of a build failed or were blocked; `errors` are those of the nodes."""

    code = "SQB-B011"

    def __init__(self, message: str, errors: Sequence[SqbError], evidence: Sequence[str] = ()) -> None:
        super().__init__(message, evidence=evidence)
        self.errors = tuple(errors)
