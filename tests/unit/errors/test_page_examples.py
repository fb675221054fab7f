"""What the pages about errors show is still what the code says: each message and hint fits a text of the code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = sorted((ROOT / "docs" / "errors").glob("SQB-*.md"))
# Of the text that is shown, so much must be written in the code; the rest are names and values of the example.
_WRITTEN = 0.25
_SHORTEST = 6
# Messages that are mostly values, or made of several texts: what the code has of them.
_PARTS = {
    "did you mean": "did you mean ",
    ". is a project already": "is a project already",
    "KeyError: 'items'": "",
    "the unique key customer_id is not unique": "the unique key ",
    "the post-hook `INSERT": "failed: ",
    "the columns of the result are not": "the columns of the result are not those of the contract",
    "there are 7187886925977544885": "there are ",
    "Spark's log is": "Spark's log is ",
    "org.apache.iceberg:iceberg-spark-runtime": "could not be fetched",
    "write net(amount": "write ",
    "an audit is one SELECT; this is a DELETE": "an audit is one SELECT",
    "not_null(order_id): 3 rows violate it": "violate it",
    "check(CAST(code AS INT) > 0): it could not be evaluated": "it could not be evaluated: ",
    "/home/ana/shop/lake/catalog.db: database is locked": "",
    "give all rows one type, or say which": "give all rows one type, or say which: columns=",
    "start it with `--packages": "start it with `--packages ",
    '"stg_orders" could be archive.stg_orders': " could be ",
    "the SQL does not parse: ": "the SQL does not parse: ",
    "spellings_of_status: the result of": 'there is no column "',
    "spellings_of_status: seeds.orders": " is not a value of type ",
    "there are 2 (promoted from": "there are ",
}
_BLOCK = re.compile(r"^```[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_PLACE = r"(?:[^:]+\.(?:sql|py|toml|yml|csv)(?::\d+)*: )?"
_SHOWN = re.compile(rf"^(?:error\[SQB-\w+\]: {_PLACE}|hint: )(.*)$", re.MULTILINE)


def _list_shown(page: Path) -> list[str]:
    """The messages and hints on a page."""
    return [text for block in _BLOCK.findall(page.read_text(encoding="utf-8")) for text in _SHOWN.findall(block)]


def _read_pattern(node: ast.AST) -> tuple[str, int]:
    """A text of the code with its values left open, as a pattern, and how many characters are written out."""
    match node:
        case ast.Constant(value=str(text)):
            return re.escape(text), len(text)
        case ast.JoinedStr(values=values):
            parts = [_read_pattern(value) for value in values]
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            parts = [_read_pattern(left), _read_pattern(right)]
        case _:
            return "(?:.*?)", 0
    return "".join(pattern for pattern, _ in parts), sum(length for _, length in parts)


def _iter_patterns() -> Iterator[tuple[str, int]]:
    for module in (ROOT / "src" / "sqb").rglob("*.py"):
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant | ast.JoinedStr | ast.BinOp):
                yield _read_pattern(node)


@cache
def _read_code() -> dict[re.Pattern[str], int]:
    """All texts of the code, each with the number of its characters."""
    return {re.compile(pattern, re.DOTALL): length for pattern, length in _iter_patterns() if length >= _SHORTEST}


def _is_in_code(text: str) -> bool:
    code = _read_code()
    part = next((part for start, part in _PARTS.items() if text.startswith(start)), None)
    if part is not None:
        written = re.escape(part)
        return any(written in pattern.pattern for pattern in code)
    return any(length >= _WRITTEN * len(text) and pattern.fullmatch(text) for pattern, length in code.items())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_shows_what_the_code_says(page: Path) -> None:
    assert [text for text in _list_shown(page) if not _is_in_code(text)] == []


def test_every_page_but_one_has_an_example() -> None:
    """A mistake in sqb itself has no message of its own."""
    assert [page.stem for page in PAGES if not _list_shown(page)] == ["SQB-B003", "SQB-X001"]


def test_another_message_is_noticed() -> None:
    assert _is_in_code("the virtual environment pr_123 is detached")
    assert not _is_in_code("the virtual environment pr_123 was detached")
    assert not _is_in_code("these words are nowhere in the code in this order")
