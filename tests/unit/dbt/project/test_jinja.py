"""What of a file of a dbt project changes nothing, and what it asks for."""

from __future__ import annotations

import pytest

from sqb.dbt.project.jinja import ContextNames, find_context_names, hash_text

SAME = [
    ("select a from b", "select a\n  from b -- why"),
    ("select a from b", "/* {not jinja} */ select a from b"),
    ("select {{ f(x) }} as a", "select  {{f( x )}}   as a{# what #}"),
    ("select 1 {# it's 'quoted #} from t", "select 1 from t"),
    ("{{ config(materialized='view') }} select 1", "{{ config(materialized='table', tags=['a(b']) }}\nselect 1"),
    ("{%- if a -%} select 1 {%- endif -%}", "{%- if  a -%} select  1 {%- endif -%}"),
    ("select {{ source('raw', 'x') }}", "select {{ source('raw','x') }}"),
]
OTHER = [
    ("select 'a  b'", "select 'a b'"),
    ("select '-- a'", "select '-- b'"),
    ("select '{{ x }}  a'", "select '{{ x }} a'"),
    ("select '{{ f(\"it's\") }}  a  b'", "select '{{ f(\"it's\") }} a b'"),
    ("select {{ f('a  b') }}", "select {{ f('a b') }}"),
    ("select a{{ x }}", "select a {{ x }}"),
    ("select a -- {% if b %}\n, c -- {% endif %}", "select a\n, c"),
    ("{{ x }} select {{ y }}", "{{ y }} select {{ x }}"),
    ("{% raw %} '{{ a  b }}' {% endraw %}", "{% raw %} '{{ a b }}' {% endraw %}"),
    ("{{ config(a=1) ~ b }}", "{{ config(a=2) ~ b }}"),
    ("{% if not x %}1{% endif %}", "{% if notx %}1{% endif %}"),
    ("{{ '}}' }} a", "{{ '}}' }} b"),
    ("select A", "select a"),
    ("{{ unclosed", "{{ unclosed2"),
    ("{# unclosed", "select 1"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_the_same(one: str, other: str) -> None:
    assert hash_text(one) == hash_text(other)


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_not_the_same(one: str, other: str) -> None:
    assert hash_text(one) != hash_text(other)


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("select var('x')", ContextNames()),
        ("{{ var('x') }} {%- if var(\"y\", 3) -%}", ContextNames(frozenset({"x", "y"}))),
        ("{{ var(name) }}", ContextNames(frozenset({None}))),
        ("{{ var('a' ~ b) }}", ContextNames(frozenset({None}))),
        ("{{ env_var('HOME', 'x') }}", ContextNames(environment=frozenset({"HOME"}))),
        ("{{ target.name }}", ContextNames(target=True)),
        ("{{ this.target }} {{ 'target' }}", ContextNames()),
        ("{{ f(env_var('A'), var('b'), target) }}", ContextNames(frozenset({"b"}), frozenset({"A"}), True)),
        ("{% raw %}x{% endraw %}{{ var('x') }}", ContextNames(frozenset({"x"}))),
    ],
)
def test_what_is_asked_for(text: str, result: ContextNames) -> None:
    assert find_context_names(text) == result
