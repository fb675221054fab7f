"""Each part of a dbt project, and the file that it becomes."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
import yaml

from sqb.dbt.convert.convert import Conversion, convert_project
from sqb.errors.call import InitRefused
from sqb.operations.init import convert_dbt_project
from sqb.workspace import open_workspace
from unit.folders import write

PROJECT = "name: shop\nprofile: shop\n"
JAFFLE = Path(__file__).parents[3] / "dbt" / "jaffle"


def convert(folder: Path, files: dict[str, str], project: str = PROJECT) -> Conversion:
    for name, text in {"dbt_project.yml": project, **files}.items():
        path = folder / "dbt" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return convert_project(folder / "dbt")


def left_out(conversion: Conversion) -> list[str]:
    return [f"{r.file}:{r.line}: {r.what}: {r.why}" for r in conversion.remarks if r.is_left_out]


def notes(conversion: Conversion) -> list[str]:
    return [r.what for r in conversion.remarks if not r.is_left_out]


def test_a_whole_project_is_one_that_compiles(tmp_path: Path) -> None:
    converted = convert_dbt_project(tmp_path / "new", JAFFLE)
    project = open_workspace(tmp_path / "new").project
    kinds = {node.name: node.kind for node in project.nodes.values()}
    assert kinds == {
        "seeds.raw_customers": "seed",
        "seeds.raw_orders": "seed",
        "staging.stg_customers": "view",
        "staging.stg_orders": "view",
        "staging.stg_payments": "view",
        "marts_core.orders": "table",
        "marts_core.customers": "table",
        "marts_core.large_orders": "view",
        "marts.best_customers": "table",
        "marts.order_log": "incremental",
        "marts.history_of_orders": "table",
        "snapshots.orders_history": "scd2",
    }
    assert not [remark for remark in converted.remarks if remark.is_left_out]
    assert converted.models == 10


def test_folders_that_are_not_dbt_projects_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InitRefused) as caught:
        convert_dbt_project(tmp_path / "new", tmp_path)
    assert caught.value.hint == "name the folder that has dbt_project.yml"
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    with pytest.raises(InitRefused, match="is not empty"):
        convert_dbt_project(tmp_path / "full", JAFFLE)


def test_a_project_file_that_cannot_be_read_converts_nothing(tmp_path: Path) -> None:
    with pytest.raises(InitRefused, match=r"dbt_project\.yml:2: this is not valid YAML"):
        convert(tmp_path, {"models/a.sql": "select 1 as id"}, "name: [\n")


def test_references_are_names_and_queries_of_the_same_name_are_told_apart(tmp_path: Path) -> None:
    files = {
        "models/staging/orders.sql": "select 1 as id",
        "models/marts/a.sql": "with orders as (select * from {{ ref('orders') }}) select * from orders",
        "models/marts/b.sql": "select * from {{ ref('shop', 'orders') }} join {{ source('raw', 'x') }} using (id)",
        "models/s.yml": "sources: [{name: raw, schema: landing, tables: [{name: x, identifier: x_v2}]}]",
    }
    converted = convert(tmp_path, files).files
    assert converted["models/marts/a.sql"] == "with orders as (select * from staging.orders) select * from orders\n"
    assert converted["models/marts/b.sql"] == "select * from orders join landing.x_v2 using (id)\n"
    assert yaml.safe_load(converted["sources/raw.yml"]) == {"sources": [{"name": "landing.x_v2"}]}


def test_a_reference_of_the_projects_own(tmp_path: Path) -> None:
    macro = "{% macro source_of(name) %}{{ return(builtins.ref(name)) }}{% endmacro %}"
    files = {
        "models/a.sql": "select 1 as id",
        "models/b.sql": "select * from {{ source_of('a') }}",
        "macros/m.sql": macro,
    }
    conversion = convert(tmp_path, files)
    assert conversion.files["models/b.sql"] == "select * from a\n" and not conversion.remarks


def test_variables_are_variables_where_they_are_values(tmp_path: Path) -> None:
    project = PROJECT + "vars: {day: '2024-01-01', least: 3, column: id, flag: true, shop: {least: 5}}\n"
    text = (
        "select {{ var('column') }}, '{{ var('day') }}' as d, 'on {{ var('day') }}' as t, '{{ var(\"least\") }}' as l\n"
        "from x where n > {{ var('least') }} and f = {{ var('flag') }} and o = {{ var('other', 7) }}\n"
        "{% if var('flag') %}and true{% endif %} -- {{ var('day') }}"
    )
    conversion = convert(tmp_path, {"models/a.sql": text}, project)
    assert conversion.files["models/a.sql"] == (
        "select id, @@day as d, 'on 2024-01-01' as t, '5' as l\n"
        "from x where n > @@least and f = @@flag and o = @@other\n"
        "and true -- 2024-01-01\n"
    )
    settings = tomllib.loads(conversion.files["sqlbuild_project.toml"])
    assert settings["vars"] == {"day": "2024-01-01", "flag": True, "least": 5, "other": 7}
    assert notes(conversion) == ["var('column')", "var('day')", "var('least')", "var('flag')"]
    assert conversion.remarks[-1].line == 3


def test_the_environment_is_a_literal(tmp_path: Path) -> None:
    files = {
        "models/a.sql": "select '{{ env_var('WHO') }}' as who",
        "models/b.sql": "select {{ env_var('WHAT') }} as what",
    }
    conversion = convert(tmp_path, files)
    assert conversion.files["models/a.sql"] == "select @@ENV:WHO as who\n"
    assert left_out(conversion) == [
        "models/b.sql:1: env_var('WHAT'): its value is SQL in dbt, and a string literal here"
    ]


def test_what_cannot_be_converted_is_a_disabled_model_with_its_text(tmp_path: Path) -> None:
    text = "select 1\n{{ run_query('select 2') }}\n"
    conversion = convert(tmp_path, {"models/a.sql": text})
    why = "it asks the database while the project is compiled"
    assert left_out(conversion) == [f"models/a.sql:2: `run_query`: {why}"]
    assert conversion.files["models/a.sql"] == (
        "MODEL (\n  enabled false,\n);\n\n"
        f"-- Not converted:\n--   models/a.sql:2: `run_query`: {why}\n--\n"
        "-- select 1\n-- {{ run_query('select 2') }}\n"
        "SELECT NULL AS not_converted\n"
    )
    assert conversion.models == 0


def test_settings_of_folders_and_of_models(tmp_path: Path) -> None:
    project = PROJECT + (
        "models:\n  shop:\n    +tags: all\n    staging: {+materialized: table, sub: {+tags: [deep], +schema: extra}}\n"
    )
    files = {
        "models/staging/sub/a.sql": (
            "{{ config(tags=['own'], alias='aa', cluster_by=['x'], partition_by=['d']) }}select 1"
        ),
        "models/b.sql": "{{ config(materialized='table', tblproperties={'k': 'v'}, no_such_setting=1) }}\nselect 1",
        "models/c.sql": "{{ config(enabled=false, materialized='ephemeral') }}select 1",
        "models/s.yml": "models: [{name: b, description: What it's for, config: {schema: own, tags: [yaml]}}]",
        "profiles.yml": "shop: {target: prod, outputs: {prod: {schema: analytics}}}",
    }
    conversion = convert(tmp_path, files, project)
    settings = tomllib.loads(conversion.files["sqlbuild_project.toml"])
    assert settings["defaults"] == {"kind": "view"}
    assert settings["path_defaults"] == {"models/staging/**": {"kind": "table"}}
    assert settings["targets"] == {"dev": {"schema": "analytics"}}
    assert conversion.files["models/staging/sub/a.sql"] == (
        "MODEL (\n  schema analytics_extra,\n  alias aa,\n  partitioned_by [d],\n  sorted_by [x],\n"
        "  tags [all, deep, own],\n);\n\nselect 1\n"
    )
    assert conversion.files["models/b.sql"] == (
        "MODEL (\n  kind table,\n  schema analytics_own,\n  table_properties {'k': 'v'},\n"
        "  description 'What it\\'s for',\n  tags [all, yaml],\n);\n\nselect 1\n"
    )
    assert conversion.files["models/c.sql"] == "MODEL (\n  enabled false,\n  tags [all],\n);\n\nselect 1\n"
    assert notes(conversion) == ["no_such_setting"]


def test_a_rule_for_schemas_of_the_projects_own(tmp_path: Path) -> None:
    macro = (
        "{% macro generate_schema_name(custom_schema_name, node) %}{% if custom_schema_name is none %}"
        "{{ target.schema }}{% else %}{{ custom_schema_name | trim }}{% endif %}{% endmacro %}"
    )
    files = {"macros/m.sql": macro, "models/a.sql": "{{ config(schema='own') }}select 1"}
    assert "  schema own,\n" in convert(tmp_path, files).files["models/a.sql"]


SEEDS_AS_SOURCES = """
seeds:
  shop:
    +schema: raw
    data:
      +enabled: "{{ var('load', %s) }}"
