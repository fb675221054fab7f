"""`seeds/*.csv` and the `.yml` beside them."""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqb.errors.base import Errors
from sqb.errors.project import BadSeed
from sqb.project.seeds import load_seed, read_columns
from sqb.project.values import Seed, SeedColumn
from sqb.types.model import BIGINT, DATE, STRING, Type
from sqb.types.parse import parse_type
from sqb.types.text import infer_text_type, parse_value

FILE = "seeds/s.csv"
YML = "seeds/s.yml"
Load = Callable[..., Seed | None]


def kind_of(text: str) -> Type:
    kind = parse_type(text)
    assert kind is not None
    return kind


def write(root: Path, content: str | bytes, yml: str | None = None, file: str = FILE) -> Path:
    path = root / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    if yml is not None:
        path.with_suffix(".yml").write_text(yml, encoding="utf-8")
    return path


@pytest.fixture
def load(tmp_path: Path, errors: Errors) -> Load:
    return lambda content, yml=None: load_seed(tmp_path, write(tmp_path, content, yml), errors)


def test_a_seed(load: Load, tmp_path: Path, errors: Errors) -> None:
    seed = load("id,name,since\n1,Ann,2024-01-02\n2,,2024-02-03\n")
    assert errors.found == []
    assert seed is not None
    assert (seed.name, seed.file, seed.rows) == ("s", FILE, 2)
    assert seed.columns == (SeedColumn("id", BIGINT), SeedColumn("name", STRING), SeedColumn("since", DATE))
    assert read_columns(tmp_path, seed) == [[1, 2], ["Ann", None], [date(2024, 1, 2), date(2024, 2, 3)]]


def test_nested_folders_keep_the_file_name(tmp_path: Path, errors: Errors) -> None:
    seed = load_seed(tmp_path, write(tmp_path, "a\n1\n", "tags: x\n", "seeds/geo/eu/lands.csv"), errors)
    assert seed is not None
    assert (seed.name, seed.file, seed.settings["tags"].value) == ("lands", "seeds/geo/eu/lands.csv", ("x",))


def test_a_header_without_rows(load: Load, tmp_path: Path) -> None:
    seed = load("a,b\n")
    assert seed is not None
    assert (seed.rows, [c.type for c in seed.columns]) == (0, [STRING, STRING])
    assert read_columns(tmp_path, seed) == [[], []]


def test_settings(load: Load, tmp_path: Path, errors: Errors) -> None:
    seed = load(
        "id;code;n\n1;007;NA\n2;;null\n",
        """\
columns:
- {name: ID, type: integer, description: the id}
- {name: code, type: text}
delimiter: ";"
null_values: [NA, null]
description: some rows
tags: [a, b]
schema: other
alias: t
table_properties: {write.format.default: orc}
enabled: false
""",
    )
    assert errors.found == []
    assert seed is not None
    assert [(c.name, str(c.type)) for c in seed.columns] == [("id", "int"), ("code", "string"), ("n", "string")]
    assert (seed.delimiter, seed.null_values) == (";", ("NA", "null"))
    assert {key: s.value for key, s in seed.settings.items()} == {
        "columns": {"ID": "the id"},
        "description": "some rows",
        "tags": ("a", "b"),
        "schema": "other",
        "alias": "t",
        "table_properties": {"write.format.default": "orc"},
        "enabled": False,
    }
    assert read_columns(tmp_path, seed) == [[1, 2], ["007", ""], [None, None]]


