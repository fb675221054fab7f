"""Errors of sources that cannot be observed or read (`SQB-D…`)."""

from __future__ import annotations

from sqb.errors.base import SqbError
from sqb.errors.build import BuildError
from sqb.errors.project import UnknownReference


class SourceError(SqbError):
    """A source cannot be observed."""

    code = "SQB-D000"


class SourceGone(UnknownReference):
    """The files of a declared source are not there."""

    code = "SQB-D001"


class FreshnessUnknown(SourceError):
    """The freshness of a source is unknown: its query fails, or does not return one value. Nothing was run."""

    code = "SQB-D002"


class ClockBackwards(SourceError):
    """The clock of this machine is behind what was recorded before. Nothing was run."""

    code = "SQB-D003"


class FilesMoved(BuildError):
    """Files of a source vanished or changed while they were read. Nothing was published."""

    code = "SQB-D004"


class FilesUnreadable(BuildError):
    """Spark cannot read the files of a source as its declaration says."""

    code = "SQB-D005"
