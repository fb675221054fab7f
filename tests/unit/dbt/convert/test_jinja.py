"""The part of Jinja that conversions carry out, and what they say of the rest."""

from __future__ import annotations

from typing import Any

import pytest

from sqb.dbt.convert.context import FileContext, Library
from sqb.dbt.convert.jinja.evaluate import Evaluator, Macro
from sqb.dbt.convert.jinja.expressions import Binary, Filter, parse_expression
from sqb.dbt.convert.jinja.problems import Unconvertible
from sqb.dbt.convert.jinja.template import list_definitions, parse_template

MACROS = """
{% macro half(x, by=2) %}{{ x }} / {{ by }}{% endmacro %}
{% macro names() %}{{ return(['a', 'b']) }}{% endmacro %}
{% macro lower_of(x) %}{{ return(adapter.dispatch('lower_of')(x)) }}{% endmacro %}
{% macro default__lower_of(x) %}low({{ x }}){% endmacro %}
{% macro spark__lower_of(x) %}lower({{ x }}){% endmacro %}
{% macro endless() %}{{ endless() }}{% endmacro %}
"""


def render(text: str, **variables: Any) -> str:
    macros = {("shop", d.name): Macro(d, "macros/m.sql", "shop") for d in list_definitions(parse_template(MACROS))}
    context = FileContext(Library("shop", macros, variables, {}))
    return Evaluator(context, "models/x.sql").render(parse_template(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a {# gone #}b", "a b"),
        ("{% set n = 2 + 3 * 2 %}{{ n }}", "8"),
        ("{% set n %}x{{ 1 }}{% endset %}<{{ n }}>", "<x1>"),
        ("{% for m in ['a', 'b'] %}{{ m }}{% if not loop.last %}, {% endif %}{% endfor %}", "a, b"),
        ("{% for k, v in {'a': 1}.items() %}{{ k }}={{ v }}{% endfor %}", "a=1"),
        ("{% for n in range(3) if n != 1 %}{{ n }}{% else %}none{% endfor %}", "02"),
        ("{% for n in [] %}{{ n }}{% else %}none{% endfor %}", "none"),
        ("{% if not flags.FULL_REFRESH %}a{% endif %}", "a"),
        ("{% if x is defined %}a{% elif 1 in (1, 2) and not false %}b{% else %}c{% endif %}", "b"),
        ("{{ ['b', 'a', 'b'] | unique | sort | join('-') | upper }}", "A-B"),
        ("{{ 'a' ~ 1 ~ none }}", "a1None"),
        ("{{ 'x' if 1 > 2 else 'y' }}", "y"),
        ("{{ 'A b'.lower().replace(' ', '_') }}", "a_b"),
        ("{{ [1, 2, 3][1:] | length }}", "2"),
        ("a  {%- if true -%}  b  {%- endif %}  c", "ab  c"),
        ("{% raw %}{{ not jinja }}{% endraw %}", "{{ not jinja }}"),
        ("{% set x = half('n', by=4) %}{{ x }}", "n / 4"),
        ("{% for n in names() %}{{ n }}{% endfor %}", "ab"),
        ("{{ lower_of('N') }}", "lower(N)"),
        ("{{ dbt.date_trunc('day', 'ts') }} {{ type_string() }}", "date_trunc('day', ts) string"),
        ("{% do names() %}{{ '{{' }}", "{{"),
        ("{{ names()[0] if execute }}", "a"),
    ],
)
def test_what_files_decide_is_carried_out(text: str, expected: str) -> None:
    assert render(text) == expected


def test_operators_bind_as_jinja_says() -> None:
    assert isinstance(parse_expression("'a' ~ b | upper"), Binary)
    assert isinstance(parse_expression("(a ~ b) | upper"), Filter)


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("select\n{{ run_query('x') }}", 2, "`run_query`"),
        ("{% if target.user == 'ann' %}a{% endif %}", 1, "`target.user`"),
        ("\n\n{{ nothing_known(1) }}", 3, "`nothing_known(…)`"),
        ("{{ dbt_utils.star('x') }}", 1, "`dbt_utils.star`"),
        ("{{ other.thing() }}", 1, "`.thing`"),
        ("{% call statement('x') %}select 1{% endcall %}", 1, "`{% call statement('x') %}`"),
        ("{{ x }}", 1, "`{{ … }}`"),
        ("{{ 1 + 'a' }}", 1, "`+`"),
        ("{% for c in x %}{% endfor %}", 1, "`{% for … %}`"),
        ("{{ exceptions.raise_compiler_error('no') }}", 1, "exceptions.raise_compiler_error"),
        ("{{ ref('nowhere') }}", 1, "ref('nowhere')"),
        ("{{ source('raw', 'x') }}", 1, "source('raw', 'x')"),
        ("{{ var('unset') }}", 1, "var('unset')"),
        ("{{ modules.datetime.date() }}", 1, "`modules`"),
        ("{{ 'a' | no_such_filter }}", 1, "the filter `no_such_filter`"),
        ("{{ this.schema }}", 1, "`.schema`"),
        ("{% if flags.WHICH == 'run' %}a{% endif %}", 1, "`flags.WHICH`"),
        ("{{ dbt.dateadd('day', 1, 'd') }}", 1, "`dbt.dateadd`"),
        ("{{ this | upper }}", 1, "the filter `upper`"),
        ("{{ a b }}", 1, "`a b`"),
        ("{% if true %}a", 1, "`{% if %}`"),
        ("{{ endless() }}", 1, "the macro `endless`"),
    ],
)
def test_what_only_dbt_knows_has_a_place_and_a_reason(text: str, line: int, what: str) -> None:
    with pytest.raises(Unconvertible) as caught:
        render(text)
    assert caught.value.what == what
    assert caught.value.why
    if what not in ("the macro `endless`", "`{% if %}`"):
        assert caught.value.line == line
