"""`seeds/**/*.csv`: small data that belongs to the project, with optional column types in a `.yml` beside it."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from sqb.errors.base import Errors, SqbError
from sqb.errors.project import BadSeed, BadSeedValue, BadValue, BadYaml, MissingKey, UnknownKey
from sqb.light_dataclass import dataclass
from sqb.names import At, locate_offset, suggest_nearest
from sqb.project.config.located import Entry, Section, describe
from sqb.project.config.yaml import read_yaml
from sqb.project.files import is_there, read_bytes
from sqb.project.models.keys import read_settings
from sqb.project.values import Golden, Seed, SeedColumn, Setting
from sqb.types.model import Type
from sqb.types.parse import parse_declared_type
from sqb.types.text import build_text_parser, can_parse_text, infer_text_type

SEED_SETTINGS = ("description", "tags", "schema", "alias", "table_properties", "enabled")
SEED_KEYS = ("columns", "delimiter", "null_values", *SEED_SETTINGS)
COLUMN_KEYS = ("name", "type", "description")
_TYPES = (
    "boolean",
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "float",
    "double",
    "decimal(p,s)",
    "date",
    "timestamp",
    "timestamp_ntz",
    "string",
)
_REPORTED_ROWS = 5


@dataclass(frozen=True, slots=True)
class _Record:
    line: int
    values: list[str]


@dataclass(frozen=True, slots=True)
class _Options:
    """What a seed's `.yml` says; `types` by lower-case column name, with the place of the name."""

    delimiter: str
    null_values: tuple[str, ...]
    types: dict[str, tuple[str, Type | None, At]]
    settings: dict[str, Setting]


def load_seed(root: Path, path: Path, errors: Errors) -> Seed | None:
    """A seed, read and checked in full; None when anything about it was reported."""
    file = path.relative_to(root).as_posix()
    seed_errors = Errors()
    options = _read_options(root, path, seed_errors)
    columns: tuple[SeedColumn, ...] = ()
    table: list[list[Any]] = []
    try:
        text = _decode(path, file)
        records = list(_iter_records(text, options.delimiter, file))
        names = _read_header(text, records, options.delimiter, file)
        own_rows = _check_widths(records[1:], len(names), file, seed_errors)
        texts = [[row.values[i] for row in own_rows] for i in range(len(names))]
        columns = _infer_columns(names, texts, options, seed_errors)
        if not seed_errors.found:
            table = _convert_rows(columns, own_rows, options.null_values, file, seed_errors)
    except SqbError as error:
        seed_errors.add(error)
    if seed_errors.found:
        for problem in seed_errors.found:
            errors.add(problem)
        return None
    return Seed(
        name=path.stem,
        file=file,
        columns=columns,
        delimiter=options.delimiter,
        null_values=options.null_values,
        rows=len(table[0]),
        content_hash=hash_content(columns, table),
        settings=options.settings,
    )


def read_columns(root: Path, seed: Seed) -> list[list[Any]]:
    """The values of a seed, one list per column, None for NULL; raises when the file no longer fits the seed."""
    errors = Errors()
    text = _decode(root / seed.file, seed.file)
    records = list(_iter_records(text, seed.delimiter, seed.file))
    names = _read_header(text, records, seed.delimiter, seed.file)
    if names != [column.name for column in seed.columns]:
        raise BadSeed("the columns changed while the build was running", at=At(seed.file, 1, 1), hint="build again")
    rows = _check_widths(records[1:], len(names), seed.file, errors)
    table = _convert_rows(seed.columns, rows, seed.null_values, seed.file, errors)
    errors.raise_any()
    return table


def read_golden(root: Path, file: str) -> Golden:
    """A golden file by the rules of seeds, its values still texts; raises what is wrong with it."""
    errors = Errors()
    options = _read_options(root, root / file, errors)
    text = _decode(root / file, file)
    records = list(_iter_records(text, options.delimiter, file))
    names = _read_header(text, records, options.delimiter, file)
    nulls = frozenset(options.null_values)
    golden_rows = _check_widths(records[1:], len(names), file, errors)
    errors.raise_any()
    rows = tuple(tuple(None if value in nulls else value for value in row.values) for row in golden_rows)
    digest = hashlib.sha256(json.dumps([names, sorted(map(json.dumps, rows))]).encode()).hexdigest()
    return Golden(file, tuple(names), rows, digest)


def hash_content(columns: Sequence[SeedColumn], table: Sequence[Sequence[Any]]) -> str:
    """A hash of what a seed holds: names, types and values in file order, however the file spells them."""
    digest = hashlib.sha256(json.dumps([[c.name, str(c.type)] for c in columns]).encode())
    for row in zip(*table, strict=True):
        digest.update(b"\n" + json.dumps([_canonicalize(value) for value in row]).encode())
    return digest.hexdigest()


