"""Models of dbt's as they are written here."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqb.errors.base import SqbError, flatten
from sqb.project.models.jinja import find_jinja, translate
from sqb.workspace import open_workspace
from unit.folders import write


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("select * from {{ ref('a') }}", "select * from a"),
        ("select * from {{ref( \"pkg\" , 'a')}}", "select * from a"),
        ("select * from {{- source('raw', 'events') -}} e", "select * from raw.events e"),
        ("where x = {{ var('n', 10) }}", "where x = @@n"),
        ("where x = '{{ var(\"day\") }}'", "where x = @@day"),
        ("where x = '{{ env_var('DAY') }}'", "where x = @@ENV:DAY"),
        ("a {# why #} b", "a /* why */ b"),
        ("a\n{% if is_incremental() %}where x > (select max(x) from {{ this }}){% endif %}\nb", "a\n\nb"),
        ("{% if is_incremental() %}x{% else %}{{ ref('y') }}{% endif %} z", "y z"),
        ("{% if is_incremental() %}{% if a %}1{% endif %}2{% endif %}3", "3"),
        ("{{ config(materialized='table') }}\nselect 1", "MODEL (\n  kind table,\n);\n\nselect 1"),
        (
            "{{ config(materialized='incremental', unique_key=['a', 'b'], tags='x y', file_format='delta') }}"
            "\nselect 1",
            "-- file_format is left out: tables are Iceberg tables\n"
            "MODEL (\n  kind merge,\n  unique_key [a, b],\n  tags 'x y',\n);\n\nselect 1",
        ),
        ("{{ config(materialized='incremental') }}\nselect 1", "MODEL (\n  kind append,\n);\n\nselect 1"),
        (
            "{{ config(materialized='ephemeral', enabled=False) }}\nx",
            "MODEL (\n  kind view,\n  enabled false,\n);\n\nx",
        ),
    ],
)
def test_what_can_be_translated(written: str, expected: str) -> None:
    translation = translate(written)
    assert translation.text == expected + "\n" and translation.is_whole


@pytest.mark.parametrize("written", ["{{ cents('x') }}", "{% for x in y %}a{% endfor %}", "{{ this }}", "{{ x.y }}"])
def test_what_only_dbt_knows_stays(written: str) -> None:
    translation = translate(written)
    assert translation.text == written + "\n" and not translation.is_whole


@pytest.mark.parametrize(
    "text",
    [
        "SELECT '{{ x }}' AS a",
        "SELECT 1 -- {{ x }}",
        "/* {% if %} */ SELECT 1",
        "SELECT `{{` FROM t",
        "MODEL (table_properties {a: b});\nSELECT 1",
        "SELECT named_struct('a', 1) AS x",
        "SELECT '{{ var(' || x || ') }}', '{{ var(\"x\") }}', '{{ var(''x'') }}' AS a",
    ],
)
def test_strings_and_comments_may_hold_anything(text: str) -> None:
    assert find_jinja(text) is None


@pytest.mark.parametrize("block", ["'{{ var('day') }}'", "'{{ env_var('DAY', 'x') }}'", '"{{var( "day" )}}"'])
def test_quotes_in_quotes_of_one_sort_are_no_strings(block: str) -> None:
    text = f"SELECT 1 FROM t WHERE x = {block} AND y"
    span = find_jinja(text)
    assert span is not None and text[slice(*span)] == block[1:-1]


def test_the_error_has_the_model_as_it_is_written_here(tmp_path: Path) -> None:
    root = write(tmp_path, {"models/a.sql": "SELECT *\nFROM {{ ref('b') }}\n", "models/b.sql": "SELECT 1 AS x\n"})
    with pytest.raises(SqbError) as caught:
        open_workspace(root)
    (error,) = flatten(caught.value)
    assert (error.code, str(error.at), error.at.length if error.at else 0) == ("SQB-P019", "models/a.sql:2:6", 14)
    assert error.evidence == ("", "SELECT *", "FROM b", "")
    # And this is a model.
    write(root, {"models/a.sql": "\n".join(error.evidence)})
    assert open_workspace(root).project.nodes["default.a"].upstream == ("default.b",)


@pytest.mark.parametrize(
    ("header", "hint"),
    [
        ("kind FULL", "write `kind table`"),
        ("kind INCREMENTAL_BY_TIME_RANGE (time_column day)", "write `kind incremental, cursor day`"),
        ("kind INCREMENTAL_BY_TIME_RANGE (time_column (day, '%Y'))", "write `kind incremental, cursor"),
        ("kind INCREMENTAL_BY_UNIQUE_KEY (unique_key (a, b))", "write `kind merge, unique_key [a, b]`"),
        ("kind INCREMENTAL_BY_UNIQUE_KEY", "write `kind merge, unique_key <its unique key>`"),
        ("kind SCD_TYPE_2_BY_COLUMN (unique_key id, columns [a])", "write `kind scd2, unique_key id`"),
        ("kind SEED (path 'x.csv')", "a CSV file in seeds/ is a seed, without a model"),
        ("kind EMBEDDED", "write `kind view`"),
        ("cron '@daily'", "sqb runs what changed whenever it is called: let your scheduler call `sqb build`"),
        ("name a.b", "a model is called by its file"),
        ("partition_by day", "write `partitioned_by`"),
    ],
)
def test_words_of_other_tools(tmp_path: Path, header: str, hint: str) -> None:
    root = write(tmp_path, {"models/a.sql": f"MODEL (\n  {header},\n);\nSELECT 1 AS id, 2 AS day\n"})
    with pytest.raises(SqbError) as caught:
        open_workspace(root)
    (error, *_) = flatten(caught.value)
    assert (error.hint or "").startswith(hint)
