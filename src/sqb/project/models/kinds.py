"""The kinds of models, one entry each: what the rest must know of a kind besides how it is built (`build/kinds`)."""

from __future__ import annotations

from collections.abc import Mapping

from sqb.light_dataclass import dataclass

# What `scd2` adds to the columns of its query, with their types in Spark's words.
HISTORY_COLUMNS = (("valid_from", "timestamp"), ("valid_to", "timestamp"), ("is_current", "boolean"))
HISTORY_COLUMN_NAMES = tuple(name for name, _ in HISTORY_COLUMNS)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of models."""

    name: str
    # The key that a model of it must have.
    needs: str = ""
    # Its rows are a history: they stay when the query would not give them again.
    is_history: bool = False
    # Its table can be brought up to date from the changes of what its query reads.
    follows_changes: bool = False
    # Its table has the columns of its query; the others keep columns of before.
    has_query_columns: bool = False
    # A Python model can be of it, and can return the rows that changed alone.
    in_python: bool = False
    takes_changes: bool = False
    # Its table can be taken over from another target.
    is_reusable: bool = True
    # What the query gives is what the table will have.
    has_query_rows: bool = True
    # The columns that it adds to those of the query.
    added_columns: tuple[tuple[str, str], ...] = ()


KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("view", has_query_columns=True, is_reusable=False),
        Kind("table", follows_changes=True, has_query_columns=True, in_python=True, takes_changes=True),
        Kind("append", is_history=True, follows_changes=True, in_python=True, takes_changes=True),
        Kind(
            "merge",
            "unique_key",
            follows_changes=True,
            has_query_columns=True,
            in_python=True,
            takes_changes=True,
        ),
        Kind(
            "scd2",
            "unique_key",
            is_history=True,
            follows_changes=True,
            in_python=True,
            added_columns=HISTORY_COLUMNS,
        ),
        Kind("tracked", "group_key", follows_changes=True, has_query_columns=True, in_python=True),
        Kind("incremental", "cursor", is_history=True),
        Kind("custom", "materialization", is_reusable=False, has_query_rows=False),
    )
}
HISTORY_KINDS = frozenset(kind.name for kind in KINDS.values() if kind.is_history)
FOLLOWING_KINDS = frozenset(kind.name for kind in KINDS.values() if kind.follows_changes)


def list_added_columns(kind: str) -> tuple[tuple[str, str], ...]:
    """The columns that a kind adds to those of the query, with their types; seeds and loaders add none."""
    return KINDS[kind].added_columns if kind in KINDS else ()
