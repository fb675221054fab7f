"""Tests of dbt's as checks: the four that it has built in, those of packages and of the project, and singular ones.

What is a check here becomes one. Everything else becomes an audit, a query in audits/ whose rows are the violations:
dbt's test is such a query too.
"""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqb.checks.catalogue import find_check
from sqb.dbt.convert.header import quote_column
from sqb.dbt.convert.jinja.problems import Unconvertible
from sqb.dbt.convert.project import DbtProject
from sqb.dbt.convert.render import Renderer
from sqb.dbt.convert.report import Report
from sqb.project.config.located import Entry, to_plain_value
from sqb.project.models.kinds import HISTORY_KINDS
from sqb.sql.text.lexer import tokenize_code
from sqb.sql.text.table_names import find_tables

_PLAIN = re.compile(r"[A-Za-z_]\w*")
_SETTINGS = (
    "severity",
    "where",
    "warn_if",
    "error_if",
    "limit",
    "store_failures",
    "enabled",
    "tags",
    "fail_calc",
    "meta",
)


@dataclass
class NodeChecks:
    """The checks of one model, by the key of its header."""

    kind: str
    constraints: list[str] = field(default_factory=list)
    audits: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def add(self, call: str, is_warning: bool, is_audit: bool = False) -> None:
        """Put a check where it does what the test does: on all rows, also of tables that hold a history."""
        if is_warning:
            self.warnings.append(call)
        elif is_audit or self.kind in HISTORY_KINDS:
            self.audits.append(call)
        else:
            self.constraints.append(call)

    def to_header(self) -> dict[str, list[str]]:
        """The entries of a header."""
        by_key = {"constraints": self.constraints, "audits": self.audits, "warnings": self.warnings}
        return {key: list(dict.fromkeys(calls)) for key, calls in by_key.items() if calls}


@dataclass(frozen=True, slots=True)
class Input:
    """A seed or source, which has no checks of its own here: its name in queries, and the models that read it."""

    name: str
    readers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WrittenTest:
    """A test as a YAML file has it: what it tests, on which column of which model, and how."""

    name: str
    package: str
    arguments: Mapping[str, Any]
    settings: Mapping[str, Any]
    model: str
    column: str
    file: str
    line: int

    @property
    def is_warning(self) -> bool:
        """Whether a failure is only reported."""
        return str(self.settings.get("severity", "error")).lower() == "warn"

    @property
    def where(self) -> str:
        """The condition for the rows that are tested."""
        return str(self.settings.get("where") or "")


