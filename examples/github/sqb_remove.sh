#!/usr/bin/env bash
# Removes the virtual environment of a pull request, where there is one, and the tables that nothing needs any more.
#
#   sqb_remove.sh TARGET ENVIRONMENT
set -euo pipefail

target=$1
environment=$2

# A pull request whose project was never built has none.
environments=$(sqb state show --target "$target" --json)
if grep -q "\"name\": \"$environment\"" <<< "$environments"; then
  sqb state remove "$environment" --target "$target"
else
  echo "There is no virtual environment $environment."
fi
sqb janitor --target "$target"
