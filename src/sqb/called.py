"""Packages whose names are also what people call: `sqb.plan(…)` and `sqb.build(…)` beside `sqb.plan.values`."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Called(ModuleType):
    """A package that stands for the function of its name in `sqb.api`."""

    def __call__(self, *given: Any, **options: Any) -> Any:
        from sqb import api  # everything imports the package, and few call it

        return getattr(api, self.__name__.rpartition(".")[2])(*given, **options)


def make_callable(name: str) -> None:
    """Let the package of this name be called."""
    sys.modules[name].__class__ = _Called