"""


@pytest.mark.parametrize("is_enabled", [True, False])
def test_seeds_that_stand_for_sources(tmp_path: Path, is_enabled: bool) -> None:
    macro = (
        "{% macro generate_schema_name(custom_schema_name, node) %}{% if node.resource_type == 'seed' %}"
        "{{ custom_schema_name | trim }}{% else %}{{ target.schema }}{% endif %}{% endmacro %}"
    )
    files = {
        "macros/m.sql": macro,
        "models/a.sql": "{{ config(schema='own') }}select id from {{ source('shop', 'orders') }}",
        "models/s.yml": (
            "sources: [{name: shop, schema: \"{{ var('place', 'raw') }}\", tables: [{name: orders}]}]\n"
            "unit_tests: [{name: t, model: a, given: [{input: \"source('shop', 'orders')\", rows: [{id: 1}]}],"
            " expect: {rows: [{id: 1}]}}]\n"
        ),
        "seeds/data/orders.csv": "id\n1\n",
    }
    conversion = convert(tmp_path, files, PROJECT + SEEDS_AS_SOURCES % str(is_enabled).lower())
    seed = yaml.safe_load(conversion.files["seeds/data/orders.yml"])
    assert (seed["schema"], seed.get("enabled", True)) == ("raw", is_enabled)
    assert "  schema shop,\n" in conversion.files["models/a.sql"]
    name = "orders" if is_enabled else "raw.orders"
    assert conversion.files["models/a.sql"].endswith(f"select id from {name}\n")
    (test,) = yaml.safe_load(conversion.files["tests/unit_tests.yml"])["tests"]
    assert list(test["given"]) == ["seeds.orders" if is_enabled else "raw.orders"]
    assert ("sources/shop.yml" in conversion.files) is not is_enabled
    assert left_out(conversion) == []
    assert notes(conversion) == ["`enabled`: var('load')", *([] if is_enabled else ["the seed orders"])]


def test_the_target_is_that_of_the_profile(tmp_path: Path) -> None:
    text = (
        "select 1 as id\n{% if target.name == 'dev' %}limit 10{% else %}where '{{ target.schema }}' <> ''{% endif %}\n"
        "{% if target.type == 'spark' %}-- spark{% endif %}"
    )
    profile = "shop: {target: prod, outputs: {prod: {schema: analytics}}}"
    conversion = convert(tmp_path, {"models/a.sql": text, "profiles.yml": profile})
    assert conversion.files["models/a.sql"].endswith("select 1 as id\nwhere 'analytics' <> ''\n-- spark\n")
    (remark,) = conversion.remarks
    assert (remark.file, remark.line, remark.what, remark.is_left_out) == ("models/a.sql", 2, "target", False)
    assert remark.why == "the text for the target prod is taken, whatever the target is here"


def test_packages_that_are_not_installed_are_named(tmp_path: Path) -> None:
    packages = "packages: [{package: org/dbt_date, version: 1.0.0}, {git: 'https://x.example/dbt-audit-helper.git'}]"
    files = {
        "packages.yml": packages,
        "models/a.sql": "{{ dbt_date.days() }}",
        "models/b.sql": "{{ audit_helper.x() }}",
    }
    why = "no file of the package {0} has it: `dbt deps` writes packages to dbt_packages/"
    assert left_out(convert(tmp_path, files)) == [
        f"models/a.sql:1: `dbt_date.days`: {why.format('dbt_date')}",
        f"models/b.sql:1: `audit_helper.x`: {why.format('audit_helper')}",
    ]


def test_settings_that_only_dbt_knows_are_reported(tmp_path: Path) -> None:
    project = PROJECT + "seeds: {+schema: \"{{ env_var('S') }}\"}\nmodels: {+enabled: \"{{ var('no') }}\"}\n"
    conversion = convert(tmp_path, {"seeds/s.csv": "id\n1\n", "models/a.sql": "select 1"}, project)
    assert left_out(conversion) == [
        "dbt_project.yml:3: `schema`: env_var('S') (for seeds): its value is not known; a query may use @@ENV:S",
        "models/a.sql:1: `enabled`: var('no'): it has no value in dbt_project.yml and no default",
    ]


def test_macros_that_are_only_sql_are_python_and_others_are_carried_out(tmp_path: Path) -> None:
    macros = (
        "{% macro cents(column, by=100) %}\n  cast({{ column }} * {{ by }} as bigint)\n{% endmacro %}"
        "{% macro pick(names) %}{{ names | join(' + ') }}{% endmacro %}"
    )
    text = (
        "select {{ cents('a') }}, {{ cents(column='b', by=10) }}, '{{ cents('c') }}', {{ cents('f(x, 1)') }},\n"
        "{{ cents('a, b') }}, {{ pick(['a', 'b']) }}"
    )
    files = convert(tmp_path, {"macros/money.sql": macros, "models/a.sql": text}).files
    assert " ".join(files["models/a.sql"].split()) == (
        "select @cents(a, 100), @cents(b, 10), ' cast(c * 100 as bigint) ', @cents(f(x, 1), 100), "
        "cast(a, b * 100 as bigint) , a + b"
    )
    names: dict[str, object] = {}
    exec(files["macros/money.py"], names)
    function = names["cents"]
    assert callable(function)
    assert function("x", "2") == "cast(x * 2 as bigint)"


def test_macros_of_packages_are_read_where_they_are_installed(tmp_path: Path) -> None:
    package = "{% macro twice(x) %}{{ return(adapter.dispatch('twice', 'extra')(x)) }}{% endmacro %}"
    package += "{% macro default__twice(x) %}{{ x }} * 2{% endmacro %}"
    files = {
        "dbt_packages/extra/macros/m.sql": package,
        "models/a.sql": "select {{ extra.twice('n') }}, {{ dbt_utils.generate_surrogate_key(['a', 'b']) }} as k",
    }
    assert convert(tmp_path, files).files["models/a.sql"] == (
        "select n * 2, md5(cast(concat(coalesce(cast(a as string), '_dbt_utils_surrogate_key_null_'), '-', "
        "coalesce(cast(b as string), '_dbt_utils_surrogate_key_null_')) as string)) as k\n"
    )


TESTS = """
models:
  - name: a
    data_tests:
      - dbt_utils.expression_is_true: {expression: "n >= 0"}
      - dbt_utils.unique_combination_of_columns: {combination_of_columns: [n, s]}
      - in_order: {field: n}
    columns:
      - name: n
        data_tests:
          - not_null
          - unique: {config: {severity: warn}}
          - accepted_values: {values: [1, 2]}
          - no_such_test
      - name: s
        data_tests:
          - accepted_values: {values: ["it's", b], severity: warn}
          - relationships: {to: "source('raw', 'x')", field: id, config: {where: "s > 'a'"}}
          - not_null: {config: {error_if: ">10"}}
  - name: log
    columns: [{name: n, data_tests: [not_null]}]
