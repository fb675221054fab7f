#!/usr/bin/env bash
# Posts a file as a comment on a pull request. A comment that it posted before is replaced, so that there is only one.
#
#   GH_TOKEN=… GITHUB_REPOSITORY=owner/name sqb_comment.sh NUMBER FILE
set -euo pipefail

number=$1
file=$2
# Readers do not see it; by it the comment is recognised.
mark='<!-- sqb: what this pull request changes -->'

body=$(mktemp)
trap 'rm -f "$body"' EXIT
{
  echo "$mark"
  cat "$file"
} > "$body"

comments=$(gh api --paginate "repos/$GITHUB_REPOSITORY/issues/$number/comments" \
  --jq ".[] | select(.user.type == \"Bot\" and (.body | startswith(\"$mark\"))) | .id")
own=${comments%%$'\n'*}

if [ -n "$own" ]; then
  gh api --silent --method PATCH "repos/$GITHUB_REPOSITORY/issues/comments/$own" --field "body=@$body"
else
  gh api --silent --method POST "repos/$GITHUB_REPOSITORY/issues/$number/comments" --field "body=@$body"
fi