class CheckConverter:
    """Converts the tests of a project, and writes the audits that they need."""

    def __init__(
        self,
        project: DbtProject,
        renderer: Renderer,
        report: Report,
        checks: Mapping[str, NodeChecks],
        reads: Callable[[str, str], bool],
        inputs: Mapping[str, Input],
    ) -> None:
        self.audits: dict[str, str] = {}
        self._project = project
        self._renderer = renderer
        self._report = report
        self._checks = checks
        self._reads = reads
        self._inputs = inputs
        # What has tests that nothing here asks: one remark is enough.
        self._untested: set[str] = set()

    def convert(self, test: WrittenTest) -> None:
        """Add the check that a test means, or say why there is none."""
        if test.settings.get("enabled") is False:
            return
        for key in ("warn_if", "error_if", "fail_calc"):
            if key in test.settings:
                self._report.leave_out(
                    test.file, test.line, f"the test {test.name}", f"`{key}` has no counterpart here"
                )
                return
        tested = self._inputs.get(test.model) if test.model not in self._checks else None
        if test.model not in self._checks and (tested is None or not tested.readers):
            if test.model not in self._untested:
                self._untested.add(test.model)
                why = "no model that was converted reads this, and only models have checks here"
                why = why if tested is not None else "no model of this name was converted"
                self._report.leave_out(test.file, test.line, f"the tests of {test.model}", why)
            return
        try:
            if tested is None:
                self._convert(test)
            else:
                self._convert_of_input(test, tested)
        except Unconvertible as problem:
            self._report.leave_out(
                problem.file or test.file,
                problem.line or test.line,
                f"the test {test.name}{': ' if problem.what else ''}{problem.what}",
                problem.why,
            )

    def _convert(self, test: WrittenTest) -> None:
        call = self._write_builtin(test) if not test.where else None
        if call is not None:
            self._checks[test.model].add(call, test.is_warning)
            return
        model, sql = self._write_query(test)
        name = self._name_audit(f"{test.name}_{test.model}_{test.column}")
        self.audits[f"audits/{name}.sql"] = sql
        self._checks[model].add(f"{name}()", test.is_warning, is_audit=True)

    def _convert_of_input(self, test: WrittenTest, tested: Input) -> None:
        """Ask it before the models that read the seed or source: dbt builds none of them if the test fails."""
        model, sql = self._write_query(test)
        # A model that the test compares with is asked when it is there.
        owners = tested.readers if model == test.model else (model,)
        name = self._name_audit(f"{test.name}_{test.model}_{test.column}")
        self.audits[f"audits/{name}.sql"] = (
            _ask_of_inputs(sql.replace("@@this", tested.name), tested.name) if model == test.model else sql
        )
        for owner in owners:
            self._checks[owner].add(f"{name}()", test.is_warning, is_audit=True)

    def _write_builtin(self, test: WrittenTest) -> str | None:
        """A check of sqb's own that asks the same; None where there is none."""
        column = test.column or str(test.arguments.get("column_name") or "")
        name = f"{test.package}.{test.name}" if test.package else test.name
        if (self._project.name, test.name) in self._project.generic_tests:
            return None
        if name == "dbt_utils.expression_is_true":
            expression = f"{column} {test.arguments.get('expression', '')}".strip()
            return f"check({expression})" if _is_row_condition(expression) else None
        if _PLAIN.fullmatch(column) is None:
            return None
        match name:
            case "not_null":
                return f"not_null({quote_column(column)})"
            case "unique":
                return f"unique({quote_column(column)})"
            case "accepted_values":
                return f"in_list({quote_column(column)}, {self._write_values(test)})"
            case "relationships":
                to, ref = self._read_target(test)
                field_name = str(test.arguments.get("field") or "")
                if _PLAIN.fullmatch(field_name) is None or (ref is not None and self._reads(ref, test.model)):
                    return None
                return f"references({quote_column(column)}, {to}.{field_name})"
        return None

    def _write_values(self, test: WrittenTest) -> str:
        values = test.arguments.get("values")
        if isinstance(values, str) and "{{" in values:
            with contextlib.suppress(ValueError, SyntaxError):
                values = ast.literal_eval(str(self._renderer.evaluate_setting("values", values, test.file, test.line)))
        is_quoted = test.arguments.get("quote", True)
        if not isinstance(values, list) or not values:
            raise Unconvertible("`values`", "it must be a list", test.file, test.line)
        return ", ".join(_write_literal(value, bool(is_quoted)) for value in values)

    def _read_target(self, test: WrittenTest) -> tuple[str, str | None]:
        return self._renderer.evaluate_reference(str(test.arguments.get("to") or ""), test.file, test.line)

    def _write_query(self, test: WrittenTest) -> tuple[str, str]:
        """The model that an audit belongs to, and its query."""
        column = test.column or str(test.arguments.get("column_name") or "")
        name = f"{test.package}.{test.name}" if test.package else test.name
        rows = (
            f"(SELECT * FROM @@this WHERE {self._render_where(test)}) AS tested" if test.where else "@@this AS tested"
        )
        own = (self._project.name, test.name) in self._project.generic_tests
        match name:
            case "not_null" if not own:
                return test.model, f"SELECT * FROM {rows}\nWHERE {column} IS NULL\n"
            case "unique" if not own:
                grouped = f"GROUP BY {column}\nHAVING count(*) > 1\n"
                return (
                    test.model,
                    f"SELECT {column} AS value, count(*) AS n FROM {rows}\nWHERE {column} IS NOT NULL\n{grouped}",
                )
            case "accepted_values" if not own:
                return test.model, f"SELECT * FROM {rows}\nWHERE {column} NOT IN ({self._write_values(test)})\n"
            case "relationships" if not own:
                return self._write_relationship(test, column, rows)
            case "dbt_utils.expression_is_true":
                expression = f"{column} {test.arguments.get('expression', '')}".strip()
                return test.model, f"SELECT * FROM {rows}\nWHERE NOT ({expression})\n"
            case "dbt_utils.unique_combination_of_columns":
                columns = ", ".join(str(c) for c in test.arguments.get("combination_of_columns") or ())
                return test.model, f"SELECT {columns} FROM {rows}\nGROUP BY {columns}\nHAVING count(*) > 1\n"
        return self._write_generic(test)

    def _render_where(self, test: WrittenTest) -> str:
        return self._renderer.render_text(test.where, test.file, test.line)

    def _write_relationship(self, test: WrittenTest, column: str, rows: str) -> tuple[str, str]:
        to, ref = self._read_target(test)
        field_name = str(test.arguments.get("field") or "")
        model = test.model
        tested = self._inputs.get(model)
        if ref is not None and ref in self._checks and (tested is not None or self._reads(ref, test.model)):
            # The other model reads this one, so that the question can be asked only when that one is there.
            model, to = ref, "@@this"
            name = tested.name if tested is not None else self._renderer.library.relations[test.model].qualified
            rows = (
                f"(SELECT * FROM {name} WHERE {self._render_where(test)}) AS tested"
                if test.where
                else f"{name} AS tested"
            )
        if model not in self._checks and tested is None:
            raise Unconvertible("relationships", "the model that it refers to has no checks", test.file, test.line)
        joined = f"LEFT ANTI JOIN {to} AS parent ON parent.{field_name} = tested.{column}\n"
        sql = f"SELECT tested.{column} FROM {rows}\n{joined}"
        return model, f"{sql}WHERE tested.{column} IS NOT NULL\n"

    def _write_generic(self, test: WrittenTest) -> tuple[str, str]:
        packages = (test.package,) if test.package else (self._project.name,)
        macro = next((m for p in packages if (m := self._project.generic_tests.get((p, test.name)))), None)
        if macro is None:
            package = (
                f" of the package {test.package}: `dbt deps` writes packages to dbt_packages/" if test.package else ""
            )
            raise Unconvertible("", f"no file has this test{package}", test.file, test.line)
        where = self._render_where(test) if test.where else ""
        arguments = {name: self._evaluate(value, test) for name, value in test.arguments.items()}
        if test.column:
            arguments["column_name"] = test.column
        return test.model, self._renderer.render_test(macro, arguments, where).sql

    def _evaluate(self, value: Any, test: WrittenTest) -> Any:
        if isinstance(value, str) and ("{{" in value or re.match(r"(?:ref|source)\(", value)):
            return self._renderer.evaluate_reference(value, test.file, test.line)[0]
        return value

    def convert_singular(
        self, name: str, sql: str, refs: Sequence[str], settings: Mapping[str, Any], order: Mapping[str, int]
    ) -> bool:
        """Write a singular test as an audit of the last model that it reads, or of the models that read the same
        seeds and sources; False where there are none.
        """
        models = [ref for ref in refs if ref in self._checks]
        is_warning = str(settings.get("severity", "error")).lower() == "warn"
        if models:
            last = max(models, key=lambda ref: order.get(ref, -1))
            relation = self._renderer.library.relations[last]
            sql, owners = _replace_relation(sql, relation.name, relation.qualified), [last]
        else:
            owners, sql = self._list_readers(sql), _ask_of_inputs(sql, "what the query reads")
        if not owners:
            return False
        audit = self._name_audit(name)
        self.audits[f"audits/{audit}.sql"] = sql
        for owner in owners:
            self._checks[owner].add(f"{audit}()", is_warning, is_audit=True)
        return True

    def _list_readers(self, sql: str) -> list[str]:
        """The models that read a seed or source of a query."""
        names = {".".join(t.parts).lower() for t in find_tables(tokenize_code(sql)) if not t.is_cte}
        read = [i for i in self._inputs.values() if {i.name.lower(), i.name.rpartition(".")[2].lower()} & names]
        return list(dict.fromkeys(reader for i in read for reader in i.readers))

    def _name_audit(self, text: str) -> str:
        name = re.sub(r"\W+", "_", text).strip("_").lower()
        name = f"check_{name}" if not name[:1].isalpha() or find_check(name) is not None else name
        number, unique = 2, name
        while f"audits/{unique}.sql" in self.audits:
            unique, number = f"{name}_{number}", number + 1
        return unique


