"""The Python API: what the command line does, as functions that return values and print nothing.

All of it is offered by the package itself: `import sqb; sqb.Project(".").build()`.
"""

from sqb.api.project import Project, build, plan
from sqb.api.texts import error_text, show
from sqb.api.values import Node, Plan, Result, Rows

__all__ = ["Node", "Plan", "Project", "Result", "Rows", "build", "error_text", "plan", "show"]
