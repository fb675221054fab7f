"""The properties of views that say whose they are."""

from __future__ import annotations

ENVIRONMENT = "sqb.environment"
# Whose environment: several projects and targets may share a lake.
SCOPE = "sqb.scope"
BINDING = "sqb.binding"
# The id of the state that the view's environment is kept in. Views of older sqb do not have it.
STATE = "sqb.state"
# Of the mark of a lake: its own id, and what people call the state that it belongs to.
LAKE = "sqb.lake"
STATE_NAME = "sqb.state_name"
