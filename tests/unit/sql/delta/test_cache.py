"""A query is classified once for the columns that its tables have, also by another process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sqb.cache.files import read_entries
from sqb.sql.delta import classify
from sqb.sql.delta.cache import ClassificationCache
from sqb.sql.delta.facts import Facts
from sqb.sql.text.template import Template

QUERY = Template(("SELECT id, f(v) AS v FROM ", " AS t"), ("t",))
SCHEMA = {"id": "BIGINT", "v": "STRING"}


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that were parsed."""
    texts: list[str] = []
    original: Callable[..., Facts] = classify.classify_query

    def count(template: Template, *more: object) -> Facts:
        texts.append(template.render(str))
        return original(template, *more)

    monkeypatch.setattr(classify, "classify_query", count)
    return texts


def test_what_was_parsed_is_not_parsed_again(tmp_path: Path, parsed: list[str]) -> None:
    path = tmp_path / "cache" / "classes"
    cache = ClassificationCache(path, "code 1")
    first = cache.classify("m.a", QUERY, [SCHEMA], {"f"})
    assert first.kind == "linear" and cache.classify("m.a", QUERY, [SCHEMA], {"f"}) == first
    cache.save(["m.a"])
    again = ClassificationCache(path, "code 1")
    assert again.classify("m.a", QUERY, [SCHEMA], {"f"}) == first and len(parsed) == 1
    # Nothing new: the file stays as it is.
    before = path.stat().st_mtime_ns
    again.save(["m.a"])
    assert path.stat().st_mtime_ns == before


def test_another_text_other_columns_functions_or_code_are_read_anew(tmp_path: Path, parsed: list[str]) -> None:
    path = tmp_path / "classes"
    cache = ClassificationCache(path, "code 1")
    cache.classify("m.a", QUERY, [SCHEMA], {"f"})
    assert cache.classify("m.a", QUERY, [SCHEMA], ()).kind == "opaque"
    assert cache.classify("m.a", QUERY, [{**SCHEMA, "v": "MAP<INT, INT>"}], {"f"}).kind == "opaque"
    other = Template(("SELECT id FROM ", " AS t LIMIT 1"), ("t",))
    assert cache.classify("m.a", other, [SCHEMA], {"f"}).kind == "opaque"
    cache.save(["m.a"])
    ClassificationCache(path, "code 2").classify("m.a", QUERY, [SCHEMA], {"f"})
    assert len(parsed) == 5


def test_the_file_holds_a_few_for_each_node_that_is_there(tmp_path: Path) -> None:
    path = tmp_path / "classes"
    cache = ClassificationCache(path, "code")
    for number in range(6):
        cache.classify("m.a", QUERY, [{**SCHEMA, f"c{number}": "INT"}], {"f"})
    cache.classify("m.gone", QUERY, [SCHEMA], {"f"})
    cache.save(["m.a"])
    assert [key.partition(" ")[2] for key in read_entries(path, "code")] == ["m.a"] * 4


def test_a_file_that_is_broken_or_cannot_be_written_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "classes"
    path.write_text("code\nbroken")
    assert ClassificationCache(path, "code").classify("m.a", QUERY, [SCHEMA], {"f"}).kind == "linear"
    (tmp_path / "file").write_text("")
    cache = ClassificationCache(tmp_path / "file" / "classes", "code")
    cache.classify("m.a", QUERY, [SCHEMA], {"f"})
    cache.save(["m.a"])