sources: [{name: raw, tables: [{name: x, columns: [{name: id, tests: [unique]}]}]}]
"""


def test_tests_are_checks(tmp_path: Path) -> None:
    files = {
        "models/a.sql": "{{ config(materialized='table') }}select 1 as n, 'b' as s",
        "models/log.sql": "{{ config(materialized='incremental') }}select 1 as n",
        "models/s.yml": TESTS,
        "tests/generic/in_order.sql": (
            "{% test in_order(model, field) %}select * from {{ model }} where {{ field }} < 1{% endtest %}"
        ),
        "tests/both.sql": (
            "{{ config(severity='warn') }}select a.n from {{ ref('a') }} join {{ ref('log') }} l on a.n = l.n"
        ),
        "tests/of_nothing.sql": "select 1 from {{ source('raw', 'x') }}",
    }
    conversion = convert(tmp_path, files)
    assert conversion.files["models/a.sql"] == (
        "MODEL (\n  kind table,\n  constraints [\n    check(n >= 0),\n    not_null(n),\n    in_list(n, 1, 2),\n  ],\n"
        "  audits [\n    unique_combination_of_columns_a(),\n    in_order_a(),\n    relationships_a_s(),\n  ],\n"
        "  warnings [\n    unique(n),\n    in_list(s, 'it\\'s', 'b'),\n  ],\n);\n\nselect 1 as n, 'b' as s\n"
    )
    # A history is tested as a whole, as dbt does.
    assert "  audits [not_null(n)],\n  warnings [both()],\n" in conversion.files["models/log.sql"]
    assert conversion.files["audits/in_order_a.sql"] == "select * from @@this where n < 1\n"
    assert conversion.files["audits/both.sql"] == "select a.n from a join @@this l on a.n = l.n\n"
    assert conversion.files["audits/relationships_a_s.sql"] == (
        "SELECT tested.s FROM (SELECT * FROM @@this WHERE s > 'a') AS tested\n"
        "LEFT ANTI JOIN raw.x AS parent ON parent.id = tested.s\nWHERE tested.s IS NOT NULL\n"
    )
    assert left_out(conversion) == [
        "models/s.yml:14: the test no_such_test: no file has this test",
        "models/s.yml:19: the test not_null: `error_if` has no counterpart here",
        "models/s.yml:22: the tests of raw.x: no model that was converted reads this, and only models have checks here",
        "tests/of_nothing.sql:1: the test: it reads nothing that a model makes or reads",
    ]


TESTS_OF_INPUTS = """
sources:
  - name: raw
    schema: landing
    tables:
      - name: x
        identifier: x_v2
        columns:
          - name: id
            data_tests:
              - unique
              - not_null: {config: {severity: warn, where: "s > 'a'"}}
              - relationships: {to: ref('top'), field: id}
              - positive
              - accepted_values: {values: [1, 2]}
