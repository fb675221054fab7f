"""Errors of `python/`, as a part of the tree in `sqb.errors`: SQB-N…, a Python node is written wrongly, exit 2."""

from __future__ import annotations

from sqb.errors import ProjectError


class PythonProblem(ProjectError):
    """Something in `python/` is wrong."""

    code = "SQB-N000"


class BadModule(PythonProblem):
    """A file in `python/` cannot be imported: it is not Python, or something failed when it was."""

    code = "SQB-N001"


class BadNode(PythonProblem):
    """A decorated function cannot be a node: what it takes, what it is called, or where it stands."""

    code = "SQB-N002"