@pytest.mark.parametrize("yml", ['delimiter: "\\t"\n', "delimiter: '\\t'\n", "delimiter: \\t\n"])
def test_tabs(yml: str, load: Load) -> None:
    seed = load("a\tb\n1\t2\n", yml)
    assert seed is not None
    assert [c.name for c in seed.columns] == ["a", "b"]


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        ([], "string"),
        (["true", "FALSE"], "boolean"),
        (["true", "1"], "string"),
        (["0", "-1", "9223372036854775807"], "bigint"),
        (["1", "007"], "string"),
        (["+1"], "string"),
        (["1", "2.5", "-1e3", ".5", "5."], "double"),
        (["00.5"], "string"),
        (["1e999"], "string"),
        (["9223372036854775808"], "double"),
        (["12345678901234567890"], "string"),
        (["0.5", "9007199254740993"], "string"),
        (["nan"], "string"),
        (["2024-02-29"], "date"),
        (["2023-02-29"], "string"),
        (["2024-1-2"], "string"),
        (["2024-01-02 03:04:05", "2024-01-02T03:04:05.123456"], "timestamp_ntz"),
        (["2024-01-02 03:04"], "string"),
        (["2024-01-02 25:00:00"], "string"),
        (["2024-01-02T03:04:05Z", "2024-01-02 03:04:05.5+02:00"], "timestamp"),
        (["2024-01-02T03:04:05Z", "2024-01-02 03:04:05"], "string"),
        (["2024-01-02", "2024-01-02 03:04:05"], "string"),
        ([" 1"], "string"),
        (["١"], "string"),
    ],
)
def test_inference(texts: list[str], kind: str) -> None:
    assert str(infer_text_type(texts)) == kind


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("boolean", "Yes", True),
        ("boolean", "0", False),
        ("tinyint", "-128", -128),
        ("smallint", "32767", 32767),
        ("int", " +7 ", 7),
        ("int", "-2147483648", -(2**31)),
        ("bigint", "007", 7),
        ("float", "1.5", 1.5),
        ("double", "-Infinity", float("-inf")),
        ("decimal(5,2)", "1.5", Decimal("1.50")),
        ("decimal(5,2)", "123.4500", Decimal("123.45")),
        ("decimal(5,2)", "1e2", Decimal("100.00")),
        ("decimal(5,2)", "-0", Decimal("0.00")),
        ("decimal(38,0)", "9" * 38, Decimal("9" * 38)),
        ("date", "2024-01-02", date(2024, 1, 2)),
        ("timestamp_ntz", "2024-01-02", datetime(2024, 1, 2)),
        ("timestamp_ntz", "2024-01-02T03:04:05.5", datetime(2024, 1, 2, 3, 4, 5, 500000)),
        ("timestamp", "2024-01-02 03:04:05+02:00", datetime(2024, 1, 2, 1, 4, 5, tzinfo=UTC)),
        ("timestamp", "2024-01-02 03:04", datetime(2024, 1, 2, 3, 4, tzinfo=UTC)),
        ("string", " as it is ", " as it is "),
    ],
)
def test_values(kind: str, text: str, value: Any) -> None:
    result = parse_value(kind_of(kind), text)
    assert (result, str(result)) == (value, str(value))


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("boolean", "maybe"),
        ("int", "2147483648"),
        ("int", "1.0"),
        ("int", "1_000"),
        ("bigint", "9223372036854775808"),
        ("float", "1e39"),
        ("double", "1e999"),
        ("double", "1,5"),
        ("tinyint", "128"),
        ("smallint", "-32769"),
        ("decimal(5,2)", "1.555"),
        ("decimal(5,2)", "1000"),
        ("decimal(5,2)", "NaN"),
        ("date", "02.01.2024"),
        ("date", "2024-13-01"),
        ("timestamp_ntz", "2024-01-02T03:04:05Z"),
        ("timestamp", "0001-01-01 00:00:00+14:00"),
    ],
)
def test_values_that_do_not_fit(kind: str, text: str) -> None:
    with pytest.raises(ValueError):
        parse_value(kind_of(kind), text)


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        ("integer", "int"),
        ("LONG", "bigint"),
        ("text", "string"),
        ("varchar", "string"),
        ("varchar(20)", "string"),
        ("Decimal( 10 , 2 )", "decimal(10,2)"),
        ("decimal(7)", "decimal(7,0)"),
        ("numeric", "decimal(10,0)"),
        ("tinyint", "tinyint"),
        ("BYTE", "tinyint"),
        ("smallint", "smallint"),
        ("short", "smallint"),
        ("real", "float"),
        ("char(3)", "string"),
        ("timestamp_ltz", "timestamp"),
        ("void", None),
        ("string collate UTF8_LCASE", None),
        ("binary", None),
        ("interval day", None),
        ("decimal(39,2)", None),
        ("decimal(2,3)", None),
        ("int(4)", None),
        ("array<int>", None),
        ("timestamp_ntz", "timestamp_ntz"),
    ],
)
def test_types(written: str, kind: str | None, load: Load) -> None:
    seed = load("v\n", f"columns: {{v: '{written}'}}\n")
    assert (None if seed is None else str(seed.columns[0].type)) == kind


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", ("BadSeed", "1:1", "the first row must name the columns")),
        ("\n \n", ("BadSeed", "1:1", "the first row must name the columns")),
        ("\ufeff", ("BadSeed", "1:1", "the first row must name the columns")),
        ("a,b\n1\n", ("BadSeed", "2:1", None)),
        ("a,b\n1,2\n1,2,3\n", ("BadSeed", "3:1", None)),
        ('a,b\n"x\ny\nz",1\n1\n', ("BadSeed", "5:1", None)),
        ("a,b\r\n1,2\r\n\r\n3\r\n", ("BadSeed", "4:1", None)),
        ("id,name,id\n1,2,3\n", ("BadSeed", "1:9", None)),
        ("id,ID\n1,2\n", ("BadSeed", "1:4", 'the other one is "id"; case is ignored')),
        ('"a,b",c,c\n1,2,3\n', ("BadSeed", "1:9", None)),
        ("\n\na,a\n1,2\n", ("BadSeed", "3:3", None)),
        ("a,,b\n1,2,3\n", ("BadSeed", "1:3", "the first row must name every column")),
        ("a,b,\n1,2,3\n", ("BadSeed", "1:5", "the first row must name every column")),
        ('a,b\n1,2\n3,"x\n4,5\n', ("BadSeed", "3:1", 'a quote inside a value is written ""')),
        ('a,b\n1,"x"y\n', ("BadSeed", "2:1", 'a quote inside a value is written ""')),
        (b"a,b\n1,2\n\xe9,3\n", ("BadSeed", "3:1", "save it as UTF-8")),
        (b"\xef\xbb\xbfa\n\xff\n", ("BadSeed", "2:1", "save it as UTF-8")),
        (b"\xff\xfea\x00", ("BadSeed", "1:1", "save it as UTF-8")),
        (b"a,b\n1,\x00\n", ("BadSeed", "2:1", "save it as UTF-8 text")),
    ],
)
def test_broken_files(
    content: str | bytes, problem: tuple[str, str, str | None], load: Load, seen: Callable[[], Any]
) -> None:
    assert load(content) is None
    name, at, hint = problem
    assert seen() == [(name, f"{FILE}:{at}", hint)]


