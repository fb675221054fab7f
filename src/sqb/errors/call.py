"""Errors of using a command or the API wrongly (`SQB-C…`)."""

from __future__ import annotations

from sqb.errors.base import SqbError


class CallError(SqbError):
    """The command line was used in a way it does not offer."""

    code = "SQB-C001"


class NoProject(CallError):
    """No `sqlbuild_project.toml` in the folder or above it."""

    code = "SQB-C002"


class BadSelector(CallError):
    """A `--select` or `--exclude` term names nothing in the project, or has a form that does not exist."""

    code = "SQB-C003"


class UnknownTarget(CallError):
    """`--target` names a target that the project does not have."""

    code = "SQB-C004"


class InitRefused(CallError):
    """`sqb init` was pointed at a folder that already holds something."""

    code = "SQB-C005"


class NotBuilt(CallError):
    """`sqb diff`, `sqb query` or `sqb show` was asked about something that is not built."""

    code = "SQB-C006"


class NoSuchSnapshot(CallError):
    """`--snapshot` or `--to-snapshot` names no snapshot of the table, or more than one."""

    code = "SQB-C007"


class PlanOutOfDate(CallError):
    """A plan was to be built, and the build would do something that it does not show. Nothing was run."""

    code = "SQB-C008"


class UnknownTable(CallError):
    """A query of `sqb query` or `sqb show --inline` names a table that neither the project nor the catalog has."""

    code = "SQB-C009"
