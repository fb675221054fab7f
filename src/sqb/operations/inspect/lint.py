"""`sqb lint`: the rules of a project on its models. Starts no Java."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqb.build.observe.columns import observe_columns
from sqb.build.observe.lake import LakeState
from sqb.compile.model import Node
from sqb.errors.base import Errors
from sqb.inspect.lint.model import Finding, LintedModel, Rule, RuleOptions, locate_remark
from sqb.inspect.lint.own_rules import load_own_rules
from sqb.inspect.lint.rules import RULES
from sqb.inspect.lint.settings import read_lint
from sqb.names import At
from sqb.operations.format import select_paths
from sqb.plan.observed import Observed
from sqb.project.config.config import read_settings_file
from sqb.project.config.located import Section
from sqb.project.files import PROJECT_FILE, read_text
from sqb.project.models.header import parse_header
from sqb.project.models.keys import matches_glob
from sqb.sql.text.lexer import tokenize
from sqb.workspace import Workspace

_IGNORE = re.compile(r"sqb:\s*ignore\b[:\s]*([\w\s,]*)")


@dataclass(frozen=True, slots=True)
class LintOptions:
    """Which models are looked at: by their names or files and folders; all where none is named."""

    names: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class LintResult:
    """What was looked at, and what was found."""

    models: int
    findings: tuple[Finding, ...]
    rules: Mapping[str, str]

    @property
    def has_errors(self) -> bool:
        """Whether something was found that counts as an error."""
        return any(f.severity == "error" for f in self.findings)

    def to_data(self) -> dict[str, Any]:
        """What `sqb lint --json` prints."""
        return {"models": self.models, "findings": [f.to_data() for f in self.findings]}


def lint_project(open_workspace: Callable[[], Workspace], options: LintOptions) -> LintResult:
    """Hold the models of a project against its rules."""
    workspace, errors = open_workspace(), Errors()
    rules, settings = load_rules(workspace.root, errors)
    errors.raise_any()
    nodes = {n.file: n for n in workspace.project if n.type == "model" and not n.python}
    chosen = select_paths(nodes, options.names)
    columns = observe_columns(workspace, LakeState(Observed({}), {}), frozenset(workspace.project.nodes))
    findings: list[Finding] = []
    for file in chosen:
        node = nodes[file]
        known = columns.columns[node.name].columns if node.name in columns.columns else ()
        model = build_model(workspace, node, tuple((n, t) for n, t in known if n is not None), errors)
        findings += lint_model(model, rules, settings)
    errors.raise_any()
    findings.sort(key=lambda f: (f.at.file, f.at.line, f.at.column, f.rule))
    return LintResult(len(chosen), tuple(findings), {name: rule.text for name, rule in rules.items()})


def load_rules(root: Path, errors: Errors) -> tuple[dict[str, Rule], dict[str, RuleOptions]]:
    """The rules of sqb and of the project, and what [lint] says of them."""
    rules = {**RULES, **load_own_rules(root, errors)}
    top = Section(read_settings_file(root, errors) or {}, "the project's settings", At(PROJECT_FILE), errors)
    return rules, read_lint(top, rules)


def build_model(workspace: Workspace, node: Node, columns: tuple[tuple[str, str], ...], errors: Errors) -> LintedModel:
    """A model as rules see it."""
    text = read_text(workspace.root, node.file, errors) or ""
    body = parse_header(text, node.file, Errors()).body_start
    folder, _, _ = node.name.rpartition(".")
    settings = dict(node.settings)
    return LintedModel(
        node.name, folder, node.file, node.kind, text, body, settings, node.upstream, columns, bool(node.checks_hash)
    )


def lint_model(model: LintedModel, rules: Mapping[str, Rule], settings: Mapping[str, RuleOptions]) -> Iterator[Finding]:
    """What the rules find in one model."""
    ignored = list(_iter_ignored(model.text))
    for name, rule in rules.items():
        options = settings[name]
        if options.severity == "off" or not _is_concerned(model.file, options):
            continue
        for remark in rule.check(model, options):
            at = locate_remark(model, remark)
            if not any(_is_ignored(name, at, names, line) for names, line in ignored):
                yield Finding(name, options.severity, remark.message, at, remark.hint)


def _is_concerned(file: str, options: RuleOptions) -> bool:
    is_in = not options.paths or any(matches_glob(glob, file) for glob in options.paths)
    return is_in and not any(matches_glob(glob, file) for glob in options.exclude)


def _iter_ignored(text: str) -> Iterator[tuple[frozenset[str], int]]:
    """The comments `-- sqb: ignore rule`: the rules that each names, none for all, and its line."""
    for token in tokenize(text):
        match = _IGNORE.search(token.text) if token.kind == "comment" else None
        if match is not None:
            yield frozenset(re.findall(r"\w+", match[1])), text.count("\n", 0, token.start) + 1


def _is_ignored(rule: str, at: At, names: frozenset[str], line: int) -> bool:
    """A comment holds for its line and the next one; what is about the whole file is ignored from anywhere in it."""
    return (not names or rule in names) and (not at.line or at.line in (line, line + 1))
