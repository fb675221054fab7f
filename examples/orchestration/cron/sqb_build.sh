#!/usr/bin/env bash
# Builds a project from cron: one build at a time, a log of each, and words only when something is wrong.
#
#   15 * * * *  /srv/shop/sqb_build.sh /srv/shop --target prod
#
# cron mails what a job prints, so a build that goes well prints nothing. Exit codes are sqb's, and one more:
#   0 fine · 1 something failed or is blocked · 2 the call or the project is wrong · 75 the build before still runs
#
# SQB        the command (cron has a short PATH), such as /opt/sqb/bin/sqb
# SQB_LOGS   where logs are kept, the last 30 of them (default: .sqb/cron in the project)
set -uo pipefail

project="${1:?usage: sqb_build.sh PROJECT [OPTIONS OF sqb build]}"
shift
logs="${SQB_LOGS:-$project/.sqb/cron}"
mkdir -p "$logs" || exit 2

# The kernel lets go of the lock when the build ends, however it ends: there is no lock that somebody has to remove.
exec 9>"$logs/lock" || exit 2
if ! flock --nonblock 9; then
    echo "sqb: the build before this one still runs: $project" >&2
    exit 75
fi

log="$logs/$(date -u +%Y%m%dT%H%M%SZ).log"
# Processes that outlive the build, such as a warm engine, must not inherit the lock.
"${SQB:-sqb}" build --project-dir "$project" "$@" >"$log" 2>&1 9>&-
code=$?
if [ "$code" -ne 0 ]; then
    {
        echo "sqb build of $project ended with exit code $code; all of it is in $log"
        echo
        tail -n 100 "$log"
    } >&2
fi
# Names sort by time.
find "$logs" -maxdepth 1 -name '*.log' -print0 | sort -zr | tail -zn +31 | xargs -0r rm -f
exit "$code"