def test_ragged_rows_are_counted_in_words(load: Load, errors: Errors) -> None:
    load("a,b,c,d,e\n1,2,3,4\n" + "1\n" * 20)
    assert [e.message for e in errors.found[:2]] == [
        "row has 4 values, the header has 5",
        "row has 1 value, the header has 5",
    ]
    assert len(errors.found) == 5


ROWS = "id,name\n1,Ann\n2,Bob\n"


@pytest.mark.parametrize(
    ("yml", "problem"),
    [
        ("- a\n", ("BadYaml", f"{YML}:1:1")),
        ("a: [\n", ("BadYaml", f"{YML}:2:1")),
        ("colums: {}\n", ("UnknownKey", f"{YML}:1:1")),
        ("kind: table\n", ("UnknownKey", f"{YML}:1:1")),
        ("columns: 3\n", ("BadValue", f"{YML}:1:10")),
        ("columns: {nme: string}\n", ("UnknownKey", f"{YML}:1:11")),
        ("columns:\n- name: nme\n", ("UnknownKey", f"{YML}:2:9")),
        ("columns: {id: itn}\n", ("BadValue", f"{YML}:1:15")),
        ("columns: {id: 3}\n", ("BadValue", f"{YML}:1:15")),
        ("columns: [id]\n", ("BadValue", f"{YML}:1:11")),
        ("columns:\n- type: int\n", ("MissingKey", f"{YML}:2:3")),
        ("columns:\n- {name: id, typ: int}\n", ("UnknownKey", f"{YML}:2:14")),
        ("columns:\n- {name: id}\n- {name: ID}\n", ("BadValue", f"{YML}:3:10")),
        ("delimiter: ab\n", ("BadValue", f"{YML}:1:12")),
        ("delimiter: '\"'\n", ("BadValue", f"{YML}:1:12")),
        ("delimiter: 3\n", ("BadValue", f"{YML}:1:12")),
        ("null_values: NA\n", ("BadValue", f"{YML}:1:14")),
        ("enabled: maybe\n", ("BadValue", f"{YML}:1:10")),
        ("alias: two words\n", ("BadValue", f"{YML}:1:8")),
        ("tags: a\ntags: b\n", ("DuplicateKey", f"{YML}:2:1")),
        ("columns: {name: int}\nnull_values: [Ann]\n", ("BadSeedValue", f"{FILE}:3:1")),
    ],
)
def test_wrong_settings(yml: str, problem: tuple[str, str], load: Load, seen: Callable[[], Any]) -> None:
    assert load(ROWS, yml) is None
    assert [(name, at) for name, at, _ in seen()] == [problem]


@pytest.mark.parametrize(
    ("yml", "hint"),
    [
        ("colums: {}\n", "did you mean 'columns'?"),
        ("columns: {nme: string}\n", "did you mean 'name'?"),
        ("columns: {id: itn}\n", "did you mean 'int'?"),
        ("delimiter: ab\n", 'a tab is written "\\t"'),
    ],
)
def test_hints(yml: str, hint: str, load: Load, errors: Errors) -> None:
    load(ROWS, yml)
    assert hint.split("?")[0] in (errors.found[0].hint or "")


