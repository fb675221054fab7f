"""The checks of a node as the compiled project has them: enough to read them again without files or a parser.

Plans read these values and judge nothing, so the catalogue of checks is not loaded here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any

from sqb.checks.model import RelationRead, RelationSlot, Role, Severity
from sqb.light_dataclass import dataclass
from sqb.project.values import Call


@dataclass(frozen=True, slots=True)
class StoredAudit:
    """What a custom audit says beyond its call: its SQL and what that reads."""

    text: str
    severity: Severity
    reads: tuple[RelationRead, ...]
    files: tuple[str, ...]
    description: str
    parts: tuple[str | RelationSlot, ...]


@dataclass(frozen=True, slots=True)
class StoredCheck:
    """One check: what was written, and what had to be looked up to read it."""

    role: Role
    name: str
    call: Call
    facts: Mapping[str, Any]
    # None for a check of the catalogue.
    audit: StoredAudit | None = None

    def iter_texts(self) -> Iterator[str]:
        """The SQL in it: the arguments of the call, and the query of a custom audit."""
        yield from self.call.arguments
        yield from (part for part in (self.audit.parts if self.audit else ()) if isinstance(part, str))


@dataclass(frozen=True, slots=True)
class NodeChecks:
    """All checks of a node, and what they read."""

    checks: tuple[StoredCheck, ...] = ()
    # The nodes and externals that they read, by the names that these have in the checks.
    relations: Mapping[str, str] = field(default_factory=dict)
    # The columns that they use of each node and external, where that is known.
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def iter_texts(self) -> Iterator[str]:
        """The SQL in all of them."""
        for check in self.checks:
            yield from check.iter_texts()
