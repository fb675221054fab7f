"""The grammar of header values, on its own."""

from __future__ import annotations

import pytest

from sqb.names import At
from sqb.project.models.grammar import (
    Malformed,
    Span,
    build_call_leaf,
    find_block_end,
    iter_tokens,
    locate_span,
    read_items,
    read_nested_leaf,
    read_pairs,
    read_text_leaf,
)
from sqb.project.values import Call


def whole(text: str) -> Span:
    return Span(0, len(text))


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("a", ("a",)),
        ("a, b", ("a", "b")),
        ("[a, b]", ("a", "b")),
        ("(a, b,)", ("a", "b")),
        ("[]", ()),
        ("days(ts), bucket(16, id)", ("days(ts)", "bucket(16, id)")),
        ("(id DESC, ts)", ("id DESC", "ts")),
        ("['a, b', \"c\"]", ("a, b", "c")),
        ("(a), (b)", ("(a)", "(b)")),
        ("`odd, name`", ("`odd, name`",)),
    ],
)
def test_items(text: str, items: tuple[str, ...]) -> None:
    assert read_items(text, whole(text), read_text_leaf) == items


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("{a: 1, 'b c' = two}", {"a": 1, "b c": "two"}),
        ("a = true, b: [1, x]", {"a": True, "b": [1, "x"]}),
        ("{a: {b: -1.5}}", {"a": {"b": -1.5}}),
        ("{}", {}),
        ("(k = 'it''s')", {"k": "it's"}),
        (r"{k: 'it\'s'}", {"k": "it's"}),
        ("{u: a:b}", {"u": "a:b"}),
        ("{call: f(1, 2)}", {"call": "f(1, 2)"}),
    ],
)
def test_pairs(text: str, pairs: dict[str, object]) -> None:
    assert read_pairs(text, whole(text), read_nested_leaf) == pairs


@pytest.mark.parametrize(
    ("text", "offset"),
    [("[a, b", 0), ("a, [b)", 5), ("a]", 1), ("a,,b", 2), ("'open", 0), ("f(g(1)", 1)],
)
def test_malformed_items(text: str, offset: int) -> None:
    with pytest.raises(Malformed) as caught:
        read_items(text, whole(text), read_text_leaf)
    assert caught.value.offset == offset


@pytest.mark.parametrize(("text", "offset"), [("{a}", 1), ("{a: 1, a: 2}", 7), ("{: 1}", 1), ("{a: }", 1)])
def test_malformed_pairs(text: str, offset: int) -> None:
    with pytest.raises(Malformed) as caught:
        read_pairs(text, whole(text), read_text_leaf)
    assert caught.value.offset == offset


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("not_null(id)", Call("not_null", ("id",), At("f", 1, 1, 12))),
        ("row_count(>, 0)", Call("row_count", (">", "0"), At("f", 1, 1, 15))),
        ("one_of(c, ['a', 'b'])", Call("one_of", ("c", "['a', 'b']"), At("f", 1, 1, 21))),
        ("now()", Call("now", (), At("f", 1, 1, 5))),
        ("id > 0", "id > 0"),
        ("f(1) + g(2)", "f(1) + g(2)"),
    ],
)
def test_calls(text: str, value: object) -> None:
    assert build_call_leaf("f")(text, whole(text)) == value


def test_block_comments_nest() -> None:
    assert find_block_end("/* a /* b */ c */ d", 0) == 17
    assert find_block_end("/* a /* b */", 0) is None


def test_comments_in_strings_are_none() -> None:
    assert [t.kind for t in iter_tokens("'-- a' -- b\n\"/* c */\"")] == ["string", "comment", "string"]


def test_a_byte_order_mark_takes_no_column() -> None:
    assert locate_span("\ufeffab", Span(2, 3), "f") == At("f", 1, 2, 1)
