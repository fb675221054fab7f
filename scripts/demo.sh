#!/usr/bin/env bash
# The example project from nothing: build it, build it again, change a model, build what that affects.
# Ends with an error when the second build did anything or the third ran other models than it had to.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"

say() { printf '\n# %s\n' "$1"; }
run() {
    printf '$ %s\n' "$*"
    "$@"
}
fail() {
    printf '\ndemo: %s\n' "$1" >&2
    exit 1
}

rm -rf .demo
mkdir .demo
cd .demo

say "An example project: a small shop"
run sqb init shop
printf '$ cd shop\n'
cd shop

say "What would a build do?"
run sqb plan

say "Build it. Starting Spark takes a while; the very first time it also fetches Iceberg's jars."
run sqb build

say "Build it again: nothing changed, so nothing runs, and Spark is not even started."
run sqb build
sqb build --json | python -c '
import json, sys
summary = json.load(sys.stdin)["summary"]
sys.exit(summary["ran"] != 0 or summary["spark_started"])
' || fail "the second build was not a no-op"

say "Change how the names of customers are written."
model=models/staging/stg_customers.sql
run sed -i.bak "s/concat_ws(' ', trim(first_name), trim(last_name))/concat_ws(', ', trim(last_name), trim(first_name))/" "$model"
cmp -s "$model" "$model.bak" && fail "the edit of $model changed nothing"
rm "$model.bak"

say "What does that affect?"
run sqb plan -v

say "Build that, and only that. A view is not touched: its columns stay, and it shows the new names by itself.
# Orders are not built again either: only that all of their customers are there is checked."
run sqb build
ran="$(sqb history --limit 1 --json | python -c '
import json, sys
nodes = json.load(sys.stdin)["runs"][0]["nodes"]
print(*sorted(node["name"] + ":" + node["run_type"] for node in nodes if node["status"] == "ok"))
')"
expected="marts.customer_revenue:full marts.fct_orders:check staging.stg_customers:backfill"
[ "$ran" = "$expected" ] || fail "the third build ran \"$ran\" instead of \"$expected\""

say "The project is in .demo/shop: go there and try ../../.venv/bin/sqb yourself."
