"""The queries of Spark's own SQL tests: what Spark accepts passes without an error, and formatting leaves it as it is.

`spark_queries.json.gz` holds statements of Spark's repository (Apache License 2.0, sql/core/src/test/resources), with
the schemas and errors that Spark recorded for them; scripts/spark_queries.py writes it.
"""

from __future__ import annotations

from collections import Counter

import pytest
from spark_queries import check_file, list_accepted, read_corpus

from support.examples import count_examples
from unit.sql.formatting.test_query import check

CORPUS = read_corpus()
PIECES = 16


@pytest.mark.parametrize("piece", range(count_examples(PIECES)))
def test_what_spark_accepts_passes_with_its_columns(piece: int) -> None:
    counts: Counter[str] = Counter()
    items = [f for name in list(CORPUS)[piece::PIECES] for f in check_file(name, CORPUS[name], counts)]
    assert items == []
    assert counts["accepted"] > 300 and counts["accepted, and all columns are known"] > 0.7 * counts["accepted"]


@pytest.mark.parametrize("piece", range(count_examples(PIECES)))
def test_formatting_keeps_identities(piece: int) -> None:
    queries = {sql for statements in CORPUS.values() for sql in list_accepted(statements)}
    assert len(queries) > 9000
    for sql in sorted(queries)[piece::PIECES]:
        check(sql)
