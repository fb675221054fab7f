"""Rules of one's own: functions in `lint/*.py` with the decorator `@sqb.lint_rule`."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from sqb.errors.base import Errors
from sqb.errors.python import BadModule
from sqb.inspect.lint.model import LintedModel, Remark, Rule, RuleOptions
from sqb.inspect.lint.rules import RULES
from sqb.names import At
from sqb.project.functions.module_files import allow_imports, execute_module


def load_own_rules(root: Path, errors: Errors) -> dict[str, Rule]:
    """The rules in `lint/*.py`, by name."""
    folder = root / "lint"
    rules: dict[str, Rule] = {}
    if not folder.is_dir():
        return rules
    with allow_imports(folder):
        for path in sorted(folder.glob("*.py")):
            file = path.relative_to(root).as_posix()
            module = execute_module(path, file, BadModule, errors)
            for function in list(vars(module).values()) if module is not None else ():
                severity = getattr(function, "__sqb_lint__", None)
                if severity is None:
                    continue
                name, at = function.__name__, At(file, function.__code__.co_firstlineno, 1)
                if name in rules or name in RULES:
                    errors.add(BadModule(f'another rule is called "{name}"', at=at, hint="rename the function"))
                text = (function.__doc__ or "").strip().partition("\n")[0]
                rules[name] = Rule(name, _build_check(function, file, errors), text, severity)
    return rules


def _build_check(function: Any, file: str, errors: Errors) -> Callable[[LintedModel, RuleOptions], Iterable[Remark]]:
    def check(model: LintedModel, options: RuleOptions) -> list[Remark]:
        try:
            return list(_read_remarks(function(model), model))
        except Exception as error:
            lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
            at = At(file, (lines or [function.__code__.co_firstlineno])[-1] or 1, 1)
            message = f"the rule {function.__name__} failed on {model.name}: {type(error).__name__}: {error}"
            errors.add(BadModule(message, at=at))
            return []

    return check


def _read_remarks(answer: Any, model: LintedModel) -> Iterator[Remark]:
    """What a rule returned or yielded: texts, or pairs of a text and what to underline in the file."""
    if answer is None:
        return
    for one in [answer] if isinstance(answer, str) else answer:
        message, part = (one, "") if isinstance(one, str) else one
        start = model.text.find(part) if part else -1
        yield Remark(str(message), start, start + len(part)) if start >= 0 else Remark(str(message))
