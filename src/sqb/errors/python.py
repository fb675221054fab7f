"""Errors of Python nodes, as a part of the tree in `sqb.errors`.

ProjectError
└── PythonProblem   SQB-N0…   a Python node is written wrongly                     exit 2
│   ├── BadModule, BadNode                SQB-N001, SQB-N002
│   ├── BadMaterialization                SQB-N003
│   ├── UnknownMaterialization            SQB-N004
│   └── CustomNotVirtual                  SQB-N005
BuildError                                                                         exit 1
├── NodeRaised      SQB-N101  its code raised an exception
├── NodeTimedOut    SQB-N102  it took longer than it may
├── NodeEnded       SQB-N103  its process ended before it returned
├── BadReturn       SQB-N104  what it returned or recorded cannot be kept
├── BadData         SQB-N105  what it loads is not a table
├── ContextMisuse   SQB-N106  it asked `ctx` for something that is not there
└── NotWritten      SQB-N107  what a materialisation says that it wrote is not what the table holds
"""

from __future__ import annotations

from sqb.errors.build import BuildError
from sqb.errors.project import ProjectError


class PythonProblem(ProjectError):
    """Something in `python/` is wrong."""

    code = "SQB-N000"


class BadModule(PythonProblem):
    """A file in `python/` cannot be imported: it is not Python, or something failed when it was."""

    code = "SQB-N001"


class BadNode(PythonProblem):
    """A decorated function cannot be a node: what it takes, what it is called, or which file it is in."""

    code = "SQB-N002"


class BadMaterialization(PythonProblem):
    """A file in `materializations/` does not hold a materialisation that can be used."""

    code = "SQB-N003"


class UnknownMaterialization(PythonProblem):
    """A model names a materialisation that is not there."""

    code = "SQB-N004"


class CustomNotVirtual(PythonProblem):
    """A model of the kind `custom` was to be built into a virtual environment."""

    code = "SQB-N005"


class NodeRaised(BuildError):
    """The code of a Python node raised an exception."""

    code = "SQB-N101"


class NodeTimedOut(BuildError):
    """A Python node took longer than its `timeout`, and was stopped."""

    code = "SQB-N102"


class NodeEnded(BuildError):
    """The process of a Python node ended before its function returned."""

    code = "SQB-N103"


class BadReturn(BuildError):
    """A Python node returned or recorded something that cannot be stored."""

    code = "SQB-N104"


class BadData(BuildError):
    """What a loader returned or wrote does not make a table. Nothing was published."""

    code = "SQB-N105"


class ContextMisuse(BuildError):
    """A Python node asked `ctx` for something that is not there, or in a way that `ctx` does not take."""

    code = "SQB-N106"


class NotWritten(BuildError):
    """What a materialisation returned is not what it did to its relation."""

    code = "SQB-N107"
