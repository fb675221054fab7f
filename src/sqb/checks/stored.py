"""Checks to and from what the compiled project keeps of them, and their hash."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from sqb.checks.catalogue import CATALOGUE
from sqb.checks.model import Check, Template, Violations
from sqb.checks.node_checks import StoredAudit, StoredCheck
from sqb.checks.parse import build_catalogue_check
from sqb.names import At

# Bump when the same written check asks something else of the data than before; checks then run again.
CHECKS_VERSION = 1


def hash_checks(checks: Iterable[Check]) -> str:
    """A hash of everything that decides what checks find; "" when there is none to run.

    Places, descriptions and the order of checks do not matter; the SQL of own audits and the rows of golden files do.
    """
    parts = sorted(json.dumps([c.role, c.name, c.text, c.severity, c.facts], sort_keys=True) for c in checks)
    return hashlib.sha256(json.dumps([CHECKS_VERSION, parts]).encode()).hexdigest()[:32] if parts else ""


def store_checks(checks: Iterable[Check]) -> tuple[StoredCheck, ...]:
    """Checks as the compiled project keeps them."""
    return tuple(
        StoredCheck(c.role, c.name, c.call, c.facts, None if c.name in CATALOGUE else _store_audit(c)) for c in checks
    )


def _store_audit(check: Check) -> StoredAudit:
    assert isinstance(check.test, Violations)
    return StoredAudit(check.text, check.severity, check.reads, check.files, check.description, check.test.query.parts)


def restore_checks(stored: Iterable[StoredCheck]) -> tuple[Check, ...]:
    """The checks that were stored; nothing is parsed or read."""
    return tuple(map(_restore_check, stored))


def _restore_check(stored: StoredCheck) -> Check:
    audit = stored.audit
    if audit is None:
        return build_catalogue_check(CATALOGUE[stored.name], stored.role, stored.call, _RecordedLookup(stored.facts))
    return Check(
        stored.role,
        stored.name,
        audit.text,
        stored.call.at,
        Violations(Template(audit.parts)),
        audit.severity,
        reads=audit.reads,
        files=audit.files,
        description=audit.description,
        call=stored.call,
        facts=stored.facts,
    )


class _RecordedLookup:
    """What was looked up when the check was read."""

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self.facts = facts

    def find_columns(self, text: str) -> tuple[str, ...]:
        return tuple(self.facts[text])

    def expand_calls(self, text: str) -> tuple[str, dict[str, str]]:
        expression, python = self.facts.get(f"called {text}", (text, {}))
        return expression, python

    def read_golden(self, file: str, at: At) -> tuple[tuple[str, ...], str]:
        columns, digest = self.facts[file]
        return tuple(columns), digest


def list_watched_columns(checks: Iterable[Check], named: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """The columns that checks use of the relations that they look up, by what their names mean.

    A relation of which a check may use more than it says is not among them.
    """
    watched: dict[str, set[str]] = {}
    unknown: set[str] = set()
    for read in (read for check in checks for read in check.reads if read.name in named):
        watched.setdefault(named[read.name], set()).update(column.lower() for column in read.columns)
        unknown |= set() if read.columns else {named[read.name]}
    return {name: tuple(sorted(columns)) for name, columns in watched.items() if name not in unknown}
