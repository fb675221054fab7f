"""Errors of connections to catalogs, object stores and Spark servers, as a part of the tree in `sqb.errors`.

ProjectError                                                                       exit 2
└── SecretInProject, MissingSecret                      SQB-N201, SQB-N202
"""

from __future__ import annotations

from sqb.errors import ProjectError


class SecretInProject(ProjectError):
    """A secret is written in the project file, which is for everybody."""

    code = "SQB-N201"


class MissingSecret(ProjectError):
    """A connection takes a value from an environment variable that is not set."""

    code = "SQB-N202"