def test_a_value_that_does_not_fit_names_line_and_column(load: Load, errors: Errors) -> None:
    load('a,b\n"x\ny",1\nz,ten\n', "columns: {b: int}\n")
    (error,) = errors.found
    assert (str(error.at), error.message) == (f"{FILE}:4:1", '"ten" does not fit column `b`, which is int')


def hash_of(root: Path, content: str | bytes, yml: str | None = None) -> str:
    errors = Errors()
    seed = load_seed(root, write(root, content, yml), errors)
    assert seed is not None, errors.found
    return seed.content_hash


@pytest.mark.parametrize(
    ("content", "yml"),
    [
        ("a,b\r\n1,x\r\n2,y\r\n", None),
        ("\ufeffa,b\n1,x\n2,y\n", None),
        ('"a","b"\n"1","x"\n"2","y"', None),
        ("a;b\n1;x\n2;y\n", "delimiter: ;\n"),
        ("a,b\n1,x\n\n2,y\n", "description: d\n"),
        ("a,b\n1,x\n2,y\n", "columns: {a: bigint}\n"),
    ],
)
def test_spelling_does_not_change_the_hash(content: str, yml: str | None, tmp_path: Path) -> None:
    assert hash_of(tmp_path / "1", content, yml) == hash_of(tmp_path / "2", "a,b\n1,x\n2,y\n")


@pytest.mark.parametrize(
    ("content", "yml"),
    [
        ("a,b\n2,y\n1,x\n", None),
        ("a,c\n1,x\n2,y\n", None),
        ("a,b\n1,x\n2,\n", None),
        ("a,b\n1,x\n", None),
        ("a,b\n1,x\n2,y\n", "columns: {a: int}\n"),
        ("a,b\n1,x\n2,y\n", "null_values: [y]\n"),
    ],
)
def test_content_changes_the_hash(content: str, yml: str | None, tmp_path: Path) -> None:
    assert hash_of(tmp_path / "1", content, yml) != hash_of(tmp_path / "2", "a,b\n1,x\n2,y\n")


def test_null_and_the_text_that_looks_like_it_differ(tmp_path: Path) -> None:
    assert hash_of(tmp_path / "1", "a\nNone\nx\n") != hash_of(tmp_path / "2", "a\nNone\nx\n", "null_values: [None]\n")


def test_a_file_that_changed_under_a_build(load: Load, tmp_path: Path) -> None:
    seed = load("a\n1\n")
    assert seed is not None
    write(tmp_path, "b\n1\n")
    with pytest.raises(BadSeed) as caught:
        read_columns(tmp_path, seed)
    assert caught.value.hint == "build again"


# Carriage returns inside values survive quoting; NUL and lone surrogates cannot be in a UTF-8 seed at all.
_TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)


@given(st.integers(1, 4).flatmap(lambda width: st.lists(st.lists(_TEXTS, min_size=width, max_size=width), min_size=1)))
def test_what_was_written_is_read(rows: list[list[str]]) -> None:
    names = [f"c{i}" for i in range(len(rows[0]))]
    text = io.StringIO(newline="")
    csv.writer(text, quoting=csv.QUOTE_ALL).writerows([names, *rows])
    with tempfile.TemporaryDirectory() as folder:
        root, errors = Path(folder), Errors()
        yml = "columns: {" + ", ".join(f"{name}: string" for name in names) + "}\nnull_values: []\n"
        seed = load_seed(root, write(root, text.getvalue(), yml), errors)
        assert seed is not None, errors.found
        assert read_columns(root, seed) == [list(column) for column in zip(*rows, strict=True)]


_TYPED = {
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "double": st.floats(allow_nan=False),
    "decimal(20,4)": st.decimals(-(10**15), 10**15, places=4),
    "date": st.dates(),
    "timestamp_ntz": st.datetimes(),
    "timestamp": st.datetimes(timezones=st.just(UTC)),
}


@given(st.sampled_from(sorted(_TYPED)).flatmap(lambda k: st.tuples(st.just(k), st.lists(_TYPED[k] | st.none()))))
def test_typed_values_come_back(case: tuple[str, list[Any]]) -> None:
    kind, values = case
    with tempfile.TemporaryDirectory() as folder:
        root, errors = Path(folder), Errors()
        text = "id,v\n" + "".join(f"1,{'' if value is None else value}\n" for value in values)
        seed = load_seed(root, write(root, text, f"columns: {{v: '{kind}'}}\n"), errors)
        assert seed is not None, errors.found
        assert read_columns(root, seed)[1] == values
