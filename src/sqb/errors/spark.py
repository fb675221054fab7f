"""Errors of Java, Spark, its jars, and the warm engine (`SQB-E…`, `SQB-N24…`)."""

from __future__ import annotations

from sqb.errors.base import SqbError
from sqb.errors.call import CallError


class EngineError(SqbError):
    """Spark cannot be used."""

    code = "SQB-E000"


class NoJava(EngineError):
    """No Java was found, or one that Spark does not run on."""

    code = "SQB-E001"


class SparkDidNotStart(EngineError):
    """Spark's process ended or did not answer while it was starting."""

    code = "SQB-E002"


class JarsUnavailable(EngineError):
    """The Iceberg jars are not cached and cannot be fetched."""

    code = "SQB-E003"


class SparkLost(EngineError):
    """Spark's process ended in the middle of a build."""

    code = "SQB-E004"


class WorkerLost(EngineError):
    """The process of the engine that worked for a command was lost."""

    code = "SQB-E005"


class SparkNotSupported(EngineError):
    """The installed PySpark is of a version that sqb does not work with."""

    code = "SQB-E006"


class EngineUnneeded(CallError):
    """The connection works on a Spark server that runs already."""

    code = "SQB-N241"


class EngineUnwritable(EngineError):
    """The files of the engine cannot be written."""

    code = "SQB-N242"


class EngineElsewhere(EngineError):
    """The engine runs on another machine."""

    code = "SQB-N243"
