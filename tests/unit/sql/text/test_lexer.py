"""Tokens of Spark SQL: what is one token, what is a comment, and where each stands."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqb.sql.text.lexer import find_closing, split_arguments, tokenize, tokenize_code


def kinds(text: str) -> list[tuple[str, str]]:
    return [(t.kind, t.text) for t in tokenize(text)]


@pytest.mark.parametrize(
    "string",
    [
        "'a'",
        "''",
        "'it''s'",
        r"'it\'s'",
        r"'back\\'",
        "'two\nlines'",
        '"double"',
        '"it""s"',
        "'-- no comment'",
        "'/* nor this */'",
        "'@@nor_this'",
        '"`"',
        r"r'\d'",
        r"r'ends in \'",
        r'R"\n"',
        "x'1F'",
        "X'1f'",
        "'ünïcode 🙂'",
    ],
)
def test_a_string_is_one_token(string: str) -> None:
    assert kinds(f"a {string} b") == [("word", "a"), ("string", string), ("word", "b")]


def test_a_raw_string_ends_where_an_ordinary_one_would_go_on() -> None:
    assert kinds(r"r'\' , '\' , '") == [("string", r"r'\'"), ("symbol", ","), ("string", r"'\' , '")]


@pytest.mark.parametrize("text", ["'abc", '"abc', "`abc", r"'abc\'", "r'abc"])
def test_what_is_never_closed_is_broken(text: str) -> None:
    first = next(iter(tokenize(text)))
    assert first.kind == "broken" and first.start == 0


@pytest.mark.parametrize(
    "comment",
    [
        "-- to the end",
        "--",
        "-- it's not a string",
        "/* a */",
        "/* two\nlines */",
        "/* /* nested */ still */",
        "/**/",
        "/* -- */",
        "/* 'quote */",
        "-- goes on \\\nhere",
    ],
)
def test_comments_are_tokens_that_code_leaves_out(comment: str) -> None:
    text = f"a {comment}\nb"
    assert kinds(text) == [("word", "a"), ("comment", comment), ("word", "b")]
    assert [t.text for t in tokenize_code(text)] == ["a", "b"]


def test_a_block_comment_that_is_never_closed_takes_the_rest() -> None:
    assert kinds("a /* b /* c */ d") == [("word", "a"), ("broken", "/* b /* c */ d")]
    assert kinds("a /*+ b") == [("word", "a"), ("broken", "/*+ b")]


def test_a_hint_is_not_a_comment() -> None:
    assert kinds("SELECT /*+ BROADCAST(t) */ a") == [
        ("word", "SELECT"),
        ("hint", "/*+ BROADCAST(t) */"),
        ("word", "a"),
    ]


@pytest.mark.parametrize("name", ["`a b`", "`a``b`", "`-- x`", "`@@n`", "`ü`"])
def test_backticks_make_one_name(name: str) -> None:
    assert kinds(f"{name}.x") == [("quoted", name), ("symbol", "."), ("word", "x")]


@pytest.mark.parametrize(
    "number",
    ["1", "1.5", ".5", "1.", "1e9", "1E-9", "1.5e+3", "1L", "2S", "3Y", "1.5D", "2F", "1.5BD", "1bd", "1e3D"],
)
def test_a_number_with_its_suffix_is_one_token(number: str) -> None:
    assert kinds(f"{number}+1") == [("number", number), ("symbol", "+"), ("number", "1")]


@pytest.mark.parametrize("word", ["1day", "2nd_column", "_a1", "größe", "a1b2"])
def test_names_may_begin_with_digits(word: str) -> None:
    assert kinds(word) == [("word", word)]


@pytest.mark.parametrize("symbol", ["<=>", "<>", "!=", "<=", ">=", "==", "->", "=>", "::", "||", "<<", ">>", ">>>"])
def test_operators_of_several_characters_are_one_token(symbol: str) -> None:
    assert kinds(f"a{symbol}b") == [("word", "a"), ("symbol", symbol), ("word", "b")]


def test_variables_macros_and_mail_addresses() -> None:
    assert kinds("@@day @@ENV:HOME @mask(x)") == [
        ("variable", "@@day"),
        ("variable", "@@ENV:HOME"),
        ("macro", "@mask"),
        ("symbol", "("),
        ("word", "x"),
        ("symbol", ")"),
    ]
    assert kinds("'a@b.c'") == [("string", "'a@b.c'")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f()", []),
        ("f(a)", ["a"]),
        ("f(a, b)", ["a", "b"]),
        ("f(g(a, b), [c, d], {e, f})", ["g(a, b)", "[c, d]", "{e, f}"]),
        ("f('a, b', c)", ["'a, b'", "c"]),
        ("f(a /* , */, b)", ["a /* , */", "b"]),
        ("f( a ,b )", ["a", "b"]),
    ],
)
def test_arguments_are_split_at_their_own_commas(text: str, expected: list[str]) -> None:
    tokens = tokenize_code(text)
    end = find_closing(tokens, 1)
    assert end == len(tokens) - 1
    assert split_arguments(text, tokens, 1, end) == expected


def test_a_bracket_that_is_never_closed_has_no_end() -> None:
    assert find_closing(tokenize_code("f(a, (b)"), 1) is None


@given(st.text(alphabet="ab1.'\"`\\-/*+ \n@(),rRxé:<>=", max_size=40))
def test_any_text_is_tokens_and_white_space_and_nothing_else(text: str) -> None:
    position = 0
    for token in tokenize(text):
        assert text[position : token.start].strip() == ""
        assert text[token.start : token.end] == token.text
        assert token.end > token.start
        position = token.end
    assert text[position:].strip() == ""


@given(st.text(max_size=30), st.integers(0, 10))
def test_tokens_from_the_middle_keep_their_places(text: str, start: int) -> None:
    for token in tokenize(text, start):
        assert text[token.start : token.end] == token.text
