"""Mistakes of a project and columns that go with a plan are told from metadata alone."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from sqb.build.observe.columns import observe_columns
from sqb.build.observe.lake import LakeState
from sqb.build.observe.mistakes import iter_node_errors, refuse_mistakes
from sqb.errors.base import SqbError, flatten
from sqb.names import Relation
from sqb.plan.model import Action, Plan, PlannedNode, Reason, RunType
from sqb.plan.observed import Observed, RelationState, Version
from sqb.workspace import Workspace, open_workspace
from unit.folders import write

CASES = Path(__file__).parents[3] / "cases"
SHOP = {
    "seeds/orders.csv": "id,customer,amount,day\n1,2,3.5,2024-01-01\n",
    "models/staging/stg_orders.sql": "SELECT id, customer, amount FROM orders\n",
    "models/staging/shown.sql": "-- @kind: view\nSELECT * FROM stg_orders\n",
    "models/marts/revenue.sql": "SELECT customer, sum(amount) AS revenue\nFROM stg_orders GROUP BY customer\n",
    "models/marts/totals.sql": "SELECT count(amount) AS n FROM shown\n",
}
# Tables as they were built, with Iceberg's types.
BUILT = {
    "staging.stg_orders": {"id": "long", "customer": "long", "amount": "double"},
    "marts.revenue": {"customer": "long", "revenue": "double"},
    "marts.totals": {"n": "long"},
}
WITHOUT_AMOUNT = {"models/staging/stg_orders.sql": "SELECT id, customer FROM orders\n"}


def open_shop(root: Path, more: Mapping[str, str] = {}) -> Workspace:
    return open_workspace(write(root, {**SHOP, **more}))


def observe(tables: Mapping[str, Mapping[str, str]]) -> LakeState:
    relations = {
        Relation.parse(name): RelationState(
            version=Version(1, shape=[(c, f'"{kind}"', i) for i, (c, kind) in enumerate(columns.items())])
        )
        for name, columns in tables.items()
    }
    return LakeState(Observed(relations), {})


def make_plan(workspace: Workspace, *running: str) -> Plan:
    def decide(name: str) -> PlannedNode:
        node = workspace.project.nodes[name]
        action: tuple[Action, RunType] = ("run", "full") if name in running or not running else ("skip", "skip")
        return PlannedNode(name, node.type, node.kind, node.relation, *action, Reason.QUERY_CHANGED)

    return Plan("dev", tuple(decide(name) for name in workspace.project.nodes))


def find_errors(
    workspace: Workspace, *running: str, tables: Mapping[str, Mapping[str, str]] = BUILT, allow_breaking: bool = False
) -> list[str]:
    try:
        refuse_mistakes(workspace, observe(tables), make_plan(workspace, *running), allow_breaking)
    except SqbError as error:
        return [f"{e.code} {e.at}: {e.message} ({e.hint})" for e in flatten(error)]
    return []


def test_a_right_project_has_no_errors(tmp_path: Path) -> None:
    shop = open_shop(tmp_path)
    assert find_errors(shop) == []
    assert find_errors(shop, "staging.stg_orders") == []


def test_all_errors_are_told_at_once(tmp_path: Path) -> None:
    shop = open_shop(
        tmp_path,
        {
            "models/marts/one.sql": "SELECT idd FROM stg_orders\n",
            "models/marts/two.sql": "SELECT id FROM shown\nWHERE nope = 1\n",
            "models/marts/three.sql": "SELECT revenue, uper(customer) AS c FROM revenue\n",
        },
    )
    assert find_errors(shop, tables={}) == [
        "SQB-S006 models/marts/one.sql:1:8: unknown column \"idd\" (did you mean 'id'?)",
        "SQB-S008 models/marts/three.sql:1:17: unknown function \"uper\" (did you mean 'upper' or 'user' or 'power'?)",
        'SQB-S006 models/marts/two.sql:2:7: unknown column "nope" (the columns here are id, customer, amount)',
    ]


def test_a_column_that_goes_names_its_readers_selected_or_not(tmp_path: Path) -> None:
    shop = open_shop(tmp_path, WITHOUT_AMOUNT)
    hint = (
        "(keep `amount` in the select list of models/staging/stg_orders.sql, or take it out here; "
        "--allow-breaking goes on without)"
    )
    messages = [
        'SQB-S015 models/marts/revenue.sql:1:22: marts.revenue reads the column "amount", which staging.stg_orders'
        f" loses with this plan {hint}",
        'SQB-S015 models/marts/totals.sql:1:14: marts.totals reads the column "amount", which staging.shown'
        f" loses with this plan {hint}",
    ]
    assert find_errors(shop, "staging.stg_orders") == messages
    assert find_errors(shop) == messages
    assert find_errors(shop, allow_breaking=True) == []


def test_a_column_that_has_another_name_now(tmp_path: Path) -> None:
    renamed = {"models/staging/stg_orders.sql": "SELECT id, customer, amount AS total FROM orders\n"}
    messages = find_errors(open_shop(tmp_path, renamed), "staging.stg_orders")
    assert [error.partition(" (")[2] for error in messages] == [
        "it may be called `total` now: write `total`, or keep `amount` too in models/staging/stg_orders.sql; "
        "--allow-breaking goes on without)",
        "it may be called `total` now: write `total`, or keep `amount` too in models/staging/stg_orders.sql; "
        "--allow-breaking goes on without)",
    ]


WIDE = {
    "models/marts/revenue.sql": "SELECT * FROM stg_orders\n",
    "models/marts/totals.sql": "SELECT count(amount) AS n FROM revenue\n",
    "models/marts/promised.sql": "-- @contract: id bigint, customer bigint, amount double\nSELECT * FROM revenue\n",
    "exposures/all.yml": "exposures:\n  - name: letter\n    depends_on:\n      - revenue: [amount]\n",
}
WIDE_TABLES = {**BUILT, "marts.revenue": BUILT["staging.stg_orders"], "marts.promised": BUILT["staging.stg_orders"]}


def test_readers_of_tables_that_pass_a_column_on_are_named_though_these_do_not_run(tmp_path: Path) -> None:
    shop = open_shop(tmp_path, {**WITHOUT_AMOUNT, **WIDE})
    errors = find_errors(shop, "staging.stg_orders", tables=WIDE_TABLES)
    assert [error.partition(" (")[0] for error in errors] == [
        'SQB-S015 exposures/all.yml:2:11: exposure letter reads the column "amount", which marts.revenue loses when it '
        "runs after this plan",
        'SQB-S015 models/marts/promised.sql:1:15: the contract of marts.promised promises the column "amount", which '
        "marts.revenue loses when it runs after this plan",
        'SQB-S015 models/marts/totals.sql:1:14: marts.totals reads the column "amount", which marts.revenue loses when '
        "it runs after this plan",
    ]
    assert all("in the select list of models/staging/stg_orders.sql, " in error for error in errors)
    assert find_errors(shop, "staging.stg_orders", tables=WIDE_TABLES, allow_breaking=True) == []


def test_what_a_model_that_does_not_run_gives_up_itself_is_not_of_this_plan(tmp_path: Path) -> None:
    edited = {**WIDE, "models/marts/revenue.sql": "SELECT id, customer FROM stg_orders\n"}
    without_customer = {"models/staging/stg_orders.sql": "SELECT id, amount FROM orders\n"}
    errors = find_errors(open_shop(tmp_path, {**without_customer, **edited}), "staging.stg_orders", tables=WIDE_TABLES)
    assert [error.partition(" (")[0] for error in errors] == [
        'SQB-S015 models/marts/revenue.sql:1:12: marts.revenue reads the column "customer", which staging.stg_orders '
        "loses with this plan"
    ]


def test_contracts_of_models_that_do_not_run_are_readers(tmp_path: Path) -> None:
    promised = {
        "models/marts/revenue.sql": "-- @contract: amount double\n-- @owner: Ann\nSELECT * FROM stg_orders\n",
        "models/marts/totals.sql": "SELECT 1 AS n\n",
    }
    shop = open_shop(tmp_path, {**WITHOUT_AMOUNT, **promised})
    messages = find_errors(shop, "staging.stg_orders")
    assert messages == [
        'SQB-S015 models/marts/revenue.sql:1:15: the contract of marts.revenue (of Ann) promises the column "amount", '
        "which staging.stg_orders loses with this plan (keep `amount` in the select list of "
        "models/staging/stg_orders.sql, or take it out of the contract; --allow-breaking goes on without)"
    ]
    assert find_errors(shop, "staging.stg_orders", allow_breaking=True) == []


def test_exposures_are_readers(tmp_path: Path) -> None:
    exposures = """exposures:
  - name: board
    type: dashboard
    owner: Ann
    depends_on: [shown]
  - name: letter
    depends_on:
      - stg_orders: [id, Amount]
  - name: other
    depends_on:
      - stg_orders: [id, customer]
