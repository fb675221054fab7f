"""Checks as plain data for the compiled project's cache, and their hash."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple
from typing import Any

from sqb.checks.catalogue import CATALOGUE
from sqb.checks.model import Check, RelationRead, RelationSlot, Template, Violations
from sqb.checks.parse import build_catalogue_check
from sqb.names import At
from sqb.project.values import Call

# Bump when the same written check asks something else of the data than before; checks then run again.
CHECKS_VERSION = 1


def hash_checks(checks: Iterable[Check]) -> str:
    """A hash of everything that decides what checks find; "" when there is none to run.

    Places, descriptions and the order of checks do not matter; the SQL of own audits and the rows of golden files do.
    """
    parts = sorted(json.dumps([c.role, c.name, c.text, c.severity, c.facts], sort_keys=True) for c in checks)
    return hashlib.sha256(json.dumps([CHECKS_VERSION, parts]).encode()).hexdigest()[:32] if parts else ""


def dump_checks(checks: Iterable[Check]) -> list[Any]:
    """Checks as values that JSON can hold."""
    return [
        [
            check.role,
            check.name,
            [check.call.name, list(check.call.arguments), list(astuple(check.at))],
            dict(check.facts),
            None if check.name in CATALOGUE else _dump_custom(check),
        ]
        for check in checks
    ]


def _dump_custom(check: Check) -> list[Any]:
    assert isinstance(check.test, Violations)
    parts = [part if isinstance(part, str) else [part.which, part.name] for part in check.test.query.parts]
    reads = [[read.name, list(astuple(read.at)), read.kind] for read in check.reads]
    return [check.text, check.severity, reads, list(check.files), check.description, parts]


def check_texts(data: Iterable[Sequence[Any]]) -> Iterator[str]:
    """The SQL in values that `dump_checks` made: the arguments of calls, and the queries of own audits."""
    for _, _, call, _, own in data:
        yield from call[1]
        yield from (part for part in (own[5] if own else ()) if isinstance(part, str))


def load_checks(data: Iterable[Sequence[Any]]) -> tuple[Check, ...]:
    """The checks in values that `dump_checks` made; nothing is parsed or read."""
    return tuple(_load_check(*item) for item in data)


def _load_check(
    role: Any, name: str, call: Sequence[Any], facts: dict[str, Any], custom: Sequence[Any] | None
) -> Check:
    written = Call(call[0], tuple(call[1]), At(*call[2]))
    if custom is None:
        return build_catalogue_check(CATALOGUE[name], role, written, _RecordedLookup(facts))
    text, severity, reads, files, description, parts = custom
    return Check(
        role,
        name,
        text,
        written.at,
        Violations(Template(tuple(part if isinstance(part, str) else RelationSlot(*part) for part in parts))),
        severity,
        reads=tuple(RelationRead(r[0], At(*r[1]), kind=r[2]) for r in reads),
        files=tuple(files),
        description=description,
        call=written,
        facts=facts,
    )


class _RecordedLookup:
    """What was looked up when the check was read."""

    def __init__(self, facts: dict[str, Any]) -> None:
        self.facts = facts

    def find_columns(self, text: str) -> tuple[str, ...]:
        return tuple(self.facts[text])

    def expand_calls(self, text: str) -> tuple[str, dict[str, str]]:
        expression, python = self.facts.get(f"called {text}", (text, {}))
        return expression, python

    def read_golden(self, file: str, at: At) -> tuple[tuple[str, ...], str]:
        columns, digest = self.facts[file]
        return tuple(columns), digest


def list_watched_columns(checks: Iterable[Check], named: Mapping[str, str]) -> dict[str, list[str]]:
    """The columns that checks use of the relations that they look up, by what their names mean.

    A relation of which a check may use more than it says is not among them.
    """
    watched: dict[str, set[str]] = {}
    unknown: set[str] = set()
    for read in (read for check in checks for read in check.reads if read.name in named):
        watched.setdefault(named[read.name], set()).update(column.lower() for column in read.columns)
        unknown |= set() if read.columns else {named[read.name]}
    return {name: sorted(columns) for name, columns in watched.items() if name not in unknown}
