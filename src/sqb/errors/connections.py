"""Errors of connections to catalogs, object stores and Spark servers, as a part of the tree in `sqb.errors`.

ProjectError                                                                       exit 2
└── SecretInProject, MissingSecret                      SQB-N201, SQB-N202
LakeError                                                                          exit 1
└── StorageUnreachable, CatalogDenied, CatalogFailed    SQB-N203, SQB-N211, SQB-N212
EngineError                                                                        exit 1
├── SparkUnreachable, SparkDenied, SparkUnfit           SQB-N221 to SQB-N223
└── SparkLost: SparkDisconnected                        SQB-N224
"""

from __future__ import annotations

from sqb.errors.lake import LakeError
from sqb.errors.project import ProjectError
from sqb.errors.spark import EngineError, SparkLost


class SecretInProject(ProjectError):
    """A secret is written in the project file, which is for everybody."""

    code = "SQB-N201"


class MissingSecret(ProjectError):
    """A connection takes a value from an environment variable that is not set."""

    code = "SQB-N202"


class StorageUnreachable(LakeError):
    """The object store of the warehouse does not answer, or does not let sqb in."""

    code = "SQB-N203"


class SparkUnreachable(EngineError):
    """No Spark answers where the connection says that one is."""

    code = "SQB-N221"


class SparkDenied(EngineError):
    """The Spark server does not let this connection in."""

    code = "SQB-N222"


class SparkUnfit(EngineError):
    """The Spark that runs already lacks something that sqb needs, or is set up otherwise."""

    code = "SQB-N223"


class SparkDisconnected(SparkLost):
    """The connection to a Spark server broke in the middle of a build."""

    code = "SQB-N224"


class CatalogDenied(LakeError):
    """A catalog's server does not know who is asking, or does not allow what was asked for."""

    code = "SQB-N211"


class CatalogFailed(LakeError):
    """A catalog's server answered with a failure of its own."""

    code = "SQB-N212"