seeds:
  - name: codes
    columns: [{name: code, tests: [not_null]}]
"""


def test_tests_of_sources_and_seeds_are_audits_of_their_readers(tmp_path: Path) -> None:
    """dbt builds no model that reads them if such a test fails."""
    conversion = convert(tmp_path, {
        "models/stg.sql": "with codes as (select 1) select id from {{ source('raw', 'x') }} join codes using (id)",
        "models/other.sql": "select * from {{ source('raw', 'x') }} join {{ ref('codes') }} using (id)",
        "models/top.sql": "select id from {{ ref('stg') }}",
        "models/s.yml": TESTS_OF_INPUTS,
        "seeds/codes.csv": "code,id\na,1\n",
        "tests/generic/positive.sql": (
            "{% test positive(model, column_name) %}select * from {{ model }} where {{ column_name }} < 1{% endtest %}"
        ),
        "tests/of_inputs.sql": "select * from {{ source('raw', 'x') }} x join {{ ref('codes') }} c using (id)",
    })  # fmt: skip
    assert left_out(conversion) == []
    audits = {path: text for path, text in conversion.files.items() if path.startswith("audits/")}
    assert audits["audits/unique_raw_x_id.sql"] == (
        "-- About landing.x_v2, and not about the rows of the model, which only waits for the answer.\n"
        "SELECT * FROM (\nSELECT id AS value, count(*) AS n FROM landing.x_v2 AS tested\nWHERE id IS NOT NULL\n"
        "GROUP BY id\nHAVING count(*) > 1\n)\nWHERE (SELECT count(*) FROM @@this WHERE false) = 0\n"
    )
    assert audits["audits/relationships_raw_x_id.sql"] == (
        "SELECT tested.id FROM landing.x_v2 AS tested\n"
        "LEFT ANTI JOIN @@this AS parent ON parent.id = tested.id\nWHERE tested.id IS NOT NULL\n"
    )
    inner = {
        path: text.partition("(\n")[2].partition("\n)\nWHERE (SELECT count(*)")[0] for path, text in audits.items()
    }
    assert {
        inner[f"audits/{name}.sql"] for name in ("not_null_raw_x_id", "positive_raw_x_id", "not_null_codes_code")
    } == {
        "SELECT * FROM (SELECT * FROM landing.x_v2 WHERE s > 'a') AS tested\nWHERE id IS NULL",
        "select * from landing.x_v2 where id < 1",
        "SELECT * FROM seeds.codes AS tested\nWHERE code IS NULL",
    }
    assert inner["audits/accepted_values_raw_x_id.sql"].endswith("\nWHERE id NOT IN (1, 2)")
    assert inner["audits/of_inputs.sql"] == "select * from landing.x_v2 x join codes c using (id)"
    # What was written is a project: every audit reads what it has to, and compiles.
    assert open_workspace(write(tmp_path / "made", dict(conversion.files))).project.nodes["default.stg"].checks
    both = "unique_raw_x_id(),\n    positive_raw_x_id(),\n    accepted_values_raw_x_id(),\n    "
    of_inputs = "of_inputs(),\n  ],\n  warnings [not_null_raw_x_id()],\n"
    assert f"  audits [\n    {both}{of_inputs}" in conversion.files["models/stg.sql"]
    assert f"  audits [\n    not_null_codes_code(),\n    {both}{of_inputs}" in conversion.files["models/other.sql"]
    assert "  audits [relationships_raw_x_id()],\n" in conversion.files["models/top.sql"]


def test_accepted_values_may_be_a_variable_and_none(tmp_path: Path) -> None:
    tests = """
