"""The example project with a history, and with names and texts that would break pages which do not escape them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqb.lake.open import open_lake
from sqb.lake.state.rows import NodeResult
from sqb.operations.docs import DocsOptions, collect_document
from sqb.operations.init import create_project
from sqb.workspace import Workspace, open_workspace

HOSTILE = "</script><script>window.hacked=1</script><img src=x onerror='window.hacked=2'>"
SECRET = "hunter2-secret-value"

_EXTRA = {
    "sources/raw.yml": """sources:
  - name: rates
    description: Daily rates
    owner: platform
    path: incoming/rates-*.csv
    options: { header: true, schema: "currency STRING, rate DOUBLE" }
    freshness: { age_policy: { warn_after: 12h, error_after: 2d } }
  - name: dollars
    expression: SELECT * FROM rates WHERE currency = 'USD'
""",
    "selectors.yml": "selectors:\n  - name: money\n    definition: tag:finance,path:marts seed:orders\n",
    "incoming/rates-1.csv": "currency,rate\nUSD,1.08\n",
    "models/staging/stg_rates.sql": "-- @kind: table\nSELECT currency, rate FROM rates\n",
    "models/staging/stg_dollars.sql": "-- @kind: table\nSELECT rate AS per_dollar FROM dollars\n",
    "exposures/all.yml": """exposures:
  - name: weekly_report
    type: dashboard
    owner: { name: Ann Lee, email: ann@example.com }
    url: https://bi.example.com/42
    depends_on: [ref('fct_orders'), ref('daily_revenue')]
""",
    "python/tell.py": """from sqb import check, task


@task(depends_on=["marts.customer_revenue"])
def tell_finance(ctx):
    '''Says that the figures are there.'''
    return {"told": True}


@check(depends_on="marts.customer_revenue", severity="warn")
def is_plausible(ctx):
    return True
""",
    "models/marts/hostile.sql": f"""MODEL (
  kind table,
  description "{HOSTILE}",
  owner "{HOSTILE}",
  tags ["<b>bold</b>"],
);

SELECT order_id AS `<script>alert(1)</script>`, '{HOSTILE.replace("'", "''")}' AS text
FROM fct_orders
""",
}


def write_docs_project(folder: Path) -> Path:
    """The example with a source, an exposure, a task, and a model whose texts are markup."""
    create_project(folder)
    for name, text in _EXTRA.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def add_history(workspace: Workspace, runs: Sequence[dict[str, Any]]) -> None:
    """Append runs to the history; each has an `id` and `nodes`."""
    lake, schemas = open_lake(workspace), {n.name: n.relation.schema for n in workspace.project}
    lake.ensure_schemas(set(schemas.values()))
    for run in runs:
        record = {"began": run["began"], "spark": run.get("spark"), "nodes": 15, "skipped": 15 - len(run["nodes"])}
        rows = [
            NodeResult(
                "model",
                node["name"],
                schemas[node["name"]],
                run["id"],
                node.get("status", "ok"),
                "",
                json.dumps({**_encode(node), "run": record}),
                node.get("error", ""),
                datetime.fromtimestamp(run["began"] + 60, UTC),
            )
            for node in run["nodes"]
        ]
        lake.state.append_node_results(rows)


def _encode(node: dict[str, Any]) -> dict[str, Any]:
    began, ended = node["span"]
    data = {"kind": "table", "run_type": "full", "reason": "Query changed", "detail": "", "rows": 100}
    data |= {"seconds": ended - began, "snapshot_id": None, "identical": False}
    data |= {key: node[key] for key in ("run_type", "reason", "rows", "failures") if key in node}
    return {**data, "span": {"began": began, "ended": ended, "worker": node.get("worker", 0)}}


def make_runs(root: Path) -> list[dict[str, Any]]:
    """Three runs: all that is built, one that fails, one that does little."""
    at = 1_790_000_000.0
    orders, lines, facts = "staging.stg_orders", "staging.stg_order_lines", "marts.fct_orders"
    failure = {
        "check": "not_null(order_date)",
        "role": "constraint",
        "severity": "error",
        "message": "3 rows violate it",
    }
    first = [
        {"name": orders, "span": (at + 0.2, at + 5.5), "worker": 0},
        {"name": lines, "span": (at + 0.2, at + 4.5), "worker": 1},
        {"name": facts, "span": (at + 5.6, at + 9.0), "worker": 0},
        {"name": "marts.daily_revenue", "span": (at + 9.1, at + 10.0), "worker": 1},
    ]
    second = [
        {
            "name": orders,
            "span": (at + 1000.2, at + 1002.0),
            "status": "failed",
            "error": f"error[SQB-K001]: {root}/models/staging/stg_orders.sql {SECRET} {HOSTILE}",
            "failures": [{**failure, "violations": 3}],
        }
    ]
    third = [{"name": lines, "span": (at + 2000.1, at + 2000.9), "rows": 7, "run_type": "incremental"}]
    return [
        {"id": "20260921_120000_aaaaaa", "began": at, "spark": [at + 0.1, at + 4.0], "nodes": first},
        {"id": "20260921_130000_bbbbbb", "began": at + 1000, "nodes": second},
        {"id": "20260921_140000_cccccc", "began": at + 2000, "nodes": third},
    ]


ENVIRONMENTS: dict[str, Any] = {
    "environments": [
        {
            "name": name,
            "status": "finalized",
            "baseline": None if name == "prod" else "prod",
            "created_at": 1_790_000_000.0,
            "updated_at": 1_790_000_000.0,
            "run": None,
            "checkpoint": 1,
            "unfinished": False,
            "shows": [],
        }
        for name in ("prod", "pr_1")
    ],
    "checkpoints": [
        {
            "environment": "prod",
            "number": 1,
            "at": 1_790_000_000.0,
            "reason": "promoted",
            "detail": "3 nodes",
            "promoted_from": "pr_1",
            "run": None,
            "git": "0123456789abcdef",
            "nodes": 3,
            "current": True,
        }
    ],
    "differences": [
        {
            "from": "pr_1",
            "to": "prod",
            "nodes": [
                {
                    "name": "marts.fct_orders",
                    "change": "changed",
                    "reason": "Query changed",
                    "through": [],
                    "before": "aaaa",
                    "now": "bbbb",
                    "columns": [],
                }
            ],
        }
    ],
}


def collect_example(folder: Path) -> dict[str, Any]:
    """The document of the project with its history, and with environments."""
    root = write_docs_project(folder)
    add_history(open_workspace(root), make_runs(root))
    document = collect_document(open_workspace(root), DocsOptions())
    return {**document, "environments": ENVIRONMENTS}
