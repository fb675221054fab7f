"""Errors of the warm engine, as a part of the tree in `sqb.errors`.

CallError                                                                          exit 2
└── EngineUnneeded                                      SQB-N241
EngineError                                                                        exit 1
└── EngineUnwritable, EngineElsewhere                   SQB-N242, SQB-N243
"""

from __future__ import annotations

from sqb.errors import CallError, EngineError


class EngineUnneeded(CallError):
    """The connection works on a Spark server that runs already."""

    code = "SQB-N241"


class EngineUnwritable(EngineError):
    """The files of the engine cannot be written."""

    code = "SQB-N242"


class EngineElsewhere(EngineError):
    """The engine runs on another machine."""

    code = "SQB-N243"