def _replace_relation(sql: str, name: str, qualified: str) -> str:
    """The query of a singular test, with the relation that it is about as `@@this`."""
    out, position = "", 0
    for table in find_tables(tokenize_code(sql)):
        if table.is_cte or ".".join(table.parts).lower() not in (name.lower(), qualified.lower()):
            continue
        alias = f" AS {name}" if table.alias is None and not table.closed else ""
        out += f"{sql[position : table.start]}@@this{alias}"
        position = table.end
    return out + sql[position:]


def _ask_of_inputs(sql: str, inputs: str) -> str:
    """A query about what a model reads, as an audit of the model: an audit has to name the model's own rows."""
    note = f"-- About {inputs}, and not about the rows of the model, which only waits for the answer.\n"
    return f"{note}SELECT * FROM (\n{sql.strip()}\n)\nWHERE (SELECT count(*) FROM @@this WHERE false) = 0\n"


def _is_row_condition(expression: str) -> bool:
    return "(" not in expression or not re.search(r"\b(?:sum|count|max|min|avg|select)\s*\(", expression, re.IGNORECASE)


def _write_literal(value: Any, is_quoted: bool) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case None if is_quoted:
            return "'None'"  # as dbt writes it; NULL passes anyway
        case str() if is_quoted:
            return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        case _:
            return str(value)


