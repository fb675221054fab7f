"""What the rules of `sqb lint` find, while people type: only models that changed are looked at again."""

from __future__ import annotations

from pathlib import Path

from sqb.errors.base import Errors, SqbError
from sqb.inspect.lint.model import Finding, Rule, RuleOptions
from sqb.operations.inspect.lint import build_model, lint_model, load_rules
from sqb.plan.node_columns import ProjectColumns
from sqb.project.files import LOCAL_FILE, PROJECT_FILE, read_text
from sqb.workspace import Workspace

_Rules = tuple[dict[str, Rule], dict[str, RuleOptions], Errors]


class Linter:
    """Holds models against the rules of one project; rules are loaded again when their files or settings change."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._rules: tuple[tuple[object, ...], _Rules] | None = None
        self._findings: dict[tuple[object, ...], tuple[Finding, ...]] = {}

    def lint(self, workspace: Workspace, columns: ProjectColumns) -> tuple[tuple[Finding, ...], list[SqbError]]:
        """The findings in all models, and what is wrong with the rules themselves."""
        rules, settings, errors = self._load()
        if errors.found:
            return (), list(errors.found)
        findings: list[Finding] = []
        for node in workspace.project:
            if node.type != "model" or node.python:
                continue
            known = columns.columns[node.name].columns if node.name in columns.columns else ()
            model = build_model(workspace, node, tuple((n, t) for n, t in known if n is not None), Errors())
            key = (model.file, model.text, model.columns, node.checks_hash)
            if key not in self._findings:
                self._findings[key] = tuple(lint_model(model, rules, settings))
            findings += self._findings[key]
            if errors.found:
                # A rule of the project's own failed.
                return (), list(errors.found)
        return tuple(findings), []

    def _load(self) -> _Rules:
        files = sorted((self.root / "lint").glob("*.py"))
        texts = tuple(read_text(self.root, name, Errors()) for name in (PROJECT_FILE, LOCAL_FILE))
        key = (*texts, *((str(f), f.stat().st_mtime_ns) for f in files))
        if self._rules is None or self._rules[0] != key or self._rules[1][2].found or len(self._findings) > 20_000:
            errors = Errors()
            self._rules, self._findings = (key, (*load_rules(self.root, errors), errors)), {}
        return self._rules[1]
