"""Errors of nodes that fail while they run, of checks that do not hold, and of unit tests (`SQB-B…`, `-K1…`, `-T…`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqb.errors.base import SqbError


class BuildError(SqbError):
    """A node failed while it ran."""

    code = "SQB-B000"


class QueryFailed(BuildError):
    """Spark refused the query or failed while it ran it."""

    code = "SQB-B001"


class DuplicateColumn(BuildError):
    """The query's result has two columns with one name."""

    code = "SQB-B002"


class Interrupted(BuildError):
    """The build was stopped by Ctrl-C or a signal; what had been published stays, nothing is half done."""

    code = "SQB-B003"


class KeyViolation(BuildError):
    """The `unique_key` of a model is NULL in a row, or has more than one row. Nothing was published."""

    code = "SQB-B004"


class KeyMissing(BuildError):
    """`unique_key` or `group_key` names a column that the query's result does not have."""

    code = "SQB-B005"


class SchemaRefused(BuildError):
    """The columns of a model changed, and its `on_schema_change` does not allow that."""

    code = "SQB-B006"


class CheckFailed(BuildError):
    """Rows do not hold what a check asks of them. Nothing was published."""

    code = "SQB-K101"
    # What was found, for programs: the check, its place, how many rows violate it and some of them.
    finding: Mapping[str, Any] | None = None


class CheckNotEvaluated(CheckFailed):
    """Spark failed while it evaluated a check, so that its result is unknown. Nothing was published."""

    code = "SQB-K102"


class UnitTestFailed(SqbError):
    """A model gave other rows than its unit test expects."""

    code = "SQB-T001"


class UnknownTestColumn(UnitTestFailed):
    """A unit test names a column that the table, the result or the CTE does not have."""

    code = "SQB-T002"


class InputNotGiven(UnitTestFailed):
    """A unit test gives no rows of a table that its model reads, and the columns of that table are unknown."""

    code = "SQB-T003"


class UnfitTestValue(UnitTestFailed):
    """A value in a unit test cannot be one of its column's type."""

    code = "SQB-T004"


class TooManyTestRows(UnitTestFailed):
    """The result of a unit test has more rows than are compared."""

    code = "SQB-T005"


class HookFailed(BuildError):
    """Spark refused a statement of `pre_hooks` or `post_hooks`, or failed while it ran it."""

    code = "SQB-B007"


class ContractBroken(BuildError):
    """The columns of a model's result are not those of its `contract`. Nothing was written."""

    code = "SQB-B008"


class CursorUnfit(BuildError):
    """A cursor that is not in the result or of another type, or whose grain is too fine. Nothing was published."""

    code = "SQB-B009"


class DataLoss(BuildError):
    """A full replay would lose rows that the sources do not reach any more. Nothing was published."""

    code = "SQB-B012"


class RowsUnfit(BuildError):
    """Rows that a loader gave cannot be written to its source's table. Nothing was published."""

    code = "SQB-B010"


class BuildFailed(BuildError):
    """Nodes of a build failed or were blocked; `errors` are those of the nodes."""

    code = "SQB-B011"

    def __init__(self, message: str, errors: Sequence[SqbError], evidence: Sequence[str] = ()) -> None:
        super().__init__(message, evidence=evidence)
        self.errors = tuple(errors)
