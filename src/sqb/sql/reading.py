"""What a query reads of a table, as a set of column names and two words for more; needs no parser."""

from __future__ import annotations

# Every column, by name, type and place: nothing finer is proven.
ALL = "**"
# Every column that is asked of the query's own result: a star that only hands columns on.
ASKED = "*"


def through(read: frozenset[str], asked: frozenset[str]) -> frozenset[str]:
    """What is read of a table through a query that reads `read` of it, when only `asked` is read of the query."""
    return (read - {ASKED}) | asked if ASKED in read else read
