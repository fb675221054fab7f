"""`sources/*.yml`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sqb.errors.base import Errors
from sqb.names import At, Relation
from sqb.project.sources import load_sources
from sqb.project.values import AgePolicy, Freshness, Source

FILE = "sources/s.yml"
Load = Callable[..., tuple[Source, ...]]


@pytest.fixture
def load(tmp_path: Path, errors: Errors) -> Load:
    def load(**files: str) -> tuple[Source, ...]:
        (tmp_path / "sources").mkdir()
        for name, text in files.items():
            (tmp_path / "sources" / name.replace("_", ".")).write_text(text, encoding="utf-8")
        return load_sources(tmp_path, errors)

    return load


def test_no_folder(tmp_path: Path, errors: Errors) -> None:
    assert load_sources(tmp_path, errors) == ()


@pytest.mark.parametrize("text", ["", "# nothing\n", "sources:\n", "sources: []\n", "---\n", "\ufeffsources: []\n"])
def test_nothing_declared(text: str, load: Load, errors: Errors) -> None:
    assert load(s_yml=text) == ()
    assert errors.found == []


def test_sources_in_the_order_of_files(load: Load, errors: Errors) -> None:
    loaded = load(
        b_yaml="sources:\n- name: raw.b\n",
        a_yml="sources:\n- name: raw.z\n  description: all of it\n- {name: raw.a, managed: false}\n",
    )
    assert errors.found == []
    assert [s.name for s in loaded] == ["raw.z", "raw.a", "raw.b"]
    assert loaded[0] == Source("raw.z", Relation("raw", "z"), At("sources/a.yml", 2, 9, 5), "all of it")


@pytest.mark.parametrize(
    ("freshness", "expected"),
    [
        ("{}", Freshness()),
        (
            "{strategy: adapter, age_policy: {warn_after: 1d, error_after: 36h}}",
            Freshness(age_policy=AgePolicy("1d", "36h")),
        ),
        (
            "{strategy: column, column: ts, type: timestamp, filter: x > 1, lag_tolerance: 5m}",
            Freshness("column", "ts", None, "timestamp", "x > 1", "5m"),
        ),
        ("{strategy: sql, sql: select 1, type: integer}", Freshness("sql", None, "select 1", "integer")),
        ("{column: ts}", Freshness("column", "ts")),
        ("{sql: select 1}", Freshness("sql", None, "select 1")),
        (
            "{column: ts, type: timestamp, age_policy: {error_after: 1d}}",
            Freshness("column", "ts", None, "timestamp", age_policy=AgePolicy(None, "1d")),
        ),
    ],
)
def test_freshness(freshness: str, expected: Freshness, load: Load, errors: Errors) -> None:
    (source,) = load(s_yml=f"sources:\n- name: raw.a\n  freshness: {freshness}\n")
    assert errors.found == []
    assert source.freshness == expected


def fresh(inner: str) -> str:
    return f"sources:\n- name: raw.a\n  freshness:\n    {inner}\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("- a\n", ("BadYaml", "1:1", None)),
        ("sources: {}\n", ("BadYaml", "1:10", "write each source as `- name: schema.table`")),
        ("sources:\n- raw.a\n", ("BadYaml", "2:3", "write `- name: schema.table`")),
        ("sources:\n\t- a\n", ("BadYaml", "2:1", "this is a tab: YAML is indented with spaces")),
        ("sources: [\n", ("BadYaml", "2:1", None)),
        ("a: b: c\n", ("BadYaml", "1:5", None)),
        ("sources: []\n---\nx: 1\n", ("BadYaml", "2:1", None)),
        ("sources: &a [*a]\n", ("BadYaml", "1:10", None)),
        ("? [a]\n: 1\n", ("BadYaml", "1:3", None)),
        ("source: []\n", ("UnknownKey", "1:1", "did you mean 'sources'?")),
        ("sources: []\nsources: []\n", ("DuplicateKey", "2:1", "keep one of the two")),
        ("sources:\n- name: raw.a\n  name: raw.b\n", ("DuplicateKey", "3:3", "keep one of the two")),
        ("sources:\n- name: raw.a\n- name: RAW.A\n", ("DuplicateKey", "3:9", "keep one of the two")),
        ("sources:\n- description: x\n", ("MissingKey", "2:3", "add `name: schema.table`")),
        ("sources:\n- name: raw.a\n  descripton: x\n", ("UnknownKey", "3:3", "did you mean 'description'?")),
        ("sources:\n- name: 3\n", ("BadValue", "2:9", "put it in quotes")),
        ("sources:\n- name:\n", ("BadValue", "2:8", None)),
        ("sources:\n- name: orders\n", ("BadValue", "2:9", "write `name: schema.orders`")),
        ("sources:\n- name: a.b.c\n", ("BadValue", "2:9", None)),
        ("sources:\n- name: raw.a b\n", ("BadValue", "2:9", None)),
        ("sources:\n- name: raw.a\n  managed: 1\n", ("BadValue", "3:12", None)),
        ("sources:\n- name: a.b.c\n  path: x/*.csv\n", ("BadValue", "2:9", None)),
        (
            "sources:\n- name: a\n  path: s3://x/*.csv\n",
            ("BadValue", "3:9", "other file systems cannot be listed without starting Java"),
        ),
        ("sources:\n- name: a\n  path: /\n  format: csv\n", ("BadValue", "3:9", None)),
        (
            "sources:\n- name: a\n  expression: select 1\n  freshness: {}\n",
            ("Contradiction", "4:3", "declare the tables that it reads, and give them `freshness`"),
        ),
        ("sources:\n- name: raw.a\n  format: csv\n", ("Contradiction", "3:3", None)),
        ("sources:\n- name: raw.a\n  freshness: 3\n", ("BadValue", "3:14", None)),
        (fresh("stratgy: sql"), ("UnknownKey", "4:5", "did you mean 'strategy'?")),
        (fresh("strategy: colunm"), ("BadValue", "4:15", "did you mean 'column'?")),
        (fresh("strategy: column"), ("MissingKey", "4:15", "add `column: …` beside it")),
        (fresh("strategy: sql"), ("MissingKey", "4:15", "add `sql: …` beside it")),
        (fresh("{strategy: adapter, column: ts}"), ("Contradiction", "4:25", None)),
        (fresh("{strategy: adapter, type: integer}"), ("Contradiction", "4:31", "remove it")),
        (
            fresh("{column: ts, type: timestamp, lag_tolerance: soon}"),
            ("BadValue", "4:50", "such as 90m, 24h or 1d12h"),
        ),
        (fresh("{column: ts, sql: x}"), ("Contradiction", "4:18", None)),
        (fresh("{sql: x, filter: y}"), ("Contradiction", "4:14", None)),
        (fresh("{column: ts, type: date}"), ("BadValue", "4:24", None)),
        (fresh("{column: ts, lag_tolerance: 5m}"), ("Contradiction", "4:18", "add `type: timestamp`")),
        (
            fresh("{column: n, type: integer, age_policy: {warn_after: 1d}}"),
            ("Contradiction", "4:32", "add `type: timestamp`"),
        ),
        (fresh("{lag_tolerance: 5m}"), ("Contradiction", "4:6", "add `type: timestamp`")),
        (fresh("age_policy: {warn_after: soon}"), ("BadValue", "4:30", "such as 90m, 24h or 1d12h")),
        (fresh("age_policy: {warn_after: 24}"), ("BadValue", "4:30", "such as 90m, 24h or 1d12h")),
        (fresh("age_policy: {warn_aftr: 1d}"), ("UnknownKey", "4:18", "did you mean 'warn_after' or 'error_after'?")),
        (
            fresh("age_policy: {warn_after: 2d, error_after: 36h}"),
            ("Contradiction", "4:47", "make `error_after` the longer one"),
        ),
    ],
)
def test_problems(text: str, problem: tuple[str, str, str | None], load: Load, seen: Callable[[], Any]) -> None:
    load(s_yml=text)
    name, at, hint = problem
    assert seen() == [(name, f"{FILE}:{at}", hint)]


@pytest.mark.parametrize(
    ("entry", "problems"),
    [
        ("path: x\n  expression: y", ["Contradiction", "MissingKey"]),
        ("path: x", ["MissingKey"]),
        ("path: x.csv\n  format: tsv", ["BadValue"]),
        ("path: x.csv.gz", []),
        ("path: x.csv\n  options: {header: true}", []),
        ("path: x.csv\n  managed: true", ["Contradiction"]),
    ],
)
def test_file_sources_are_checked(entry: str, problems: list[str], load: Load, seen: Callable[[], Any]) -> None:
    load(s_yml=f"sources:\n- name: a\n  {entry}\n")
    assert sorted(name for name, _, _ in seen()) == problems


def test_what_file_sources_hold(load: Load) -> None:
    (source,) = load(s_yml="sources:\n- name: raw.a\n  path: in/*.csv\n  options: {header: true, n: 1}\n")
    assert (source.relation, source.path, source.format) == (None, "in/*.csv", "csv")
    assert source.options == {"header": "true", "n": "1"}


def test_a_source_declared_in_two_files(load: Load, errors: Errors) -> None:
    loaded = load(a_yml="sources:\n- name: raw.a\n", b_yml="sources:\n\n- name: raw.a\n")
    (error,) = errors.found
    assert str(error.at) == "sources/b.yml:3:9"
    assert error.message == "source `raw.a` is declared twice; it is also at sources/a.yml:2:9"
    assert len(loaded) == 1


def test_places_count_characters(load: Load, seen: Callable[[], Any]) -> None:
    load(s_yml="# ünïcödé ✓ 🎉\nsources:\n- {description: '✓🎉', nam: x, name: raw.a}\n")
    assert [(name, at) for name, at, _ in seen()] == [("UnknownKey", f"{FILE}:3:23")]


def test_not_utf8(tmp_path: Path, errors: Errors, seen: Callable[[], Any]) -> None:
    (tmp_path / "sources").mkdir()
    (tmp_path / FILE).write_bytes(b"sources: \xff")
    load_sources(tmp_path, errors)
    assert seen() == [("Unreadable", FILE, "save it as UTF-8")]


def test_a_control_character(load: Load, seen: Callable[[], Any]) -> None:
    load(s_yml="sources: []\na: \x01\n")
    assert [(name, at.split(":")[0]) for name, at, _ in seen()] == [("BadYaml", FILE)]
