"""The section [lint]: which rules count, how much, and where."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import cast

from sqb.errors.project import BadValue
from sqb.inspect.lint.model import Rule, RuleOptions, Severity
from sqb.project.config.located import Entry, Section

SEVERITIES = ("error", "warning", "off")
RULE_KEYS = ("severity", "paths", "exclude", "pattern")


def read_lint(top: Section, rules: Mapping[str, Rule]) -> dict[str, RuleOptions]:
    """The options of every rule, by its name."""
    section = top.read_table("lint", "[lint]")
    section.refuse_unknown(rules)
    return {name: _read_rule(section, rule) for name, rule in rules.items()}


def _read_rule(section: Section, rule: Rule) -> RuleOptions:
    entry = section.entries.get(rule.name)
    if entry is None:
        return RuleOptions(rule.severity)
    if not isinstance(entry.value, dict):
        # `rule = "error"` is short for a table with the severity alone.
        severity = section.read_choice(rule.name, SEVERITIES)
        return RuleOptions(cast(Severity, severity or "off"))
    own = section.read_table(rule.name, f"[lint.{rule.name}]")
    own.refuse_unknown(RULE_KEYS)
    severity = own.read_choice("severity", SEVERITIES) or ("error" if rule.severity == "off" else rule.severity)
    pattern = own.read_text("pattern") or ""
    if rule.needs_pattern and not pattern and severity != "off":
        section.errors.add(BadValue(f"[lint.{rule.name}] needs a `pattern`", at=entry.at, hint='such as "stg_.*"'))
    _check_pattern(own, pattern)
    return RuleOptions(cast(Severity, severity), _read_globs(own, "paths"), _read_globs(own, "exclude"), pattern)


def _check_pattern(section: Section, pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        section.report("pattern", f"a regular expression ({error})")


def _read_globs(section: Section, key: str) -> tuple[str, ...]:
    entry: Entry | None = section.entries.get(key)
    if entry is None:
        return ()
    values = entry.value if isinstance(entry.value, list) else [entry]
    texts = [v.value if isinstance(v, Entry) else v for v in values]
    if not all(isinstance(text, str) for text in texts):
        section.report(key, "a list of paths", 'such as ["models/marts/**"]')
        return ()
    return tuple(str(text) for text in texts)