models:
- name: a
  columns:
  - {name: s, data_tests: [{accepted_values: {values: "{{ var('known') }}"}}]}
  - {name: t, data_tests: [{accepted_values: {values: [x, null]}}]}
  - {name: u, data_tests: [{accepted_values: {values: "{{ var('no_list') }}"}}]}
"""
    files = {"models/a.sql": "select 's' as s, 't' as t, 'u' as u", "models/s.yml": tests}
    conversion = convert(tmp_path, files, PROJECT + 'vars: {known: [a, "it\'s"], no_list: a}\n')
    calls = "in_list(s, 'a', 'it\\'s'),\n    in_list(t, 'x', 'None'),\n"
    assert f"  constraints [\n    {calls}  ],\n" in conversion.files["models/a.sql"]
    assert left_out(conversion) == ["models/s.yml:7: the test accepted_values: `values`: it must be a list"]


def test_tests_of_what_was_not_converted_are_one_remark(tmp_path: Path) -> None:
    tests = "data_tests: [unique, not_null]"
    files = {
        "models/a.sql": "{{ run_query('select 1') }}",
        "models/s.yml": f"models:\n- name: a\n  columns:\n  - {{name: id, {tests}}}\n  - {{name: n, {tests}}}\n",
    }
    assert left_out(convert(tmp_path, files))[1:] == [
        "models/s.yml:4: the tests of a: no model of this name was converted"
    ]


def test_tables_of_sources_may_be_written_in_jinja(tmp_path: Path) -> None:
    text = """