def list_tests(entry: Entry, model: str, file: str) -> Iterable[WrittenTest]:
    """The tests that the properties of a model, seed or snapshot have: its own, and those of its columns."""
    if not isinstance(entry.value, dict):
        return
    yield from _list_own(entry, model, "", file)
    columns = entry.value.get("columns")
    for column in columns.value if columns is not None and isinstance(columns.value, list) else ():
        if isinstance(column.value, dict) and "name" in column.value:
            yield from _list_own(column, model, str(column.value["name"].value), file)


def _list_own(entry: Entry, model: str, column: str, file: str) -> Iterable[WrittenTest]:
    for key in ("tests", "data_tests"):
        tests = entry.value.get(key)
        for item in tests.value if tests is not None and isinstance(tests.value, list) else ():
            test = _read_test(item, model, column, file)
            if test is not None:
                yield test


def _read_test(item: Entry, model: str, column: str, file: str) -> WrittenTest | None:
    value: Any = to_plain_value(item)
    line = item.at.line or 1
    if isinstance(value, str):
        package, _, name = value.rpartition(".")
        return WrittenTest(name, package, {}, {}, model, column, file, line)
    if not isinstance(value, dict) or not value:
        return None
    if "test_name" in value:
        full, arguments = str(value["test_name"]), {k: v for k, v in value.items() if k not in ("test_name", "name")}
    else:
        full = str(next(iter(value)))
        inner = value[full]
        arguments = dict(inner) if isinstance(inner, dict) else {}
        arguments |= {k: v for k, v in value.items() if k != full and k not in arguments}
    package, _, name = full.rpartition(".")
    settings = {k: v for k, v in arguments.items() if k in _SETTINGS}
    settings |= arguments.pop("config", None) or {}
    arguments |= arguments.pop("arguments", None) or {}
    plain = {k: v for k, v in arguments.items() if k not in (*_SETTINGS, "name", "description")}
    return WrittenTest(name, "" if package == "dbt" else package, plain, settings, model, column, file, line)
