"""The text of a file of dbt's as SQL that is written here: templates carried out, references by name, variables."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqb.dbt.convert.context import FileContext, Library, Note, evaluate_setting
from sqb.dbt.convert.incremental import Cursor, find_cursor
from sqb.dbt.convert.jinja.evaluate import Evaluator, Macro
from sqb.dbt.convert.jinja.problems import Unconvertible
from sqb.dbt.convert.jinja.template import Node, parse_template
from sqb.dbt.convert.marks import Mark, Marks, Resolution, This, Variable
from sqb.dbt.convert.report import Report
from sqb.sql.text.lexer import tokenize

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HISTORY = {"dbt_valid_from": "valid_from", "dbt_valid_to": "valid_to"}
_HISTORY_LOST = ("dbt_scd_id", "dbt_updated_at", "dbt_is_deleted")


@dataclass(frozen=True, slots=True)
class Rendered:
    """A query, what its file configures, what it refers to, and what it does in later runs."""

    sql: str
    config: Mapping[str, Any]
    refs: tuple[str, ...]
    is_conditional: bool = False
    cursor: Cursor | None = None


class Renderer:
    """Renders the files of one project, and collects the variables that stay."""

    def __init__(self, library: Library, report: Report, has_snapshots: bool) -> None:
        self.library = library
        self.variables: dict[str, Any] = {}
        self._report = report
        self._has_snapshots = has_snapshots

    def render_model(self, text: str, file: str) -> Rendered:
        """The query of a model or a singular test; raises Unconvertible with a place."""
        return self.render_nodes(self._parse(text, file), file)

    def render_nodes(self, nodes: Sequence[Node], file: str, this: str | None = None) -> Rendered:
        """The query of a part of a file, such as the body of a snapshot."""
        marks = Marks()
        context = self._open(file, marks)
        raw = Evaluator(context, file).render(nodes)
        cursor = None
        if context.asked_incremental:
            later = Evaluator(self._open(file, marks, is_incremental=True), file).render(nodes)
            cursor = find_cursor(raw, later, marks.marks)
        sql = self._finish(raw, marks.marks, file, this)
        return Rendered(sql, context.config, tuple(context.refs), context.asked_incremental, cursor)

    def render_text(self, text: str, file: str, line: int = 1, this: str | None = None) -> str:
        """A text of a YAML file or of a configuration, such as a hook; raises Unconvertible with a place."""
        try:
            marks = Marks()
            raw = Evaluator(self._open(file, marks), file).render(parse_template(text))
            return self._resolve(raw, marks.marks, file, this)
        except Unconvertible as problem:
            raise Unconvertible(problem.what, problem.why, file, line) from None

    def evaluate_setting(self, key: str, text: str, file: str, line: int) -> Any:
        """The value of a setting; raises Unconvertible with a place."""
        try:
            return evaluate_setting(
                self.library, text, lambda what, why, _: self._report.note(file, line, f"`{key}`: {what}", why)
            )
        except Unconvertible as problem:
            raise Unconvertible(f"`{key}`: {problem.what}", problem.why, file, line) from None

    def render_test(self, macro: Macro, arguments: Mapping[str, Any], where: str) -> Rendered:
        """The query of a generic test, for the relation that it is about."""
        marks = Marks()
        context = self._open(macro.file, marks)
        this = marks.add(This())
        model = f"(select * from {this} where {where}) dbt_subquery" if where else this
        known = {name for name, _ in macro.definition.parameters}
        given = {name: value for name, value in {"model": model, **arguments}.items() if name in known}
        raw = Evaluator(context, macro.file).call_macro(macro, (), given)
        sql = self._finish(str(raw), marks.marks, macro.file, "@@this")
        return Rendered(sql, context.config, tuple(context.refs))

    def evaluate_reference(self, text: str, file: str, line: int) -> tuple[str, str | None]:
        """The name that `ref('x')` or `source('a', 'b')` in a YAML file means, and what it refers to."""
        marks = Marks()
        context = self._open(file, marks)
        inside = text.strip().removeprefix("{{").removesuffix("}}")
        try:
            raw = Evaluator(context, file).render(parse_template("{{ " + inside + " }}"))
            return self._resolve(raw, marks.marks, file, None), context.refs[0] if context.refs else None
        except Unconvertible as problem:
            raise Unconvertible(problem.what, problem.why, file, line) from None

    def _parse(self, text: str, file: str) -> tuple[Node, ...]:
        try:
            return parse_template(text)
        except Unconvertible as problem:
            raise (
                problem.locate(file, 1)
                if problem.file
                else Unconvertible(problem.what, problem.why, file, problem.line or 1)
            ) from None

    def _open(self, file: str, marks: Marks, is_incremental: bool = False) -> FileContext:
        return FileContext(self.library, is_incremental, self._noting(file), marks=marks)

    def _noting(self, file: str) -> Note:
        return lambda what, why, place: self._report.note(place[0] or file, place[1], what, why)

    def _finish(self, raw: str, marks: Sequence[Mark], file: str, this: str | None) -> str:
        sql = self._resolve(raw, marks, file, this)
        return _tidy(self._rename_history(sql) if self._has_snapshots else sql)

    def _resolve(self, raw: str, marks: Sequence[Mark], file: str, this: str | None) -> str:
        def note_inlined(variable: Variable) -> None:
            why = "it is a part of the SQL, which a variable cannot be here; its value is written in its place"
            self._report.note(file, 1, f"var('{variable.name}')", why)

        try:
            return Resolution(marks, self._keep_variable, note_inlined, this).resolve(raw)
        except Unconvertible as problem:
            raise problem.locate(file, 1) from None

    def _keep_variable(self, variable: Variable) -> bool:
        if _VARIABLE.fullmatch(variable.name) is None or variable.name.lower() == "this":
            return False
        known = self.variables.setdefault(variable.name, variable.value)
        return repr(known) == repr(variable.value)

    def _rename_history(self, sql: str) -> str:
        """The columns that snapshots add have other names here."""
        out, position = "", 0
        for token in tokenize(sql):
            word = token.text.strip("`").lower()
            if token.kind in ("word", "quoted") and word in _HISTORY_LOST:
                raise Unconvertible(f"the column `{word}`", "a history has valid_from, valid_to and is_current here")
            is_renamed = token.kind in ("word", "quoted") and word in _HISTORY
            out += sql[position : token.start] + (_HISTORY[word] if is_renamed else token.text)
            position = token.end
        return out + sql[position:]


def _tidy(sql: str) -> str:
    """The text without the lines that statements of Jinja leave; what is in strings stays."""
    out, position = "", 0
    for token in tokenize(sql):
        out += _shorten(sql[position : token.start]) + token.text
        position = token.end
    return out.strip() + "\n"


def _shorten(gap: str) -> str:
    """White space with at most one empty line; one that is not quite empty was left by a statement."""
    lines = gap.split("\n")
    if len(lines) == 1:
        return gap
    is_left = any(line and not line.strip() for line in lines[1:-1])
    return f"\n{lines[-1]}" if len(lines) == 2 or is_left else f"\n\n{lines[-1]}"
