"""A table of a project: `project["marts.revenue"].df()`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Table:
    """A model, seed or source that can be read."""

    name: str
    relation: str
    _read: Callable[[str, str | None], Any] = field(repr=False, compare=False)

    def df(self, *, virtual_env: str | None = None) -> Any:
        """Its rows as a PySpark DataFrame, on the project's session; `.toPandas()` makes one of pandas."""
        return self._read(self.name, virtual_env)
