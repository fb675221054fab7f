"""`tests/**/*.yml`: unit tests of models. Given rows of what a model reads, and the rows that it must make of them.

Reads what was written; what the names in it mean is found out where the project is linked.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import field
from datetime import date, datetime
from pathlib import Path
from typing import Any

from sqb.errors.base import Errors
from sqb.errors.project import BadValue, BadYaml, DuplicateKey, MissingKey
from sqb.light_dataclass import dataclass
from sqb.names import At
from sqb.project.config.located import Entry, Section, describe, to_plain_value
from sqb.project.config.yaml import read_list
from sqb.types.format import format_sql_type
from sqb.types.parse import parse_declared_type
from sqb.types.text import infer_text_type

TEST_KEYS = ("name", "model", "description", "now", "vars", "given", "expect", "expect_ctes", "ordered")
TABLE_KEYS = ("columns", "rows", "csv")
_ROWS_HINT = "write rows as `- {column: value}`, or `columns` and `rows`, or `csv`"


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows as written: a column that a row leaves out is NULL. Types are by the columns' names in lower case."""

    columns: tuple[str, ...]
    types: Mapping[str, str]
    cells: tuple[tuple[Any, ...], ...]
    # Line, column and length of each row.
    places: tuple[tuple[int, int, int], ...]
    # The types that the texts of a CSV seem to have.
    guessed: Mapping[str, str] = field(default_factory=dict)

    def to_data(self) -> list[Any]:
        return [self.columns, dict(self.types), self.cells, self.places, dict(self.guessed)]

    @classmethod
    def from_data(cls, data: list[Any]) -> Rows:
        columns, types, cells, places, guessed = data
        return cls(tuple(columns), types, tuple(map(tuple, cells)), tuple(map(tuple, places)), guessed)


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of one input, of the result or of a CTE, under the name that was written."""

    name: str
    at: At
    rows: Rows


@dataclass(frozen=True, slots=True)
class WrittenTest:
    """One unit test as its file says it."""

    name: str
    at: At
    model: str
    model_at: At
    given: tuple[Table, ...] = ()
    expect: Rows | None = None
    expect_ctes: tuple[Table, ...] = ()
    now: str | None = None
    vars: Mapping[str, Entry] = field(default_factory=dict)
    ordered: bool = False


def load_tests(root: Path, paths: Iterable[str], errors: Errors) -> tuple[WrittenTest, ...]:
    """All unit tests of a project, in the order of their files."""
    tests: dict[str, WrittenTest] = {}
    for path in paths:
        for test in _read_file(root / path, path, errors):
            first = tests.setdefault(test.name.lower(), test)
            if first is not test:
                message = f"a test is called `{test.name}` already; it is at {first.at}"
                errors.add(DuplicateKey(message, at=test.at, hint="give each test its own name"))
    return tuple(tests.values())


def _read_file(path: Path, file: str, errors: Errors) -> list[WrittenTest]:
    items = read_list(path, file, "tests", "- name: …", errors)
    return [test for item in items if (test := _read_test(item, errors)) is not None]


def _read_test(item: Entry, errors: Errors) -> WrittenTest | None:
    if not isinstance(item.value, dict):
        errors.add(BadYaml("a test must be a mapping", at=item.at, hint="write `- name: …`"))
        return None
    section = Section(item.value, "a test", item.at, errors)
    section.refuse_unknown(TEST_KEYS)
    for key, hint in (("name", "add `name: what_is_true`"), ("model", "add `model: folder.name`")):
        if key not in section.entries:
            errors.add(MissingKey(f"the test has no `{key}`", at=item.at, hint=hint))
    if not section.entries.keys() & {"expect", "expect_ctes"}:
        hint = "add `expect: []` if the result must be empty"
        errors.add(MissingKey("the test expects nothing: it has no `expect`", at=item.at, hint=hint))
    section.read_text("description")
    name, model = section.read_text("name"), section.read_text("model")
    inputs, ctes = _read_tables(section, "given"), _read_tables(section, "expect_ctes")
    expect = _read_rows(section.entries["expect"], "`expect`", errors) if "expect" in section.entries else None
    now, ordered = _read_now(section), section.read_flag("ordered") or False
    variables = section.read_table("vars", "`vars`").entries
    for key, entry in variables.items():
        parts = entry.value if isinstance(entry.value, list) else [entry]
        if isinstance(entry.value, dict) or any(isinstance(p.value, list | dict) for p in parts):
            message = f"`{key}` must be text, a number, true/false, null or a list of these"
            errors.add(BadValue(message, at=entry.at))
    if not name or not model:
        return None
    at, model_at = section.entries["name"].at, section.entries["model"].at
    return WrittenTest(name, at, model, model_at, inputs, expect, ctes, now, variables, ordered)


def _read_now(section: Section) -> str | None:
    entry = section.entries.get("now")
    if entry is None:
        return None
    match entry.value:
        case datetime() as moment:
            return moment.isoformat(sep=" ")
        case date() as day:
            return f"{day.isoformat()} 00:00:00"
        case str() as text:
            try:
                return datetime.fromisoformat(text.strip()).isoformat(sep=" ")
            except ValueError:
                pass
    section.report("now", "a date and time", "such as 2026-01-02 03:04:05")
    return None


def _read_tables(section: Section, key: str) -> tuple[Table, ...]:
    tables = []
    for name, entry in section.read_table(key, f"`{key}`").entries.items():
        rows = _read_rows(entry, f"`{name}`", section.errors)
        if rows is not None:
            tables.append(Table(name, entry.key_at, rows))
    return tuple(tables)


# --- rows -----------------------------------------------------------------------------------------------------------


def _read_rows(entry: Entry, where: str, errors: Errors) -> Rows | None:
    match entry.value:
        case list():
            return _read_table(entry.value, (), {}, errors)
        case dict():
            section = Section(entry.value, where, entry.at, errors)
            section.refuse_unknown(TABLE_KEYS)
            columns, types = _read_columns(section)
            if "csv" in section.entries:
                return _read_csv(section, columns, types)
            rows = section.entries.get("rows")
            if rows is None or rows.value is None:
                return Rows(columns, types, (), ())
            if not isinstance(rows.value, list):
                section.report("rows", "a list", _ROWS_HINT)
                return None
            return _read_table(rows.value, columns, types, errors)
        case _:
            errors.add(BadYaml(f"{where} must be a list of rows", at=entry.at, hint=_ROWS_HINT))
            return None


def _read_columns(section: Section) -> tuple[tuple[str, ...], dict[str, str]]:
    """The columns that were named, and the types of those that have one."""
    entry = section.entries.get("columns")
    if entry is None:
        return (), {}
    names: list[str] = []
    types: dict[str, str] = {}
    match entry.value:
        case list() as items:
            for item in items:
                names.append(item.text or describe(item.value))
        case dict() as items:
            for name, item in items.items():
                names.append(name)
                kind = parse_declared_type(item.value) if isinstance(item.value, str) else None
                if kind is None:
                    message = f"{describe(item.value)} is not a type"
                    hint = "such as bigint, string, date, timestamp, decimal(10,2) or array<int>"
                    section.errors.add(BadValue(message, at=item.at, hint=hint))
                else:
                    types[name.lower()] = format_sql_type(kind)
        case _:
            section.report("columns", "names with types, or a list of names")
    twice = next((n for i, n in enumerate(names) if n.lower() in (m.lower() for m in names[:i])), None)
    if twice is not None:
        section.errors.add(DuplicateKey(f"the column `{twice}` is there twice", at=entry.at))
    return tuple(names), types


def _read_table(items: list[Entry], columns: tuple[str, ...], types: dict[str, str], errors: Errors) -> Rows:
    names = {name.lower(): name for name in columns}
    read: list[tuple[dict[str, Any], Entry]] = []
    for item in items:
        row: dict[str, Any] = {}
        match item.value:
            case dict() as fields:
                for name, entry in fields.items():
                    if name.lower() in row:
                        errors.add(DuplicateKey(f"the column `{name}` is there twice", at=entry.key_at))
                    row[name.lower()] = _to_cell(entry)
                    if columns and name.lower() not in names:
                        message = f"`{name}` is not among the `columns`"
                        errors.add(BadYaml(message, at=entry.key_at, hint=f"they are {', '.join(columns)}"))
                    names.setdefault(name.lower(), name)
            case list() as values if columns:
                if len(values) != len(columns):
                    message = (
                        f"this row has {_format_count(len(values), 'value')}, and there are {len(columns)} columns"
                    )
                    errors.add(BadYaml(message, at=item.at, hint=f"the columns are {', '.join(columns)}"))
                row = {n.lower(): _to_cell(value) for n, value in zip(columns, values, strict=False)}
            case list():
                hint = "add `columns` beside `rows`, or write `- {column: value}`"
                errors.add(BadYaml("a row without names needs `columns`", at=item.at, hint=hint))
            case _:
                errors.add(BadYaml("a row must be a mapping of columns to values", at=item.at, hint=_ROWS_HINT))
        read.append((row, item))
    cells = tuple(tuple(row.get(key) for key in names) for row, _ in read)
    return Rows(tuple(names.values()), types, cells, tuple((i.at.line, i.at.column, i.at.length) for _, i in read))


def _format_count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _read_csv(section: Section, columns: tuple[str, ...], types: dict[str, str]) -> Rows | None:
    """Rows as the text of a CSV file; an empty value is NULL, and types are found out as for seeds."""
    text, entry = section.read_text("csv"), section.entries["csv"]
    if "rows" in section.entries:
        section.errors.add(BadYaml("rows are `rows` or `csv`, not both", at=entry.key_at, hint="keep one of the two"))
    if text is None:
        return None
    records = [row for row in csv.reader(io.StringIO(text, newline=""), skipinitialspace=True) if row]
    if not records:
        section.report("csv", "a header and rows")
        return None
    names = tuple(name.strip() for name in records[0])
    for row in records[1:]:
        if len(row) != len(names):
            message = (
                f"the row `{','.join(row)}` has {_format_count(len(row), 'value')}, and there are {len(names)} columns"
            )
            section.errors.add(BadYaml(message, at=entry.at, hint=f"the columns are {', '.join(names)}"))
            return None
    unknown = [name for name in columns if name.lower() not in {n.lower() for n in names}]
    if unknown:
        message = f"`{unknown[0]}` is not a column of the `csv`"
        section.errors.add(BadYaml(message, at=section.entries["columns"].at, hint=f"they are {', '.join(names)}"))
    cells = tuple(tuple(value.strip() or None for value in row) for row in records[1:])
    kinds = {
        n.lower(): str(infer_text_type(row[i] or "" for row in cells if row[i] is not None))
        for i, n in enumerate(names)
    }
    place = (entry.at.line, entry.at.column, entry.at.length)
    return Rows(names, types, cells, (place,) * len(cells), kinds)


def _to_cell(entry: Entry) -> Any:
    """A value as plain data, see `types.values`."""
    value, text = entry.value, entry.text
    match value:
        case list():
            return ["list", [_to_cell(item) for item in value]]
        case dict():
            return ["map", [[key, _to_cell(item)] for key, item in value.items()]]
        case None | str():
            return value
        case bytes():
            return ["binary", value.hex()]
        case int() | float() if ":" in text:
            # To YAML 12:30 is a number in base 60; people who write it do not expect that.
            return text
        case bool():
            return value if text in ("true", "false") else ["bool", "true" if value else "false", text]
        case int():
            return value if text == str(value) else ["int", str(value), text]
        case float():
            number = text.replace("_", "")
            return ["float", str(value) if "n" in number.lower() else number, text]
        case datetime():
            return ["timestamp", value.isoformat(sep=" "), text]
        case date():
            return ["date", value.isoformat(), text]
        case _:
            return text or to_plain_value(entry)