def _canonicalize(value: Any) -> str | None:
    match value:
        case None | str():
            return value
        case date():
            return value.isoformat()
        case _:
            return str(value)


def _decode(path: Path, file: str) -> str:
    try:
        content = read_bytes(path)
    except OSError as error:
        raise BadSeed(f"the file cannot be read: {error.strerror}", at=At(file)) from None
    nul = content.find(b"\0")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start + (3 if content.startswith(b"\xef\xbb\xbf") else 0)) + 1
        raise BadSeed("the file is not UTF-8", at=At(file, line, 1), hint="save it as UTF-8") from None
    if nul >= 0:
        line = content.count(b"\n", 0, nul) + 1
        raise BadSeed("the file holds a NUL byte", at=At(file, line, 1), hint="save it as UTF-8 text")
    if not text.strip():
        raise BadSeed("the file is empty", at=At(file, 1, 1), hint="the first row must name the columns")
    return text


def _iter_records(text: str, delimiter: str, file: str) -> Iterator[_Record]:
    """The rows with the line each begins on; blank lines are none."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=delimiter)
    line = 1
    try:
        for values in reader:
            if values:
                yield _Record(line, values)
            line = reader.line_num + 1
    except csv.Error as error:
        raise _build_row_error(str(error), At(file, line, 1)) from None


def _build_row_error(report: str, at: At) -> BadSeed:
    hint = 'a quote inside a value is written ""'
    if "unexpected end of data" in report:
        return BadSeed("a quote that opens in this row is never closed", at=at, hint=hint)
    if "expected after" in report:
        return BadSeed("a quoted value in this row goes on after its closing quote", at=at, hint=hint)
    return BadSeed(f"this row cannot be read: {report}", at=at)


def _read_header(text: str, records: list[_Record], delimiter: str, file: str) -> list[str]:
    if not records:
        raise BadSeed("the file is empty", at=At(file, 1, 1), hint="the first row must name the columns")
    names = [name.strip() for name in records[0].values]
    problems = Errors()
    starts = _find_field_starts(text, records[0].line, delimiter)
    names_by_folded: dict[str, str] = {}
    for name, start in zip(names, starts, strict=False):
        at = locate_offset(text, start, file, len(name))
        if not name:
            problems.add(BadSeed("a column has no name", at=at, hint="the first row must name every column"))
        elif name.lower() in names_by_folded:
            other = names_by_folded[name.lower()]
            hint = None if other == name else f'the other one is "{other}"; case is ignored'
            problems.add(BadSeed(f'two columns are called "{name}"', at=at, hint=hint))
        names_by_folded.setdefault(name.lower(), name)
    problems.raise_any()
    return names


def _find_field_starts(text: str, line: int, delimiter: str) -> list[int]:
    """The offsets at which the fields of the header row begin."""
    start = 0
    for _ in range(line - 1):
        start += len(io.StringIO(text[start:], newline="").readline())
    starts, quoted = [start], False
    for offset in range(start, len(text)):
        match text[offset]:
            case '"':
                quoted = not quoted
            case "\n" | "\r" if not quoted:
                break
            case char if char == delimiter and not quoted:
                starts.append(offset + 1)
    return starts


def _check_widths(rows: list[_Record], width: int, file: str, errors: Errors) -> list[_Record]:
    ragged = [row for row in rows if len(row.values) != width]
    for row in ragged[:_REPORTED_ROWS]:
        values = "1 value" if len(row.values) == 1 else f"{len(row.values)} values"
        errors.add(BadSeed(f"row has {values}, the header has {width}", at=At(file, row.line, 1)))
    return [row for row in rows if len(row.values) == width]


def _infer_columns(
    names: list[str], texts: list[list[str]], options: _Options, errors: Errors
) -> tuple[SeedColumn, ...]:
    present = {name.lower() for name in names}
    for lowered, (name, _, at) in options.types.items():
        if lowered not in present:
            message = f"the seed has no column `{name}`"
            hint = suggest_nearest(name, names) or f"its columns are {', '.join(names)}"
            errors.add(UnknownKey(message, at=at, hint=hint))
    columns = []
    for name, values in zip(names, texts, strict=True):
        _, declared, _ = options.types.get(name.lower(), ("", None, None))
        columns.append(SeedColumn(name, declared or infer_text_type(v for v in values if v not in options.null_values)))
    return tuple(columns)


def _convert_rows(
    columns: Sequence[SeedColumn], rows: list[_Record], null_values: Sequence[str], file: str, errors: Errors
) -> list[list[Any]]:
    table: list[list[Any]] = [[] for _ in columns]
    nulls, reported = frozenset(null_values), 0
    parsers = [build_text_parser(column.type) for column in columns]
    for row in rows:
        for column, parse, text, values in zip(columns, parsers, row.values, table, strict=True):
            try:
                values.append(None if text in nulls else parse(text))
            except ValueError:
                values.append(None)
                reported += 1
                if reported <= _REPORTED_ROWS:
                    message = f'"{text}" does not fit column `{column.name}`, which is {column.type}'
                    errors.add(BadSeedValue(message, at=At(file, row.line, 1)))
    return table


def _read_options(root: Path, path: Path, errors: Errors) -> _Options:
    default = _Options(",", ("",), {}, {})
    settings_file = next((p for s in (".yml", ".yaml") if is_there(p := path.with_suffix(s))), None)
    if settings_file is None:
        return default
    document = read_yaml(settings_file, settings_file.relative_to(root).as_posix(), errors)
    if document is None:
        return default
    if not isinstance(document.value, dict):
        errors.add(BadYaml("the file must be a mapping", at=document.at, hint=f"its keys are {', '.join(SEED_KEYS)}"))
        return default
    section = Section(document.value, "a seed's settings", document.at, errors)
    section.refuse_unknown(SEED_KEYS)
    chosen = {key: entry for key, entry in section.entries.items() if key in SEED_SETTINGS}
    settings = read_settings(chosen, section.where, errors)
    types, descriptions = _read_declared_types(section)
    if descriptions:
        settings["columns"] = Setting(descriptions, section.entries["columns"].at)
    return _Options(_read_delimiter(section), _read_null_values(section), types, settings)


def _read_delimiter(section: Section) -> str:
    delimiter = section.read_text("delimiter")
    if delimiter == "\\t":
        return "\t"
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
        section.report("delimiter", "one character", 'a tab is written "\\t"')
        return ","
    return delimiter or ","


def _read_null_values(section: Section) -> tuple[str, ...]:
    entry = section.entries.get("null_values")
    if entry is None:
        return ("",)
    if not isinstance(entry.value, list) or any(isinstance(item.value, dict | list) for item in entry.value):
        section.report("null_values", "a list of texts", 'such as ["", "NA"]')
        return ("",)
    return tuple(item.text for item in entry.value)


def _read_declared_types(section: Section) -> tuple[dict[str, tuple[str, Type | None, At]], dict[str, str]]:
    """The declared types by lower-case name, and the descriptions by name."""
    types: dict[str, tuple[str, Type | None, At]] = {}
    descriptions: dict[str, str] = {}
    for name, at, kind, description in _iter_column_entries(section):
        if name.lower() in types:
            message = f"column `{name}` is declared twice; it is also at {types[name.lower()][2]}"
            section.errors.add(BadValue(message, at=at, hint="keep one of the two"))
        types[name.lower()] = (name, _parse_type(kind, section.errors) if kind else None, at)
        if description:
            descriptions[name] = description
    return types, descriptions


def _iter_column_entries(section: Section) -> Iterator[tuple[str, At, Entry | None, str]]:
    entry = section.entries.get("columns")
    match entry.value if entry else None:
        case None:
            return
        case dict() as by_name:
            for name, kind in by_name.items():
                yield name, kind.key_at, kind, ""
        case list() as items:
            for item in items:
                if not isinstance(item.value, dict):
                    section.errors.add(BadValue("a column must be a mapping", at=item.at, hint="{name: id, type: int}"))
                    continue
                column = Section(item.value, "a column", item.at, section.errors)
                column.refuse_unknown(COLUMN_KEYS)
                name_entry = column.entries.get("name")
                if name_entry is None or isinstance(name_entry.value, dict | list):
                    section.errors.add(MissingKey("the column has no `name`", at=item.at))
                    continue
                kind_entry = column.entries.get("type")
                yield name_entry.text, name_entry.at, kind_entry, column.read_text("description") or ""
        case _:
            section.report("columns", "a mapping of names to types, or a list")


def _parse_type(entry: Entry, errors: Errors) -> Type | None:
    kind = parse_declared_type(entry.value) if isinstance(entry.value, str) else None
    if kind is not None and can_parse_text(kind):
        return kind
    hint = suggest_nearest(entry.text, _TYPES) or f"types are {', '.join(_TYPES)}"
    message = f"there is no column type {describe(entry.value)}" if kind is None else f"a seed cannot hold {kind}"
    errors.add(BadValue(message, at=entry.at, hint=hint))
    return None
