"""The columns that a query reads of a table, as a set of names and two markers; needs no parser."""

from __future__ import annotations

# Every column, by name, type and place: nothing finer is proven.
ALL = "**"
# Every column that is requested of the query's own result: a star that passes columns through.
ASKED = "*"


def resolve_columns_read(columns_read: frozenset[str], requested: frozenset[str]) -> frozenset[str]:
    """The columns read of a table through a query, when only some columns of that query are requested."""
    return (columns_read - {ASKED}) | requested if ASKED in columns_read else columns_read
