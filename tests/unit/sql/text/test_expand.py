"""Variables, macros and reference calls become SQL, and every place leads back to the file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqb.sql.text.expand import Expanded, ExpansionContext, ExpansionProblem, expand, format_literal, has_substitution
from sqb.sql.text.lexer import tokenize_code

VALUES: dict[str, object] = {
    "text": "it's",
    "whole": 30,
    "negative": -5,
    "half": 0.5,
    "yes": True,
    "no": False,
    "nothing": None,
    "countries": ["de", "fr"],
    "none_of_them": [],
}


def _fails() -> str:
    raise ValueError("no such thing")


MACROS: dict[str, Callable[..., object]] = {
    "upper": lambda x: f"upper({x})",
    "twice": lambda x: f"@upper(@upper({x}))",
    "add": lambda a, b: f"({a} + {b})",
    "day": lambda: "@@text",
    "forever": lambda: "@forever()",
    "ping": lambda: "@pong()",
    "pong": lambda: "@ping()",
    "fails": _fails,
    "number": lambda: 3,
    "table": lambda name: f'__ref("{name}")',
    "tables": lambda: "__ref('a', 'b')",
    "empty": lambda: "",
}
ENVIRONMENT = {"REGION": "eu-west", "EMPTY": ""}


def words() -> ExpansionContext:
    return ExpansionContext(
        variable=lambda name: format_literal(VALUES[name]) if name in VALUES else None,
        environment=ENVIRONMENT.get,
        macro=MACROS.get,
        known_variables=tuple(VALUES),
        known_macros=tuple(MACROS),
    )


def expanded(text: str, start: int = 0) -> Expanded:
    return expand(text, start, words())


@pytest.mark.parametrize(
    ("value", "sql"),
    [
        ("plain", "'plain'"),
        ("it's", r"'it\'s'"),
        ("a\\b", r"'a\\b'"),
        ("", "''"),
        (7, "7"),
        (-7, " -7"),
        (0.25, "0.25"),
        (-0.25, " -0.25"),
        (float("inf"), "double('inf')"),
        (float("nan"), "double('nan')"),
        (True, "TRUE"),
        (False, "FALSE"),
        (None, "NULL"),
        (["a", 1], "('a', 1)"),
        ((), "()"),
        (date(2024, 2, 29), "DATE '2024-02-29'"),
        (datetime(2024, 2, 29, 12, 30), "TIMESTAMP '2024-02-29 12:30:00'"),
    ],
)
def test_values_as_sql(value: object, sql: str) -> None:
    assert format_literal(value) == sql


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("SELECT @@whole", "SELECT 30"),
        ("SELECT @@text", r"SELECT 'it\'s'"),
        ("SELECT @@half, @@yes, @@no, @@nothing", "SELECT 0.5, TRUE, FALSE, NULL"),
        ("WHERE c IN @@countries", "WHERE c IN ('de', 'fr')"),
        ("SELECT @@ENV:REGION", "SELECT 'eu-west'"),
        ("SELECT @@ENV:EMPTY", "SELECT ''"),
        ("SELECT @upper(a)", "SELECT upper(a)"),
        ("SELECT @upper(@upper(a))", "SELECT upper(upper(a))"),
        ("SELECT @upper(@@text)", r"SELECT upper('it\'s')"),
        ("SELECT @upper(@@ENV:REGION)", "SELECT upper('eu-west')"),
        ("SELECT @twice(a)", "SELECT upper(upper(a))"),
        ("SELECT @day()", r"SELECT 'it\'s'"),
        ("SELECT @add(f(a, b), 'x, y')", "SELECT (f(a, b) + 'x, y')"),
        ("SELECT @add(\n  a,\n  b\n)", "SELECT (a + b)"),
        ("SELECT a@empty()", "SELECT a"),
        ("SELECT 1", "SELECT 1"),
    ],
)
def test_expansion(text: str, result: str) -> None:
    assert expanded(text).text == result


@pytest.mark.parametrize(
    "text",
    [
        "SELECT '@@whole @upper(a) __ref(\"x\")'",
        'SELECT "@@whole"',
        "SELECT `@@whole`",
        "SELECT 1 -- @@whole and @nobody(x)",
        "SELECT 1 /* @@missing */",
        "SELECT 'someone@example.com'",
    ],
)
def test_nothing_is_expanded_inside_strings_names_and_comments(text: str) -> None:
    assert expanded(text).text == text


def test_a_negative_value_after_a_minus_is_not_a_comment() -> None:
    tokens = tokenize_code(expanded("SELECT 10-@@negative, 1").text)
    assert [t.text for t in tokens] == ["SELECT", "10", "-", "-", "5", ",", "1"]


@given(st.text(max_size=20))
def test_any_text_becomes_one_string_literal(value: str) -> None:
    tokens = tokenize_code(format_literal(value))
    assert [t.kind for t in tokens] == ["string"]


@pytest.mark.parametrize(
    ("text", "result", "forced"),
    [
        ('FROM __ref("orders")', "FROM `orders`", {5: "model"}),
        ("FROM __ref('staging.orders') o", "FROM `staging`.`orders` o", {5: "model"}),
        ("FROM __source(\"raw.x\") JOIN __seed('y')", "FROM `raw`.`x` JOIN `y`", {5: "source", 20: "seed"}),
        ("FROM __REF(`orders`)", "FROM `orders`", {5: "model"}),
        ("FROM __ref(orders)", "FROM `orders`", {5: "model"}),
        ('FROM __dbt_ref("d")', "FROM `d`", {5: "dbt"}),
        ("FROM @table(orders) o", "FROM `orders` o", {5: "model"}),
        ("SELECT @add((SELECT 1 FROM __ref('a')), 1)", "SELECT ((SELECT 1 FROM `a`) + 1)", {23: "model"}),
        ("SELECT __ref FROM t", "SELECT __ref FROM t", {}),
        ("SELECT __reference('x') FROM t", "SELECT __reference('x') FROM t", {}),
    ],
)
def test_reference_calls_become_names_of_one_kind(text: str, result: str, forced: dict[int, str]) -> None:
    outcome = expanded(text)
    assert outcome.text == result
    assert outcome.forced == forced


@pytest.mark.parametrize(
    ("text", "kind", "message", "place"),
    [
        ("SELECT @@missing", "unknown variable", "missing", "@@missing"),
        ("SELECT @@ENV:NOT_SET", "variable", "the environment variable NOT_SET is not set", "@@ENV:NOT_SET"),
        ("SELECT @nobody(1)", "unknown macro", "nobody", "@nobody"),
        ("SELECT @upper", "macro", "@upper is called without parentheses", "@upper"),
        ("SELECT @upper(a", "macro", "the call of @upper is never closed", "@upper"),
        ("SELECT @fails()", "macro", "@fails failed: ValueError: no such thing", "@fails()"),
        ("SELECT @number()", "macro", "@number returned int, not text", "@number()"),
        ("SELECT @forever()", "macro", "@forever calls macros without end", "@forever"),
        ("SELECT @ping()", "macro", "@ping calls macros without end", "@ping"),
        ("SELECT @upper(@nobody(1))", "unknown macro", "nobody", "@upper(@nobody(1))"),
        ("SELECT @upper(@upper)", "macro", "@upper is called without parentheses", "@upper(@upper)"),
        ("SELECT @upper(@@missing)", "unknown variable", "missing", "@upper"),
        ("FROM __ref('a', 'b')", "reference", "__ref(…) takes one name", "__ref"),
        ("FROM __ref()", "reference", "__ref(…) takes one name", "__ref"),
        ("SELECT @tables()", "reference", "__ref(…) takes one name", "@tables()"),
        ("FROM __seed(a.b)", "reference", "__seed(…) takes one name", "__seed"),
    ],
)
def test_what_cannot_be_expanded_is_reported_at_its_place(text: str, kind: str, message: str, place: str) -> None:
    with pytest.raises(ExpansionProblem) as caught:
        expanded("-- first line\n" + text)
    problem = caught.value
    assert (problem.kind, problem.message) == (kind, message)
    assert ("-- first line\n" + text)[problem.start : problem.end] == place


def test_the_wrong_number_of_arguments_is_the_macros_own_error() -> None:
    with pytest.raises(ExpansionProblem, match=r"@add failed: TypeError: .*argument"):
        expanded("SELECT @add(a)")


def test_what_was_used_is_remembered() -> None:
    text = expanded("SELECT @twice(a), @@ENV:REGION, @upper(b)")
    assert text.macros == ("twice", "upper")
    assert text.environment == {"REGION": "eu-west"}


def test_places_lead_back_to_the_file() -> None:
    text = "-- @kind: table\nSELECT @@whole AS a, @upper(b) AS c FROM __ref('x') JOIN y"
    result = expanded(text, text.index("SELECT"))
    assert result.text == "SELECT 30 AS a, upper(b) AS c FROM `x` JOIN y"
    for word in ("SELECT", "AS a", "AS c", "JOIN y"):
        assert result.trace_origin(result.text.index(word)) == text.index(word)
    assert result.trace_origin(result.text.index("30")) == text.index("@@whole")
    assert result.trace_origin(result.text.index("(b)")) == text.index("@upper")
    assert result.trace_origin(result.text.index("`x`")) == text.index("__ref")
    assert result.trace_origin(len(result.text)) == len(text)


@given(st.lists(st.sampled_from(["a", "@@whole", "@upper(x)", "__ref('t')", "'@@whole'", "-- c\n", "@empty()"])))
def test_copied_text_always_leads_back_to_itself(parts: list[str]) -> None:
    text = "SELECT " + " , ".join(parts)
    result = expanded(text, 3)
    for piece in result.pieces:
        if piece.is_copied:
            length = piece.origin_end - piece.origin
            assert result.text[piece.at : piece.at + length] == text[piece.origin : piece.origin_end]
        assert result.trace_origin(piece.at) == piece.origin


@pytest.mark.parametrize(
    ("text", "place", "hint"),
    [
        ("SELECT ${env:HOME} AS h", "${env:HOME}", "write @@ENV:HOME"),
        ("SELECT 1 FROM ${spark.x}", "${spark.x}", "write @@name and give it a value in [vars] or with --vars"),
        ("SELECT @@whole, ${a b", "${", "write @@name"),
        ("SELECT @broken() AS x", "@", "write @@name"),
    ],
)
def test_a_substitution_of_sparks_is_refused(text: str, place: str, hint: str) -> None:
    macro = {**MACROS, "broken": lambda: "${system:user.name}"}.get
    with pytest.raises(ExpansionProblem) as problem:
        expand(text, 0, replace(words(), macro=macro))
    assert problem.value.kind == "substitution"
    assert text[problem.value.start : problem.value.end] == place
    assert problem.value.hint is not None and problem.value.hint.startswith(hint)


@pytest.mark.parametrize("text", ["SELECT '${env:HOME}' -- ${x}", 'SELECT `${x}` /* ${y} */ FROM "${t}"', "SELECT $ {"])
def test_a_substitution_in_a_string_a_name_or_a_comment_is_text(text: str) -> None:
    assert expanded(text).text == text


def test_strings_that_look_like_substitutions_are_known() -> None:
    assert has_substitution("SELECT 'a ${x}' AS b")
    assert not has_substitution("SELECT `${x}`, 'x' -- '${x}'")
