"""Mistakes as editors show them: by file, with the span to underline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sqb.errors.base import SqbError
from sqb.inspect.lint.model import Finding
from sqb.lsp.places import Place, find_place
from sqb.lsp.snapshot import Snapshot
from sqb.names import At
from sqb.project.files import PROJECT_FILE

Severity = Literal["error", "warning", "information"]


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A mistake in a file."""

    place: Place
    code: str
    message: str
    severity: Severity = "error"


def list_diagnostics(snapshot: Snapshot) -> dict[str, list[Diagnostic]]:
    """The mistakes of a project by file; those without a file are shown in the project's settings."""
    by_file: dict[str, list[Diagnostic]] = {}
    for error in snapshot.errors:
        diagnostic = build_diagnostic(snapshot, error)
        by_file.setdefault(diagnostic.place.file, []).append(diagnostic)
    for finding in snapshot.findings:
        # While a text is being changed, places of before are not places of now.
        if snapshot.is_compiled_from(finding.at.file):
            by_file.setdefault(finding.at.file, []).append(_build_finding(snapshot, finding))
    return by_file


def _build_finding(snapshot: Snapshot, finding: Finding) -> Diagnostic:
    message = f"{finding.message}\n{finding.hint}" if finding.hint else finding.message
    severity: Severity = "error" if finding.severity == "error" else "warning"
    return Diagnostic(find_place(snapshot.read_text(finding.at.file), finding.at), finding.rule, message, severity)


def build_diagnostic(snapshot: Snapshot, error: SqbError) -> Diagnostic:
    """One mistake with its span."""
    at = error.at if error.at is not None and error.at.file else At(PROJECT_FILE)
    message = f"{error.message}\n{error.hint}" if error.hint else error.message
    return Diagnostic(find_place(snapshot.read_text(at.file), at), error.code, message)
