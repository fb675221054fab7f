"""Which changes the queries of TPC-H and TPC-DS follow: compares today's code with tests/tpc/coverage.yml.

python scripts/tpc_coverage.py            prints totals and every difference
python scripts/tpc_coverage.py --write    writes the file again; refuses while a pair that was followed is not
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent / "tests"
sys.path.insert(0, str(TESTS))

from support.tpc import ALL_TABLES, BENCHMARKS, FOLLOWED  # noqa: E402
from support.tpc_coverage import COVERAGE, Coverage, classify_benchmarks, compare, read_coverage, render  # noqa: E402


def main() -> None:
    """Print the differences, and write the list when asked to."""
    now = classify_benchmarks()
    for benchmark in BENCHMARKS:
        print_totals(benchmark, now)
    differences = compare(read_coverage(), now) if COVERAGE.is_file() else []
    for difference in differences:
        print(difference)
    if "--write" in sys.argv[1:]:
        if any(difference.is_lost for difference in differences):
            sys.exit("not written: what is followed may only grow")
        COVERAGE.write_text(render(now))


def print_totals(benchmark: str, coverage: Coverage) -> None:
    """How many pairs are followed, and what stops the others."""
    queries = coverage[benchmark]
    pairs = [kind for tables in queries.values() for table, kind in tables.items() if table != ALL_TABLES]
    whole = sum(all(kind == FOLLOWED for kind in tables.values()) for tables in queries.values())
    print(
        f"{benchmark}: {pairs.count(FOLLOWED)} of {len(pairs)} pairs, {whole} of {len(queries)} queries by every table"
    )
    for kind, count in Counter(kind for kind in pairs if kind != FOLLOWED).most_common():
        print(f"  {count:4}  {kind}")


if __name__ == "__main__":
    main()