"""
    quiet = {"models/marts/revenue.sql": "SELECT 1 AS n\n", "models/marts/totals.sql": "SELECT 1 AS n\n"}
    shop = open_shop(tmp_path, {**WITHOUT_AMOUNT, **quiet, "exposures/all.yml": exposures})
    messages = find_errors(shop, "staging.stg_orders")
    assert [error.partition(" (")[0] for error in messages] == [
        'SQB-S015 exposures/all.yml:2:11: dashboard board of Ann reads staging.shown and its column "amount", '
        "which goes with this plan",
        'SQB-S015 exposures/all.yml:6:11: exposure letter reads the column "amount", which staging.stg_orders loses '
        "with this plan",
    ]
    assert find_errors(shop, "staging.stg_orders", allow_breaking=True) == []


def test_a_column_that_nothing_had_is_only_unknown(tmp_path: Path) -> None:
    errors = find_errors(open_shop(tmp_path, WITHOUT_AMOUNT), tables={})
    assert [error.partition(":")[0] for error in errors] == [
        "SQB-S006 models/marts/revenue.sql",
        "SQB-S006 models/marts/totals.sql",
    ]


def test_readers_that_change_too_are_no_obstacle(tmp_path: Path) -> None:
    more = {
        "models/marts/revenue.sql": "SELECT customer, count(*) AS revenue FROM stg_orders GROUP BY customer\n",
        "models/marts/totals.sql": "SELECT count(id) AS n FROM shown\n",
    }
    assert find_errors(open_shop(tmp_path, {**WITHOUT_AMOUNT, **more})) == []


@pytest.mark.parametrize(
    ("header", "messages"),
    [
        ("kind: merge\n-- @unique_key: custmer", "SQB-S006 models/marts/m.sql:2:17: unique_key names"),
        ("kind: tracked\n-- @group_key: custmer", "SQB-S006 models/marts/m.sql:2:16: group_key names"),
        ("kind: table\n-- @constraint: not_null(custmer)", "SQB-K004 models/marts/m.sql:2:17: not_null(custmer)"),
        (
            "kind: table\n-- @partitioned_by: bucket(4, custmer)",
            "SQB-S006 models/marts/m.sql:2:31: partitioned_by names",
        ),
        ("kind: table\n-- @sorted_by: id, custmer DESC", "SQB-S006 models/marts/m.sql:2:20: sorted_by names"),
        (
            "kind: table\n-- @constraint: references(id, stg_orders.custmer)",
            "SQB-K004 models/marts/m.sql:2:17: references(id, stg_orders.custmer): stg_orders has no column",
        ),
    ],
)
def test_keys_and_checks_name_columns_of_the_result(tmp_path: Path, header: str, messages: str) -> None:
    shop = open_shop(tmp_path, {"models/marts/m.sql": f"-- @{header}\nSELECT * FROM stg_orders\n"})
    (error,) = find_errors(shop)
    assert error.startswith(messages) and "did you mean 'customer'?" in error


@pytest.mark.parametrize(
    ("contract", "errors"),
    [
        ("id bigint, customer bigint not null, Amount DOUBLE", []),
        # How wide numbers are is left to Spark.
        ("id int, customer smallint, amount float", []),
        (
            "id string, customer bigint",
            [
                'SQB-S014 models/marts/m.sql:1:15: the contract promises "id" as string, and the result has it as '
                "bigint (cast it in the query, or change the contract)",
                'SQB-S006 models/marts/m.sql:1:15: the result has the column "amount", and the contract does not name '
                "it (add it to the contract, or leave it out of the query)",
            ],
        ),
        (
            "id bigint, customer bigint, amount double, amuont double",
            [
                'SQB-S006 models/marts/m.sql:1:15: the contract names "amuont", and the result has no such column'
                " (did you mean 'amount'?)"
            ],
        ),
    ],
)
def test_contracts_are_held_against_the_result(tmp_path: Path, contract: str, errors: list[str]) -> None:
    shop = open_shop(tmp_path, {"models/marts/m.sql": f"-- @contract: {contract}\nSELECT * FROM stg_orders\n"})
    assert sorted(find_errors(shop)) == sorted(errors)


def test_columns_of_before_keep_no_contract(tmp_path: Path) -> None:
    header = "-- @kind: append\n-- @contract: id bigint\n"
    shop = open_shop(tmp_path, {"models/marts/m.sql": f"{header}SELECT id FROM stg_orders\n"})
    assert find_errors(shop, tables={**BUILT, "marts.m": {"id": "long", "old": "long"}}) == []


@pytest.mark.parametrize(
    "header",
    [
        "constraint: references(id, stg_orders.ID)",
        "partitioned_by: [bucket(4, Customer), truncate(2, `id`)]",
        "sorted_by: [customer DESC NULLS LAST, AMOUNT]",
        "kind: scd2\n-- @unique_key: id\n-- @partitioned_by: is_current\n-- @sorted_by: valid_from",
        # The columns of a file are not known.
        "constraint: references(id, raw.events.anything)",
    ],
)
def test_headers_that_name_columns_rightly(tmp_path: Path, header: str) -> None:
    more = {
        "sources/raw.yml": "sources:\n  - name: raw.events\n    path: events/*.parquet\n    format: parquet\n",
        "models/marts/m.sql": f"-- @{header}\nSELECT * FROM stg_orders\n",
    }
    assert find_errors(open_shop(tmp_path, more)) == []


def test_what_is_not_known_is_left_to_spark(tmp_path: Path) -> None:
    more = {
        "sources/raw.yml": "sources:\n  - name: raw.events\n    path: events/*.parquet\n    format: parquet\n",
        "models/marts/m.sql": "SELECT anything, e.x.y FROM raw.events e JOIN stg_orders s ON e.k = s.id\n",
        "models/marts/n.sql": "SELECT whatever FROM m\n",
    }
    shop = open_shop(tmp_path, more)
    assert [e for e in find_errors(shop) if "/m.sql" in e] == []


def test_other_rules_of_the_session_are_respected(tmp_path: Path) -> None:
    toml = 'name = "shop"\n[connections.local]\nspark = {{ conf = {{ "{}" = "{}" }} }}\n'
    wrong = {"models/marts/m.sql": "SELECT day = customer AS x, idd FROM orders\n"}
    strict = open_shop(
        tmp_path / "a", {**wrong, "sqlbuild_project.toml": toml.format("spark.sql.caseSensitive", "true")}
    )
    assert find_errors(strict) == []
    lenient = open_shop(
        tmp_path / "b", {**wrong, "sqlbuild_project.toml": toml.format("spark.sql.ansi.enabled", "false")}
    )
    assert [e.partition(" ")[0] for e in find_errors(lenient)] == ["SQB-S006"]


@pytest.mark.parametrize(
    ("setting", "query"),
    [
        ("spark.sql.parser.quotedRegexColumnNames = true", "SELECT `(id|day)` FROM orders"),
        ("spark.sql.ansi.doubleQuotedIdentifiers=TRUE", 'SELECT id FROM orders WHERE "ok"'),
        ("spark.sql.orderByOrdinal = 'false'", "SELECT id FROM orders ORDER BY 3"),
        ("`spark.sql.ansi.enabled` = false", "SELECT day = customer AS x FROM orders"),
    ],
)
def test_settings_of_a_model_are_respected(tmp_path: Path, setting: str, query: str) -> None:
    header = f"-- @{{}}_hook: SET {setting}\n"
    (tmp_path / "a").mkdir()
    assert find_errors(open_shop(tmp_path / "a", {"models/marts/m.sql": header.format("pre") + query})) == []
    # After the query it is too late.
    assert find_errors(open_shop(tmp_path / "b", {"models/marts/m.sql": header.format("post") + query})) != []


def test_what_was_evaluated_once_is_not_parsed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = open_shop(tmp_path, {"models/marts/one.sql": "SELECT idd FROM stg_orders\n"})
    first = find_errors(shop)
    again = open_workspace(tmp_path)
    assert again.from_cache and not again.outlines
    monkeypatch.setattr("sqb.sql.analysis.parse.read_query_outline", None)
    assert find_errors(again) == first != []


# Cases about mistakes that Spark told.
WRONG_CASES = {"columns_that_cannot_be": "SQB-S010", "fail_fast": "SQB-S006", "failing_model": "SQB-S006"}


@pytest.mark.parametrize("case", sorted(p.parent for p in CASES.glob("*/project")), ids=lambda path: path.name)
def test_models_of_the_cases_are_right(case: Path, tmp_path: Path) -> None:
    root = tmp_path / "project"
    shutil.copytree(case / "project", root)
    if not (root / "sqlbuild_project.toml").exists():
        write(root, {})
    try:
        workspace = open_workspace(root)
    except SqbError:
        return  # a case about errors of files
    after = observe_columns(workspace, observe({}), frozenset(workspace.project.nodes))
    errors = {e.code for node in workspace.project for e in iter_node_errors(workspace, node, after)}
    assert errors == ({WRONG_CASES[case.name]} if case.name in WRONG_CASES else set())
