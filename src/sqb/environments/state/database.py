"""What a store needs of a SQL database: transactions, and locks that end with the process that has them.

Both databases speak the same SQL here. Values are text and numbers only, times are ISO 8601 in UTC: readable, sorted by
their text, and the same in every database.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from sqb.environments.model import LockInfo

Value = str | int | float | None | Sequence[str]
Row = tuple[Any, ...]


class NoTables(Exception):
    """A table that was asked for does not exist."""


class Transaction(Protocol):
    """Statements that take effect together or not at all; `?` in them stands for a value."""

    def execute(self, sql: str, *values: Value) -> None:
        """Run a statement."""

    def query(self, sql: str, *values: Value) -> Sequence[Row]:
        """The rows of a query; raises NoTables when it reads a table that is not there."""

    def insert(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[Value]], conflict: str = "") -> None:
        """Insert rows; `conflict` is the clause for those that are there already."""


class Database(Protocol):
    """One database that holds environments."""

    @property
    def name(self) -> str:
        """What people call it; without passwords."""

    # Whether the tables are created at first use; elsewhere `sqb state init` creates them.
    creates_tables: bool
    # What has to be run before tables can be made.
    setup_statements: tuple[str, ...]

    def read(self) -> AbstractContextManager[Transaction]:
        """Ask several questions about one moment."""

    def write(self) -> AbstractContextManager[Transaction]:
        """Change something, alone."""

    def lock(self, scope: str, environment: str, owner: str, take_over: bool) -> AbstractContextManager[str]:
        """Hold the lock of an environment and get its token."""

    def read_locks(self, transaction: Transaction, scope: str) -> Mapping[str, LockInfo]:
        """The locks whose holders are alive."""

    def read_holder(self, transaction: Transaction, scope: str, environment: str) -> LockInfo | None:
        """Whose a lock was last, dead or alive; asked within a write, it is so until that has ended."""

    def close(self) -> None:
        """Let go of connections."""
