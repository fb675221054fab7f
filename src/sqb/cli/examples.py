"""Calls of each command that `--help` ends with."""

from __future__ import annotations

from collections.abc import Mapping

EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "init": ("sqb init shop", "sqb init shop --from-dbt ../dbt_project"),
    "plan": ("sqb plan", "sqb plan orders --explain", "sqb plan -s +marts --exclude tag:slow"),
    "build": ("sqb build", "sqb build stg_orders+", "sqb build --virtual-env pr_7", "sqb build --full-refresh events"),
    "watch": ("sqb watch", "sqb watch stg_orders+ --plan-only"),
    "load": ("sqb load", "sqb load raw.events"),
    "test": ("sqb test", "sqb test -s orders --force"),
    "validate": ("sqb validate", "sqb validate --format sarif > sqb.sarif"),
    "format": ("sqb format --check --diff", "sqb format models/staging"),
    "list": ("sqb ls +orders", "sqb ls -s tag:daily --output json --output-keys name,tags"),
    "compile": ("sqb compile -s orders",),
    "lineage": ("sqb lineage orders.total", "sqb lineage orders --mermaid"),
    "diff": ("sqb diff orders", "sqb diff orders --snapshot 20261118_203750", "sqb diff --from pr_7 --markdown"),
    "promote": ("sqb promote --from pr_7 --to prod --dry-run",),
    "query": (
        'sqb query "SELECT count(*) FROM orders"',
        "sqb query -f report.sql --csv > report.csv",
        'sqb query "SELECT * FROM orders" -o orders.parquet',
    ),
    "show": (
        "sqb show orders",
        'sqb show --inline "SELECT max(total) FROM orders"',
        "sqb show events --next-window --limit 20",
    ),
    "freshness": ("sqb freshness", "sqb freshness -s raw.events"),
    "history": ("sqb history --node orders", "sqb history 20261118_203750"),
    "explain": ("sqb explain SQB-R002",),
    "drop": ("sqb drop --dry-run", "sqb drop old_orders --yes"),
    "completion": ('eval "$(sqb completion bash)"', "sqb completion fish > ~/.config/fish/completions/sqb.fish"),
}


def format_examples(command: str) -> str | None:
    """The last paragraph of the help of a command, whose lines stay as they are."""
    calls = EXAMPLES.get(command)
    return "\n".join(["\b", "Examples:", *(f"  {call}" for call in calls)]) if calls else None