sources:
  - name: shop
    schema: "{{ var('schema', 'raw') }}"
    tables:
      - {name: a, identifier: "{{ var('a_table', 'a_v2') }}"}
      - {name: b, identifier: "b_*"}
"""
    sql = "select * from {{ source('shop', 'a') }} cross join {{ source('shop', 'b') }}"
    conversion = convert(tmp_path, {"models/s.yml": text, "models/m.sql": sql})
    assert conversion.files["models/m.sql"].endswith("select * from raw.a_v2 cross join raw.b\n")
    assert yaml.safe_load(conversion.files["sources/shop.yml"]) == {
        "sources": [{"name": "raw.a_v2"}, {"name": "raw.b"}]
    }
    assert notes(conversion) == ["the table shop.b"]


def test_sources_have_their_freshness(tmp_path: Path) -> None:
    text = """
sources:
  - name: raw
    description: What is loaded
    freshness: {warn_after: {count: 12, period: hour}, error_after: {count: 2, period: day}}
    loaded_at_field: loaded_at
    tables:
      - {name: a}
      - name: b
        description: B
        loaded_at_field: "cast(t as timestamp)"
        freshness: {warn_after: {count: 1, period: day}}
      - {name: c, freshness: null}
"""
    sources = yaml.safe_load(convert(tmp_path, {"models/s.yml": text}).files["sources/raw.yml"])["sources"]
    assert sources == [
        {
            "name": "raw.a",
            "description": "What is loaded",
            "freshness": {
                "column": "loaded_at",
                "type": "timestamp",
                "age_policy": {"warn_after": "12h", "error_after": "2d"},
            },
        },
        {
            "name": "raw.b",
            "description": "B",
            "freshness": {
                "sql": "SELECT max(cast(t as timestamp)) FROM raw.b",
                "type": "timestamp",
                "age_policy": {"warn_after": "1d", "error_after": "2d"},
            },
        },
        {"name": "raw.c", "description": "What is loaded"},
    ]


def test_seeds_have_the_types_that_dbt_gives_them(tmp_path: Path) -> None:
    csv = "a;b;c;d;e;f;g\n1;1.5;2024-01-01;2024-01-01 10:00:00;true;x;\n2;2;2024-01-02;NULL;false;;\n"
    settings = (
        "seeds: [{name: s, description: Small, columns: [{name: a, description: First}], "
        "config: {delimiter: ';', column_types: {b: 'decimal(10,2)', f: variant}}}]"
    )
    conversion = convert(tmp_path, {"seeds/deep/s.csv": csv, "seeds/s.yml": settings})
    assert conversion.files["seeds/deep/s.csv"] == csv
    document = yaml.safe_load(conversion.files["seeds/deep/s.yml"])
    assert {column["name"]: column["type"] for column in document["columns"]} == {
        "a": "bigint",
        "b": "decimal(10,2)",
        "c": "date",
        "d": "timestamp",
        "e": "boolean",
        "f": "string",
        "g": "bigint",
    }
    assert document["description"] == "Small"
    assert document["delimiter"] == ";"
    assert document["null_values"] == ["", "NULL"]
    assert notes(conversion) == ["the type variant of `f`"]


def test_settings_that_others_rely_on_are_not_lost_silently(tmp_path: Path) -> None:
    snapshot = "snapshots: [{name: old, relation: ref('a'), config: {unique_key: id, strategy: check, check_cols: all, "
    snapshot += "hard_deletes: new_record, dbt_valid_to_current: \"to_date('9999-12-31')\"}}]"
    files = {
        "models/a.sql": "{{ config(full_refresh=false, database='') }} select 1 as id",
        "models/b.sql": "{{ config(full_refresh=true, persist_docs={'relation': true}) }} select 1 as id",
        "snapshots/old.yml": snapshot,
    }
    conversion = convert(tmp_path, files, PROJECT + "models: {+grants: {select: [bi]}, +wh: small}\n")
    assert notes(conversion)[0] == "wh of 2 models"
    assert left_out(conversion) == [
        "models/a.sql:1: `full_refresh`: `--full-refresh` is for every selected model",
        "models/a.sql:1: `grants` of 2 models: sqb grants no rights: `post_hooks` may",
        "snapshots/old.yml:1: `dbt_valid_to_current`: `valid_to` of a current row is NULL here",
        "snapshots/old.yml:1: `hard_deletes`: a row that is gone is closed here, without a row that says so",
    ]


def test_snapshots_are_histories(tmp_path: Path) -> None:
    block = (
        "{% snapshot old %}{{ config(unique_key='id', strategy='timestamp', updated_at='t', target_schema='kept') }}"
        "select * from {{ ref('a') }}{% endsnapshot %}"
    )
    files = {
        "models/a.sql": "select 1 as id",
        "models/b.sql": "select id from {{ ref('old') }} where dbt_valid_to is null",
        "models/c.sql": "select dbt_scd_id from {{ ref('old') }}",
        "snapshots/old.sql": block,
        "snapshots/new.yml": "snapshots: [{name: new, relation: ref('a'), config: {unique_key: \"a || b\"}}]",
    }
    conversion = convert(tmp_path, files)
    assert conversion.files["models/snapshots/old.sql"] == (
        "MODEL (\n  kind scd2,\n  unique_key id,\n  schema kept,\n);\n\nselect * from a\n"
    )
    assert conversion.files["models/b.sql"] == "select id from old where valid_to is null\n"
    assert left_out(conversion) == [
        "models/c.sql:1: the column `dbt_scd_id`: a history has valid_from, valid_to and is_current here",
        "snapshots/new.yml:1: the unique_key of the snapshot new: it must be columns here",
    ]


def test_hooks_contracts_and_docs(tmp_path: Path) -> None:
    properties = """
