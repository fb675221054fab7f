"""Every error that a user can meet, as one tree.

    SqbError
    ├── CallError          SQB-C…  a command or the API was used wrongly             exit 2
    ├── ProjectError       SQB-P…  a project file is wrong                           exit 2
    │   ├── ReferenceProblem SQB-R…  names, references, cycles, relations              exit 2
    │   ├── SqlProblem       SQB-S…  a model's SQL is wrong                            exit 2
    │   ├── FunctionProblem  SQB-F…  a function is written or called wrongly           exit 2
    │   ├── PythonProblem    SQB-N0… a Python node is written wrongly                  exit 2
    │   └── CheckProblem     SQB-K0… a check is written wrongly                        exit 2
    ├── LakeError          SQB-L…  the catalog or the storage refused                exit 1 or 2
    ├── EngineError        SQB-E…  Java, Spark or its jars are missing or do not fit exit 1
    ├── VirtualProblem     SQB-V…  something is wrong with a virtual environment     exit 1
    ├── DbtProblem         SQB-Y…  dbt cannot do what it is asked for                exit 1
    ├── SourceError        SQB-D…  a source cannot be observed or read               exit 1 or 2
    ├── UnitTestFailed     SQB-T…  a unit test of a model does not hold              exit 1
    └── BuildError         SQB-B…  one node failed while it ran                      exit 1
        └── CheckFailed      SQB-K1… a check does not hold                             exit 1

A class is one code; its docstring is the opening of the page docs/errors/<code>.md. An error is a value: a
message, a place in a file where there is one, and a hint that says the way out. It never holds markup and is never
printed here. sqb itself imports each class from the module of its family; people import any of them from here.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqb.errors.base import *  # noqa: F403
    from sqb.errors.build import *  # noqa: F403
    from sqb.errors.call import *  # noqa: F403
    from sqb.errors.connections import *  # noqa: F403
    from sqb.errors.dbt import *  # noqa: F403
    from sqb.errors.environments import *  # noqa: F403
    from sqb.errors.lake import *  # noqa: F403
    from sqb.errors.project import *  # noqa: F403
    from sqb.errors.python import *  # noqa: F403
    from sqb.errors.queries import *  # noqa: F403
    from sqb.errors.sources import *  # noqa: F403
    from sqb.errors.spark import *  # noqa: F403

FAMILIES = (
    "base",
    "build",
    "call",
    "connections",
    "dbt",
    "environments",
    "lake",
    "project",
    "python",
    "queries",
    "sources",
    "spark",
)


def __getattr__(name: str) -> Any:
    for family in FAMILIES:
        module = import_module(f"{__name__}.{family}")
        if name in module.__dict__:
            return module.__dict__[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
