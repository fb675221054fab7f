"""What rules found, as lines and in SARIF."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sqb import __version__
from sqb.console.errors import format_excerpt
from sqb.console.inspect.sarif import encode_place
from sqb.console.style import Paint
from sqb.inspect.lint.model import Finding

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def format_findings(findings: Sequence[Finding], root: Path, paint: Paint) -> Iterator[str]:
    """The lines that explain findings."""
    for finding in findings:
        colour = "red" if finding.severity == "error" else "yellow"
        word = paint(f"{finding.severity}[{finding.rule}]", colour, "bold")
        yield f"{word}: {finding.at}: {paint(finding.message, 'bold')}"
        yield from format_excerpt(finding.at, root, paint)
        if finding.hint:
            yield f"{paint('hint', 'cyan')}: {finding.hint}"
        yield ""


def encode_findings(findings: Sequence[Finding], rules: Mapping[str, str]) -> dict[str, Any]:
    """Findings in SARIF 2.1.0."""
    used = {finding.rule for finding in findings}
    described = [{"id": r, "shortDescription": {"text": rules.get(r) or r}} for r in sorted(used)]
    driver = {"name": "sqb lint", "version": __version__, "rules": described}
    results = [_encode(finding) for finding in findings]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _encode(finding: Finding) -> dict[str, Any]:
    text = f"{finding.message}\n{finding.hint}" if finding.hint else finding.message
    return {
        "ruleId": finding.rule,
        "level": finding.severity,
        "message": {"text": text},
        "locations": [encode_place(finding.at)],
    }