models:
  - name: a
    description: "{{ doc('about') }}"
    config: {contract: {enforced: true}}
    columns:
      - {name: id, data_type: bigint, constraints: [{type: not_null}], description: "The {{ doc('about') }}"}
"""
    files = {
        "models/a.sql": (
            "{{ config(materialized='table', post_hook=\"grant select on {{ this }} to x\") }}select 1 as id"
        ),
        "models/s.yml": properties,
        "models/d.md": "{% docs about %}\nAll about\nit\n{% enddocs %}",
    }
    assert convert(tmp_path, files).files["models/a.sql"] == (
        "MODEL (\n  kind table,\n  description 'All about it',\n  columns (\n    id: 'The All about it',\n  ),\n"
        "  contract (\n    id bigint not null,\n  ),\n  post_hooks [\n    'grant select on @@this to x',\n  ],\n);\n\n"
        "select 1 as id\n"
    )


def test_unit_tests_and_what_has_no_counterpart(tmp_path: Path) -> None:
    text = """
unit_tests:
  - name: adds
    model: b
    overrides: {vars: {n: 2}}
    given:
      - {input: ref('a'), rows: [{id: 1}]}
      - {input: "source('raw', 'x')", format: csv, rows: "id\\n1"}
    expect: {rows: [{id: 2}]}
  - name: later
    model: b
    overrides: {macros: {is_incremental: true}}
    expect: {rows: []}
metrics: [{name: m}]
"""
    files = {
        "models/a.sql": "select 1 as id",
        "models/b.sql": "select id + 1 as id from {{ ref('a') }}",
        "models/p.py": "def model(dbt, session): ...",
        "models/t.yml": text,
        "analyses/q.sql": "select 1",
        "models/c.sql": "select {{ function('plus') }}(1) as x",
        "functions/plus.sql": "a + 1",
        "functions/f.yml": "functions: [{name: plus, arguments: [{name: a, data_type: int}]}]",
    }
    conversion = convert(tmp_path, files, PROJECT + "on-run-end: [select 1]\n")
    assert yaml.safe_load(conversion.files["tests/unit_tests.yml"]) == {
        "tests": [
            {
                "name": "adds",
                "model": "default.b",
                "vars": {"n": 2},
                "given": {"default.a": [{"id": 1}], "raw.x": {"csv": "id\n1"}},
                "expect": [{"id": 2}],
            }
        ]
    }
    assert conversion.files["models/c.sql"] == "select plus(1) as x\n"
    assert "dbt_project.yml:3: `on-run-end`: a function in python/ with @on_run_end does it" in left_out(conversion)
    assert [line.partition(": ")[0] for line in left_out(conversion)] == [
        "analyses/q.sql:1",
        "dbt_project.yml:3",
        "functions/plus.sql:1",
        "models/p.py:1",
        "models/t.yml:10",
        "models/t.yml:14",
    ]
